//! The part of a worker's commands that was taken in, and the part that it was told of.

use crate::bounds::{CONFIRMED_EACH, CONFIRMED_MS, FAILURES_MAX, FAILURES_WHEN_FULL};
use crate::link::Stray;

#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Number of the last one, and of the last one that the worker was told of.
    last: u64,
    told: u64,
    /// When that was; 0 = it is to be told at once.
    told_ms: u64,
    /// Items that tell it of failed ones and that it has not handled.
    failures: usize,
    /// It attached as one that goes on, and was told to begin anew. Until it speaks, nobody knows whether it has read that.
    in_doubt: bool,
    /// `Welcome.taken` of that.
    before: Option<u64>,
}

impl Taken {
    /// Of a worker that was not known. `before`: of its last life.
    pub(crate) fn of(goes_on: bool, before: Option<u64>, now_ms: u64) -> Self {
        Self {
            told_ms: now_ms,
            in_doubt: goes_on,
            // A process that begins has nothing to do with the words of the run before it.
            before: before.filter(|_| goes_on),
            ..Self::default()
        }
    }

    /// As another process had it. Its worker is told of all when it comes.
    pub(crate) fn restored(
        last: u64,
        failures: usize,
        in_doubt: bool,
        before: Option<u64>,
    ) -> Self {
        Self {
            last,
            told: last,
            failures,
            in_doubt,
            before,
            ..Self::default()
        }
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn before(&self) -> Option<u64> {
        self.before
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    pub(crate) fn end_doubt(&mut self) {
        self.in_doubt = false;
    }

    /// The part that its next life is told of. While it is in doubt, that is the part that this one was told of.
    pub(crate) fn legacy(&self) -> Option<u64> {
        match self.in_doubt {
            true => self.before,
            false => Some(self.last),
        }
    }

    /// The worker is told by this: the number of the last one.
    pub(crate) fn tell(&mut self) -> u64 {
        self.told = self.last;
        self.last
    }

    /// The worker may let go of all that are taken in: it is told at once.
    pub(crate) fn confirm(&mut self) {
        self.told_ms = 0;
    }

    /// It was told of all.
    pub(crate) fn is_told(&self) -> bool {
        self.told == self.last
    }

    /// It was not told of all, and is told now, even if there is nothing else to say.
    pub(crate) fn is_late(&self, now_ms: u64) -> bool {
        let untold = self.last - self.told;
        untold > 0 && (untold >= CONFIRMED_EACH || now_ms >= self.told_ms + CONFIRMED_MS)
    }

    /// The number of the last one, if it is told of it now: `sends`, something else is said to it.
    pub(crate) fn news(&mut self, now_ms: u64, sends: bool) -> Option<u64> {
        let tells = self.is_late(now_ms) || sends && self.told != self.last;
        tells.then(|| {
            self.told_ms = now_ms;
            self.tell()
        })
    }

    /// How many of a message whose first command has this number were taken before. A gap at the start is the only one that
    /// there can be.
    pub(crate) fn known(&self, first: u64) -> Result<usize, Stray> {
        if first == 0 {
            return Err(Stray::Number);
        }
        let known = (self.last + 1).checked_sub(first).ok_or(Stray::Gap)?;
        Ok(usize::try_from(known).unwrap_or(usize::MAX))
    }

    /// The number of the next one; `None`: too many failed. `full`: more waits for all workers than may.
    pub(crate) fn next(&mut self, full: bool) -> Option<u64> {
        let most = if full {
            FAILURES_WHEN_FULL
        } else {
            FAILURES_MAX
        };
        if self.failures >= most {
            return None;
        }
        self.last += 1;
        Some(self.last)
    }

    pub(crate) fn failed(&mut self) {
        self.failures += 1;
    }

    /// The worker has handled the news of a failure.
    pub(crate) fn forgive(&mut self) {
        self.failures -= 1;
    }
}
