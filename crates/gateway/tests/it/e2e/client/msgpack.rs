//! The part of MessagePack that events need, by its specification.

use super::{as_bytes, bytes};
use serde_json::{Map, Value};

pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, value);
    out
}

fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0xc0),
        Value::Bool(value) => out.push(0xc2 + u8::from(*value)),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => {
            out.push(0xdb);
            length(out, text.len());
            out.extend(text.as_bytes());
        }
        Value::Array(items) => {
            out.push(0xdd);
            length(out, items.len());
            items.iter().for_each(|item| write(out, item));
        }
        Value::Object(members) => match as_bytes(value) {
            Some(bytes) => {
                out.push(0xc6);
                length(out, bytes.len());
                out.extend(bytes);
            }
            None => {
                out.push(0xdf);
                length(out, members.len());
                for (name, member) in members {
                    write(out, &Value::from(name.as_str()));
                    write(out, member);
                }
            }
        },
    }
}

fn length(out: &mut Vec<u8>, len: usize) {
    out.extend((len as u32).to_be_bytes());
}

fn write_number(out: &mut Vec<u8>, number: &serde_json::Number) {
    if let Some(number) = number.as_u64() {
        out.push(0xcf);
        out.extend(number.to_be_bytes());
    } else if let Some(number) = number.as_i64() {
        out.push(0xd3);
        out.extend(number.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend(number.as_f64().expect("a finite number").to_be_bytes());
    }
}

pub fn decode(bytes: &[u8]) -> Value {
    let mut reader = Reader(bytes);
    let value = reader.value();
    assert!(
        reader.0.is_empty(),
        "bytes behind the message: {:?}",
        reader.0
    );
    value
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    /// A big-endian number of `len` bytes.
    fn number(&mut self, len: usize) -> u64 {
        self.take(len)
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn length(&mut self, len: usize) -> usize {
        self.number(len) as usize
    }

    fn value(&mut self) -> Value {
        let first = self.take(1)[0];
        match first {
            0x00..=0x7f => first.into(),
            0x80..=0x8f => self.map(usize::from(first & 0x0f)),
            0x90..=0x9f => self.array(usize::from(first & 0x0f)),
            0xa0..=0xbf => self.text(usize::from(first & 0x1f)),
            0xc0 => Value::Null,
            0xc2 | 0xc3 => (first == 0xc3).into(),
            0xc4..=0xc6 => {
                let len = self.length(1 << (first - 0xc4));
                bytes(self.take(len))
            }
            0xca => f64::from(f32::from_bits(self.number(4) as u32)).into(),
            0xcb => f64::from_bits(self.number(8)).into(),
            0xcc..=0xcf => self.number(1 << (first - 0xcc)).into(),
            0xd0..=0xd3 => {
                let len = 1 << (first - 0xd0);
                let unused = 64 - 8 * len as u32;
                ((self.number(len) << unused) as i64 >> unused).into()
            }
            0xd9..=0xdb => {
                let len = self.length(1 << (first - 0xd9));
                self.text(len)
            }
            0xdc | 0xdd => {
                let len = self.length(2 << (first - 0xdc));
                self.array(len)
            }
            0xde | 0xdf => {
                let len = self.length(2 << (first - 0xde));
                self.map(len)
            }
            0xe0..=0xff => i64::from(first as i8).into(),
            _ => panic!("a MessagePack type that events do not have: {first:#x}"),
        }
    }

    fn text(&mut self, len: usize) -> Value {
        std::str::from_utf8(self.take(len))
            .expect("text in UTF-8")
            .into()
    }

    fn array(&mut self, len: usize) -> Value {
        (0..len).map(|_| self.value()).collect()
    }

    fn map(&mut self, len: usize) -> Value {
        let mut members = Map::new();
        for _ in 0..len {
            let name = self.value();
            let name = name.as_str().expect("a key that is text").to_owned();
            assert!(members.insert(name, self.value()).is_none(), "a key twice");
        }
        members.into()
    }
}
