//! Asks the check API whether limits hold: once as somebody new, who must be let through, and once more, who must be stopped.
//!
//! [`question`] asks, [`verdict`] says what an answer must be like.

pub mod question;
pub mod verdict;

use std::time::Instant;

use aws::metrics::{CANARY_FAILED, CANARY_LATENCY, CANARY_SUCCEEDED};
use aws::signer::Signer;
use lambda_runtime::Diagnostic;
use limits::settings::Settings;
use serde::Serialize;
use tracing::{error, info};
use uuid::Uuid;

use self::question::{Answer, Question, QuestionError};

/// The resource whose rule `migrate` makes.
const USUAL_RESOURCE: &str = "canary";

/// What asks.
#[derive(Debug)]
pub struct Canary {
    question: Question,
}

/// What was answered, each in a line.
#[derive(Debug, Serialize)]
pub struct Told {
    /// To the first question.
    pub first: String,
    /// To the second.
    pub second: String,
}

/// Why limits do not hold, as far as one can tell from without.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanaryError {
    /// A question was not answered.
    #[error("the {which} question was not answered: {error}")]
    NoAnswer {
        /// Which of the two.
        which: &'static str,
        /// Why.
        error: QuestionError,
    },
    /// An answer is not what the rule says.
    #[error("the {which} answer must be {wanted}, and was {came}")]
    WrongAnswer {
        /// Which of the two.
        which: &'static str,
        /// What it must be.
        wanted: &'static str,
        /// What it was.
        came: String,
    },
}

impl From<CanaryError> for Diagnostic {
    fn from(error: CanaryError) -> Self {
        let error_type = match &error {
            CanaryError::NoAnswer { .. } => "NoAnswer",
            CanaryError::WrongAnswer { .. } => "WrongAnswer",
        };
        Self {
            error_type: error_type.to_owned(),
            error_message: error.to_string(),
        }
    }
}

impl Canary {
    /// The canary that the environment describes. None where a fault was noted in `settings`.
    pub fn read(settings: &mut Settings<'_>) -> Option<Self> {
        let address = settings.required("CHECK_URL", |text| {
            let text = text.trim_end_matches('/');
            aws::https::address(text).map(|_| text.to_owned())
        });
        let usual = USUAL_RESOURCE.to_owned();
        let resource = settings.or("CANARY_RESOURCE", usual, |text| Ok(text.to_owned()));
        let signer = Signer::from_settings(settings);
        Some(Self {
            question: Question::new(address?, &resource?, signer?),
        })
    }

    /// Asks twice, and says in one line of the log what was expected and what came.
    ///
    /// # Errors
    /// Where limits do not hold, or nobody says so.
    pub async fn run(&self) -> Result<Told, CanaryError> {
        let began = Instant::now();
        let result = self.ask_twice().await;
        CANARY_LATENCY.record_ms(began.elapsed());
        match &result {
            Ok(Told { first, second }) => {
                CANARY_SUCCEEDED.add(1);
                info!(
                    first_wanted = verdict::ALLOWED,
                    first,
                    second_wanted = verdict::BLOCKED,
                    second,
                    "limits hold"
                );
            }
            Err(error) => {
                CANARY_FAILED.add(1);
                error!(
                    first_wanted = verdict::ALLOWED,
                    second_wanted = verdict::BLOCKED,
                    %error,
                    "limits do not hold"
                );
            }
        }
        result
    }

    async fn ask_twice(&self) -> Result<Told, CanaryError> {
        // Nobody has asked as this one: whatever is counted of it began with the first question.
        let client = format!("canary-{}", Uuid::new_v4());
        let first = self.ask(&client, "first", verdict::ALLOWED, verdict::is_allowed);
        let first = first.await?;
        let second = self.ask(&client, "second", verdict::BLOCKED, verdict::is_blocked);
        let second = second.await?;
        Ok(Told { first, second })
    }

    async fn ask(
        &self,
        client: &str,
        which: &'static str,
        wanted: &'static str,
        is_so: fn(&Answer) -> bool,
    ) -> Result<String, CanaryError> {
        match self.question.ask(client).await {
            Err(error) => Err(CanaryError::NoAnswer { which, error }),
            Ok(answer) if !is_so(&answer) => Err(CanaryError::WrongAnswer {
                which,
                wanted,
                came: answer.to_string(),
            }),
            Ok(answer) => Ok(answer.to_string()),
        }
    }
}
