//! One page of a list.

use serde::Serialize;

/// How many items a page has where nobody says.
pub const USUAL: usize = 100;
/// How many items a page may have.
pub const MOST: usize = 1_000;

/// How many bytes of JSON a page may have, save for one that is a single item. A Lambda answers at most 6 MB, in which the body is
/// a string: every quote in it counts twice.
const MOST_BYTES: usize = 2 << 20;

/// Items in the order of their ids, and whether there are more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, C> {
    /// The items.
    pub items: Vec<T>,
    /// After what the next page begins; none where this is the last.
    pub next: Option<C>,
}

impl<T: Serialize, C> Page<T, C> {
    /// A page out of one item more than it may hold: the surplus tells that there is a next one. It may hold fewer than were asked
    /// for where they are large.
    pub(crate) fn cut(mut items: Vec<T>, limit: usize, cursor: impl FnOnce(&T) -> C) -> Self {
        let mut bytes = 0;
        let fits = |item: &&T| {
            bytes += serde_json::to_vec(item).map_or(0, |json| json.len());
            bytes <= MOST_BYTES
        };
        let held = items.iter().take(limit).take_while(fits).count().max(1);
        let more = items.len() > held;
        items.truncate(held);
        let next = items.last().filter(|_| more).map(cursor);
        Self { items, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_limit_or_where_an_answer_would_be_too_large() {
        let cut = |items: Vec<String>, limit| {
            let page = Page::cut(items, limit, Clone::clone);
            (page.items.len(), page.next.is_some())
        };
        let small = |n| vec!["x".to_owned(); n];
        assert_eq!(cut(small(0), 2), (0, false));
        assert_eq!(cut(small(2), 2), (2, false));
        assert_eq!(cut(small(3), 2), (2, true));
        // As JSON each of these bytes is six.
        let large = |n| vec!["\u{7}".repeat(1 << 17); n];
        assert_eq!(cut(large(3), 5), (2, true));
        assert_eq!(cut(vec!["\u{7}".repeat(1 << 20)], 5), (1, false));
    }
}
