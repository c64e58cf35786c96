//! What the handlers share.

use std::sync::Arc;

use aws::metrics::{self, Function};
use aws::sns::{Topic, TopicArn};
use limiter::{Config, Limiter};
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
    /// This region as its containers see it, for whoever asks how far it is or how it decides; none where this function is told
    /// of no region.
    pub region: Option<Arc<Limiter>>,
}

impl State {
    /// Reads the environment of a function through `lookup`: what [`metrics::start`] reads, `DATABASE_URL`, `DATABASE_AUTH`, `RULES_TOPIC_ARN`, `REDIS_URL`,
    /// `REDIS_AUTH`, `KEY_PREFIX`, and what a [`Config`] is.
    /// Speaks to nobody yet.
    ///
    /// # Errors
    /// One sentence that names every variable at fault.
    pub async fn from_environment(
        function: Function,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut settings = Settings::new(lookup);
        metrics::start(&mut settings, function);
        let database = Database::from_settings(&mut settings);
        let topic = settings.or("RULES_TOPIC_ARN", None, |arn| {
            arn.parse::<TopicArn>().map(Some)
        });
        let store = Store::from_settings_if_set(&mut settings);
        let config = Config::read(&mut settings);
        settings.finish()?;
        let announcer = match topic.flatten() {
            Some(topic) => Announcer::Sns(Topic::new(topic).await),
            None => Announcer::Unset,
        };
        Ok(Self {
            database: database.ok_or("DATABASE_URL is missing")?,
            announcer,
            region: store
                .flatten()
                .zip(config)
                .map(|(store, config)| Arc::new(Self::region(config, store))),
        })
    }

    /// A region as its containers see it. An operator is more patient than a request.
    pub fn region(config: Config, store: Store) -> Limiter {
        let patient = Config {
            redis_timeout: config.redis_timeout.max(config.load_timeout),
            ..config
        };
        Limiter::new(patient, store)
    }

    /// Where this region's published copy is.
    pub(crate) fn published(&self) -> Option<&Store> {
        self.region.as_deref().map(Limiter::store)
    }
}
