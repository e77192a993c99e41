//! The output of a turn. Every outgoing byte is encoded once, into one of two logs: `shared` for what many receive, `private` for what
//! one receives. A connection only notes ranges of them, and ranges that touch become one. So a room's sixteen messages of a turn
//! reach each member by one write of one slice, and nothing is allocated per delivery.
//!
//! HOT PATH: no allocation (once warm), no lock, no dyn.

use crate::output::backlog::{Fate, Unit};
use crate::output::piece::{Piece, Pool};
use crate::tables::slot::ConnId;
use std::io::IoSlice;
use std::sync::Arc;

/// A piece of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    start: u32,
    len: u32,
    shared: bool,
}

impl Range {
    /// A position that wrapped would send a client what is another's: better no shard than that. A turn stops long before; only
    /// one call of a handler can write so much.
    fn new(start: usize, end: usize, shared: bool) -> Self {
        let end = u32::try_from(end).expect("the output of a turn is less than 4 GiB");
        debug_assert!(start <= end as usize, "{start} is behind {end}");
        let start = start as u32;
        Self {
            start,
            len: end - start,
            shared,
        }
    }
}

/// "No node" in a list of ranges.
pub(crate) const NONE: u32 = u32::MAX;

/// A range in a connection's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    range: Range,
    pub(crate) next: u32,
}

impl Node {
    pub(crate) fn len(&self) -> usize {
        self.range.len as usize
    }
}

/// Where a unit of a log ends and whether it may be dropped: what a slow reader's backlog must know of it.
#[derive(Debug)]
struct Mark {
    end: u32,
    fate: Fate,
    /// The copy that all slow readers share, once the first of them needs it.
    piece: Option<Piece>,
}

/// One log: bytes, and marks that leave out none of them.
#[derive(Debug, Default)]
struct Log {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

/// Output of one turn.
#[derive(Debug, Default)]
pub(crate) struct TurnLog {
    shared: Log,
    private: Log,
    nodes: Vec<Node>,
    /// Connections with something to write.
    pub(crate) dirty: Vec<ConnId>,
    pool: Arc<Pool>,
}

/// Capacity a log keeps between turns.
const LOG_KEEP_BYTES: usize = 4 * 1024 * 1024;

impl TurnLog {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.shared.bytes.len() + self.private.bytes.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let logs = [&self.shared, &self.private]
            .into_iter()
            .map(|log| log.bytes.capacity() + log.marks.capacity() * size_of::<Mark>());
        logs.sum::<usize>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.dirty.capacity() * size_of::<ConnId>()
    }

    /// Where to append: to what many receive, or to what one receives.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, shared: bool) -> &mut Vec<u8> {
        if shared {
            &mut self.shared.bytes
        } else {
            &mut self.private.bytes
        }
    }

    /// Makes one unit of what was appended to a log since `start`.
    #[inline]
    pub(crate) fn close(&mut self, shared: bool, start: usize, fate: Fate) -> Range {
        let log = if shared {
            &mut self.shared
        } else {
            &mut self.private
        };
        let range = Range::new(start, log.bytes.len(), shared);
        debug_assert_eq!(log.marks.last().map_or(0, |mark| mark.end) as usize, start);
        log.marks.push(Mark {
            end: range.start + range.len,
            fate,
            piece: None,
        });
        range
    }

    #[inline]
    pub(crate) fn bytes(&self, range: Range) -> &[u8] {
        let log = if range.shared {
            &self.shared
        } else {
            &self.private
        };
        &log.bytes[range.start as usize..(range.start + range.len) as usize]
    }

    /// Appends a range to the list that ends with `tail`; returns the new end of it.
    #[inline]
    pub(crate) fn link(&mut self, tail: u32, range: Range) -> u32 {
        let at = self.nodes.len() as u32;
        if let Some(node) = self.nodes.get_mut(tail as usize) {
            let last = &mut node.range;
            // Ranges that touch are one slice: the messages of a turn to a room are one write (ADR 5).
            if last.shared == range.shared && last.start + last.len == range.start {
                last.len += range.len;
                return tail;
            }
            node.next = at;
        }
        self.nodes.push(Node { range, next: NONE });
        at
    }

    #[inline]
    pub(crate) fn node(&self, at: u32) -> Node {
        self.nodes[at as usize]
    }

    #[inline]
    pub(crate) fn node_bytes(&self, at: u32) -> &[u8] {
        self.bytes(self.node(at).range)
    }

    /// All bytes of the list that begins with `head`, if it is one range.
    #[inline]
    pub(crate) fn single(&self, head: u32) -> Option<&[u8]> {
        (self.node(head).next == NONE).then(|| self.node_bytes(head))
    }

    /// The first bytes of the list that begins with `head`; returns how many slices that are.
    #[inline]
    pub(crate) fn gather<'a>(&'a self, head: u32, slices: &mut [IoSlice<'a>]) -> usize {
        let (mut count, mut at) = (0, head);
        while at != NONE && count < slices.len() {
            slices[count] = IoSlice::new(self.node_bytes(at));
            count += 1;
            at = self.node(at).next;
        }
        count
    }

    /// Hands the units of a range to `keep`, as copies that may outlive the turn, until it has enough. `skip` bytes are out
    /// already; of the unit in which they end, `keep` is told how many.
    pub(crate) fn units<E>(
        &mut self,
        at: u32,
        skip: &mut usize,
        mut keep: impl FnMut(Unit, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let range = self.node(at).range;
        let log = if range.shared {
            &mut self.shared
        } else {
            &mut self.private
        };
        let (mut start, end) = (range.start, range.start + range.len);
        let mut number = log.marks.partition_point(|mark| mark.end <= start);
        while start < end {
            let (first, fate) = (number, log.marks[number].fate);
            let sent = (*skip).min((log.marks[number].end - start) as usize);
            *skip -= sent;
            // Nobody shares private units, and none of this fate may be dropped: they need not be told apart.
            let joins = |mark: &Mark| !range.shared && fate == Fate::Fixed && mark.fate == fate;
            while sent == 0 && log.marks[number].end < end && joins(&log.marks[number + 1]) {
                number += 1;
            }
            let stop = log.marks[number].end;
            let bytes = &log.bytes[start as usize..stop as usize];
            (start, number) = (stop, number + 1);
            if sent == bytes.len() {
                continue;
            }
            let piece = match range.shared {
                // The first slow reader makes the copy, and all others share it (ADR 5).
                true => log.marks[first]
                    .piece
                    .get_or_insert_with(|| Piece::new(bytes, &self.pool))
                    .clone(),
                false => Piece::new(bytes, &self.pool),
            };
            keep(Unit::of(piece, fate), sent)?;
        }
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        for log in [&mut self.shared, &mut self.private] {
            log.bytes.clear();
            // One call of a handler can write far more than a turn's share: that memory goes back.
            if log.bytes.capacity() > LOG_KEEP_BYTES {
                log.bytes.shrink_to(LOG_KEEP_BYTES);
            }
            log.marks.clear();
        }
        self.nodes.clear();
        self.dirty.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_beyond_32_bits_wrapped_to_anothers_bytes() {
        let far = u32::MAX as usize;
        assert_eq!(Range::new(far - 1, far, true).start, u32::MAX - 1);
        let beyond = std::panic::catch_unwind(|| Range::new(far + 1, far + 2, true));
        assert!(beyond.is_err());
    }
}
