//! `REDIS_URL`: where Redis is, and how it is spoken to.

use std::fmt;
use std::str::FromStr;

use redis::{ConnectionInfo, RedisConnectionInfo};

/// The port where an address names none.
const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    /// A name or an IP address, without brackets.
    pub(crate) host: String,
    /// The TCP port.
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// As a server tells another's: `host:port`, an IPv6 address with brackets or without; the host may be empty.
impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (host, port) = text.rsplit_once(':').ok_or(())?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(())?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        Ok(Self {
            host: bare.unwrap_or(host).to_owned(),
            port,
        })
    }
}

/// How the servers are found that keep our keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// There is one.
    One,
    /// Each keeps some slots, and any of them says which.
    Cluster,
    /// Others watch it, and tell which of several it is now, by this name.
    Sentinel(String),
}

/// What a URL says.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) arrangement: Arrangement,
    /// Of one server its address; else whom to ask first.
    pub(crate) seeds: Vec<Address>,
    pub(crate) tls: bool,
    /// User, password, database.
    pub(crate) login: RedisConnectionInfo,
}

impl Target {
    /// Reads a URL: `redis://`, `redis+cluster://`, `redis+sentinel://`, each with `rediss` for TLS.
    ///
    /// # Errors
    /// What would be right; nothing of the URL, which may hold a password, is quoted.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        const SCHEMES: &str = "must begin with redis://, rediss://, redis+cluster://, rediss+cluster://, redis+sentinel:// or \
                               rediss+sentinel://, or be memory://";
        let (scheme, rest) = url.split_once("://").ok_or(SCHEMES)?;
        let (tls, kind) = match scheme.split_once('+') {
            None => (scheme, ""),
            Some((tls, kind)) => (tls, kind),
        };
        let tls = match tls {
            "redis" => false,
            "rediss" => true,
            _ => return Err(SCHEMES.to_owned()),
        };
        if rest.contains(['?', '#']) {
            return Err("must have nothing after a ? or #".to_owned());
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let part = |host: &str, path: &str| -> Result<ConnectionInfo, String> {
            let at = if user.is_empty() { "" } else { "@" };
            format!("redis://{user}{at}{host}/{path}")
                .parse()
                .map_err(|_| "must be like redis://user:password@host:6379".to_owned())
        };
        let addresses = |port: u16| {
            let each = hosts.split(',').map(|host| address(host, port));
            each.collect::<Result<Vec<_>, _>>()
        };
        let first = hosts.split(',').next().unwrap_or_default();
        let (arrangement, seeds, login) = match kind {
            "" if hosts.contains(',') => {
                return Err("must name one host: of several, redis+cluster:// or redis+sentinel:// says what they are".to_owned());
            }
            "" if scheme.contains('+') => return Err(SCHEMES.to_owned()),
            "" => (Arrangement::One, addresses(REDIS_PORT)?, part(first, path)?),
            "cluster" if path.is_empty() => (
                Arrangement::Cluster,
                addresses(REDIS_PORT)?,
                part(first, "")?,
            ),
            "cluster" => {
                return Err(
                    "must have nothing after the hosts: a cluster has one database".to_owned(),
                );
            }
            "sentinel" => {
                let sound = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
                if path.is_empty() || !path.bytes().all(sound) {
                    return Err(
                        "must end with the name by which the sentinels know the primary: /NAME"
                            .to_owned(),
                    );
                }
                let arrangement = Arrangement::Sentinel(path.to_owned());
                (arrangement, addresses(SENTINEL_PORT)?, part(first, "")?)
            }
            _ => return Err(SCHEMES.to_owned()),
        };
        Ok(Self {
            arrangement,
            seeds,
            tls,
            // What the library would tell of itself costs a trip more.
            login: login.redis_settings().clone().set_skip_set_lib_name(),
        })
    }
}

/// One `host`, `host:port`, or an IPv6 address in brackets.
fn address(text: &str, default_port: u16) -> Result<Address, String> {
    let with_port = match text.strip_prefix('[').map_or(text, |rest| {
        rest.split_once(']').map_or("", |(_, port)| port)
    }) {
        port if port.contains(':') => text.to_owned(),
        _ => format!("{text}:{default_port}"),
    };
    let address: Option<Address> = with_port.parse().ok();
    let sound = |address: &Address| {
        let v6 = address.host.parse::<std::net::Ipv6Addr>().is_ok();
        let name = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        v6 || !address.host.is_empty() && address.host.bytes().all(name)
    };
    address
        .filter(sound)
        .ok_or_else(|| "must name hosts like host:6379, with commas between".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> (Arrangement, Vec<String>, bool) {
        let target = Target::parse(url).unwrap();
        let seeds = target.seeds.iter().map(Address::to_string).collect();
        (target.arrangement, seeds, target.tls)
    }

    #[test]
    fn each_scheme_says_how_the_servers_are_found() {
        let seeds = |seeds: &[&str]| seeds.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        for (url, arrangement, hosts, tls) in [
            ("redis://a", Arrangement::One, vec!["a:6379"], false),
            ("redis://a:1", Arrangement::One, vec!["a:1"], false),
            (
                "redis://[::1]:7/3",
                Arrangement::One,
                vec!["[::1]:7"],
                false,
            ),
            ("redis://[::1]", Arrangement::One, vec!["[::1]:6379"], false),
            (
                "rediss://u:p@a.example:1",
                Arrangement::One,
                vec!["a.example:1"],
                true,
            ),
            (
                "redis+cluster://a:1,b:2",
                Arrangement::Cluster,
                vec!["a:1", "b:2"],
                false,
            ),
            (
                "rediss+cluster://u@c.example",
                Arrangement::Cluster,
                vec!["c.example:6379"],
                true,
            ),
            (
                "redis+cluster://a:1/",
                Arrangement::Cluster,
                vec!["a:1"],
                false,
            ),
            (
                "redis+sentinel://a,b:2,[::1]/main",
                Arrangement::Sentinel("main".to_owned()),
                vec!["a:26379", "b:2", "[::1]:26379"],
                false,
            ),
            (
                "rediss+sentinel://:p@a/main",
                Arrangement::Sentinel("main".to_owned()),
                vec!["a:26379"],
                true,
            ),
        ] {
            assert_eq!(parsed(url), (arrangement, seeds(&hosts), tls), "{url}");
        }
    }

    #[test]
    fn user_password_and_database_are_read_as_they_are_escaped() {
        let login = Target::parse("redis://us%40er:p%2Fw@a:1/3").unwrap().login;
        assert_eq!(login.username(), Some("us@er"));
        assert_eq!(login.password(), Some("p/w"));
        assert_eq!(login.db(), 3);
        let login = Target::parse("redis+cluster://:secret@a,b").unwrap().login;
        assert_eq!((login.username(), login.password()), (None, Some("secret")));
    }

    #[test]
    fn what_is_no_such_url_is_told_without_quoting_it() {
        for url in [
            "",
            "redis:",
            "redis//a",
            "http://hunter2",
            "redis+://hunter2",
            "redis+odd://hunter2",
            "valkey://hunter2",
            "unix:///hunter2",
            "redis://",
            "redis:///0",
            "redis://hunter2@",
            "redis://a,hunter2",
            "redis://a:hunter2",
            "redis://a:0",
            "redis://a:70000",
            "redis://a/hunter2",
            "redis://a b",
            "redis://a?hunter2=1",
            "rediss://a#insecure",
            "redis+cluster://a,,b",
            "redis+cluster://a/1",
            "redis+sentinel://a",
            "redis+sentinel://a/",
            "redis+sentinel://a/b c",
            "redis+sentinel:///main",
        ] {
            let told = Target::parse(url).map(drop).unwrap_err();
            assert!(
                told.starts_with("must ") && !told.contains("hunter2"),
                "{url}: {told}"
            );
        }
    }
}
