//! JSON as it was told: `serde_json` takes the last of two members of one name, and here that is a fault.

use std::fmt;

use limits::Fault;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// So many faults are told at most, and of a name so many characters: more help nobody.
const MOST: usize = 100;

/// The value that `bytes` are, and a fault for each member that some object in it has twice.
pub(crate) fn read(bytes: &[u8]) -> Result<(Value, Vec<Fault>), serde_json::Error> {
    let mut twice = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let reader = Reader {
        place: String::new(),
        twice: &mut twice,
    };
    let value = reader.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, twice))
}

/// Reads the value at a place: `upsert[3].limit`.
struct Reader<'a> {
    place: String,
    twice: &'a mut Vec<Fault>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        loop {
            let reader = Reader {
                place: format!("{}[{}]", self.place, array.len()),
                twice: self.twice,
            };
            match items.next_element_seed(reader)? {
                Some(item) => array.push(item),
                None => return Ok(Value::Array(array)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let dot = if self.place.is_empty() { "" } else { "." };
            let short: String = name.chars().take(MOST).collect();
            let place = format!("{}{dot}{short}", self.place);
            if object.contains_key(&name)
                && self.twice.len() < MOST
                && self.twice.iter().all(|known| known.field != place)
            {
                self.twice
                    .push(Fault::new(&*place, "must not be told twice"));
            }
            let reader = Reader {
                place,
                twice: self.twice,
            };
            object.insert(name, members.next_value_seed(reader)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn twice(text: &str) -> Vec<String> {
        let (_, faults) = read(text.as_bytes()).unwrap();
        faults.into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn json_is_read_as_it_is() {
        let text = r#"{"a": [null, true, -1, 18446744073709551615, 1.5, "ü\n"], "b": {"c": {}}}"#;
        let (value, faults) = read(text.as_bytes()).unwrap();
        assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(faults, []);
        assert_eq!(read(b" 5 ").unwrap().0, json!(5));
        for wrong in [
            &b"{"[..],
            b"{} {}",
            b"\"\xff\"",
            b"{\"a\":1,}",
            b"[1e400]",
            b"NaN",
            "[".repeat(200).as_bytes(),
        ] {
            assert!(read(wrong).is_err());
        }
    }

    #[test]
    fn every_member_that_is_told_twice_is_named_once() {
        assert_eq!(twice(r#"{"a": 1, "b": 2, "a": 3, "a": 4}"#), ["a"]);
        let nested = r#"{"upsert": [{}, {"limit": 1, "limit": 1}], "x": {"y": 1, "y": 2}, "x": 1}"#;
        assert_eq!(twice(nested), ["upsert[1].limit", "x.y", "x"]);
        assert_eq!(twice(r#"[{"a": 1}, {"a": 1}]"#), [""; 0]);
        // However it is spelled.
        assert_eq!(twice(r#"{"a": 1, "\u0061": 2}"#), ["a"]);
    }

    #[test]
    fn faults_stay_few_and_short_whatever_is_sent() {
        let mut members = String::new();
        for n in 0..1_000 {
            members += &format!("\"{n}\": 1, \"{n}\": 2, ");
        }
        let long = "x".repeat(10_000);
        let text = format!("{{\"{long}\": {{{members} \"z\": 1}}}}");
        let fields = twice(&text);
        assert_eq!(fields.len(), MOST);
        assert!(fields.iter().all(|field| field.len() <= 2 * MOST + 1));
    }
}
