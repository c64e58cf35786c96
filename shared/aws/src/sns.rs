//! The topic on which a change is announced.

use std::str::FromStr;
use std::time::Duration;

use aws_config::Region;
use aws_sdk_sns::error::DisplayErrorContext;

use crate::sdk;

/// How long one publish may take, credentials and connecting included. A write waits for it, and the schedule heals what it
/// misses: better to say so than to wait.
pub const PUBLISH_DEADLINE: Duration = Duration::from_secs(2);

/// The name of a standard SNS topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicArn {
    arn: String,
    region: String,
}

impl FromStr for TopicArn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || "must be the ARN of a topic: arn:aws:sns:REGION:ACCOUNT:NAME".to_owned();
        let parts: Vec<&str> = text.split(':').collect();
        let [arn, partition, "sns", region, account, name] = parts[..] else {
            return Err(fault());
        };
        if arn != "arn" || [partition, region, account, name].contains(&"") {
            return Err(fault());
        }
        if name.ends_with(".fifo") {
            return Err("must be a standard topic: a FIFO topic cannot wake a function".to_owned());
        }
        Ok(Self {
            arn: text.to_owned(),
            region: region.to_owned(),
        })
    }
}

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// SNS did not answer within [`PUBLISH_DEADLINE`].
    #[error("SNS did not answer within {} s", PUBLISH_DEADLINE.as_secs())]
    Late,
    /// SNS refused, or could not be reached.
    #[error("{0}")]
    Failed(String),
}

/// A topic, and a client that speaks to it.
#[derive(Debug, Clone)]
pub struct Topic {
    client: aws_sdk_sns::Client,
    arn: String,
}

impl Topic {
    /// Makes the client. Speaks to nobody yet; the SDK reads its own settings (credentials, `AWS_ENDPOINT_URL_SNS`) from the
    /// environment. The region is the topic's.
    pub async fn new(topic: TopicArn) -> Self {
        let region = Region::new(topic.region);
        let config = sdk::config(Some(region), PUBLISH_DEADLINE).await;
        Self {
            client: aws_sdk_sns::Client::new(&config),
            arn: topic.arn,
        }
    }

    /// Publishes one message.
    ///
    /// # Errors
    /// Within [`PUBLISH_DEADLINE`], whatever the network does.
    pub async fn publish(&self, message: &str) -> Result<(), PublishError> {
        let publish = self
            .client
            .publish()
            .topic_arn(&self.arn)
            .message(message)
            .send();
        match tokio::time::timeout(PUBLISH_DEADLINE, publish).await {
            Err(_) => Err(PublishError::Late),
            Ok(Err(error)) => Err(PublishError::Failed(
                DisplayErrorContext(&error).to_string(),
            )),
            Ok(Ok(_)) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_told_by_its_arn() {
        let topic: TopicArn = "arn:aws-cn:sns:cn-north-1:123456789012:rules"
            .parse()
            .unwrap();
        assert_eq!(topic.region, "cn-north-1");
        for wrong in [
            "",
            "rules",
            "arn:aws:sqs:eu-west-1:123456789012:rules",
            "arn:aws:sns::123456789012:rules",
            "arn:aws:sns:eu-west-1:123456789012:rules:sub",
            "arn:aws:sns:eu-west-1:123456789012:rules.fifo",
        ] {
            assert!(wrong.parse::<TopicArn>().is_err(), "{wrong}");
        }
    }
}
