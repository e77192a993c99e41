//! Owns when each counted message was sent: one list of times for each room, the index being the
//! message's sequence number. Workers exchange their lists as files after a run, because only all
//! of them together tell what a member should have had.

use super::membership::SentTimes;
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
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

    /// Writes all times, room after room.
    pub fn save(&self, path: &Path) -> Result<()> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut out = BufWriter::new(file);
        let mut rooms: Vec<_> = self.rooms.iter().collect();
        rooms.sort_unstable_by_key(|(room, _)| **room);
        for (room, times) in rooms {
            out.write_all(&room.to_le_bytes())?;
            out.write_all(&(times.len() as u64).to_le_bytes())?;
            for time in times {
                out.write_all(&time.to_le_bytes())?;
            }
        }
        out.flush()
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads what `save` wrote, keeping only the rooms that `wanted` names.
    pub fn load(path: &Path, wanted: impl Fn(u64) -> bool) -> Result<Publications> {
        let context = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(context)?;
        let mut left = file.metadata().with_context(context)?.len();
        let mut input = BufReader::new(file);
        let mut rooms = HashMap::new();
        let number = |input: &mut BufReader<File>| -> Result<u64> {
            let mut bytes = [0; 8];
            input.read_exact(&mut bytes).with_context(context)?;
            Ok(u64::from_le_bytes(bytes))
        };
        while left > 0 {
            let (room, count) = (number(&mut input)?, number(&mut input)?);
            let bytes = count.checked_mul(8).and_then(|times| times.checked_add(16));
            ensure!(
                bytes.is_some_and(|bytes| bytes <= left),
                "{} is cut short",
                path.display()
            );
            left -= bytes.unwrap_or(left);
            let times = (0..count)
                .map(|_| number(&mut input))
                .collect::<Result<Vec<_>>>()?;
            if wanted(room) {
                rooms.insert(room, times);
            }
        }
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
