//! Who is known: the registry as this container has seen it.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws::metrics;
use limits::Client;
use limits::registry::Name;
use limits_redis::keys::hashed;
use lru::LruCache;

/// How many names a container remembers; the least recently used go first.
const MOST_NAMES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);

/// Registry entries that were looked up, each valid until it is named among the changes.
#[derive(Debug)]
pub struct Registry(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    /// The stamp of the view that the entries belong to.
    stamp: u64,
    /// By hashed name. None as a client: there is none of that id.
    entries: LruCache<String, Option<Arc<Client>>>,
}

/// A name in the form in which it is remembered.
#[derive(Debug, Clone)]
pub struct Remembered(String);

impl From<&Name> for Remembered {
    fn from(name: &Name) -> Self {
        Self(hashed(name))
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self(Mutex::new(Seen {
            stamp: 0,
            entries: LruCache::new(MOST_NAMES),
        }))
    }
}

impl Registry {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered of a name: none where nothing is, and a client of none where it is known that there is none.
    pub fn get(&self, name: &Remembered) -> Option<Option<Arc<Client>>> {
        self.seen().entries.get(&name.0).cloned()
    }

    /// Remembers what was looked up under a view; forgets it at once where the container has caught up meanwhile, since the
    /// change that it caught up to may be this name's.
    pub fn remember(&self, view: u64, name: Remembered, client: Option<Arc<Client>>) {
        let mut seen = self.seen();
        if seen.stamp == view {
            if seen.entries.len() == MOST_NAMES.get() && !seen.entries.contains(&name.0) {
                metrics::CACHE_EVICTIONS.add(1);
            }
            seen.entries.put(name.0, client);
        }
    }

    /// Follows a view to its new stamp: what changed is forgotten. To be called before anyone can decide by that view.
    pub fn catch_up(&self, stamp: u64, forget_all: bool, changed: &[String]) {
        let mut seen = self.seen();
        seen.stamp = stamp;
        if forget_all {
            seen.entries.clear();
        }
        for name in changed {
            seen.entries.pop(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remembered(id: &str) -> Remembered {
        Remembered::from(&Name::Client(id.to_owned()))
    }

    #[test]
    fn what_was_looked_up_under_an_older_view_is_not_remembered() {
        let registry = Registry::default();
        registry.catch_up(8, false, &[]);
        // Looked up at 8, held up while the container caught up to 9.
        registry.catch_up(9, false, &[hashed(&Name::Client("eve".to_owned()))]);
        registry.remember(
            8,
            remembered("eve"),
            Some(Arc::new(Client::unregistered("eve"))),
        );
        assert_eq!(registry.get(&remembered("eve")), None);
    }

    #[test]
    fn only_what_changed_is_forgotten_and_no_more_than_so_much_is_kept() {
        let registry = Registry::default();
        let before = metrics::CACHE_EVICTIONS.read();
        for i in 0..10_050 {
            registry.remember(0, remembered(&i.to_string()), None);
        }
        registry.remember(0, remembered("10049"), None);
        // Other tests evict a little.
        let evicted = metrics::CACHE_EVICTIONS.read() - before;
        assert!((50..10_000).contains(&evicted), "{evicted}");
        assert_eq!(registry.seen().entries.len(), 10_000);
        assert_eq!(registry.get(&remembered("0")), None);
        registry.catch_up(1, false, &[remembered("10049").0]);
        assert_eq!(registry.get(&remembered("10049")), None);
        assert_eq!(registry.get(&remembered("10048")), Some(None));
        registry.catch_up(2, true, &[]);
        assert_eq!(registry.get(&remembered("10048")), None);
    }
}
