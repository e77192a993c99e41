//! The items a worker has handled, as one of its messages says.

use crate::bounds::BESIDE_MAX;
use crate::entry::Entry;
use crate::proto;
use std::collections::BTreeMap;

/// All up to a number, and rows above it.
#[derive(Debug)]
pub(crate) struct Done<'a> {
    handled: u64,
    begun: u64,
    /// First and last, in turn.
    rows: &'a [u64],
    /// Rows before this one have nothing left.
    at: usize,
}

impl<'a> Done<'a> {
    /// `None`: it says what cannot be. `last` is the last item that the worker was sent.
    pub(crate) fn of(said: &'a proto::FromWorker, last: u64) -> Option<Self> {
        let rows = said.beside.as_slice();
        let ends = rows.chunks(2).all(|row| row.len() == 2 && row[0] <= row[1]);
        let ascends = rows
            .windows(2)
            .skip(1)
            .step_by(2)
            .all(|two| two[0] < two[1]);
        let begun = rows.last().copied().unwrap_or(0);
        let begun = begun.max(said.handled).max(said.begun);
        let fits = rows.len() <= BESIDE_MAX && ends && ascends && begun <= last;
        fits.then_some(Self {
            handled: said.handled,
            begun,
            rows,
            at: 0,
        })
    }

    /// All up to this number have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        if number <= self.handled {
            return true;
        }
        let (rows, _) = self.rows.as_chunks::<2>();
        let at = rows.partition_point(|[_, end]| *end < number);
        rows.get(at).is_some_and(|[start, _]| *start <= number)
    }

    /// One of these that is handled.
    pub(crate) fn next_of(&mut self, begun: &BTreeMap<u64, Entry>) -> Option<u64> {
        let (oldest, _) = begun.first_key_value()?;
        if *oldest <= self.handled {
            return Some(*oldest);
        }
        while let Some(row) = self.rows.get(self.at..self.at + 2) {
            if let Some((number, _)) = begun.range(row[0]..=row[1]).next() {
                return Some(*number);
            }
            self.at += 2;
        }
        None
    }
}
