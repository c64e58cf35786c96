//! May this call through? A REQUEST authorizer for API Gateway.
//!
//! [`Authorizer::answer`] is the whole of it: [`event`] reads what API Gateway asks, `limiter` decides, [`answer`] tells it in
//! the form that the asking API understands.

pub mod answer;
pub mod event;
pub mod failures;
pub mod identity;
pub mod proxies;
pub mod tokens;

use aws::metrics::ANONYMOUS_LIMITED;
use lambda_runtime::Diagnostic;
use limiter::{Config, Limiter, Refusal, Request, Verdict, Who, conclude};
use limits::{counters::Operation, settings::Settings};

pub use answer::Answer;
pub use event::{Door, Event};
pub use failures::Failures;
pub use identity::Identities;
pub use proxies::TrustedProxies;
pub use tokens::Tokens;

use identity::{Identity, Shown};
use tokens::{Bearer, Unverified};

/// What API Gateway is told by a failure: each has one gateway response in the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Credentials are missing or wrong, or the client is terminated. This very message is what API Gateway turns into 401.
    #[error("Unauthorized")]
    Unauthorized,
    /// Redis is out, and nothing may be said in its place: 503.
    #[error("StoreUnavailable")]
    StoreUnavailable,
}

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        Self {
            error_type: failure.to_string(),
            error_message: failure.to_string(),
        }
    }
}

/// What the environment tells the authorizer beyond what it tells the limiter.
#[derive(Debug, Default)]
pub struct Options {
    /// `IDENTITY`: by what a caller is known.
    pub identities: Identities,
    /// `JWT_…`: whose tokens are believed; none where `identities` have no `jwt`.
    pub tokens: Option<Tokens>,
    /// `TRUSTED_PROXIES`: behind whom `X-Forwarded-For` is read.
    pub proxies: TrustedProxies,
    /// `ANONYMOUS_LIMIT`: how often an address may fail to identify itself.
    pub failures: Failures,
    /// `BASE_PATH`: left out in front of a path, if it is there.
    pub base_path: String,
}

impl Options {
    /// Reads the variables that are documented at the fields. None where a fault was noted in `settings`.
    pub fn read(settings: &mut Settings<'_>) -> Option<Self> {
        let identities = settings.or("IDENTITY", Identities::default(), Identities::parse);
        let tokens = match &identities {
            Some(all) if all.have(Identity::Jwt) => Tokens::read(settings).map(Some),
            Some(_) => {
                Tokens::warn_unused(settings);
                Some(None)
            }
            None => None,
        };
        let none = TrustedProxies::default();
        let proxies = settings.or("TRUSTED_PROXIES", none, TrustedProxies::parse);
        let anonymous = limiter::config::limit(settings, "ANONYMOUS_LIMIT", 60, 60);
        let base_path = settings.or("BASE_PATH", String::new(), |text| Ok(text.to_owned()));
        Some(Self {
            identities: identities?,
            tokens: tokens?,
            proxies: proxies?,
            failures: Failures::new(anonymous?),
            base_path: base_path?,
        })
    }
}

/// One in a container, shared by all that it does at once.
#[derive(Debug)]
pub struct Authorizer {
    limiter: Limiter,
    options: Options,
}

impl Authorizer {
    /// An authorizer that has loaded nothing yet.
    pub fn new(limiter: Limiter, options: Options) -> Self {
        Self { limiter, options }
    }

    /// The authorizer that the environment describes. None where a fault was noted in `settings`.
    pub fn read(settings: &mut Settings<'_>) -> Option<Self> {
        let store = limits_redis::Store::from_settings(settings);
        let (config, options) = (Config::read(settings), Options::read(settings));
        Some(Self::new(Limiter::new(config?, store?), options?))
    }

    /// Loads the rules, and an issuer's keys, ahead of the first call. Never fatal.
    pub async fn load(&self) {
        match &self.options.tokens {
            Some(tokens) => {
                tokio::join!(self.limiter.load(), tokens.load());
            }
            None => self.limiter.load().await,
        }
    }

    /// Answers one event of API Gateway.
    ///
    /// # Errors
    /// Only where an error is what API Gateway must be told. That a call is throttled is an answer.
    pub async fn answer(&self, event: Event) -> Result<Answer, Failure> {
        match self.decide(&event).await {
            Verdict::Decided(decision) => Ok(Answer::of(&decision, &event.door)),
            Verdict::StoreOut => Err(Failure::StoreUnavailable),
            Verdict::Refused(
                Refusal::Unknown
                | Refusal::Terminated
                | Refusal::MayNotAsk
                | Refusal::NotRegistered(_),
            ) => match event.door {
                Door::Policy { .. } => Err(Failure::Unauthorized),
                Door::Simple => Ok(Answer::unknown()),
            },
        }
    }

    async fn decide(&self, event: &Event) -> Verdict {
        let options = &self.options;
        let address = options.proxies.caller(event.address, &event.forwarded_for);
        let shown = options.identities.shown(event, address);
        let bearer;
        let who = match shown {
            Shown::Key(key) => {
                if options.failures.exhausted(address) && !self.limiter.knows(key) {
                    ANONYMOUS_LIMITED.add(1);
                    return conclude(Verdict::Refused(Refusal::Unknown));
                }
                Who::Key(key)
            }
            Shown::Token(token) => match self.verify(token).await {
                Ok(known) => {
                    bearer = known;
                    Who::Verified {
                        id: &bearer.client,
                        tier: bearer.tier,
                    }
                }
                Err(Unverified::Wrong) => {
                    options.failures.note(address);
                    return conclude(Verdict::Refused(Refusal::Unknown));
                }
                // Not called wrong: it may be good.
                Err(Unverified::NoKeys) => return conclude(Verdict::StoreOut),
            },
            Shown::Address => Who::Address,
            Shown::Nothing => Who::Nobody,
        };
        let request = Request {
            who,
            address,
            resource: event.resource(&options.base_path),
            tokens: 1,
            operation: Operation::Take,
        };
        let verdict = self.limiter.decide(&request).await;
        // To show nothing costs nobody anything.
        if matches!(
            (&verdict, shown),
            (Verdict::Refused(Refusal::Unknown), Shown::Key(_))
        ) {
            options.failures.note(address);
        }
        verdict
    }

    async fn verify(&self, token: &str) -> Result<Bearer, Unverified> {
        match &self.options.tokens {
            Some(tokens) => tokens.verify(token).await,
            None => Err(Unverified::Wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_the_environment_is_told_at_once_by_name() {
        let environment = |name: &str| (name == "IDENTITY").then(|| "password".to_owned());
        let mut settings = Settings::new(&environment);
        assert!(Authorizer::read(&mut settings).is_none());
        let told = settings.finish().unwrap_err();
        assert!(told.contains("REDIS_URL is missing"), "{told}");
        assert!(told.contains("IDENTITY must be"), "{told}");
    }

    #[test]
    fn a_failure_is_its_one_word_alone() {
        for (failure, word) in [
            (Failure::Unauthorized, "Unauthorized"),
            (Failure::StoreUnavailable, "StoreUnavailable"),
        ] {
            let told = Diagnostic::from(failure);
            assert_eq!(
                (told.error_type.as_str(), told.error_message.as_str()),
                (word, word)
            );
        }
    }
}
