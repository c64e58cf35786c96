//! One region with everything in it: stores, topic, and as many containers as a story needs.

use std::sync::Arc;

use local::topic::{Subscriber, Topic};
use serde_json::Value;

use crate::{Container, Function, stores};

/// A key prefix in the shared Redis, a database of its own, a topic whose subscriber is a container of `refresh`.
pub struct Region {
    /// What announces changes here.
    pub topic: Arc<Topic>,
    /// The container that the topic and the schedule wake.
    pub refresh: Arc<Container>,
    variables: Vec<(String, String)>,
}

impl Region {
    /// In the stores that stories share.
    pub async fn new() -> Self {
        Self::with(&stores::redis().url(), &stores::database().await).await
    }

    /// In stores by URL.
    pub async fn with(redis: &str, database: &str) -> Self {
        let [region] = Self::each([(redis, database)]).await;
        region
    }

    /// Several that one topic tells of every change, each in stores by URL: a Redis, and a database.
    pub async fn each<const N: usize>(of: [(&str, &str); N]) -> [Self; N] {
        let mut begun = Vec::with_capacity(N);
        for (redis, database) in of {
            let variables = vec![
                ("REDIS_URL".to_owned(), redis.to_owned()),
                ("KEY_PREFIX".to_owned(), stores::unique("t")),
                ("DATABASE_URL".to_owned(), database.to_owned()),
                // A slow machine is no outage.
                ("REDIS_TIMEOUT_MS".to_owned(), "2000".to_owned()),
            ];
            let refresh = Container::start(Function::Refresh, variables.clone()).await;
            begun.push((Arc::new(refresh), variables));
        }
        let refreshers = begun.iter().map(|(refresh, _)| Arc::clone(refresh));
        let topic = Topic::start(refreshers.map(subscriber).collect()).await;
        let topic = Arc::new(topic.unwrap());
        let mut begun = begun.into_iter();
        std::array::from_fn(|_| {
            let (refresh, mut variables) = begun.next().unwrap();
            let announcing = topic.variables();
            variables.extend(announcing.map(|(name, value)| (name.to_owned(), value)));
            Self {
                topic: Arc::clone(&topic),
                refresh,
                variables,
            }
        })
    }

    /// A new container of a function, with this region's stores and topic.
    pub async fn container(&self, function: Function) -> Container {
        self.container_with(function, &[]).await
    }

    /// The same with more variables, or with others in place of this region's.
    pub async fn container_with(&self, function: Function, more: &[(&str, &str)]) -> Container {
        let more = more
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Container::start(function, self.variables.iter().cloned().chain(more)).await
    }

    /// The value of one of this region's variables.
    pub fn variable(&self, name: &str) -> &str {
        let found = self.variables.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no variable {name}")).1
    }
}

/// Hands a topic's events to a container.
pub fn subscriber(container: Arc<Container>) -> Subscriber {
    Arc::new(move |event: Value| {
        let container = Arc::clone(&container);
        Box::pin(async move {
            let outcome = container.invoke(&event).await;
            outcome.map(drop).map_err(|error| error.to_string())
        })
    })
}
