//! The state of a shutdown: which sessions are still to be closed, and when those that are turned away may come back.

use crate::tables::slot::SessionId;

/// Sessions are closed in steps of this many milliseconds.
const STEP_MS: u64 = 20;
/// Clients of one process do not all come back within the same second, however short the window.
const SPREAD_MIN_MS: u64 = 1_000;

#[derive(Debug, Default)]
pub(crate) enum Drain {
    /// Nobody wants the hub to end.
    #[default]
    Off,
    Closing(Plan),
    /// Every session has been told to go.
    Done,
}

#[derive(Debug)]
pub(crate) struct Plan {
    started_ms: u64,
    window_ms: u64,
    /// Sessions when it began.
    total: usize,
    /// Sessions still to be closed.
    left: Vec<SessionId>,
}

impl Drain {
    /// Begins to close these sessions, evenly over a window.
    pub(crate) fn begin(&mut self, now_ms: u64, window_ms: u64, sessions: Vec<SessionId>) {
        *self = Self::Closing(Plan {
            started_ms: now_ms,
            window_ms,
            total: sessions.len(),
            left: sessions,
        });
    }

    /// No newcomer is let in.
    pub(crate) fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// When the next sessions are to be closed.
    pub(crate) fn next_due(&self, now_ms: u64) -> Option<u64> {
        matches!(self, Self::Closing(_)).then_some(now_ms + STEP_MS)
    }

    /// The sessions whose time has come, and whether they are the last.
    pub(crate) fn step(&mut self, now_ms: u64) -> Option<(Vec<SessionId>, bool)> {
        let Self::Closing(plan) = self else {
            return None;
        };
        let elapsed = now_ms - plan.started_ms;
        // The first step is late enough for the notice to leave before the first close.
        let keep = if elapsed >= plan.window_ms {
            0
        } else {
            let done = plan.total as u64 * elapsed / plan.window_ms;
            plan.total - done as usize
        };
        let due = plan.left.split_off(keep.min(plan.left.len()));
        Some((due, plan.left.is_empty()))
    }

    pub(crate) fn finish(&mut self) {
        *self = Self::Done;
    }

    /// In how many milliseconds a client may come back: each another number, evenly spread behind what is left of the window.
    pub(crate) fn delay_ms(&self, now_ms: u64, dice: [u8; 2]) -> u64 {
        let (left, window) = match self {
            Self::Closing(plan) => {
                let ends = plan.started_ms + plan.window_ms;
                (ends.saturating_sub(now_ms), plan.window_ms)
            }
            Self::Off | Self::Done => (0, 0),
        };
        let dice = u64::from(u16::from_be_bytes(dice));
        left + 1 + window.max(SPREAD_MIN_MS) * dice / u64::from(u16::MAX)
    }
}
