//! The name of a bucket, and what is asked of it.

use std::net::IpAddr;

use crate::lane::Lane;
use crate::quota::Quota;
use crate::rule::Rule;
use crate::shares;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Changes whenever the meaning of the kept state does, so that two versions of the code never share a bucket.
const FORMAT: u8 = 1;

/// How many characters of the hash make a name: 114 bits, beyond anyone's reach to collide on purpose.
pub const NAME_LENGTH: usize = 19;

/// Who a bucket belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner<'a> {
    /// One client.
    Client {
        /// Its id.
        id: &'a str,
        /// Since when its counter of the rule counts ([`crate::registry::Resets::of`]).
        generation: u64,
    },
    /// One address; of IPv6 its /64.
    Address(IpAddr),
    /// Everyone.
    All,
    /// Everyone, of a rule that is spread: whoever comes by one of its shares.
    Share {
        /// The rule's id.
        rule: Uuid,
        /// The share's number, from 0.
        number: u64,
        /// How many shares there are: another number of them starts fresh.
        split: u64,
    },
    /// One service as it calls one other.
    Pair {
        /// The id of the one that calls.
        source: &'a str,
        /// Since when its counters count.
        generation: u64,
        /// The id of the one that is called.
        destination: &'a str,
    },
}

impl Owner<'_> {
    /// The lane of its buckets.
    pub fn lane(&self) -> Lane {
        match self {
            Owner::Client { id, .. } | Owner::Pair { source: id, .. } => Lane::of(id),
            Owner::Address(address) => Lane::of(&network(*address).to_string()),
            Owner::All => Lane::SHARED,
            Owner::Share {
                rule,
                number,
                split,
            } => shares::lane(*rule, *number, *split),
        }
    }
}

/// The address that a bucket is kept for: an IPv4 address, an IPv4-mapped one as IPv4, of any other IPv6 address its /64.
///
/// ```
/// use limits::bucket::network;
/// assert_eq!(network("2001:db8:1:2:3:4:5:6".parse().unwrap()).to_string(), "2001:db8:1:2::");
/// assert_eq!(network("::ffff:192.0.2.7".parse().unwrap()).to_string(), "192.0.2.7");
/// ```
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 => v4,
    }
}

/// The name of a bucket within its lane: 19 characters of the base64url of a SHA-256 over all that makes a bucket another one.
/// No identifier from outside stands in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketName([u8; NAME_LENGTH]);

impl BucketName {
    /// The bucket of a rule (none: the default limit) for an owner. A change of algorithm, window or `per` names another bucket, and
    /// so does a reset; a change of limit or burst does not. The shares of a rule are named by their number and how many there are.
    pub fn new(rule: Option<&Rule>, owner: &Owner<'_>, quota: &Quota) -> Self {
        let mut hash = Sha256::new();
        hash.update([FORMAT]);
        // The default limit is no rule, not the rule whose id is nil.
        match rule.map(|rule| (rule.id(), rule.generation())) {
            None => hash.update([0; 17]),
            Some((id, 0)) => {
                hash.update([1]);
                hash.update(id.as_bytes());
            }
            Some((id, generation)) => {
                hash.update([2]);
                hash.update(id.as_bytes());
                hash.update(generation.to_le_bytes());
            }
        }
        // An address is the owner of its buckets per address, and of those per client where it is known by nothing else.
        hash.update(rule.map_or("", |rule| rule.draft().per.as_str()));
        hash.update([0]);
        hash.update(quota.algorithm().as_str());
        hash.update([0]);
        hash.update(quota.window_seconds().to_le_bytes());
        match owner {
            Owner::Client { id, generation } => {
                hash.update([1]);
                hash.update(generation.to_le_bytes());
                hash.update(id);
            }
            Owner::Address(address) => {
                hash.update([2]);
                match network(*address) {
                    IpAddr::V4(v4) => hash.update(v4.octets()),
                    IpAddr::V6(v6) => hash.update(v6.octets()),
                }
            }
            Owner::All => hash.update([3]),
            Owner::Pair {
                source,
                generation,
                destination,
            } => {
                hash.update([4]);
                hash.update(generation.to_le_bytes());
                // Where the one name ends must not be open to either.
                hash.update((source.len() as u64).to_le_bytes());
                hash.update(source);
                hash.update(destination);
            }
            Owner::Share { number, split, .. } => {
                // The rule stands in the hash already.
                hash.update([5]);
                hash.update(number.to_le_bytes());
                hash.update(split.to_le_bytes());
            }
        }
        let mut text = [0; 43];
        let _ = URL_SAFE_NO_PAD.encode_slice(hash.finalize(), &mut text);
        let mut name = [0; NAME_LENGTH];
        name.copy_from_slice(&text[..NAME_LENGTH]);
        Self(name)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        // Base64 is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// One bucket as a decision asks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket<'a> {
    /// Where it lies.
    pub lane: Lane,
    /// Its name there.
    pub name: BucketName,
    /// What it counts by.
    pub quota: &'a Quota,
    /// What is asked of it, in units of its algorithm ([`Quota::cost`]).
    pub cost: u64,
    /// Whether it only watches: it is spent where it has room, and never stops anything.
    pub shadow: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Algorithm, Draft, Per};

    fn quota(limit: u64, window: u64) -> Quota {
        Quota::new(Algorithm::TokenBucket, limit, None, window).unwrap()
    }

    fn rule(id: u128) -> Rule {
        Rule::new(Uuid::from_u128(id), Draft::new("*", Some(5), 60)).unwrap()
    }

    #[test]
    fn a_bucket_is_named_by_what_makes_it_another_one() {
        let (nil, rule, other) = (rule(0), rule(1), rule(2));
        let reset = rule.clone().with_generation(1);
        let per_address = Draft {
            per: Per::Ip,
            ..rule.draft().clone()
        };
        let per_address = Rule::new(rule.id(), per_address).unwrap();
        let (nil, rule, other) = (Some(&nil), Some(&rule), Some(&other));
        let client = Owner::Client {
            id: "a",
            generation: 0,
        };
        let name = BucketName::new(rule, &client, &quota(5, 60));
        assert_eq!(name, BucketName::new(rule, &client, &quota(9, 60)));
        let later = Owner::Client {
            id: "a",
            generation: 1,
        };
        let address = Owner::Address([1, 2, 3, 4].into());
        for another in [
            BucketName::new(other, &client, &quota(5, 60)),
            BucketName::new(None, &client, &quota(5, 60)),
            BucketName::new(nil, &client, &quota(5, 60)),
            BucketName::new(Some(&reset), &client, &quota(5, 60)),
            BucketName::new(Some(&per_address), &client, &quota(5, 60)),
            BucketName::new(rule, &client, &quota(5, 61)),
            BucketName::new(rule, &later, &quota(5, 60)),
            BucketName::new(rule, &address, &quota(5, 60)),
            BucketName::new(rule, &Owner::All, &quota(5, 60)),
            BucketName::new(rule, &pair("a", 0, "b"), &quota(5, 60)),
            BucketName::new(rule, &share(0, 2), &quota(5, 60)),
        ] {
            assert_ne!(name, another);
        }
        assert_eq!(name.as_str().len(), NAME_LENGTH);
    }

    fn share(number: u64, split: u64) -> Owner<'static> {
        Owner::Share {
            rule: Uuid::from_u128(1),
            number,
            split,
        }
    }

    #[test]
    fn a_share_is_no_other_share_and_one_among_so_many() {
        let rule = rule(1);
        let name = |owner: &Owner<'_>| BucketName::new(Some(&rule), owner, &quota(5, 60));
        let own = name(&share(0, 2));
        for other in [share(1, 2), share(0, 3), share(2, 0), Owner::All] {
            assert_ne!(own, name(&other), "{other:?}");
        }
        assert_ne!(share(0, 2).lane(), share(1, 2).lane());
    }

    fn pair<'a>(source: &'a str, generation: u64, destination: &'a str) -> Owner<'a> {
        Owner::Pair {
            source,
            generation,
            destination,
        }
    }

    #[test]
    fn a_pair_is_no_other_pair_and_lies_with_the_buckets_of_its_source() {
        let client = Owner::Client {
            id: "ab",
            generation: 0,
        };
        let name = |owner: &Owner<'_>| BucketName::new(None, owner, &quota(5, 1));
        let own = name(&pair("ab", 0, "c"));
        for other in [
            pair("a", 0, "bc"),
            pair("abc", 0, ""),
            pair("c", 0, "ab"),
            pair("ab", 0, "d"),
            pair("ab", 1, "c"),
            client,
        ] {
            assert_ne!(own, name(&other), "{other:?}");
        }
        assert_eq!(pair("ab", 0, "c").lane(), client.lane());
    }

    #[test]
    fn an_address_in_all_its_spellings_has_one_bucket() {
        let owner = |text: &str| Owner::Address(text.parse().unwrap());
        let name = |text: &str| BucketName::new(None, &owner(text), &quota(1, 1));
        assert_eq!(name("::ffff:192.0.2.7"), name("192.0.2.7"));
        assert_eq!(name("2001:db8::1"), name("2001:db8:0:0:ffff::9"));
        assert_ne!(name("2001:db8::1"), name("2001:db8:0:1::1"));
        assert_eq!(owner("::ffff:192.0.2.7").lane(), owner("192.0.2.7").lane());
    }
}
