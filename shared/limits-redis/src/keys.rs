//! Every Redis key of Weir, and why it has its shape. Nobody else formats one.
//!
//! `PREFIX:{tag}:…`: what is between the braces decides the slot, so that all keys of a lane live on one node and can be decided
//! by one script. No identifier from outside enters a key: names are cut hashes.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use limits::Lane;
use limits::bucket::BucketName;
use limits::registry::Name;
use sha2::{Digest, Sha256};

/// The hash tag of each lane, so chosen that lane `i` falls into slots `64 i` to `64 i + 63`: the lanes spread evenly over any
/// number of shards. Each is the least number whose CRC-16 (XMODEM), modulo 16,384, lies there.
#[rustfmt::skip]
const TAGS: [u16; limits::lane::LANES] = [
    460, 14, 278, 10, 274, 100, 270, 18, 113, 267, 117, 263, 346, 473, 342, 477,
    131, 245, 29, 241, 25, 451, 21, 249, 3, 36, 7, 32, 256, 122, 252, 126,
    201, 69, 205, 171, 209, 61, 411, 65, 72, 406, 76, 402, 166, 212, 162, 216,
    50, 238, 54, 420, 58, 230, 140, 234, 223, 157, 227, 153, 437, 43, 433, 47,
    461, 15, 279, 11, 275, 101, 271, 19, 112, 266, 116, 262, 347, 472, 343, 476,
    130, 244, 28, 240, 24, 450, 20, 248, 2, 37, 6, 33, 257, 123, 253, 127,
    200, 68, 204, 170, 208, 60, 410, 64, 73, 407, 77, 403, 167, 213, 163, 217,
    51, 239, 55, 421, 59, 231, 141, 235, 222, 156, 226, 152, 436, 42, 432, 46,
    16, 462, 12, 466, 102, 276, 106, 272, 265, 111, 261, 115, 471, 119, 269, 340,
    247, 133, 243, 137, 453, 27, 457, 23, 34, 1, 30, 5, 120, 9, 38, 250,
    177, 203, 173, 207, 63, 417, 67, 413, 218, 70, 400, 74, 210, 78, 214, 160,
    426, 52, 422, 56, 232, 146, 236, 142, 49, 221, 151, 225, 41, 229, 45, 431,
    17, 463, 13, 467, 103, 277, 107, 273, 264, 110, 260, 114, 470, 118, 268, 341,
    246, 132, 242, 136, 452, 26, 456, 22, 35, 0, 31, 4, 121, 8, 39, 251,
    176, 202, 172, 206, 62, 416, 66, 412, 219, 71, 401, 75, 211, 79, 215, 161,
    427, 53, 423, 57, 233, 147, 237, 143, 48, 220, 150, 224, 40, 228, 44, 430,
];

/// Where a key lies, as far as that decides which server has it: all that has one hash tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a lane.
    Lane(Lane),
    /// With the published rules.
    Rules,
}

impl Place {
    /// How many there are.
    pub(crate) const COUNT: usize = limits::lane::LANES + 1;

    /// Every place, by index.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Lane::all().map(Place::Lane).chain([Place::Rules])
    }

    /// Its number, below [`Place::COUNT`].
    pub(crate) fn index(self) -> usize {
        match self {
            Place::Lane(lane) => usize::from(lane.0),
            Place::Rules => limits::lane::LANES,
        }
    }

    /// Its slot in a cluster: CRC-16 (XMODEM) of the hash tag, modulo 16,384.
    pub(crate) fn slot(self) -> u16 {
        const CRC: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);
        let checksum = match self {
            Place::Lane(lane) => CRC.checksum(TAGS[usize::from(lane.0)].to_string().as_bytes()),
            Place::Rules => CRC.checksum(RULES.as_bytes()),
        };
        checksum % 16_384
    }
}

/// The hash tag of the published rules.
const RULES: &str = "rules";

/// Formats keys under one prefix.
#[derive(Debug, Clone)]
pub struct Keys {
    prefix: Box<str>,
}

/// Under `weir`, the default of `KEY_PREFIX`.
impl Default for Keys {
    fn default() -> Self {
        Self {
            prefix: "weir".into(),
        }
    }
}

impl Keys {
    /// Keys under `prefix`.
    ///
    /// # Errors
    /// Where the prefix could break the shape of a key.
    pub fn new(prefix: &str) -> Result<Self, String> {
        let sound = |b: u8| b.is_ascii_alphanumeric() || b"_-.:/".contains(&b);
        if (1..=64).contains(&prefix.len()) && prefix.bytes().all(sound) {
            Ok(Self {
                prefix: prefix.into(),
            })
        } else {
            Err("must be 1 to 64 of A-Z a-z 0-9 _ - . : /".to_owned())
        }
    }

    fn of_lane(&self, lane: Lane, kind: &str, name: &str) -> String {
        let tag = TAGS[usize::from(lane.0)];
        format!("{}:{{{tag}}}:{kind}{name}", self.prefix)
    }

    /// A bucket: 30 characters under the default prefix, which with 16 bytes of state is the least that Redis spends on a key.
    pub fn bucket(&self, lane: Lane, name: &BucketName) -> String {
        self.of_lane(lane, "", name.as_str())
    }

    /// The stamp of the newest publication that concerns the lane.
    pub fn epoch(&self, lane: Lane) -> String {
        self.of_lane(lane, "epoch", "")
    }

    /// The version of the database that the lane's registry entries have reached. For `refresh`, and to tell entries of an older
    /// history.
    pub fn reached(&self, lane: Lane) -> String {
        self.of_lane(lane, "reached", "")
    }

    /// A registry entry, in the lane of its name.
    pub fn entry(&self, name: &Name) -> String {
        self.of_lane(name.lane(), name.kind(), &hashed(name))
    }

    /// The head of the published copy: a hash of the fields that `put.lua` documents.
    pub fn head(&self) -> String {
        self.of_rules("head")
    }

    /// The published rules: a hash, chunk to body.
    pub fn chunks(&self) -> String {
        self.of_rules("chunks")
    }

    /// When each chunk last changed: a sorted set, chunk to stamp.
    pub fn stamps(&self) -> String {
        self.of_rules("stamps")
    }

    /// When each registry name last changed: a sorted set, hashed name to stamp.
    pub fn names(&self) -> String {
        self.of_rules("names")
    }

    /// How the stores were when `refresh` last looked.
    pub fn look(&self) -> String {
        self.of_rules("look")
    }

    /// All of the published rules: head, chunks, stamps, names.
    pub(crate) fn rules(&self) -> [String; 4] {
        [self.head(), self.chunks(), self.stamps(), self.names()]
    }

    fn of_rules(&self, name: &str) -> String {
        format!("{}:{{{RULES}}}:{name}", self.prefix)
    }
}

/// A registry name as it stands in keys and in the set of changed names: 22 characters, 132 bits of a SHA-256 over kind and id.
pub fn hashed(name: &Name) -> String {
    let mut hash = Sha256::new();
    hash.update(name.kind());
    hash.update([0]);
    hash.update(name.id());
    let mut text = URL_SAFE_NO_PAD.encode(hash.finalize());
    text.truncate(22);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use limits::Quota;
    use limits::bucket::Owner;
    use limits::rule::Algorithm;

    #[test]
    fn a_bucket_has_thirty_characters_at_most_and_nothing_of_its_owner() {
        let keys = Keys::default();
        let quota = Quota::new(Algorithm::TokenBucket, 1, None, 1).unwrap();
        for id in ["{x}", "}", "", "a\nb", "\0", &"y".repeat(4096)] {
            let owner = Owner::Client { id, generation: 0 };
            let key = keys.bucket(owner.lane(), &BucketName::new(None, &owner, &quota));
            assert!(key.len() <= 30, "{key}");
            let (tag, name) = key["weir:{".len()..].split_once("}:").unwrap();
            assert!(tag.bytes().all(|b| b.is_ascii_digit()), "{key}");
            assert!(
                name.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            );
        }
    }

    #[test]
    fn lanes_lie_evenly_over_the_slots_of_a_cluster() {
        for lane in Lane::all() {
            let slots = 64 * u16::from(lane.0);
            assert!(
                (slots..slots + 64).contains(&Place::Lane(lane).slot()),
                "{lane:?}"
            );
        }
        // As `CLUSTER KEYSLOT rules` tells it.
        assert_eq!(Place::Rules.slot(), 13_076);
        let indexes: Vec<usize> = Place::all().map(Place::index).collect();
        assert_eq!(indexes, (0..Place::COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn a_prefix_cannot_choose_the_slot() {
        for prefix in ["", "a{b}", "a b", "a\n", "é"] {
            assert!(Keys::new(prefix).is_err(), "{prefix:?}");
        }
    }
}
