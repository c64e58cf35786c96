//! Scripts, which are called by their hash.

use redis::{Cmd, ToRedisArgs};

/// A script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    hash: String,
}

impl Script {
    pub(crate) fn new(text: String) -> Self {
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// One over all of the published rules, which knows whether they are all there.
    pub(crate) fn over_rules(text: &str) -> Self {
        Self::new(text.replace("--@whole", include_str!("whole.lua")))
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The call by hash, for a node that may have it.
    pub(crate) fn by_hash(&self, keys: &[String], arguments: &[impl ToRedisArgs]) -> Cmd {
        call("EVALSHA", &self.hash, keys, arguments)
    }

    /// The call by its text, for a node that has not.
    pub(crate) fn by_text(&self, keys: &[String], arguments: &[impl ToRedisArgs]) -> Cmd {
        call("EVAL", &self.text, keys, arguments)
    }
}

fn call(command: &str, script: &str, keys: &[String], arguments: &[impl ToRedisArgs]) -> Cmd {
    let mut call = redis::cmd(command);
    call.arg(script).arg(keys.len()).arg(keys).arg(arguments);
    call
}
