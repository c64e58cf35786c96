//! YAML as a tree that knows where everything stands, and in which a key that is told twice is seen twice.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use saphyr::Scalar;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};
use serde_json::{Number, Value};

/// How deep a document may be nested: deeper than any file of ours has reason to be.
const DEEPEST: usize = 32;
const TOO_DEEP: &str = "is nested too deeply";

/// A place in a text; lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.line, self.column)
    }
}

impl From<Marker> for Position {
    fn from(marker: Marker) -> Self {
        Self {
            line: marker.line().max(1),
            column: marker.col() + 1,
        }
    }
}

/// What stands at a place.
#[derive(Debug)]
pub struct Node {
    /// Where it begins.
    pub at: Position,
    /// What it is.
    pub content: Content,
}

/// A value of YAML's core schema.
#[derive(Debug)]
pub enum Content {
    /// Nothing at all, which YAML takes for null: a value that somebody forgot, or a file without any.
    Nothing,
    /// A text, a number, a truth value, or null written out.
    Value(Value),
    /// A list.
    List(Vec<Rc<Node>>),
    /// Keys and values in their order, be it that a key comes twice.
    Map(Vec<(Rc<Node>, Rc<Node>)>),
    /// A value of no kind that could stand here, and why.
    Odd(String),
}

/// Why a text is not one document of YAML, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct YamlError {
    /// Where.
    pub at: Position,
    /// What is wrong.
    pub detail: String,
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        Self {
            at: (*error.marker()).into(),
            detail: format!("is not YAML: {}", error.info()),
        }
    }
}

/// The one document in `text`.
///
/// # Errors
/// Where it is not YAML, or several documents.
pub fn parse(text: &str) -> Result<Rc<Node>, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut tree = Tree::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event?;
        tree.take(event, span.start.into())?;
    }
    Ok(tree.root.unwrap_or_else(|| {
        Rc::new(Node {
            at: Position { line: 1, column: 1 },
            content: Content::Nothing,
        })
    }))
}

/// A collection that is not closed yet.
struct Open {
    at: Position,
    anchor: usize,
    /// Its tag, where that says something else than what it is.
    tag: Option<Tag>,
    /// How deep what is in it is nested so far.
    height: usize,
    content: Inside,
}

enum Inside {
    List(Vec<Rc<Node>>),
    Map {
        entries: Vec<(Rc<Node>, Rc<Node>)>,
        key: Option<Rc<Node>>,
    },
}

/// A tree that grows by events.
#[derive(Default)]
struct Tree {
    root: Option<Rc<Node>>,
    open: Vec<Open>,
    /// What aliases stand for, and how deep it is nested.
    anchors: BTreeMap<usize, (Rc<Node>, usize)>,
}

impl Tree {
    fn take(&mut self, event: Event<'_>, at: Position) -> Result<(), YamlError> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(wrong(at, "begins a second document: there must be one"))
            }
            Event::DocumentStart(_) => Ok(()),
            Event::SequenceStart(anchor, tag) => {
                self.enter(at, anchor, tag.as_deref(), Inside::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                let (entries, key) = (Vec::new(), None);
                self.enter(at, anchor, tag.as_deref(), Inside::Map { entries, key })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(closed) = self.open.pop() else {
                    return Err(wrong(at, "ends what was not begun"));
                };
                let content = match (closed.tag, closed.content) {
                    (Some(tag), _) => mistagged(&tag),
                    (None, Inside::List(items)) => Content::List(items),
                    (None, Inside::Map { entries, .. }) => Content::Map(entries),
                };
                let at = closed.at;
                self.insert(Rc::new(Node { at, content }), closed.height, closed.anchor);
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let content = scalar(text, style, tag);
                self.insert(Rc::new(Node { at, content }), 0, anchor);
                Ok(())
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                // Each alias may add to the one before it.
                Some((_, height)) if self.open.len() + height > DEEPEST => Err(wrong(at, TOO_DEEP)),
                Some((node, height)) => {
                    let (node, height) = (Rc::clone(node), *height);
                    self.insert(node, height, 0);
                    Ok(())
                }
                None => Err(wrong(at, "stands for what was not told yet")),
            },
        }
    }

    fn enter(
        &mut self,
        at: Position,
        anchor: usize,
        tag: Option<&Tag>,
        content: Inside,
    ) -> Result<(), YamlError> {
        if self.open.len() == DEEPEST {
            return Err(wrong(at, TOO_DEEP));
        }
        let own = match content {
            Inside::List(_) => "seq",
            Inside::Map { .. } => "map",
        };
        let tag = tag.filter(|tag| !(tag.is_yaml_core_schema() && tag.suffix == own));
        let tag = tag.cloned();
        self.open.push(Open {
            at,
            anchor,
            tag,
            height: 1,
            content,
        });
        Ok(())
    }

    fn insert(&mut self, node: Rc<Node>, height: usize, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, (Rc::clone(&node), height));
        }
        if let Some(open) = self.open.last_mut() {
            open.height = open.height.max(height + 1);
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Inside::List(items)) => items.push(node),
            Some(Inside::Map { entries, key }) => match key.take() {
                None => *key = Some(node),
                Some(key) => entries.push((key, node)),
            },
        }
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<Cow<'_, Tag>>) -> Content {
    if style == ScalarStyle::Plain && text.is_empty() && tag.is_none() {
        return Content::Nothing;
    }
    if let Some(tag) = tag.as_deref().filter(|tag| !tag.is_yaml_core_schema()) {
        return mistagged(tag);
    }
    match (
        Scalar::parse_from_cow_and_metadata(text, style, tag.as_ref()),
        tag,
    ) {
        (Some(Scalar::Null), _) => Content::Value(Value::Null),
        (Some(Scalar::Boolean(truth)), _) => Content::Value(Value::Bool(truth)),
        (Some(Scalar::Integer(number)), _) => Content::Value(Value::from(number)),
        (Some(Scalar::FloatingPoint(number)), _) => match Number::from_f64(number.into_inner()) {
            Some(number) => Content::Value(Value::Number(number)),
            None => Content::Odd("is a number without a value".to_owned()),
        },
        (Some(Scalar::String(text)), _) => Content::Value(Value::String(text.into_owned())),
        (None, Some(tag)) => mistagged(&tag),
        (None, None) => Content::Odd("is not a value".to_owned()),
    }
}

fn mistagged(tag: &Tag) -> Content {
    Content::Odd(format!(
        "is not what its tag {tag} says, or nobody knows that tag"
    ))
}

fn wrong(at: Position, detail: &str) -> YamlError {
    YamlError {
        at,
        detail: detail.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(node: &Node) -> String {
        match &node.content {
            Content::Nothing => "nothing".to_owned(),
            Content::Odd(_) => "odd".to_owned(),
            Content::Value(value) => value.to_string(),
            Content::List(items) => {
                format!("{:?}", items.iter().map(|i| shape(i)).collect::<Vec<_>>())
            }
            Content::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|(k, v)| format!("{}: {}", shape(k), shape(v)));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }

    #[test]
    fn a_value_is_of_the_kind_that_yaml_says() {
        for (text, wanted) in [
            ("", "nothing"),
            ("# nothing", "nothing"),
            ("null", "null"),
            ("~", "null"),
            ("12", "12"),
            ("0x10", "16"),
            ("1e2", "100.0"),
            ("99999999999999999999", "1e+20"),
            ("true", "true"),
            ("yes", "\"yes\""),
            ("'12'", "\"12\""),
            ("!!str 12", "\"12\""),
            ("!!int x", "odd"),
            ("!mine 12", "odd"),
            ("!mine [12]", "odd"),
            (".nan", "odd"),
            ("{a: , a: 1}", "{\"a\": nothing, \"a\": 1}"),
            ("{a: &x 1, b: *x}", "{\"a\": 1, \"b\": 1}"),
            ("\u{feff}a", "\"a\""),
        ] {
            assert_eq!(shape(&parse(text).unwrap()), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_not_one_document_is_told_with_its_place() {
        for (text, line) in [
            ("a: 1\n---\nb: 2\n", 2),
            ("a:\n  - [1\nb: 2", 3),
            ("a: *nobody", 1),
            ("a: &a [*a]", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().at.line, line, "{text}");
        }
        let deep = "- ".repeat(100_000);
        assert_eq!(parse(&deep).unwrap_err().detail, TOO_DEEP);
        // Each line one deeper than the one before: the whole is the list of them.
        let chain = |length: usize| {
            let more = (1..length).map(|n| format!("- &a{n} [*a{}]\n", n - 1));
            format!("- &a0 []\n{}", more.collect::<String>())
        };
        assert!(parse(&chain(DEEPEST - 1)).is_ok());
        let told = parse(&chain(DEEPEST)).unwrap_err();
        assert_eq!((told.at.line, told.detail.as_str()), (DEEPEST, TOO_DEEP));
        assert_eq!(parse(&chain(100_000)).unwrap_err().detail, TOO_DEEP);
    }
}
