//! Lanes: the 256 groups of keys that live and move together.
//!
//! All that one decision must read and write at once lies in one lane: a client's buckets and its registry entry in the lane of
//! the client, an address's buckets in the lane of the address, everything that many share in [`Lane::SHARED`].

use sha2::{Digest, Sha256};

/// How many lanes there are.
pub const LANES: usize = 256;

/// One of the 256 lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u8);

impl Lane {
    /// The lane of every bucket that many callers share.
    pub const SHARED: Lane = Lane(0);

    /// The lane of a client, an address, a key's hash or a principal: the first byte of its SHA-256, since such names are chosen
    /// by others and must not be able to crowd a lane.
    pub fn of(name: &str) -> Self {
        Self(Sha256::digest(name.as_bytes())[0])
    }

    /// Every lane, in order.
    pub fn all() -> impl Iterator<Item = Lane> {
        (0..=u8::MAX).map(Lane)
    }
}
