//! The sheet that a node shows the others, and its written form. Whoever can write to the board writes what he likes: a sheet that does not
//! fit is no sheet.

use super::Key;
use crate::bounds::{ENTRIES_MAX, KINDS, SHEET_BYTES_MAX};
use crate::frame::{Epoch, NodeId, Peer};
use std::collections::BTreeMap;

/// The first byte of a sheet; no frame begins so.
const VERSION: u8 = 0xb1;
const LEFT: u8 = 1;
/// Beside the kind.
const HOT: u8 = 0x80;

/// A node's part of a named key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The most that it will use until it shows something else.
    pub share: u32,
    /// The amount it keeps.
    pub used: u32,
    /// The amount it would use.
    pub wanted: u32,
    /// It names the key of its own accord, and not only because others do.
    pub is_hot: bool,
}

/// All that a node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    /// The node that shows it.
    pub of: Peer,
    /// Later sheets of one life have larger numbers.
    pub number: u64,
    /// The node goes, and has nothing any more.
    pub has_left: bool,
    /// Of each kind the share of a key that it does not name.
    pub rest: [u32; KINDS],
    /// The keys that it names.
    pub entries: BTreeMap<Key, Entry>,
}

impl Sheet {
    /// The share that its node may use of a key.
    pub fn share(&self, key: Key) -> u32 {
        let entry = self.entries.get(&key).map(|entry| entry.share);
        entry.unwrap_or_else(|| self.rest_of(key))
    }

    /// Of a key that it does not name.
    pub(super) fn rest_of(&self, key: Key) -> u32 {
        self.rest
            .get(usize::from(key.kind))
            .copied()
            .unwrap_or_default()
    }

    /// As it stands on the board.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.entries.len() * 16);
        bytes.extend([VERSION, if self.has_left { LEFT } else { 0 }]);
        bytes.extend(self.of.node.0.to_le_bytes());
        bytes.extend(self.of.epoch.0.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        self.rest.iter().for_each(|rest| put(&mut bytes, *rest));
        for (key, entry) in self.entries.iter().take(ENTRIES_MAX) {
            bytes.push(key.kind | if entry.is_hot { HOT } else { 0 });
            bytes.extend(key.holder.to_le_bytes());
            for number in [entry.share, entry.used, entry.wanted] {
                put(&mut bytes, number);
            }
        }
        bytes
    }

    /// From what stands on the board; `None`: it is no sheet.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > SHEET_BYTES_MAX {
            return None;
        }
        let mut reader = Reader(bytes);
        if reader.byte()? != VERSION {
            return None;
        }
        let flags = reader.byte()?;
        let of = Peer {
            node: NodeId(u16::from_le_bytes(reader.array()?)),
            epoch: Epoch(u64::from_le_bytes(reader.array()?)),
        };
        let number = u64::from_le_bytes(reader.array()?);
        let mut rest = [0; KINDS];
        for share in &mut rest {
            *share = reader.number()?;
        }
        let mut entries = BTreeMap::new();
        while !reader.0.is_empty() {
            let (key, entry) = reader.entry()?;
            entries.insert(key, entry);
        }
        let fits = entries.len() <= ENTRIES_MAX;
        fits.then_some(Self {
            of,
            number,
            has_left: flags & LEFT != 0,
            rest,
            entries,
        })
    }
}

/// Seven bits a byte, the low ones first.
fn put(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).ok();
            }
        }
        None
    }

    fn entry(&mut self) -> Option<(Key, Entry)> {
        let kind = self.byte()?;
        let key = Key {
            kind: kind & !HOT,
            holder: u64::from_le_bytes(self.array()?),
        };
        let [share, used, wanted] = [self.number()?, self.number()?, self.number()?];
        let entry = Entry {
            share,
            used,
            wanted,
            is_hot: kind & HOT != 0,
        };
        (usize::from(key.kind) < KINDS).then_some((key, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let entry = |n: u32| {
            let key = Key {
                kind: (n % 8) as u8,
                holder: u64::from(n) << 40 | 3,
            };
            let entry = Entry {
                share: n * 1_000,
                used: n,
                wanted: u32::MAX - n,
                is_hot: n.is_multiple_of(2),
            };
            (key, entry)
        };
        Sheet {
            of: Peer {
                node: NodeId(1_023),
                epoch: Epoch(1 << 60),
            },
            number: 77,
            has_left: false,
            rest: [1, 2, 3, 4, 5, 300, 70_000, u32::MAX],
            entries: (0..40).map(entry).collect(),
        }
    }

    #[test]
    fn a_sheet_is_read_as_it_was_written() {
        assert_eq!(Sheet::read(&sheet().write()), Some(sheet()));
        let left = Sheet {
            has_left: true,
            entries: BTreeMap::new(),
            ..sheet()
        };
        assert_eq!(Sheet::read(&left.write()), Some(left));
    }

    #[test]
    fn nothing_that_anybody_writes_is_more_than_no_sheet() {
        let whole = sheet().write();
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let mut bytes = whole[..rng.usize(..=whole.len())].to_vec();
            for _ in 0..rng.usize(..4) {
                if let Some(at) = (!bytes.is_empty()).then(|| rng.usize(..bytes.len())) {
                    bytes[at] = rng.u8(..);
                }
            }
            if let Some(read) = Sheet::read(&bytes) {
                assert!(read.entries.keys().all(|key| usize::from(key.kind) < KINDS));
            }
        }
        assert_eq!(Sheet::read(&vec![VERSION; SHEET_BYTES_MAX + 1]), None);
        assert_eq!(Sheet::read(b""), None);
        // A number of five bytes that is larger than one of 32 bits.
        let mut bytes = sheet().write()[..20].to_vec();
        bytes.extend([0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(Sheet::read(&bytes), None);
    }
}
