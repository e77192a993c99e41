//! What was said to clients who may come back, on its way to the next process: most of it while shards serve their clients, the rest with what
//! else they keep, when they stand still.

use super::line::{Broken, Line};
use super::parts::Parts;
use handoff::bounds::PIECE_BYTES;
use handoff::{Batch, Hello, Kind, takes};
use std::time::Duration;

/// One message, and the answer of a shard.
const STEP: Duration = Duration::from_secs(10);
/// Messages of one shard each time: what it writes meanwhile has an end.
const PIECES_MAX: usize = 4_096;

/// How far the next process has the journal of each shard.
#[derive(Debug)]
pub struct Journals {
    /// `None`: it is of a build that takes nothing of it.
    copied: Option<Vec<u64>>,
}

impl Journals {
    pub fn of(parts: &Parts, hello: &Hello) -> Self {
        let shards = usize::from(parts.givers.count());
        Self {
            copied: (hello.takes & takes::KEEPSAKES != 0).then(|| vec![0; shards]),
        }
    }

    /// How far it has that of one shard.
    pub fn copied(&self, shard: u16) -> Option<u64> {
        let copied = self.copied.as_ref()?;
        copied.get(usize::from(shard)).copied()
    }

    /// Sends what stands behind.
    pub fn send(&mut self, line: &mut Line, parts: &Parts) -> Result<(), Broken> {
        let all = self.copied.iter_mut().flatten();
        for (shard, copied) in (0..).zip(all) {
            for _ in 0..PIECES_MAX {
                let Some(piece) = parts.givers.journal_behind(shard, *copied, STEP)? else {
                    break;
                };
                *copied = piece.first + piece.entries.len() as u64 - 1;
                let is_last = piece.size() < PIECE_BYTES / 2;
                let batch = Batch {
                    shard: u32::from(shard),
                    keepsakes: vec![piece],
                    ..Batch::default()
                };
                line.send(Kind::Sessions, &batch, STEP)?;
                line.expect::<()>(Kind::Taken, STEP)?;
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }
}
