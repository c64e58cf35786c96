//! Text from outside, as it may be shown in a terminal.

use std::borrow::Cow;

/// The same text with every character escaped that a terminal would obey rather than show: control characters, and those that
/// turn the direction of writing.
///
/// ```
/// assert_eq!(weir::text::shown("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
/// assert_eq!(weir::text::shown("Ünïcode"), "Ünïcode");
/// ```
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// How many things of one kind are told before the rest is only counted.
pub(crate) const MOST_TOLD: usize = 100;

/// Whether a character does something instead of standing there.
pub(crate) fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
