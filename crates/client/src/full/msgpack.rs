//! MessagePack, with rmpv's codec. Bytes are `{"bytes":"0a0b"}` on our side, as everywhere in these clients.

use super::{as_bytes, bytes};
use rmpv::Value as Packed;
use serde_json::{Map, Number, Value};

pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, &pack(value)).expect("a vector takes everything");
    out
}

pub fn decode(mut bytes: &[u8]) -> Value {
    let value = rmpv::decode::read_value(&mut bytes).expect("a message in MessagePack");
    assert!(bytes.is_empty(), "bytes behind the message: {bytes:?}");
    unpack(value)
}

fn pack(value: &Value) -> Packed {
    match value {
        Value::Null => Packed::Nil,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into(),
            (None, Some(number)) => number.into(),
            (None, None) => number.as_f64().expect("a finite number").into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(pack).collect::<Vec<_>>().into(),
        Value::Object(members) => match as_bytes(value) {
            Some(bytes) => bytes.into(),
            None => {
                let member =
                    |(name, member): (&String, &Value)| (name.as_str().into(), pack(member));
                Packed::Map(members.iter().map(member).collect())
            }
        },
    }
}

fn unpack(value: Packed) -> Value {
    match value {
        Packed::Nil => Value::Null,
        Packed::Boolean(value) => value.into(),
        Packed::Integer(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into(),
            (None, number) => number.expect("an integer of 64 bits").into(),
        },
        Packed::F32(number) => float(f64::from(number)),
        Packed::F64(number) => float(number),
        Packed::String(text) => text.into_str().expect("text in UTF-8").into(),
        Packed::Binary(binary) => bytes(&binary),
        Packed::Array(items) => items.into_iter().map(unpack).collect(),
        Packed::Map(members) => {
            let mut object = Map::new();
            for (name, member) in members {
                let name = name.as_str().expect("a key that is text").to_owned();
                assert!(object.insert(name, unpack(member)).is_none(), "a key twice");
            }
            object.into()
        }
        Packed::Ext(..) => panic!("a MessagePack type that events do not have: {value}"),
    }
}

fn float(number: f64) -> Value {
    Number::from_f64(number).expect("a finite number").into()
}
