//! One sequence of letters, and what is kept of it for repair.

use crate::frame::{self, Batch, Peer};
use std::collections::VecDeque;
use std::sync::Arc;

/// A sent frame, kept for repair.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) sent_us: u64,
    pub(super) frame: Arc<[u8]>,
}

/// One sequence of letters: to one peer, or to all.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// 0 for the flood.
    pub(super) id: u32,
    pub(super) to: Option<Peer>,
    pub(super) base: u64,
    /// Position of the last letter in a closed frame.
    pub(super) closed: u64,
    pub(super) open: Vec<u8>,
    pub(super) open_count: u16,
    pub(super) opened_us: u64,
    pub(super) kept: VecDeque<Kept>,
    pub(super) rest: Rest,
}

/// Whether a lane's peer is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rest {
    /// It is.
    #[default]
    Awake,
    /// It was given up, and missed nothing before this time. Frames are kept for it and not published.
    Kept(u64),
    /// Some that it misses are not kept any more. Further ones are only counted.
    Counted,
}

impl Lane {
    pub(super) fn new(id: u32, to: Option<Peer>, base: u64) -> Self {
        Self {
            id,
            to,
            base,
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, letter: &[u8], now_us: u64) {
        if self.open_count == 0 {
            self.opened_us = now_us;
        }
        self.open_count += 1;
        frame::push_letter(&mut self.open, letter);
    }

    /// Forgets the oldest frame. A peer that was given up and misses it misses too much: no others are kept for it. How many bytes.
    pub(super) fn forget_oldest(&mut self) -> usize {
        let Some(oldest) = self.kept.pop_front() else {
            return 0;
        };
        let mut bytes = oldest.frame.len();
        if let Rest::Kept(since_us) = self.rest
            && oldest.sent_us >= since_us
        {
            self.rest = Rest::Counted;
            self.closed += u64::from(std::mem::take(&mut self.open_count));
            self.open.clear();
            let rest = self.kept.drain(..);
            bytes += rest.map(|kept| kept.frame.len()).sum::<usize>();
        }
        bytes
    }

    /// Position of the last letter.
    pub(super) fn last(&self) -> u64 {
        self.closed + u64::from(self.open_count)
    }

    /// Makes a frame of the open letters and keeps it.
    pub(super) fn close(
        &mut self,
        me: Peer,
        flood_before: u64,
        links: &[(u32, u64)],
        now_us: u64,
    ) -> Arc<[u8]> {
        let count = std::mem::take(&mut self.open_count);
        let first = self.closed + 1;
        self.closed += u64::from(count);
        let batch = Batch {
            to: self.to.map(|peer| (peer, self.id)),
            first,
            count,
            flood_before,
            links,
            letters: &self.open,
        };
        let frame: Arc<[u8]> = frame::write_letters(me, &batch).into();
        self.open.clear();
        self.kept.push_back(Kept {
            first,
            last: self.closed,
            sent_us: now_us,
            frame: Arc::clone(&frame),
        });
        frame
    }
}
