//! Owns when each counted message was sent: one list of times for each room, the index being the
//! message's sequence number. Workers exchange their lists as files after a run, because only all
//! of them together tell what a member should have had.

use super::membership::SentTimes;
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::path::Path;

#[derive(Debug, Default)]
pub struct Publications {
    rooms: HashMap<u64, Vec<u64>>,
}

impl Publications {
    /// Sequence number of the next message to `room`, sent now.
    pub fn note(&mut self, room: u64, sent_ns: u64) -> u64 {
        let times = self.rooms.entry(room).or_default();
        // The reactor's clock is read once a read: never let it step back within a stream.
        let sent_ns = times.last().map_or(sent_ns, |&last| sent_ns.max(last));
        times.push(sent_ns);
        times.len() as u64 - 1
    }

    pub fn times(&self, room: u64) -> &SentTimes {
        self.rooms.get(&room).map_or(&[], Vec::as_slice)
    }

    /// Writes all times, room after room: its key, their number, and they.
    pub fn save(&self, path: &Path) -> Result<()> {
        let rooms = self.rooms.iter();
        let numbers = rooms.flat_map(|(room, times)| {
            let head = [*room, times.len() as u64];
            head.into_iter().chain(times.iter().copied())
        });
        let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads what `save` wrote, keeping only the rooms that `wanted` names.
    pub fn load(path: &Path, wanted: impl Fn(u64) -> bool) -> Result<Publications> {
        let bytes = std::fs::read(path);
        let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
        let (numbers, rest) = bytes.as_chunks();
        let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut rooms = HashMap::new();
        let mut is_whole = rest.is_empty();
        while let (Some(room), Some(count)) = (numbers.next(), numbers.next()) {
            let left = numbers.len() as u64;
            is_whole &= count <= left;
            let times: Vec<u64> = numbers.by_ref().take(count.min(left) as usize).collect();
            if wanted(room) {
                rooms.insert(room, times);
            }
        }
        ensure!(is_whole, "{} is cut short", path.display());
        Ok(Publications { rooms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_survives_its_file() {
        let mut log = Publications::default();
        assert_eq!(
            (log.note(7, 100), log.note(7, 90), log.note(9, 95)),
            (0, 1, 0)
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        log.save(file.path()).unwrap();
        let read = Publications::load(file.path(), |room| room == 7).unwrap();
        assert_eq!((read.times(7), read.times(9)), (&[100, 100][..], &[][..]));
        std::fs::write(file.path(), [1; 20]).unwrap();
        assert!(Publications::load(file.path(), |_| true).is_err());
    }
}
