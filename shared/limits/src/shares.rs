//! A rule that is spread: its limit and capacity are divided among several buckets, each counted exactly, for what all callers
//! share and one place cannot count fast enough.
//!
//! Together the shares never admit more than the rule allows. They may admit fewer, since one may be empty while another is not.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::lane::{LANES, Lane};
use crate::quota::Quota;
use crate::rule::{Draft, MOST, MOST_SHARES};
use crate::words::Per;

/// # Errors
/// What `split` would have to be.
pub(crate) fn check(draft: &Draft) -> Result<(), String> {
    let split = draft.split;
    if split == 1 {
        return Ok(());
    }
    if !(1..=MOST_SHARES).contains(&split) {
        return Err(format!("must be an integer from 1 to {MOST_SHARES}"));
    }
    if draft.per != Per::All {
        let per = draft.per;
        return Err(format!(
            "must be 1: only what all share is spread, and `per` is {per}"
        ));
    }
    let limit = match draft.limit {
        None => return Err("must be 1: an exemption (`limit` is null) counts nothing".to_owned()),
        Some(0) => return Err("must be 1: a block (`limit` is 0) counts nothing".to_owned()),
        Some(limit) => limit,
    };
    if split > limit {
        return Err(format!(
            "must be at most the limit, {limit}: each share has a part of it"
        ));
    }
    let burst = Quota::burst_or_usual(draft.algorithm, limit, draft.burst);
    // One that is out of bounds is told by itself.
    if (1..=MOST).contains(&burst) && split > burst {
        return Err(format!(
            "must be at most the burst, {burst}: each share has a part of it"
        ));
    }
    Ok(())
}

/// How each of so many shares of a rule counts. The first have what cannot be divided.
pub(crate) fn of(quota: &Quota, split: u64) -> Box<[Quota]> {
    (0..split).map(|number| quota.part(number, split)).collect()
}

/// The lane of a share. Those of one rule lie at equal distances, so that they spread over the nodes of a cluster however many
/// there are; where they begin follows from the rule's id, so that two rules do not meet in the same lanes.
pub(crate) fn lane(rule: Uuid, number: u64, split: u64) -> Lane {
    let first = Sha256::digest(rule.as_bytes())[0];
    let lanes = LANES as u64;
    let distance = number * lanes / split.max(1) % lanes;
    Lane(first.wrapping_add(u8::try_from(distance).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Algorithm, Rule};

    fn spread(split: u64, limit: u64, burst: Option<u64>, algorithm: Algorithm) -> Rule {
        let draft = Draft {
            per: Per::All,
            split,
            burst,
            algorithm,
            ..Draft::new("/x", Some(limit), 60)
        };
        Rule::new(Uuid::from_u128(7), draft).unwrap()
    }

    #[test]
    fn shares_are_as_equal_as_can_be_and_make_up_the_rule_together() {
        for algorithm in Algorithm::ALL {
            for split in 1..=MOST_SHARES {
                for limit in [split, split + 1, 2 * split - 1, 997, 10_000] {
                    let bursts = match algorithm {
                        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                            [Some(split), Some(3 * split + 2)]
                        }
                        _ => [None, None],
                    };
                    for burst in bursts {
                        let rule = spread(split, limit, burst, *algorithm);
                        let shares = rule.shares();
                        let sum = |of: fn(&Quota) -> u64| shares.iter().map(of).sum::<u64>();
                        assert_eq!(shares.len() as u64, split);
                        assert_eq!(sum(Quota::limit), limit);
                        assert_eq!(sum(Quota::capacity), rule.quota().unwrap().capacity());
                        for share in shares {
                            assert!(share.limit() - limit / split <= 1);
                            // The first have no less than any other, and the last no more.
                            assert!(share.limit() >= shares[shares.len() - 1].limit());
                            assert!(share.capacity() >= shares[shares.len() - 1].capacity());
                            assert!(share.capacity() <= shares[0].capacity());
                            // The constructor of all that can be counted exactly would make the same.
                            let bucket = matches!(
                                algorithm,
                                Algorithm::TokenBucket | Algorithm::LeakyBucket
                            );
                            let burst = bucket.then(|| share.capacity() / share.window_ticks());
                            let made = Quota::new(*algorithm, share.limit(), burst, 60);
                            assert_eq!(made.as_ref(), Ok(share));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_the_smallest_share_never_fits() {
        let whole = spread(1, 10, None, Algorithm::TokenBucket);
        assert!(!whole.never_fits(10) && whole.never_fits(11));
        // Of 4, 3 and 3.
        let rule = spread(3, 10, None, Algorithm::TokenBucket);
        assert!(!rule.never_fits(3) && rule.never_fits(4));
        let log = spread(2, 10_000, None, Algorithm::SlidingLog);
        assert!(!log.never_fits(1_000) && log.never_fits(1_001));
    }

    #[test]
    fn shares_lie_at_equal_distances_over_all_lanes() {
        for id in 0..64 {
            let id = Uuid::from_u128(id);
            for split in 2..=MOST_SHARES {
                let mut lanes: Vec<u64> = (0..split)
                    .map(|number| lane(id, number, split).0.into())
                    .collect();
                lanes.sort_unstable();
                let around = lanes.iter().skip(1).chain([&lanes[0]]);
                let mut gaps = lanes.iter().zip(around).map(|(a, b)| (256 + b - a) % 256);
                assert!(gaps.all(|gap| gap == 256 / split || gap == 256 / split + 1));
            }
        }
        let first = |id| lane(Uuid::from_u128(id), 0, 2).0 % 128;
        let beginnings: std::collections::BTreeSet<u8> = (0..32).map(first).collect();
        assert!(beginnings.len() > 16, "{beginnings:?}");
    }
}
