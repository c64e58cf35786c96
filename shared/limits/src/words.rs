//! The closed lists of words in which rules are written.

/// A closed list of words: an enum, its texts, and what to tell whoever writes another.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $wanted:literal { $($(#[$word_doc:meta])* $word:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$word_doc])* #[serde(rename = $text)] $word,)+
        }

        impl $name {
            /// Every word, in order.
            pub const ALL: &'static [$name] = &[$($name::$word),+];

            /// The word as it stands in JSON, Postgres and headers.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$word => $text,)+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok($name::$word),)+
                    _ => Err($wanted.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// What a client has paid for.
    Tier, "must be one of free, paid, premium" {
        /// Nothing.
        Free = "free",
        /// Something.
        Paid = "paid",
        /// The most.
        Premium = "premium",
    }
}

words! {
    /// Who shares a bucket.
    Per, "must be one of client, all, ip" {
        /// Each client has its own.
        Client = "client",
        /// There is one.
        All = "all",
        /// Each address has its own; of IPv6 each /64.
        Ip = "ip",
    }
}

words! {
    /// How a bucket counts.
    Algorithm, "must be one of token_bucket, leaky_bucket, fixed_window, sliding_window, sliding_log" {
        /// Refills evenly, lets bursts of the whole limit through.
        TokenBucket = "token_bucket",
        /// Refills evenly, smooth.
        LeakyBucket = "leaky_bucket",
        /// So many in each window aligned to UTC.
        FixedWindow = "fixed_window",
        /// An estimate over two windows aligned to UTC.
        SlidingWindow = "sliding_window",
        /// So many in any window.
        SlidingLog = "sliding_log",
    }
}

words! {
    /// What a rule does while Redis is out.
    OnFailure, "must be one of limit, allow, deny" {
        /// A small limit in each container.
        Limit = "limit",
        /// Lets calls through.
        Allow = "allow",
        /// Answers 503.
        Deny = "deny",
    }
}

words! {
    /// Whether a rule is in force.
    Status, "must be one of active, shadow, terminated" {
        /// It is.
        Active = "active",
        /// It is evaluated and reported, and never denies.
        Shadow = "shadow",
        /// It is kept and not evaluated.
        Terminated = "terminated",
    }
}
