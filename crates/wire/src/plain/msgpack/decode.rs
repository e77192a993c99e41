//! MessagePack to JSON text. Never believes a declared length: every element must be there before
//! anything is set aside for it.

use super::date;
use crate::bounds::{ATTACHMENTS_MAX, DEPTH_MAX, SAFE_INTEGER_MAX};
use crate::json;
use crate::socketio::write_placeholder;
use rmp::Marker;

/// Ext type of notepack's `undefined`, Date and ArrayBuffer.
const EXT_NOTEPACK: i8 = 0;
/// Ext type of the MessagePack specification's timestamp.
const EXT_TIMESTAMP: i8 = -1;

/// A value as JSON text with placeholders for its bytes.
#[derive(Debug)]
pub struct Decoded {
    /// Validated JSON.
    pub json: String,
    /// What the placeholders stand for, in order.
    pub attachments: Vec<Vec<u8>>,
}

/// Decodes exactly one value. `None` for anything that has no JSON form: cut or trailing bytes,
/// nesting beyond [`DEPTH_MAX`], unknown ext types, keys that are no strings, text that is not
/// UTF-8, more than [`ATTACHMENTS_MAX`] binaries.
pub fn decode(bytes: &[u8]) -> Option<Decoded> {
    let mut decoder = Decoder::new(bytes, bytes.len().saturating_mul(2));
    decoder.value(DEPTH_MAX)?;
    if !decoder.rest.is_empty() {
        return None;
    }
    let json = String::from_utf8(decoder.out).ok()?;
    Some(Decoded {
        json,
        attachments: decoder.attachments,
    })
}

/// The members of a map that cannot be decoded, as a JSON object with null in the place of each array and map. What follows something that
/// cannot be read is left out. `None`: it is no map.
#[cold]
pub(crate) fn outline(bytes: &[u8]) -> Option<String> {
    let mut decoder = Decoder::new(bytes, 0);
    decoder.outline()?;
    String::from_utf8(decoder.out).ok()
}

struct Decoder<'a> {
    rest: &'a [u8],
    out: Vec<u8>,
    attachments: Vec<Vec<u8>>,
}

impl<'a> Decoder<'a> {
    fn new(bytes: &'a [u8], room: usize) -> Self {
        Self {
            rest: bytes,
            out: Vec::with_capacity(room),
            attachments: Vec::new(),
        }
    }

    /// Recursion is bounded by `depth`, the containers that may still open.
    fn value(&mut self, depth: usize) -> Option<()> {
        match self.marker()? {
            Marker::FixArray(len) => self.array(len.into(), depth)?,
            Marker::Array16 => {
                let len = self.len(2)?;
                self.array(len, depth)?;
            }
            Marker::Array32 => {
                let len = self.len(4)?;
                self.array(len, depth)?;
            }
            Marker::FixMap(len) => self.map(len.into(), depth)?,
            Marker::Map16 => {
                let len = self.len(2)?;
                self.map(len, depth)?;
            }
            Marker::Map32 => {
                let len = self.len(4)?;
                self.map(len, depth)?;
            }
            marker => self.scalar(marker)?,
        }
        Some(())
    }

    fn scalar(&mut self, marker: Marker) -> Option<()> {
        match marker {
            Marker::Null => self.raw("null"),
            Marker::True => self.raw("true"),
            Marker::False => self.raw("false"),
            Marker::FixPos(number) => self.integer(number),
            Marker::U8 => self.number(|bytes| u8::from_be_bytes(bytes).into())?,
            Marker::U16 => self.number(|bytes| u16::from_be_bytes(bytes).into())?,
            Marker::U32 => self.number(|bytes| u32::from_be_bytes(bytes).into())?,
            Marker::U64 => {
                let number = u64::from_be_bytes(self.chunk()?);
                self.integer(number);
            }
            Marker::FixNeg(number) => self.integer(number),
            Marker::I8 => self.number(|bytes| i8::from_be_bytes(bytes).into())?,
            Marker::I16 => self.number(|bytes| i16::from_be_bytes(bytes).into())?,
            Marker::I32 => self.number(|bytes| i32::from_be_bytes(bytes).into())?,
            Marker::I64 => self.number(i64::from_be_bytes)?,
            Marker::F32 => {
                let number = f32::from_be_bytes(self.chunk()?);
                self.double(number.into());
            }
            Marker::F64 => {
                let number = f64::from_be_bytes(self.chunk()?);
                self.double(number);
            }
            marker => return self.bytes(marker),
        }
        Some(())
    }

    /// Strings, binaries and extensions.
    fn bytes(&mut self, marker: Marker) -> Option<()> {
        if let Some(len) = self.text_len(marker)? {
            let text = std::str::from_utf8(self.take(len)?).ok()?;
            json::quote(&mut self.out, text);
            return Some(());
        }
        let len = match marker {
            Marker::Bin8 => self.len(1)?,
            Marker::Bin16 => self.len(2)?,
            Marker::Bin32 => self.len(4)?,
            marker => return self.extension(marker),
        };
        self.attachment(len)
    }

    /// Length of a string; `Some(None)` for another marker.
    fn text_len(&mut self, marker: Marker) -> Option<Option<usize>> {
        Some(Some(match marker {
            Marker::FixStr(len) => len.into(),
            Marker::Str8 => self.len(1)?,
            Marker::Str16 => self.len(2)?,
            Marker::Str32 => self.len(4)?,
            _ => return Some(None),
        }))
    }

    fn extension(&mut self, marker: Marker) -> Option<()> {
        let len = match marker {
            Marker::FixExt1 => 1,
            Marker::FixExt2 => 2,
            Marker::FixExt4 => 4,
            Marker::FixExt8 => 8,
            Marker::FixExt16 => 16,
            Marker::Ext8 => self.len(1)?,
            Marker::Ext16 => self.len(2)?,
            Marker::Ext32 => self.len(4)?,
            _ => return None,
        };
        let [kind] = self.chunk()?;
        match (i8::from_be_bytes([kind]), marker) {
            // notepack writes `undefined` and Date in these two forms, ArrayBuffer in the others.
            (EXT_NOTEPACK, Marker::FixExt1) if self.rest.first() == Some(&0) => {
                self.take(1)?;
                self.raw("null");
            }
            (EXT_NOTEPACK, Marker::FixExt8) => {
                let millis = i64::from_be_bytes(self.chunk()?);
                self.date(Some(millis));
            }
            (EXT_NOTEPACK, _) => return self.attachment(len),
            (EXT_TIMESTAMP, _) => {
                let millis = self.timestamp(len)?;
                self.date(millis);
            }
            _ => return None,
        }
        Some(())
    }

    /// The three forms of the specification; milliseconds since 1970, `None` beyond 64 bits.
    fn timestamp(&mut self, len: usize) -> Option<Option<i64>> {
        let (seconds, nanos) = match len {
            4 => (i64::from(u32::from_be_bytes(self.chunk()?)), 0),
            8 => {
                let both = u64::from_be_bytes(self.chunk()?);
                ((both & 0x3_ffff_ffff) as i64, (both >> 34) as u32)
            }
            12 => {
                let nanos = u32::from_be_bytes(self.chunk()?);
                (i64::from_be_bytes(self.chunk()?), nanos)
            }
            _ => return None,
        };
        if nanos > 999_999_999 {
            return None;
        }
        let millis = seconds.checked_mul(1000);
        Some(millis.and_then(|millis| millis.checked_add(i64::from(nanos / 1_000_000))))
    }

    fn array(&mut self, len: usize, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.out.push(b'[');
        for index in 0..len {
            if index > 0 {
                self.out.push(b',');
            }
            self.value(depth)?;
        }
        self.out.push(b']');
        Some(())
    }

    fn map(&mut self, len: usize, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.out.push(b'{');
        for index in 0..len {
            if index > 0 {
                self.out.push(b',');
            }
            self.key()?;
            self.value(depth)?;
        }
        self.out.push(b'}');
        Some(())
    }

    fn key(&mut self) -> Option<()> {
        let marker = self.marker()?;
        let key_len = self.text_len(marker)??;
        let key = std::str::from_utf8(self.take(key_len)?).ok()?;
        json::quote(&mut self.out, key);
        self.out.push(b':');
        Some(())
    }

    fn outline(&mut self) -> Option<()> {
        let marker = self.marker()?;
        let is_map = matches!(marker, Marker::FixMap(_) | Marker::Map16 | Marker::Map32);
        let members = self.inside(marker)?.filter(|_| is_map)? / 2;
        self.out.push(b'{');
        for index in 0..members {
            let end = self.out.len();
            if index > 0 {
                self.out.push(b',');
            }
            if self.key().and_then(|()| self.brief()).is_none() {
                self.out.truncate(end);
                break;
            }
        }
        self.out.push(b'}');
        Some(())
    }

    /// A value, or null for an array or a map, however deep it is: nothing recurses.
    fn brief(&mut self) -> Option<()> {
        let marker = self.marker()?;
        let Some(mut left) = self.inside(marker)? else {
            return self.scalar(marker);
        };
        let start = self.out.len();
        while left > 0 {
            let marker = self.marker()?;
            match self.inside(marker)? {
                Some(more) => left = left.checked_add(more)?,
                None => self.scalar(marker)?,
            }
            left -= 1;
            self.out.truncate(start);
            self.attachments.clear();
        }
        self.raw("null");
        Some(())
    }

    /// Values in an array or a map, keys among them; `Some(None)` for another marker.
    fn inside(&mut self, marker: Marker) -> Option<Option<usize>> {
        Some(Some(match marker {
            Marker::FixArray(len) => len.into(),
            Marker::Array16 => self.len(2)?,
            Marker::Array32 => self.len(4)?,
            Marker::FixMap(len) => 2 * usize::from(len),
            Marker::Map16 => 2 * self.len(2)?,
            Marker::Map32 => self.len(4)?.checked_mul(2)?,
            _ => return Some(None),
        }))
    }

    fn attachment(&mut self, len: usize) -> Option<()> {
        let bytes = self.take(len)?;
        if self.attachments.len() == ATTACHMENTS_MAX {
            return None;
        }
        write_placeholder(&mut self.out, self.attachments.len());
        self.attachments.push(bytes.to_vec());
        Some(())
    }

    fn date(&mut self, millis: Option<i64>) {
        match millis.and_then(date::to_iso) {
            Some(iso) => json::quote(&mut self.out, &iso),
            // What JSON.stringify makes of an invalid Date.
            None => self.raw("null"),
        }
    }

    fn number<const N: usize>(&mut self, read: impl FnOnce([u8; N]) -> i64) -> Option<()> {
        let number = read(self.chunk()?);
        self.integer(number);
        Some(())
    }

    fn integer(&mut self, number: impl itoa::Integer) {
        self.out
            .extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    fn double(&mut self, number: f64) {
        if number.fract() == 0.0 && number.abs() <= SAFE_INTEGER_MAX as f64 {
            self.integer(number as i64);
            return;
        }
        // serde_json writes null for what is not finite, as JSON.stringify does.
        let written = serde_json::to_writer(&mut self.out, &number);
        debug_assert!(written.is_ok(), "a Vec takes every byte");
    }

    fn raw(&mut self, json: &str) {
        self.out.extend_from_slice(json.as_bytes());
    }

    fn marker(&mut self) -> Option<Marker> {
        let [byte] = self.chunk()?;
        Some(Marker::from_u8(byte))
    }

    /// A big-endian length of `size` bytes.
    fn len(&mut self, size: usize) -> Option<usize> {
        Some(
            self.take(size)?
                .iter()
                .fold(0, |len, &byte| len << 8 | usize::from(byte)),
        )
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*chunk)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests;
