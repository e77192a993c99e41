//! Kinds of letters: what a node is to do with one says its first byte.

/// For the process.
pub(crate) const PAYLOAD: u8 = 0;
/// Keys that came and went.
pub(crate) const CHANGES: u8 = 1;
/// Number and sum of all keys that were told.
pub(crate) const DIGEST: u8 = 2;
/// A request for a snapshot.
pub(crate) const WANT: u8 = 3;
/// A part of all keys.
pub(crate) const SNAPSHOT: u8 = 4;
/// Changes up to a position are known.
pub(crate) const CONFIRM: u8 = 5;
/// An operator's, for the process.
pub(crate) const ORDER: u8 = 6;

pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

pub(crate) fn tagged(kind: u8, numbers: &[u64]) -> Vec<u8> {
    let mut letter = vec![kind];
    numbers
        .iter()
        .for_each(|number| push_number(&mut letter, *number));
    letter
}

pub(crate) fn push_number(letter: &mut Vec<u8>, number: u64) {
    letter.extend_from_slice(&number.to_le_bytes());
}
