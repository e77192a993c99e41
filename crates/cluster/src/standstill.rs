//! A node that stood still does not know what the others told meanwhile. They do not wait for it with their joins: before it says
//! anything, it hears them out.

/// Others do not wait for a node that was silent for 600 ms; its last heartbeat may be 250 ms older than its standstill.
pub(crate) const STANDSTILL_US: u64 = 350_000;
/// A node that does not hear itself speaks after this time. Letters that are for nobody elsewhere must not wait for an engine that is
/// away.
const PATIENCE_US: u64 = 5_000_000;

#[derive(Debug, Default)]
pub(crate) struct Standstill {
    /// Behind this heartbeat of its own comes nothing that was told meanwhile; until when it is waited for.
    awaited: Option<(u64, u64)>,
}

impl Standstill {
    /// It goes on, and has sent this heartbeat since.
    pub(crate) fn ended(&mut self, beat: u64, now_us: u64) {
        // One that stands still again and again speaks some time, too.
        let until_us = self
            .awaited
            .map_or(now_us + PATIENCE_US, |(_, until_us)| until_us);
        self.awaited = Some((beat, until_us));
    }

    /// A heartbeat of its own came back.
    pub(crate) fn heard(&mut self, beat: u64) {
        self.awaited = self.awaited.filter(|(awaited, _)| beat < *awaited);
    }

    /// Whether all that was told meanwhile is known.
    pub(crate) fn is_over(&self, now_us: u64) -> bool {
        self.awaited.is_none_or(|(_, until_us)| now_us >= until_us)
    }
}
