//! One page of a list.

/// How many items a page has where nobody says.
pub const USUAL: usize = 100;
/// How many items a page may have.
pub const MOST: usize = 1_000;

/// Items in the order of their ids, and whether there are more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, C> {
    /// The items.
    pub items: Vec<T>,
    /// After what the next page begins; none where this is the last.
    pub next: Option<C>,
}

impl<T, C> Page<T, C> {
    /// A page out of one item more than it may hold: the surplus tells that there is a next one.
    pub(crate) fn cut(mut items: Vec<T>, limit: usize, cursor: impl FnOnce(&T) -> C) -> Self {
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(cursor);
        Self { items, next }
    }
}
