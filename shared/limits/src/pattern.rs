//! What a rule's `resource` stands for.
//!
//! `[METHOD ]pattern`: `*` is one segment; `**`, only at the end, any rest, also none; `*` alone is everything. API Gateway's
//! `{id}` and `{proxy+}` mean these two. A name without a slash is a service.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::path::{Resource, Target, segments, split_method};

/// The longest `resource`, in bytes.
pub const LONGEST: usize = 1024;

/// A parsed `resource`.
///
/// Ordered by specificity, the greater being the more specific: a method over none; then segment by segment a literal over `*`
/// over the end of the path over `**`.
///
/// ```
/// use limits::Pattern;
/// let written = Pattern::parse("GET /orders/{id}").unwrap();
/// let starred = Pattern::parse("GET /orders/*").unwrap();
/// assert_eq!(written, starred);
/// assert!(starred > Pattern::parse("/orders/1").unwrap());
/// assert!(Pattern::parse("/orders/**/x").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    canonical: Box<str>,
}

/// One step of a path pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment<'a> {
    Literal(Cow<'a, str>),
    Any,
    Rest,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shape<'a> {
    Everything,
    Service(Cow<'a, str>),
    Path(Vec<Segment<'a>>),
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > LONGEST {
            return Err(format!("must be 1 to {LONGEST} bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err("must not contain control characters".to_owned());
        }
        let (method, rest) = split_method(text);
        if let Some(method) = method
            && method.bytes().any(|b| b.is_ascii_lowercase())
        {
            return Err("must have its method in capitals, as in `GET /orders/*`".to_owned());
        }
        let mut canonical = String::with_capacity(text.len());
        if let Some(method) = method {
            canonical.push_str(method);
            canonical.push(' ');
        }
        if rest == "*" {
            canonical.push('*');
        } else if rest.starts_with('/') {
            write_path(rest, &mut canonical)?;
        } else {
            if method.is_some() {
                return Err("must have a path or `*` after its method".to_owned());
            }
            if rest.contains(['*', '{', '}', '/', '?', ' ']) {
                return Err(
                    "must be a path that begins with `/`, `*`, or the plain name of a service"
                        .to_owned(),
                );
            }
            write_escaped(rest, &mut canonical);
        }
        if canonical.chars().any(char::is_control) {
            return Err("must not contain control characters, escaped or not".to_owned());
        }
        Ok(Self {
            canonical: canonical.into(),
        })
    }

    /// The pattern that stands for one service.
    ///
    /// ```
    /// use limits::{Pattern, Resource};
    /// assert!(Pattern::service("billing").unwrap().fits(&Resource::service("billing")));
    /// assert!(Pattern::service("*").is_err() && Pattern::service("GET /orders").is_err());
    /// ```
    ///
    /// # Errors
    /// What would be right, where no resource can be written that is the service of this name.
    pub fn service(name: &str) -> Result<Self, String> {
        match Self::parse(name) {
            Ok(pattern) if matches!(pattern.shape(), Shape::Service(_)) => Ok(pattern),
            _ => Err(
                "must be the plain name of a service, without `/`, `*`, `?`, `{`, `}` and spaces"
                    .to_owned(),
            ),
        }
    }

    /// A pattern out of its own [`Pattern::canonical`] text, which is no spelling to be read again: a literal `{x}` stands in it
    /// as it is.
    pub fn from_canonical(canonical: &str) -> Self {
        Self {
            canonical: canonical.into(),
        }
    }

    /// The one text that all spellings of this pattern share: what makes two rules rivals for one place.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// The part by which patterns are looked up first: the name of a service, `*` for everything, `/` and the first segment of a
    /// path as it stands in [`Pattern::canonical`], or `/` alone. Whatever a call meets has one of [`Resource::heads`].
    pub fn head(&self) -> &str {
        let rest = self.rest();
        match rest.strip_prefix('/') {
            Some(path) => &rest[..1 + path.find('/').unwrap_or(path.len())],
            None => rest,
        }
    }

    pub(crate) fn method(&self) -> Option<&str> {
        split_method(&self.canonical).0
    }

    fn rest(&self) -> &str {
        split_method(&self.canonical).1
    }

    pub(crate) fn shape(&self) -> Shape<'_> {
        let rest = self.rest();
        if rest == "*" {
            return Shape::Everything;
        }
        let Some(path) = rest.strip_prefix('/') else {
            return Shape::Service(unescape(rest));
        };
        let steps = path.split('/').filter(|step| !step.is_empty());
        Shape::Path(
            steps
                .map(|step| match step {
                    "*" => Segment::Any,
                    "**" => Segment::Rest,
                    literal => Segment::Literal(unescape(literal)),
                })
                .collect(),
        )
    }

    /// A call that this pattern fits, each wildcard standing for a name that no rule has: no pattern can spell a control
    /// character.
    pub(crate) fn sample(&self) -> Resource<'static> {
        const UNUSED: &str = "\u{0}";
        let target = match self.shape() {
            Shape::Everything => Target::Service(Cow::Borrowed(UNUSED)),
            Shape::Service(name) => Target::Service(Cow::Owned(name.into_owned())),
            Shape::Path(steps) => Target::Path(
                steps
                    .into_iter()
                    .map(|step| match step {
                        Segment::Literal(name) => Cow::Owned(name.into_owned()),
                        Segment::Any | Segment::Rest => Cow::Borrowed(UNUSED),
                    })
                    .collect(),
            ),
        };
        Resource {
            method: self.method().map(|method| Cow::Owned(method.to_owned())),
            target,
            route: Some(self.clone()),
        }
    }

    /// Whether a call meets this pattern, by its path or because the gateway matched this very template.
    pub fn fits(&self, call: &Resource<'_>) -> bool {
        let method_fits = |own: Option<&str>| own.is_none() || own == call.method.as_deref();
        if let Some(route) = &call.route
            && method_fits(self.method())
            && route.rest() == self.rest()
        {
            return true;
        }
        method_fits(self.method()) && self.meets(&call.target)
    }

    /// Whether a path or a service's name meets this pattern, its method aside.
    pub(crate) fn meets(&self, target: &Target<'_>) -> bool {
        match (self.shape(), target) {
            (Shape::Everything, _) => true,
            (Shape::Service(own), Target::Service(name)) => own == *name,
            (Shape::Path(steps), Target::Path(path)) => path_fits(&steps, path),
            _ => false,
        }
    }
}

impl Resource<'_> {
    /// The [`Pattern::head`]s of every pattern that this call can meet.
    pub fn heads(&self) -> Vec<String> {
        let mut heads = vec!["*".to_owned()];
        match &self.target {
            Target::Service(name) => {
                let mut head = String::new();
                write_escaped(name, &mut head);
                heads.push(head);
            }
            Target::Path(path) => {
                heads.extend(["/", "/*", "/**"].map(str::to_owned));
                if let Some(first) = path.first() {
                    let mut head = "/".to_owned();
                    write_escaped(first, &mut head);
                    heads.push(head);
                }
            }
        }
        if let Some(route) = &self.route {
            heads.push(route.head().to_owned());
        }
        heads.sort_unstable();
        heads.dedup();
        heads
    }
}

fn path_fits(steps: &[Segment<'_>], path: &[Cow<'_, str>]) -> bool {
    let open = steps.last() == Some(&Segment::Rest);
    let fixed = steps.len() - usize::from(open);
    let length_fits = if open {
        path.len() >= fixed
    } else {
        path.len() == fixed
    };
    length_fits
        && steps[..fixed]
            .iter()
            .zip(path)
            .all(|(step, name)| match step {
                Segment::Literal(literal) => literal == name,
                Segment::Any | Segment::Rest => true,
            })
}

fn write_path(path: &str, canonical: &mut String) -> Result<(), String> {
    let mut steps = path.split('/').filter(|step| !step.is_empty()).peekable();
    if steps.peek().is_none() {
        canonical.push('/');
    }
    while let Some(step) = steps.next() {
        let variable = step
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix('}'))
            .filter(|name| !name.is_empty() && !name.contains(['{', '}', '*']));
        let rest = step == "**" || variable.is_some_and(|name| name.ends_with('+'));
        if rest {
            if steps.peek().is_some() {
                return Err("must have `**` or `{proxy+}` only at its end".to_owned());
            }
            canonical.push_str("/**");
        } else if step == "*" || variable.is_some() {
            canonical.push_str("/*");
        } else if step.contains(['*', '{', '}']) {
            return Err("must have wildcards as whole segments: `*`, `**`, `{name}`".to_owned());
        } else {
            let names = segments(step);
            // What an escaped `..` takes back may be a wildcard before it.
            let decoded = unescape(step);
            let mut parts = decoded.split('/').filter_map(|part| part.split(';').next());
            if names.is_empty() || parts.any(|part| part == "..") {
                return Err("must not have segments that no path has: `.`, `..`, `;x`".to_owned());
            }
            for name in names {
                canonical.push('/');
                write_escaped(&name, canonical);
            }
        }
    }
    Ok(())
}

/// A literal as it stands in canonical text, so that no literal looks like a wildcard, a slash or a method.
fn write_escaped(literal: &str, canonical: &mut String) {
    for c in literal.chars() {
        match c {
            '*' => canonical.push_str("%2A"),
            '%' => canonical.push_str("%25"),
            '/' => canonical.push_str("%2F"),
            ' ' => canonical.push_str("%20"),
            c => canonical.push(c),
        }
    }
}

fn unescape(text: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy()
}

/// Ranks to compare step by step. A path that ends is more specific than one that may go on: `/a` than `/a/**`.
fn ranks(steps: &[Segment<'_>]) -> impl Iterator<Item = u8> {
    let rank = |step: &Segment<'_>| match step {
        Segment::Literal(_) => 3,
        Segment::Any => 2,
        Segment::Rest => 0,
    };
    steps.iter().map(rank).chain(std::iter::once(1))
}

impl Ord for Pattern {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_shape = match (self.shape(), other.shape()) {
            (Shape::Path(own), Shape::Path(others)) => ranks(&own).cmp(ranks(&others)),
            (Shape::Everything, Shape::Everything) => Ordering::Equal,
            (Shape::Everything, _) => Ordering::Less,
            (_, Shape::Everything) => Ordering::Greater,
            // A path and a service never meet in one call: any order will do.
            (Shape::Service(_), Shape::Path(_)) => Ordering::Less,
            (Shape::Path(_), Shape::Service(_)) => Ordering::Greater,
            (Shape::Service(_), Shape::Service(_)) => Ordering::Equal,
        };
        self.method()
            .is_some()
            .cmp(&other.method().is_some())
            .then(by_shape)
            .then_with(|| self.canonical.cmp(&other.canonical))
    }
}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn a_pattern_fits_what_it_says() {
        for (text, call, fits) in [
            ("*", "/anything/at/all", true),
            ("*", "billing", true),
            ("GET *", "GET /x", true),
            ("GET *", "POST /x", false),
            ("GET *", "/x", false),
            ("/", "/", true),
            ("/orders/*", "/orders/1", true),
            ("/orders/*", "/orders", false),
            ("/orders/*", "/orders/1/2", false),
            ("/orders/**", "/orders", true),
            ("/orders/**", "/orders/1/2", true),
            ("/**", "/", true),
            ("/**", "billing", false),
            ("/orders/{id}/items/{proxy+}", "/orders/1/items/2/3", true),
            ("/a%20b", "/a b", true),
            ("/a%2Fb", "/a/b", true),
            ("/a%2Ab", "/a*b", true),
            ("/%2A", "/x", false),
            ("billing", "billing", true),
            ("billing", "/billing", false),
            ("/Orders", "/orders", false),
        ] {
            assert_eq!(
                pattern(text).fits(&Resource::parse(call)),
                fits,
                "{text} on {call}"
            );
        }
    }

    #[test]
    fn the_route_that_the_gateway_matched_fits_whatever_the_path() {
        let call = Resource::path("GET", "/users/a%2Fb", Some("/users/{id}"));
        assert!(pattern("/users/*").fits(&call));
        assert!(pattern("GET /users/{name}").fits(&call));
        assert!(!pattern("POST /users/{id}").fits(&call));
        assert!(!pattern("/users/a").fits(&call));
    }

    #[test]
    fn a_wrong_pattern_is_told_what_would_be_right() {
        for wrong in [
            "",
            "/a/**/b",
            "/{p+}/b",
            "/a*",
            "/{a}{b}",
            "/{}",
            "get /x",
            "GET billing",
            "GET ",
            "a/b",
            "a b",
            "/a/../b",
            "/a/x%2F..%2Fb",
            "/*/%2e%2e%2Fb",
            "/a/%00",
            "/\u{7}",
        ] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(Pattern::parse(&format!("/{}", "x".repeat(LONGEST))).is_err());
    }

    #[test]
    fn a_service_is_written_by_its_plain_name_alone() {
        for name in [
            "billing", "ü", "100%", "%2F", "..", "a;b", "GET", "\"", "a:b,c",
        ] {
            let pattern = Pattern::service(name).unwrap();
            assert!(pattern.fits(&Resource::service(name)), "{name}");
            assert!(!pattern.fits(&Resource::service("other")), "{name}");
        }
        let everything = [pattern("*"), pattern("/**"), pattern("GET /a")];
        for name in [
            "*", "/", "/a", "a/b", "GET /a", "GET *", "a b", "{a}", "a?", "",
        ] {
            assert!(Pattern::service(name).is_err(), "{name}");
            let met = everything
                .iter()
                .filter(|pattern| pattern.fits(&Resource::service(name)));
            assert!(met.eq(&everything[..1]), "{name}");
        }
    }

    #[test]
    fn more_specific_patterns_are_greater() {
        let order = [
            "*", "/**", "/*/**", "/*", "/*/*", "/*/a", "/a/**", "/a", "/a/*", "/a/b", "GET *",
            "GET /**", "GET /a/b",
        ];
        for (i, low) in order.iter().enumerate() {
            for high in &order[i + 1..] {
                assert!(pattern(low) < pattern(high), "{low} < {high}");
            }
        }
    }

    #[test]
    fn a_call_meets_no_pattern_outside_its_heads() {
        let call = Resource::path("GET", "/a%20b/c", Some("/{x}/c"));
        let heads = call.heads();
        for text in ["*", "/**", "/*/c", "/a%20b/**", "GET /a%20b/*", "/{y}/c"] {
            assert!(pattern(text).fits(&call), "{text}");
            assert!(heads.iter().any(|h| h == pattern(text).head()), "{text}");
        }
    }

    #[test]
    fn a_pattern_fits_its_own_sample() {
        for text in [
            "*",
            "GET *",
            "/",
            "/**",
            "/a/*/b/**",
            "svc",
            "PUT /x%2A/{id}",
        ] {
            assert_eq!(
                Pattern::from_canonical(pattern(text).canonical()),
                pattern(text)
            );
            assert!(
                pattern(text).fits(&Resource::of_pattern(&pattern(text))),
                "{text}"
            );
        }
    }
}
