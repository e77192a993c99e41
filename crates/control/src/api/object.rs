//! Values in JSON that must be objects. A type with named members is read from an array as well, by their places (serde), and an array with one value
//! less or more would be something else.

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(Object)
    }
}

/// An object, or nothing.
pub(super) fn or_nothing<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let read = Option::<Object<T>>::deserialize(deserializer)?;
    Ok(read.map(|object| object.0))
}

/// A list of objects.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let read = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(read.into_iter().map(|object| object.0).collect())
}

#[cfg(test)]
mod tests {
    use crate::api::model::{Emit, Import};

    #[test]
    fn an_array_was_taken_for_an_object_one_level_down() {
        let event = |ack: &str| format!(r#"{{"event":"e","args":[],"rooms":["r"],"ack":{ack}}}"#);
        let read = |text: &str| serde_json::from_str::<Emit>(text);
        let ack = read(&event(r#"{"timeout_ms":2000}"#)).expect("an ack").ack;
        assert_eq!(ack.map(|ack| ack.timeout_ms), Some(2_000));
        let none = read(&event("null")).expect("no ack").ack;
        assert!(none.is_none());
        let error = read(&event("[2000]")).expect_err("an array").to_string();
        assert!(error.contains("expected an object"), "{error}");
        let import = |event: &str| format!(r#"{{"room":"r","events":[{event}]}}"#);
        let read = |text: &str| serde_json::from_str::<Import>(text);
        let whole = import(r#"{"time":1,"event":"e","args":[1]}"#);
        assert_eq!(read(&whole).expect("an event").events.len(), 1);
        let error = read(&import(r#"[null,1,"e",[1]]"#)).expect_err("an array");
        assert!(error.to_string().contains("expected an object"), "{error}");
    }
}
