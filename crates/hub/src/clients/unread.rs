//! What came on a connection and is not worked on yet: its bytes, why they wait, and how long they may.

use crate::bounds::IGNORED_BYTES_MAX;
use wire::growth;

/// Input of a connection that waits.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    #[expect(
        clippy::box_collection,
        reason = "a million idle connections hold eight bytes here, not 24"
    )]
    bytes: Option<Box<Vec<u8>>>,
    /// Low 32 bits of the millisecond clock when the incomplete message began, never 0; 0 = nothing is incomplete.
    since_ms: u32,
    /// Bytes that came after the end of the connection.
    ignored: u32,
    /// A `Message` timer is armed.
    timed: bool,
    /// It stopped in the middle because the turn was full.
    stalled: bool,
    /// Its client is being asked about.
    asking: bool,
    /// The peer closed its sending side: nothing comes behind it.
    ended: bool,
}

/// What a deadline means for the message that is incomplete when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lateness {
    /// No message is, or it waits for us.
    None,
    /// It has this many milliseconds still.
    Later(u64),
    TooLate,
}

impl Unread {
    // ---- bytes --------------------------------------------------------------------------------------------------------

    /// Takes what waits.
    #[expect(clippy::box_collection, reason = "it goes back into the connection")]
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Box<Vec<u8>>> {
        self.bytes.take()
    }

    /// What is left waits. What a chunked body left comes first.
    #[expect(clippy::box_collection, reason = "it comes from the connection")]
    pub(crate) fn keep(&mut self, rest: Box<Vec<u8>>) {
        match &mut self.bytes {
            Some(bytes) => growth::extend(bytes, &rest, usize::MAX),
            None => self.bytes = Some(rest),
        }
    }

    /// Nobody works on what waits any more.
    pub(crate) fn discard(&mut self) {
        self.bytes = None;
    }

    /// What waits.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().map_or(&[][..], Vec::as_slice)
    }

    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_none()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let bytes = self.bytes.as_ref();
        bytes.map_or(0, |bytes| bytes.capacity() + size_of::<Vec<u8>>())
    }

    // ---- why it waits -------------------------------------------------------------------------------------------------

    /// The turn is full; `true` = it was not so before.
    pub(super) fn stall(&mut self) -> bool {
        !std::mem::replace(&mut self.stalled, true)
    }

    /// Another turn works on it.
    pub(crate) fn resume(&mut self) {
        self.stalled = false;
    }

    /// It waits for a turn with room.
    #[inline]
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Its client is being asked about, or is not any more.
    pub(crate) fn set_asking(&mut self, asking: bool) {
        self.asking = asking;
    }

    /// It waits for a verdict on its client.
    #[inline]
    pub(crate) fn is_asking(&self) -> bool {
        self.asking
    }

    /// The peer closed its sending side.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Nothing more comes.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Nothing more comes, and nothing waits for its turn or for a verdict.
    pub(crate) fn is_over(&self) -> bool {
        let waits = self.stalled || self.asking && self.bytes.is_some();
        self.ended && !waits
    }

    // ---- how long it may ----------------------------------------------------------------------------------------------

    /// A message is incomplete at this time; `true` = a timer is to be armed for it.
    pub(crate) fn watch(&mut self, now_ms: u64) -> bool {
        if self.since_ms == 0 {
            self.since_ms = odd(now_ms);
        }
        !std::mem::replace(&mut self.timed, true)
    }

    /// A message is complete: what is incomplete from now on is another one.
    pub(crate) fn complete(&mut self) {
        self.since_ms = 0;
    }

    /// Something was incomplete `timeout_ms` ago: is it that same message still? `waits_for_us`: the peer cannot go on.
    /// `Later` says that the timer is armed again.
    pub(crate) fn look(&mut self, now_ms: u64, timeout_ms: u64, waits_for_us: bool) -> Lateness {
        self.timed = false;
        if self.since_ms == 0 || waits_for_us || self.stalled {
            return Lateness::None;
        }
        // Beginnings are noted in odd milliseconds: this one may be ahead of the clock.
        let waited = u64::from(odd(now_ms).wrapping_sub(self.since_ms));
        if waited + 1 >= timeout_ms {
            return Lateness::TooLate;
        }
        self.timed = true;
        Lateness::Later(timeout_ms - waited)
    }

    // ---- after the end ------------------------------------------------------------------------------------------------

    /// Bytes came after the end; `true` = they are too many now.
    pub(crate) fn ignore(&mut self, len: usize) -> bool {
        let before = self.ignored;
        self.ignored = before.saturating_add(len as u32);
        before <= IGNORED_BYTES_MAX && self.ignored > IGNORED_BYTES_MAX
    }

    /// The next byte is one too many.
    pub(crate) fn ignore_no_more(&mut self) {
        self.ignored = IGNORED_BYTES_MAX;
    }

    /// Too many came after the end: leave the rest in the kernel.
    pub(crate) fn is_flood(&self) -> bool {
        self.ignored > IGNORED_BYTES_MAX
    }
}

/// A time that is not 0.
fn odd(now_ms: u64) -> u32 {
    now_ms as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_whole_time_and_one_timer() {
        let mut unread = Unread::default();
        assert!(unread.watch(1_000) && !unread.watch(1_400));
        assert_eq!(unread.look(1_500, 1_000, false), Lateness::Later(500));
        assert!(!unread.watch(1_500), "the timer is armed");
        assert_eq!(unread.look(2_000, 1_000, false), Lateness::TooLate);
        unread.complete();
        assert_eq!(unread.look(9_000, 1_000, false), Lateness::None);
        assert!(unread.watch(9_000));
        assert_eq!(unread.look(9_999, 1_000, true), Lateness::None);
        assert!(unread.stall() && !unread.stall());
        assert_eq!(unread.look(99_999, 1_000, false), Lateness::None);
    }

    #[test]
    fn the_end_takes_effect_when_nothing_waits_for_a_turn_or_a_verdict() {
        let mut unread = Unread::default();
        unread.keep(Box::new(b"he".to_vec()));
        unread.keep(Box::new(b"llo".to_vec()));
        assert_eq!(unread.bytes(), b"hello");
        assert!(!unread.is_over(), "more may come");
        unread.end();
        assert!(unread.is_over(), "the rest never comes");
        unread.set_asking(true);
        assert!(!unread.is_over());
        assert!(unread.take().is_some() && unread.is_over() && unread.is_empty());
        assert!(unread.stall() && !unread.is_over());
        unread.resume();
        assert!(unread.is_over());
    }
}
