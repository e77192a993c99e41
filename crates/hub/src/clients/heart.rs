//! Pings of a session, what answers them, and how long an answer may take.

use crate::books::heartbeat::Step;

/// The beat of a session. Whoever pings, the other side is alive if something comes in time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heart {
    /// Low 32 bits of the millisecond clock at the last ping, whoever sends them.
    pinged_ms: u32,
    /// The time from our last ping to the answer, milliseconds; 0: it has answered none.
    round_trip_ms: u16,
    /// A ping of ours is unanswered.
    awaits_pong: bool,
    /// Something arrived since the ping: one extension of the deadline is granted.
    heard: bool,
    extended: bool,
    /// The length of its interval.
    step: Step,
}

/// What the deadline of a pong means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// No pong is due.
    No,
    /// It has the time once more.
    Extended,
    Gone,
}

impl Heart {
    /// Of a new session.
    pub(crate) fn beating(step: Step) -> Self {
        Self {
            step,
            ..Self::default()
        }
    }

    /// It went on beating in another process.
    pub(crate) fn restored(record: &handoff::Heart, now_ms: u64) -> Self {
        Self {
            pinged_ms: (now_ms as u32).wrapping_sub(record.silent_ms),
            round_trip_ms: 0,
            awaits_pong: record.awaiting_pong,
            heard: record.heard,
            extended: record.extended,
            step: Step::numbered(record.step as usize),
        }
    }

    /// For another process.
    pub(crate) fn record(&self, now_ms: u64) -> handoff::Heart {
        handoff::Heart {
            silent_ms: self.since_ping_ms(now_ms),
            awaiting_pong: self.awaits_pong,
            heard: self.heard,
            extended: self.extended,
            step: self.step.number() as u32,
        }
    }

    /// The length of its interval, which it keeps for life.
    pub(crate) fn step(&self) -> Step {
        self.step
    }

    // ---- signs of life ------------------------------------------------------------------------------------------------

    /// Something came that answers no ping.
    #[inline]
    pub(crate) fn hear(&mut self) {
        self.heard = true;
    }

    /// Whether something came since this was asked last.
    pub(crate) fn take_heard(&mut self) -> bool {
        std::mem::take(&mut self.heard)
    }

    // ---- pings --------------------------------------------------------------------------------------------------------

    /// It beats at this time, and no answer is wanted.
    pub(crate) fn beat(&mut self, now_ms: u64) {
        self.pinged_ms = now_ms as u32;
    }

    /// A ping leaves, and waits for its pong.
    pub(crate) fn ping(&mut self, now_ms: u64) {
        self.pinged(now_ms);
        self.awaits_pong = true;
    }

    /// A ping of the client came.
    pub(crate) fn pinged(&mut self, now_ms: u64) {
        self.beat(now_ms);
        (self.heard, self.extended) = (false, false);
    }

    /// What a ping says, so that its pong can be told from others.
    pub(crate) fn word(&self) -> [u8; 4] {
        self.pinged_ms.to_be_bytes()
    }

    pub(crate) fn awaits_pong(&self) -> bool {
        self.awaits_pong
    }

    /// A pong came; `false` = none was awaited. An extension is remembered until [`Self::rest`].
    pub(crate) fn answer(&mut self, now_ms: u64, timeout_ms: u64) -> bool {
        if !self.excuse() {
            self.heard = true;
            return false;
        }
        self.heard = false;
        // An extension began the time anew.
        let before_ms = match self.extended {
            true => timeout_ms,
            false => 0,
        };
        let waited_ms = before_ms + u64::from(self.since_ping_ms(now_ms));
        self.round_trip_ms = waited_ms.clamp(1, u64::from(u16::MAX)) as u16;
        true
    }

    /// What the pong said is known.
    pub(crate) fn rest(&mut self) {
        self.extended = false;
    }

    /// No pong is awaited any more; whether one was.
    pub(crate) fn excuse(&mut self) -> bool {
        std::mem::take(&mut self.awaits_pong)
    }

    // ---- deadlines ----------------------------------------------------------------------------------------------------

    /// The deadline of a pong. It may be stuck behind a large upload: one extension if anything else came (as engine.io 6.6.12 does).
    pub(crate) fn look(&mut self, now_ms: u64, timeout_ms: u64) -> Overdue {
        if !self.awaits_pong || u64::from(self.since_ping_ms(now_ms)) < timeout_ms {
            return Overdue::No;
        }
        if !self.heard || self.extended {
            return Overdue::Gone;
        }
        self.extended = true;
        self.beat(now_ms);
        Overdue::Extended
    }

    /// Time that a client which pings by itself has still for the next one; `None`: it is gone. It has the interval and the timeout.
    /// If something else comes, it has the timeout once more, for a ping may be stuck behind a large upload.
    pub(crate) fn patience_ms(
        &mut self,
        now_ms: u64,
        interval_ms: u64,
        timeout_ms: u64,
    ) -> Option<u64> {
        let mut patience_ms = interval_ms + timeout_ms;
        let silent_ms = u64::from(self.since_ping_ms(now_ms));
        if silent_ms >= patience_ms && self.heard {
            self.extended = true;
        }
        if self.extended {
            patience_ms += timeout_ms;
        }
        patience_ms
            .checked_sub(silent_ms)
            .filter(|left_ms| *left_ms > 0)
    }

    // ---- what is known of it ------------------------------------------------------------------------------------------

    fn since_ping_ms(&self, now_ms: u64) -> u32 {
        (now_ms as u32).wrapping_sub(self.pinged_ms)
    }

    /// How long the last ping is unanswered, milliseconds.
    pub(crate) fn silent_ms(&self, now_ms: u64) -> Option<u32> {
        self.awaits_pong.then_some(self.since_ping_ms(now_ms))
    }

    /// When the last ping left. After an extension nobody knows that any more, and it may be older than this process.
    pub(crate) fn pinged_at(&self, now_ms: u64) -> Option<u64> {
        let at = now_ms.checked_sub(u64::from(self.since_ping_ms(now_ms)));
        at.filter(|_| !self.extended)
    }

    /// The time from the last ping that was answered to the answer, milliseconds; none before the first.
    pub(crate) fn round_trip_ms(&self) -> Option<u16> {
        Some(self.round_trip_ms).filter(|ms| *ms > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pong_behind_an_upload_has_the_time_once_more() {
        let mut heart = Heart::beating(Step::FIRST);
        heart.ping(1_000);
        assert_eq!(heart.look(1_999, 1_000), Overdue::No);
        heart.hear();
        assert_eq!(heart.look(2_000, 1_000), Overdue::Extended);
        assert_eq!(heart.pinged_at(2_100), None);
        heart.hear();
        assert_eq!(heart.look(3_000, 1_000), Overdue::Gone);
        assert!(heart.answer(2_300, 1_000) && !heart.answer(2_300, 1_000));
        assert_eq!(heart.round_trip_ms(), Some(1_300));
        heart.rest();
        assert_eq!(heart.look(9_000, 1_000), Overdue::No);
    }

    #[test]
    fn a_client_that_pings_has_its_interval_and_the_timeout() {
        let mut heart = Heart::beating(Step::FIRST);
        heart.pinged(5_000);
        assert_eq!(heart.patience_ms(5_400, 1_000, 500), Some(1_100));
        assert_eq!(heart.patience_ms(6_500, 1_000, 500), None);
        heart.hear();
        assert_eq!(heart.patience_ms(6_500, 1_000, 500), Some(500));
        assert_eq!(heart.patience_ms(7_000, 1_000, 500), None);
        heart.pinged(6_900);
        assert_eq!(heart.patience_ms(7_000, 1_000, 500), Some(1_400));
    }
}
