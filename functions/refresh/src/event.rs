//! What wakes a run: an announcement on SNS, the schedule, or the cache's own events on SNS.

use serde_json::Value;

/// The newest revision that an event announces; 0 where it announces none. Whatever else it is, it wakes a run.
pub fn announced(event: &Value) -> u64 {
    let records = event.get("Records").and_then(Value::as_array);
    records
        .into_iter()
        .flatten()
        .filter_map(|record| {
            let message = record.pointer("/Sns/Message")?.as_str()?;
            let message: Value = serde_json::from_str(message).ok()?;
            message.get("revision")?.as_u64()
        })
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_announcement_counts_and_anything_else_wakes_all_the_same() {
        let sns = |message: &str| json!({"Sns": {"Message": message}});
        let event = json!({"Records": [sns("{\"revision\": 7}"), sns("{\"revision\": 9}"), sns("failover")]});
        assert_eq!(announced(&event), 9);
        assert_eq!(announced(&json!({"source": "aws.events"})), 0);
        assert_eq!(announced(&json!(null)), 0);
    }
}
