//! What the handlers share.

use aws::sns::{Topic, TopicArn};
use limits::settings::Settings;
use limits_postgres::Database;
use limits_redis::Store;

use crate::announcement::Announcer;

/// Stores and topic. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct State {
    /// Where rules and clients are kept.
    pub database: Database,
    /// What tells every region of a change.
    pub announcer: Announcer,
    /// Where this region's published copy is, for whoever asks how far it is.
    pub published: Option<Store>,
}

impl State {
    /// Reads the environment through `lookup`: `DATABASE_URL`, `DATABASE_AUTH`, `RULES_TOPIC_ARN`, `REDIS_URL`,
    /// `REDIS_AUTH`, `KEY_PREFIX`.
    /// Speaks to nobody yet.
    ///
    /// # Errors
    /// One sentence that names every variable at fault.
    pub async fn from_environment(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut settings = Settings::new(lookup);
        let database = Database::from_settings(&mut settings);
        let topic = settings.or("RULES_TOPIC_ARN", None, |arn| {
            arn.parse::<TopicArn>().map(Some)
        });
        let published = Store::from_settings_if_set(&mut settings);
        settings.finish()?;
        let announcer = match topic.flatten() {
            Some(topic) => Announcer::Sns(Topic::new(topic).await),
            None => Announcer::Unset,
        };
        Ok(Self {
            database: database.ok_or("DATABASE_URL is missing")?,
            announcer,
            published: published.flatten(),
        })
    }
}
