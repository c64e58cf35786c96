//! What wakes a run: an announcement on SNS, the schedule, or the cache's own events on SNS.

use serde_json::Value;

/// What an event asks for. Whatever else it is, it wakes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wake {
    /// The newest revision that it announces; 0 where it announces none.
    pub announced: u64,
    /// Whether somebody says that the database was restored (`{"restored": true}`), which a replica cannot tell by itself.
    pub restored: bool,
    /// Whether it did not come by SNS: the schedule, or somebody by hand.
    pub scheduled: bool,
}

impl Wake {
    /// Reads an event.
    pub fn by(event: &Value) -> Self {
        let records = event.get("Records").and_then(Value::as_array);
        let revisions = records.into_iter().flatten().filter_map(|record| {
            let message = record.pointer("/Sns/Message")?.as_str()?;
            let message: Value = serde_json::from_str(message).ok()?;
            message.get("revision")?.as_u64()
        });
        Self {
            announced: revisions.max().unwrap_or(0),
            restored: event.get("restored") == Some(&Value::Bool(true)),
            scheduled: records.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_announcement_counts_and_anything_else_wakes_all_the_same() {
        let sns = |message: &str| json!({"Sns": {"Message": message}});
        let event = json!({"Records": [sns("{\"revision\": 7}"), sns("{\"revision\": 9}"), sns("failover")]});
        let announcement = Wake {
            announced: 9,
            ..Wake::default()
        };
        assert_eq!(Wake::by(&event), announcement);
        let schedule = Wake {
            scheduled: true,
            ..Wake::default()
        };
        for event in [json!({"source": "aws.events"}), json!(null), json!({})] {
            assert_eq!(Wake::by(&event), schedule);
        }
    }

    #[test]
    fn only_a_hand_says_that_the_database_was_restored() {
        assert!(Wake::by(&json!({"restored": true})).restored);
        for event in [
            json!({"restored": "true"}),
            json!({"restored": false}),
            json!({"Records": [{"Sns": {"Message": "{\"restored\": true}"}}]}),
        ] {
            assert!(!Wake::by(&event).restored, "{event}");
        }
    }
}
