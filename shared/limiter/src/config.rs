//! What the request path is told by its environment.

use std::time::Duration;

use limits::Quota;
use limits::rule::{Algorithm, LONGEST_WINDOW, MOST};
use limits::settings::Settings;

/// The settings of a [`crate::Limiter`].
#[derive(Debug, Clone)]
pub struct Config {
    /// `DEFAULT_LIMIT`: what applies where no rule fits; none is unlimited.
    pub default_limit: Option<Quota>,
    /// `REDIS_TIMEOUT_MS`: the whole conversation with Redis for one decision.
    pub redis_timeout: Duration,
    /// `RULES_LOAD_TIMEOUT_MS`: loading rules at start, and catching up.
    pub load_timeout: Duration,
    /// `LIMIT_PERCENT`: the share of every limit, 1 to 100, that this region grants.
    pub limit_percent: u64,
    /// `FALLBACK_PERCENT`: the share of a limit (of this region's), 1 to 100, that a container grants by itself while Redis is out.
    pub fallback_percent: u64,
}

impl Config {
    /// Reads the variables that are documented at the fields. None where a fault was noted in `settings`.
    pub fn read(settings: &mut Settings<'_>) -> Option<Self> {
        let default_limit = limit(settings, "DEFAULT_LIMIT", 100, 60);
        let redis_ms = settings.integer("REDIS_TIMEOUT_MS", 50, 1, 10_000);
        let load_ms = settings.integer("RULES_LOAD_TIMEOUT_MS", 2000, 1, 60_000);
        let limit_percent = settings.integer("LIMIT_PERCENT", 100, 1, 100);
        let fallback_percent = settings.integer("FALLBACK_PERCENT", 10, 1, 100);
        Some(Self {
            default_limit: default_limit?,
            redis_timeout: Duration::from_millis(redis_ms?),
            load_timeout: Duration::from_millis(load_ms?),
            limit_percent: limit_percent?,
            fallback_percent: fallback_percent?,
        })
    }
}

/// Reads a variable like `100/60s`, requests in seconds, or `unlimited`, which is none. Outside, none where a fault was noted.
pub fn limit(
    settings: &mut Settings<'_>,
    name: &str,
    default: u64,
    seconds: u64,
) -> Option<Option<Quota>> {
    settings.or(name, token_bucket(default, seconds), |text| {
        parse_limit(text).ok_or_else(|| {
            "must be like 100/60s (requests in seconds, as a rule may have them) or unlimited"
                .to_owned()
        })
    })
}

fn token_bucket(limit: u64, seconds: u64) -> Option<Quota> {
    Quota::new(Algorithm::TokenBucket, limit, None, seconds).ok()
}

fn parse_limit(text: &str) -> Option<Option<Quota>> {
    if text == "unlimited" {
        return Some(None);
    }
    let (limit, window) = text.split_once('/')?;
    let limit = limit.parse().ok().filter(|n| (1..=MOST).contains(n))?;
    let seconds = window.strip_suffix('s')?.parse().ok()?;
    if !(1..=LONGEST_WINDOW).contains(&seconds) {
        return None;
    }
    token_bucket(limit, seconds).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Config, String> {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut settings = Settings::new(&lookup);
        let config = Config::read(&mut settings);
        settings.finish().map(|()| config.unwrap())
    }

    #[test]
    fn everything_has_a_default() {
        let config = read(&[]).unwrap();
        let quota = config.default_limit.unwrap();
        assert_eq!((quota.limit(), quota.window_seconds()), (100, 60));
        assert_eq!(config.redis_timeout, Duration::from_millis(50));
        assert_eq!(config.load_timeout, Duration::from_secs(2));
        assert_eq!((config.limit_percent, config.fallback_percent), (100, 10));
        assert!(
            read(&[("DEFAULT_LIMIT", "unlimited")])
                .unwrap()
                .default_limit
                .is_none()
        );
    }

    #[test]
    fn all_that_is_malformed_is_told_at_once_by_name() {
        for limit in [
            "100",
            "0/60s",
            "5/0s",
            "5/60",
            "-1/60s",
            "1000000000/60s",
            "many",
        ] {
            let told = read(&[("DEFAULT_LIMIT", limit), ("REDIS_TIMEOUT_MS", "0")]).unwrap_err();
            assert!(told.contains("DEFAULT_LIMIT must") && told.contains("REDIS_TIMEOUT_MS must"));
        }
        for percent in ["0", "101", "10%", "2.5"] {
            for name in ["FALLBACK_PERCENT", "LIMIT_PERCENT"] {
                let told = read(&[(name, percent)]).unwrap_err();
                assert!(told.contains(&format!("{name} must")), "{told}");
            }
        }
    }
}
