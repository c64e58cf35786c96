//! Where a call comes from, seen through the proxies in front: `TRUSTED_PROXIES`.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

/// The networks whose word on where a call comes from is taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Reads networks with commas between, such as `10.0.0.0/8,2001:db8::/32`; an address alone is itself.
    ///
    /// # Errors
    /// What would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let networks = text.split(',').map(|word| network(word.trim()));
        let networks: Option<Vec<IpNet>> = networks.collect();
        networks.map(Self).ok_or_else(|| {
            "must be networks like 10.0.0.0/8 or 2001:db8::/32 with commas between".to_owned()
        })
    }

    /// The caller's address: `seen` by API Gateway or, as long as that is a trusted proxy, the next to the left in
    /// `X-Forwarded-For`, whose header lines come in their order. What is further left than the first address that nobody
    /// vouches for may be of the caller's own making. Where the next is no address, or there is none, the last good one counts.
    pub fn caller(&self, seen: Option<IpAddr>, forwarded_for: &[String]) -> Option<IpAddr> {
        let mut caller = seen?.to_canonical();
        let hops = forwarded_for.iter().rev();
        for hop in hops.flat_map(|line| line.rsplit(',')) {
            if !self.trusts(caller) {
                break;
            }
            let Some(next) = address(hop.trim()) else {
                break;
            };
            caller = next;
        }
        Some(caller)
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// A network, one of IPv4-mapped addresses as that of IPv4.
fn network(text: &str) -> Option<IpNet> {
    let alone = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let network: IpNet = text.parse().ok().or_else(alone)?;
    match (network.addr().to_canonical(), network) {
        (IpAddr::V4(v4), IpNet::V6(mapped)) if mapped.prefix_len() >= 96 => {
            IpNet::new(v4.into(), mapped.prefix_len() - 96).ok()
        }
        _ => Some(network),
    }
}

/// An address as proxies write it: with or without a port, IPv6 with or without brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    let address: IpAddr = text.parse().ok().or_else(bracketed).or_else(with_port)?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(proxies: &str, seen: &str, lines: &[&str]) -> String {
        let proxies = TrustedProxies::parse(proxies).unwrap();
        let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        let caller = proxies.caller(seen.parse().ok(), &lines);
        caller
            .map(|address| address.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn the_list_is_believed_from_the_right_as_far_as_proxies_vouch() {
        const PROXIES: &str = "10.0.0.0/8, 192.0.2.9,2001:db8:a::/48";
        for (seen, lines, wanted) in [
            // Whoever comes directly may write what it likes.
            ("203.0.113.7", &["198.51.100.1"][..], "203.0.113.7"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            // API Gateway's own entry, which repeats what it saw.
            ("10.0.0.1", &["198.51.100.1, 10.0.0.1"], "198.51.100.1"),
            (
                "10.0.0.1",
                &["198.51.100.1,10.9.9.9,192.0.2.9"],
                "198.51.100.1",
            ),
            // What stands left of the first stranger is the stranger's word.
            ("10.0.0.1", &["198.51.100.1, 203.0.113.7"], "203.0.113.7"),
            (
                "10.0.0.1",
                &["10.0.0.2, 203.0.113.7, 10.0.0.3"],
                "203.0.113.7",
            ),
            // Header lines are one list, in their order.
            (
                "10.0.0.1",
                &["198.51.100.1", "203.0.113.7, 10.0.0.3"],
                "203.0.113.7",
            ),
            // Used up: the last.
            ("10.0.0.1", &["10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &[], "10.0.0.1"),
            // Junk ends it at the last good one.
            ("10.0.0.1", &["198.51.100.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1, , 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["198.51.100.1", ""], "10.0.0.1"),
            // Each form that proxies write.
            ("10.0.0.1", &["1.2.3.4:5"], "1.2.3.4"),
            ("10.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            ("10.0.0.1", &["[2001:db8::1]:443"], "2001:db8::1"),
            ("10.0.0.1", &["2001:db8::1"], "2001:db8::1"),
            ("10.0.0.1", &["::ffff:1.2.3.4"], "1.2.3.4"),
            ("10.0.0.1", &["[::ffff:1.2.3.4]:5"], "1.2.3.4"),
            ("10.0.0.1", &["1.2.3.4, ::ffff:10.1.1.1"], "1.2.3.4"),
            ("10.0.0.1", &["1.2.3.4:"], "10.0.0.1"),
            ("10.0.0.1", &["1.2.3.4:99999"], "10.0.0.1"),
            ("10.0.0.1", &["[1.2.3.4"], "10.0.0.1"),
            ("10.0.0.1", &["\"1.2.3.4\""], "10.0.0.1"),
            ("::ffff:10.0.0.1", &["1.2.3.4"], "1.2.3.4"),
            ("2001:db8:a:1::5", &["1.2.3.4"], "1.2.3.4"),
            ("2001:db8:b:1::5", &["1.2.3.4"], "2001:db8:b:1::5"),
            ("?", &["1.2.3.4"], ""),
        ] {
            assert_eq!(caller(PROXIES, seen, lines), wanted, "{seen} {lines:?}");
        }
    }

    #[test]
    fn without_proxies_nobody_is_believed() {
        let none = TrustedProxies::default();
        let seen = "10.0.0.1".parse().ok();
        assert_eq!(none.caller(seen, &["1.2.3.4".to_owned()]), seen);
    }

    #[test]
    fn a_network_in_any_of_its_forms_is_understood_and_what_is_none_is_told() {
        for proxies in ["::ffff:10.0.0.0/104", "10.0.0.1", "10.0.0.1/8", "0.0.0.0/0"] {
            assert_eq!(caller(proxies, "10.0.0.1", &["1.2.3.4"]), "1.2.3.4");
        }
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/8,",
            "cloudfront",
            "10.0.0.0/8 ::/0",
        ] {
            let told = TrustedProxies::parse(wrong).unwrap_err();
            assert!(told.starts_with("must be networks"), "{wrong}");
        }
    }
}
