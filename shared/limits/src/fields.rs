//! Reading a JSON object so that every fault is told at once, each by the name of its field.

use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value};

/// One thing that is wrong with an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The field, as the sender wrote it; empty for the body as a whole.
    pub field: String,
    /// What would be right.
    pub detail: String,
}

impl Fault {
    /// A fault of `field`; `detail` says what would be right.
    pub fn new(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            detail: detail.into(),
        }
    }
}

/// A reader over a JSON object. Each getter takes the field off the list of what may stand there and notes a fault where the
/// value does not fit; [`Fields::finish`] adds the fields that nobody asked for.
///
/// ```
/// use limits::Fields;
/// let body = serde_json::json!({"tokens": "many", "colour": "red"});
/// let mut fields = Fields::of(&body).unwrap();
/// assert_eq!(fields.integer("tokens", 1, 10), None);
/// let faults = fields.finish();
/// assert_eq!(faults[0].detail, "must be an integer from 1 to 10");
/// assert_eq!(faults[1].detail, "is not a field of this resource");
/// ```
#[derive(Debug)]
pub struct Fields<'a> {
    object: &'a Map<String, Value>,
    asked: Vec<&'static str>,
    faults: Vec<Fault>,
}

impl<'a> Fields<'a> {
    /// A reader over `value`.
    ///
    /// # Errors
    /// One fault without a field's name where `value` is no object.
    pub fn of(value: &'a Value) -> Result<Self, Vec<Fault>> {
        match value {
            Value::Object(object) => Ok(Self {
                object,
                asked: Vec::new(),
                faults: Vec::new(),
            }),
            _ => Err(vec![Fault::new("", "the body must be a JSON object")]),
        }
    }

    /// Notes a fault of a field.
    pub fn fault(&mut self, field: &str, detail: impl Into<String>) {
        self.faults.push(Fault::new(field, detail));
    }

    /// Notes a fault of a field that has none yet.
    pub fn fault_once(&mut self, field: &str, detail: impl Into<String>) {
        if !self.faults.iter().any(|fault| fault.field == field) {
            self.fault(field, detail);
        }
    }

    /// Whether the field stands there, be it null.
    pub fn has(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    /// Accepts the field whatever it holds.
    pub fn ignore(&mut self, name: &'static str) {
        self.asked.push(name);
    }

    /// The field as it stands, null included; `None` where it is absent.
    pub fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        self.asked.push(name);
        self.object.get(name)
    }

    /// The field where it is there and not null.
    fn present(&mut self, name: &'static str) -> Option<&'a Value> {
        self.value(name).filter(|value| !value.is_null())
    }

    /// Notes a fault where the field is absent (null counts as there). Returns whether it is there.
    pub fn require(&mut self, name: &'static str, detail: &str) -> bool {
        let there = self.has(name);
        if !there {
            self.fault(name, format!("is required: {detail}"));
        }
        there
    }

    /// A string; absent and null are `None`.
    pub fn text(&mut self, name: &'static str) -> Option<&'a str> {
        let value = self.present(name)?;
        let text = value.as_str();
        if text.is_none() {
            self.fault(name, "must be a string");
        }
        text
    }

    /// An integer within bounds, both included; absent and null are `None`.
    pub fn integer(&mut self, name: &'static str, least: u64, most: u64) -> Option<u64> {
        let value = self.present(name)?;
        let number = value.as_u64().filter(|n| (least..=most).contains(n));
        if number.is_none() {
            self.fault(name, format!("must be an integer from {least} to {most}"));
        }
        number
    }

    /// An integer of any size: whoever makes something of it checks its bounds, which are told here where it is none.
    pub fn unbounded(&mut self, name: &'static str, least: u64, most: u64) -> Option<u64> {
        let value = self.present(name)?;
        let number = value.as_u64();
        if number.is_none() {
            self.fault(name, format!("must be an integer from {least} to {most}"));
        }
        number
    }

    /// A truth value; absent is `None`, null is a fault.
    pub fn boolean(&mut self, name: &'static str) -> Option<bool> {
        let value = self.value(name)?;
        let truth = value.as_bool();
        if truth.is_none() {
            self.fault(name, "must be true or false");
        }
        truth
    }

    /// One word of a closed list; absent and null are `None`.
    pub fn choice<T: FromStr<Err = String>>(&mut self, name: &'static str) -> Option<T> {
        let value = self.present(name)?;
        match value.as_str().unwrap_or_default().parse() {
            Ok(choice) => Some(choice),
            Err(detail) => {
                self.fault(name, detail);
                None
            }
        }
    }

    /// Every fault that was noted, and one for each field that nobody asked for. Empty: the input is good.
    pub fn finish(mut self) -> Vec<Fault> {
        for name in self.object.keys() {
            if !self.asked.iter().any(|asked| asked == name) {
                self.faults
                    .push(Fault::new(name.as_str(), "is not a field of this resource"));
            }
        }
        self.faults
    }
}
