//! What a call asks for: a method and a path, or the name of a service.
//!
//! All spellings of one path are one path: percent-decoded once, empty and `.` segments, `;parameters` and a trailing slash
//! dropped, `..` resolved. Nothing downstream is rewritten: this is for matching alone.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::pattern::Pattern;

/// The longest resource that may be asked about, in bytes: what API Gateway takes as a whole request line.
pub const LONGEST: usize = 10_240;

/// What one call asks for, ready to be matched.
#[derive(Debug, Clone)]
pub struct Resource<'a> {
    /// In capitals; none where the caller told none.
    pub(crate) method: Option<Cow<'a, str>>,
    pub(crate) target: Target<'a>,
    /// The route that the gateway matched, where one is known.
    pub(crate) route: Option<Pattern>,
}

#[derive(Debug, Clone)]
pub(crate) enum Target<'a> {
    Path(Vec<Cow<'a, str>>),
    Service(Cow<'a, str>),
}

impl<'a> Resource<'a> {
    /// A call to a path through a gateway. `route` is the template that the gateway matched (`/users/{id}`), if it tells one:
    /// a rule written as that very template applies whatever the path looks like.
    pub fn path(method: &'a str, path: &'a str, route: Option<&str>) -> Self {
        Self {
            method: capitals(method),
            target: Target::Path(segments(path)),
            route: route.and_then(|route| Pattern::parse(route).ok()),
        }
    }

    /// The same call without the segments of `prefix` in front, where its path begins with all of them: a gateway's stage, a
    /// base path. Compared as paths are, so that no spelling of the prefix hides a path from its rules.
    ///
    /// ```
    /// use limits::{Pattern, Resource};
    /// let orders = Pattern::parse("GET /orders").unwrap();
    /// let call = Resource::path("GET", "//%70rod/./orders", None).below("/prod");
    /// assert!(orders.fits(&call));
    /// ```
    #[must_use]
    pub fn below(mut self, prefix: &str) -> Self {
        let prefix = segments(prefix);
        if let Target::Path(path) = &mut self.target
            && path.starts_with(&prefix)
        {
            path.drain(..prefix.len());
        }
        self
    }

    /// A resource as people write it: `GET /orders/1`, `/orders/1`, or a service's name. With a method that stands alone or an
    /// empty text there is nothing to match but the rules for everything.
    pub fn parse(text: &'a str) -> Self {
        let (method, rest) = split_method(text);
        let target = if rest.starts_with('/') {
            Target::Path(segments(rest))
        } else {
            Target::Service(Cow::Borrowed(rest))
        };
        Self {
            method: method.and_then(capitals),
            target,
            route: None,
        }
    }

    /// A call to a service by its name, whatever the name looks like: even `GET /orders` is met by the rules for everything alone.
    pub fn service(name: &'a str) -> Self {
        Self {
            method: None,
            target: Target::Service(Cow::Borrowed(name)),
            route: None,
        }
    }

    /// A call to everything that `pattern` stands for, each wildcard replaced by a name that no rule has.
    pub fn of_pattern(pattern: &Pattern) -> Resource<'static> {
        pattern.sample()
    }
}

fn capitals(method: &str) -> Option<Cow<'_, str>> {
    if method.is_empty() {
        None
    } else if method.bytes().any(|b| b.is_ascii_lowercase()) {
        Some(Cow::Owned(method.to_ascii_uppercase()))
    } else {
        Some(Cow::Borrowed(method))
    }
}

/// Splits `GET /x` into its method and the rest; a text without a method is all rest.
pub(crate) fn split_method(text: &str) -> (Option<&str>, &str) {
    match text.split_once(' ') {
        Some((method, rest))
            if !method.is_empty() && method.bytes().all(|b| b.is_ascii_alphabetic()) =>
        {
            (Some(method), rest.trim_start_matches(' '))
        }
        _ => (None, text),
    }
}

/// The segments of a path, in the one spelling that all its spellings share.
pub(crate) fn segments(path: &str) -> Vec<Cow<'_, str>> {
    let mut segments = Vec::with_capacity(8);
    if path.contains('%') {
        let decoded = percent_decode_str(path).decode_utf8_lossy();
        match decoded {
            Cow::Borrowed(decoded) => each_segment(decoded, Cow::Borrowed, &mut segments),
            Cow::Owned(decoded) => {
                each_segment(&decoded, |s| Cow::Owned(s.to_owned()), &mut segments);
            }
        }
    } else {
        each_segment(path, Cow::Borrowed, &mut segments);
    }
    segments
}

fn each_segment<'s, 'a>(
    path: &'s str,
    keep: impl Fn(&'s str) -> Cow<'a, str>,
    segments: &mut Vec<Cow<'a, str>>,
) {
    for segment in path.split('/') {
        let name = segment.split(';').next().unwrap_or_default();
        match name {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(keep(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_a_path_are_one_path() {
        for spelling in [
            "/orders/a b",
            "/orders/a%20b",
            "//orders//a%20b/",
            "/./orders/x/../a%20b",
            "/orders;v=1/a%20b;x",
            "/orders%2Fa%20b",
            "/orders%3Bv/a%20b",
            "/../../orders/a%20b",
            "/orders/%2E/a%20b",
            "/orders/x/%2e%2E/a%20b",
        ] {
            assert_eq!(segments(spelling), ["orders", "a b"], "{spelling}");
        }
    }

    #[test]
    fn a_path_is_decoded_once_and_a_bad_escape_stays() {
        assert_eq!(segments("/a%252Fb"), ["a%2Fb"]);
        assert_eq!(segments("/a%zz%4"), ["a%zz%4"]);
    }

    #[test]
    fn case_is_part_of_a_path() {
        assert_ne!(segments("/API"), segments("/api"));
    }

    #[test]
    fn only_a_whole_prefix_of_segments_is_left_out() {
        let below = |path, prefix| match Resource::path("GET", path, None).below(prefix).target {
            Target::Path(segments) => segments.join("/"),
            Target::Service(name) => panic!("{name} is a service"),
        };
        assert_eq!(below("/api/v1/orders", "/api/v1"), "orders");
        assert_eq!(below("/x/../api;a=b/v1/orders", "api/v1/"), "orders");
        assert_eq!(below("/api/v1", "/api/v1"), "");
        assert_eq!(below("/api/v10/orders", "/api/v1"), "api/v10/orders");
        assert_eq!(below("/api", "/api/v1"), "api");
        assert_eq!(below("/API/v1/orders", "/api/v1"), "API/v1/orders");
        assert_eq!(below("/orders", ""), "orders");
    }

    #[test]
    fn a_method_is_compared_in_capitals() {
        assert_eq!(
            Resource::path("get", "/", None).method.as_deref(),
            Some("GET")
        );
        assert_eq!(Resource::parse("get /x").method.as_deref(), Some("GET"));
        assert_eq!(Resource::parse("billing").method, None);
    }
}
