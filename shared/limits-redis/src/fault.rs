//! What Redis's errors mean: whether a call was executed, and what to do next.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::address::Address;

/// What an error means. All but [`Fault::Lost`] say that the call was not executed, so that it may be asked again without
/// charging anyone twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `NOSCRIPT`: the node does not have the script.
    NoScript,
    /// `MOVED`: the slot is another node's; none where the address is none. An empty host is that of the node that says so.
    Moved(Option<Address>),
    /// `ASK`: this key is already another node's, the slot not yet.
    Ask(Option<Address>),
    /// `TRYAGAIN`: the keys are parted between two nodes.
    TryAgain,
    /// `READONLY`, `MASTERDOWN`, `NOREPLICAS`: the node may not decide, or not any more. Another may.
    Demoted,
    /// `LOADING`, `CLUSTERDOWN`, refused credentials, too many clients: the node can serve nobody for now.
    Unready,
    /// `BUSY`, `OOM` and all else that a server answers: this call was refused, and the next may not be.
    Refused,
    /// The connection failed, or what came over it was no answer. Whether the call was executed is not known.
    Lost,
}

/// What a server tells a client for which it has no room.
const FULL: &str = "max number of clients reached";

impl Fault {
    pub(crate) fn of(error: &RedisError) -> Self {
        let to = || error.redirect_node().and_then(|(to, _)| to.parse().ok());
        match error.kind() {
            ErrorKind::Server(kind) => match kind {
                ServerErrorKind::NoScript => Fault::NoScript,
                ServerErrorKind::Moved => Fault::Moved(to()),
                ServerErrorKind::Ask => Fault::Ask(to()),
                ServerErrorKind::TryAgain => Fault::TryAgain,
                ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown => Fault::Demoted,
                ServerErrorKind::BusyLoading | ServerErrorKind::ClusterDown => Fault::Unready,
                // In place of the first answer, before the connection is closed.
                _ if error.detail().is_some_and(|told| told.starts_with(FULL)) => Fault::Unready,
                _ => Fault::Refused,
            },
            ErrorKind::AuthenticationFailed | ErrorKind::RESP3NotSupported => Fault::Unready,
            ErrorKind::Extension => match error.code() {
                Some("NOREPLICAS") => Fault::Demoted,
                Some("NOAUTH" | "WRONGPASS") => Fault::Unready,
                _ => Fault::Refused,
            },
            _ => Fault::Lost,
        }
    }

    /// Whether the connection is not used again.
    pub(crate) fn ends_connection(&self) -> bool {
        matches!(self, Fault::Demoted | Fault::Unready | Fault::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;

    /// The error that a server's line becomes.
    fn fault(line: &str) -> Fault {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let error = Value::extract_error(value).unwrap_err();
        Fault::of(&error)
    }

    #[test]
    fn each_error_means_what_the_server_means_by_it() {
        let at = |host: &str, port| {
            Some(Address {
                host: host.to_owned(),
                port,
            })
        };
        for (line, means) in [
            (
                "NOSCRIPT No matching script. Please use EVAL.",
                Fault::NoScript,
            ),
            (
                "MOVED 3999 127.0.0.1:6381",
                Fault::Moved(at("127.0.0.1", 6381)),
            ),
            ("MOVED 3999 [::1]:6381", Fault::Moved(at("::1", 6381))),
            ("MOVED 3999 ::1:6381", Fault::Moved(at("::1", 6381))),
            ("MOVED 3999 :0", Fault::Moved(None)),
            // The host that says so.
            ("MOVED 3999 :6379", Fault::Moved(at("", 6379))),
            ("MOVED", Fault::Moved(None)),
            (
                "ASK 3999 node.example:6381",
                Fault::Ask(at("node.example", 6381)),
            ),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                Fault::TryAgain,
            ),
            (
                "READONLY You can't write against a read only replica.",
                Fault::Demoted,
            ),
            ("MASTERDOWN Link with MASTER is down", Fault::Demoted),
            (
                "NOREPLICAS Not enough good replicas to write.",
                Fault::Demoted,
            ),
            (
                "LOADING Redis is loading the dataset in memory",
                Fault::Unready,
            ),
            ("CLUSTERDOWN The cluster is down", Fault::Unready),
            ("NOAUTH Authentication required.", Fault::Unready),
            ("ERR max number of clients reached", Fault::Unready),
            ("WRONGPASS invalid username-password pair", Fault::Unready),
            ("BUSY Redis is busy running a script.", Fault::Refused),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Fault::Refused,
            ),
            ("WRONGTYPE Operation against a key", Fault::Refused),
            ("NOPERM this user has no permissions", Fault::Refused),
            (
                "CROSSSLOT Keys in request don't hash to the same slot",
                Fault::Refused,
            ),
            ("ERR anything", Fault::Refused),
        ] {
            assert_eq!(fault(line), means, "{line}");
        }
    }

    #[test]
    fn a_connection_that_broke_says_nothing_of_what_was_executed() {
        let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let lost = Fault::of(&RedisError::from(broken));
        assert_eq!(lost, Fault::Lost);
        assert!(lost.ends_connection());
        assert!(!Fault::Refused.ends_connection() && !Fault::TryAgain.ends_connection());
    }
}
