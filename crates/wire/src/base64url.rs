//! The 20-character ids of Engine.IO and Socket.IO: 15 bytes in URL-safe base64 (RFC 4648 §5)
//! without padding. 120 bits are exactly twenty characters, so every text has one value.

use std::fmt;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const INVALID: u8 = 0xff;
/// Value of each character, [`INVALID`] for those outside the alphabet.
const VALUES: [u8; 256] = {
    let mut values = [INVALID; 256];
    let mut index = 0;
    while index < ALPHABET.len() {
        values[ALPHABET[index] as usize] = index as u8;
        index += 1;
    }
    values
};

/// Fifteen bytes <-> twenty characters `[A-Za-z0-9_-]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id20(
    /// The bytes that the characters stand for.
    pub [u8; 15],
);

impl Id20 {
    /// The id as it goes over the wire.
    pub fn encode(&self) -> [u8; 20] {
        let mut text = [0; 20];
        write(&self.0, &mut text);
        text
    }

    /// `None` unless `text` is exactly 20 characters of the URL-safe alphabet.
    pub fn decode(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; 15];
        read(text, &mut bytes).then_some(Self(bytes))
    }
}

/// Writes each three bytes as four characters. Bytes without three of their own, and those that find no place, are left out.
pub fn write(bytes: &[u8], text: &mut [u8]) {
    let (groups, _) = bytes.as_chunks::<3>();
    let (quads, _) = text.as_chunks_mut::<4>();
    for (quad, &[a, b, c]) in quads.iter_mut().zip(groups) {
        let bits = u32::from_be_bytes([0, a, b, c]);
        *quad = [18, 12, 6, 0].map(|shift| ALPHABET[(bits >> shift & 0x3f) as usize]);
    }
}

/// Reads each four characters as three bytes. `false`: the text is not exactly as long as these bytes need, or has other characters.
pub fn read(text: &[u8], bytes: &mut [u8]) -> bool {
    let (quads, more) = text.as_chunks::<4>();
    let (groups, none) = bytes.as_chunks_mut::<3>();
    if quads.len() != groups.len() || !more.is_empty() || !none.is_empty() {
        return false;
    }
    for (group, quad) in groups.iter_mut().zip(quads) {
        let values = quad.map(|character| VALUES[usize::from(character)]);
        if values.contains(&INVALID) {
            return false;
        }
        let bits = values
            .into_iter()
            .fold(0_u32, |bits, value| bits << 6 | u32::from(value));
        let [_, a, b, c] = bits.to_be_bytes();
        *group = [a, b, c];
    }
    true
}

impl fmt::Display for Id20 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.encode()
            .iter()
            .try_for_each(|&byte| fmt::Write::write_char(f, char::from(byte)))
    }
}

impl fmt::Debug for Id20 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id20({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_go_both_ways() {
        let counting = std::array::from_fn(|index| index as u8);
        let cases = [
            ([0; 15], "AAAAAAAAAAAAAAAAAAAA"),
            ([0xff; 15], "____________________"),
            ([0xfb; 15], "-_v7-_v7-_v7-_v7-_v7"),
            (counting, "AAECAwQFBgcICQoLDA0O"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Id20(bytes).to_string(), text);
            assert_eq!(Id20::decode(text.as_bytes()), Some(Id20(bytes)));
            assert_eq!(format!("{:?}", Id20(bytes)), format!("Id20({text})"));
        }
    }

    #[test]
    fn other_lengths_and_alphabets_are_refused() {
        for text in [
            "",
            "AAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAA+",
            "/AAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAA=",
            "AAAAAAAAAA AAAAAAAAA",
        ] {
            assert_eq!(Id20::decode(text.as_bytes()), None, "{text}");
        }
    }
}
