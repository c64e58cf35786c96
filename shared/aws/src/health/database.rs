//! How RDS says that a database instance is.

use std::str::FromStr;

use aws_config::SdkConfig;
use aws_sdk_rds::Client;
use aws_sdk_rds::types::SourceType;

use super::{Health, HealthError, LOOK_BACK_MINUTES, failed, failovers};

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

/// Asks how an instance is.
pub(super) async fn ask(
    config: &SdkConfig,
    InstanceId(id): &InstanceId,
) -> Result<Health, HealthError> {
    let client = Client::new(config);
    let instances = async {
        let instances = client.describe_db_instances();
        let instances = instances.db_instance_identifier(id).send().await;
        instances.map_err(failed)
    };
    let events = async {
        let events = client.describe_events().source_type(SourceType::DbInstance);
        let events = events.source_identifier(id).event_categories("failover");
        let events = events.duration(LOOK_BACK_MINUTES).send().await;
        events.map_err(failed)
    };
    let (instances, events) = tokio::try_join!(instances, events)?;
    let instance = instances
        .db_instances()
        .first()
        .ok_or_else(|| HealthError::Failed("there is no instance of this id".to_owned()))?;
    let status = instance.db_instance_status().unwrap_or_default();
    let healthy = SERVING.contains(&status);
    let events = events.events().iter();
    Ok(Health {
        status: status.to_owned(),
        healthy,
        nodes: 1,
        unavailable: u64::from(!healthy),
        failovers: failovers(events.map(|event| (event.message(), event.date()))),
    })
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
