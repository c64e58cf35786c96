//! Who signs: the role of a function, as Lambda hands it over in the environment.

use aws_credential_types::Credentials;
use limits::settings::Settings;
#[cfg(any(feature = "rds-token", feature = "redis-token"))]
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// What a signature expects to be escaped in a query.
#[cfg(any(feature = "rds-token", feature = "redis-token"))]
pub(crate) const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Whether one logs in by IAM: what a variable as `DATABASE_AUTH` says, `iam`, or `url` or nothing. `None` where a fault was noted.
pub fn by_role(settings: &mut Settings<'_>, variable: &str) -> Option<bool> {
    settings.or(variable, false, |auth| match auth {
        "url" => Ok(false),
        "iam" => Ok(true),
        _ => Err("must be url or iam".to_owned()),
    })
}

/// Why there is no token.
#[cfg(any(feature = "rds-token", feature = "redis-token"))]
#[derive(Debug, thiserror::Error)]
#[error("no IAM token: {0}")]
pub struct TokenError(pub(crate) String);

/// The credentials of a function's role and the region that it runs in. An environment of Lambda ends before they do, so they
/// are read once.
#[derive(Debug, Clone)]
pub struct Signer {
    pub(crate) credentials: Credentials,
    pub(crate) region: String,
}

impl Signer {
    /// Reads `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` (which long-lived keys have not) and `AWS_REGION`,
    /// all of which Lambda sets. `None` where a fault was noted.
    pub fn from_settings(settings: &mut Settings<'_>) -> Option<Self> {
        let key_id = settings.required("AWS_ACCESS_KEY_ID", printable);
        let secret = settings.required("AWS_SECRET_ACCESS_KEY", printable);
        let token = settings.or("AWS_SESSION_TOKEN", None, |text| printable(text).map(Some));
        let region = settings.required("AWS_REGION", |text| {
            let sensible = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if text.chars().all(sensible) {
                Ok(text.to_owned())
            } else {
                Err("must be like eu-west-1".to_owned())
            }
        });
        Some(Self {
            credentials: Credentials::new(key_id?, secret?, token?, None, "Lambda"),
            region: region?,
        })
    }
}

fn printable(text: &str) -> Result<String, String> {
    if text.chars().all(|c| c.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("must be printable ASCII without spaces".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Signer, String> {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut settings = Settings::new(&lookup);
        let signer = Signer::from_settings(&mut settings);
        settings.finish().map(|()| signer.unwrap())
    }

    #[test]
    fn everything_at_fault_is_told_by_name_and_without_its_value() {
        assert_eq!(
            read(&[]).unwrap_err(),
            "AWS_ACCESS_KEY_ID is missing; AWS_SECRET_ACCESS_KEY is missing; AWS_REGION is missing"
        );
        let told = read(&[
            ("AWS_ACCESS_KEY_ID", "a b"),
            ("AWS_SECRET_ACCESS_KEY", "hush\n"),
            ("AWS_SESSION_TOKEN", "tüt"),
            ("AWS_REGION", "EU west"),
        ])
        .unwrap_err();
        assert_eq!(told.matches("must be printable ASCII").count(), 3, "{told}");
        assert!(
            told.ends_with("AWS_REGION must be like eu-west-1"),
            "{told}"
        );
        assert!(!told.contains("hush"), "{told}");
    }

    #[test]
    fn nothing_secret_is_shown() {
        let mut variables = vec![
            ("AWS_ACCESS_KEY_ID", "AKID"),
            ("AWS_SECRET_ACCESS_KEY", "hush"),
            ("AWS_REGION", "eu-west-1"),
        ];
        assert_eq!(read(&variables).unwrap().credentials.session_token(), None);
        variables.push(("AWS_SESSION_TOKEN", "whisper"));
        let signer = read(&variables).unwrap();
        assert_eq!(signer.credentials.session_token(), Some("whisper"));
        let shown = format!("{signer:?}");
        assert!(
            !shown.contains("hush") && !shown.contains("whisper"),
            "{shown}"
        );
    }
}
