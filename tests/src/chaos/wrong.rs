//! What is not as promised.

use std::collections::BTreeMap;

/// Sentences with how often each is true, and the first time that it was.
#[derive(Debug, Default)]
pub(super) struct Wrong(BTreeMap<&'static str, (usize, String)>);

impl Wrong {
    pub(super) fn note(&mut self, sentence: &'static str, told: &str) {
        let (count, _) = self.0.entry(sentence).or_insert((0, told.to_owned()));
        *count += 1;
    }

    pub(super) fn told(self) -> impl Iterator<Item = String> {
        let noted = self.0.into_iter();
        noted.map(|(sentence, (count, told))| format!("{sentence}, {count} times: {told}"))
    }
}
