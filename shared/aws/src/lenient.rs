//! JSON read so that nothing in it is an error: what is missing, null or of another kind is simply not there, and text that
//! is not Unicode (`"\ud800"` is well-formed JSON) is made so. What a caller sends must not decide whether we can answer.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// The members of an object, each value as it was written.
#[derive(Debug, Default)]
pub struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// The object that `json` is; one without members if it is none.
    pub fn read(json: &'a str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }

    /// The value of a member; of two of one name the last.
    pub fn value(&self, name: &str) -> Option<&'a RawValue> {
        let mut newest_first = self.0.iter().rev();
        newest_first
            .find(|(known, _)| known == name)
            .map(|(_, value)| *value)
            .filter(|value| value.get() != "null")
    }

    /// A member that is an object.
    pub fn object(&self, name: &str) -> Self {
        self.value(name)
            .map(|value| Self::read(value.get()))
            .unwrap_or_default()
    }

    /// A member that is a text.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.value(name).and_then(text)
    }

    /// Every member, save those that are null.
    pub fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0
            .iter()
            .filter(|(_, value)| value.get() != "null")
            .map(|(name, value)| (name.as_ref(), *value))
    }

    /// All members whose names are equal to `name` but for their case, save those that are null.
    pub fn in_any_case(&self, name: &str) -> impl Iterator<Item = &'a RawValue> {
        self.0
            .iter()
            .filter(move |(known, value)| known.eq_ignore_ascii_case(name) && value.get() != "null")
            .map(|(_, value)| *value)
    }
}

/// The text that a value is.
pub fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(value.get())
        .ok()
        .map(|text| text.0)
}

/// The items of the array that a value is.
pub fn items(value: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(value.get()).ok()
}

/// What is JSON and no object is one without members.
impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut members = Vec::with_capacity(16);
                while let Some((name, value)) = map.next_entry::<Text<'de>, _>()? {
                    members.push((name.0, value));
                }
                Ok(Object(members))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Object<'de>, A::Error> {
                IgnoredAny.visit_seq(items).map(|_| Object::default())
            }

            fn visit_str<E>(self, _: &str) -> Result<Object<'de>, E> {
                Ok(Object::default())
            }

            fn visit_f64<E>(self, _: f64) -> Result<Object<'de>, E> {
                Ok(Object::default())
            }

            fn visit_i64<E>(self, _: i64) -> Result<Object<'de>, E> {
                Ok(Object::default())
            }

            fn visit_u64<E>(self, _: u64) -> Result<Object<'de>, E> {
                Ok(Object::default())
            }

            fn visit_bool<E>(self, _: bool) -> Result<Object<'de>, E> {
                Ok(Object::default())
            }

            fn visit_unit<E>(self) -> Result<Object<'de>, E> {
                Ok(Object::default())
            }
        }

        deserializer.deserialize_any(Members)
    }
}

/// Asked for as bytes, for only then does serde_json let half a surrogate pair pass.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Text<'de>, E> {
                // Nearly all are Unicode, which is quicker seen at once.
                Ok(Text(match str::from_utf8(bytes) {
                    Ok(text) => text.into(),
                    Err(_) => String::from_utf8_lossy(bytes),
                }))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text<'de>, E> {
                Ok(Text(String::from_utf8_lossy(bytes).into_owned().into()))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_null_or_of_another_kind_is_not_there() {
        let object = Object::read(r#"{"a": null, "b": 5, "c": ["x"], "d": {"e": "f"}, "g": "h"}"#);
        for name in ["a", "b", "c", "d", "z"] {
            assert_eq!(object.text(name), None, "{name}");
        }
        assert_eq!(object.text("g").as_deref(), Some("h"));
        assert_eq!(object.object("d").text("e").as_deref(), Some("f"));
        assert!(object.object("b").0.is_empty() && object.object("a").0.is_empty());
        for no_object in ["", "null", "[]", "\"x\"", "{", "{\"a\":}"] {
            assert!(Object::read(no_object).0.is_empty(), "{no_object}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_harms_neither_its_text_nor_its_neighbours() {
        let object = Object::read(r#"{"a\ud800b": "x\udfffy", "next": "z"}"#);
        assert_eq!(object.text("next").as_deref(), Some("z"));
        assert!(object.0[0].0.starts_with('a') && object.0[0].0.ends_with('b'));
        let text = text(object.0[0].1).unwrap();
        assert!(text.starts_with('x') && text.contains('\u{fffd}') && text.ends_with('y'));
    }

    #[test]
    fn of_two_members_of_one_name_the_last_counts() {
        let object = Object::read(r#"{"a": "1", "a": "2"}"#);
        assert_eq!(object.text("a").as_deref(), Some("2"));
    }
}
