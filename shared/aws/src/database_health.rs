//! How RDS says that a database instance is.

use std::str::FromStr;

use aws_sdk_rds::Client;
use aws_sdk_rds::error::DisplayErrorContext;
use aws_sdk_rds::types::SourceType;
use tokio::sync::OnceCell;

use crate::health::{DEADLINE, Health, HealthError, LOOK_BACK_MINUTES, in_time, tells_of_failover};
use crate::sdk;

/// In which of its states an instance serves.
const SERVING: [&str; 10] = [
    "available",
    "backing-up",
    "configuring-enhanced-monitoring",
    "configuring-iam-database-auth",
    "configuring-log-exports",
    "modifying",
    "storage-config-upgrade",
    "storage-initialization",
    "storage-optimization",
    "upgrading-storage-config",
];

/// The id of an RDS instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceId(String);

impl FromStr for InstanceId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if text.len() > 63
            || !text.starts_with(|c: char| c.is_ascii_alphabetic())
            || !text.chars().all(known)
        {
            return Err(
                "must be the id of an RDS instance: at most 63 letters, digits and -".to_owned(),
            );
        }
        Ok(Self(text.to_owned()))
    }
}

/// An instance, and a client that asks about it.
#[derive(Debug)]
pub struct DatabaseHealth {
    client: OnceCell<Client>,
    instance: InstanceId,
}

impl DatabaseHealth {
    /// Speaks to nobody yet, and makes the client when it is first asked; the SDK reads its own settings (credentials, region, `AWS_ENDPOINT_URL_RDS`) from
    /// the environment.
    pub fn new(instance: InstanceId) -> Self {
        let client = OnceCell::new();
        Self { client, instance }
    }

    async fn client(&self) -> &Client {
        let made = async || Client::new(&sdk::config(None, DEADLINE).await);
        self.client.get_or_init(made).await
    }

    /// Asks how it is. The role needs `rds:DescribeDBInstances` and `rds:DescribeEvents`.
    ///
    /// # Errors
    /// Within [`DEADLINE`], whatever the network does.
    pub async fn ask(&self) -> Result<Health, HealthError> {
        in_time(async {
            let (status, failovers) = tokio::try_join!(self.status(), self.failovers())?;
            let healthy = SERVING.contains(&status.as_str());
            Ok(Health {
                status,
                healthy,
                nodes: 1,
                unavailable: u64::from(!healthy),
                failovers,
            })
        })
        .await
    }

    async fn status(&self) -> Result<String, HealthError> {
        let InstanceId(id) = &self.instance;
        let instances = self.client().await.describe_db_instances();
        let instances = instances.db_instance_identifier(id).send().await;
        let instances = instances.map_err(failed)?;
        let instance = instances
            .db_instances()
            .first()
            .ok_or_else(|| HealthError::Failed("there is no instance of this id".to_owned()))?;
        Ok(instance.db_instance_status().unwrap_or_default().to_owned())
    }

    async fn failovers(&self) -> Result<Vec<i64>, HealthError> {
        let InstanceId(id) = &self.instance;
        let events = self.client().await.describe_events();
        let events = events
            .source_type(SourceType::DbInstance)
            .source_identifier(id)
            .event_categories("failover")
            .duration(LOOK_BACK_MINUTES)
            .send()
            .await
            .map_err(failed)?;
        let failovers = events
            .events()
            .iter()
            .filter(|event| event.message().is_some_and(tells_of_failover));
        Ok(failovers
            .filter_map(|event| Some(event.date()?.secs()))
            .collect())
    }
}

fn failed(error: impl std::error::Error) -> HealthError {
    HealthError::Failed(DisplayErrorContext(&error).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_told_by_its_id_and_not_by_its_address() {
        assert!("weir-1".parse::<InstanceId>().is_ok());
        for wrong in [
            "",
            "1weir",
            "weir.abc.eu-west-1.rds.amazonaws.com",
            "we ir",
            &"w".repeat(64),
        ] {
            assert!(wrong.parse::<InstanceId>().is_err(), "{wrong}");
        }
    }
}
