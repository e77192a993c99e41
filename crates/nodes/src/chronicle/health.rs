//! How the stream of a namespace does, for operators.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// It is looked each second how far reading is behind.
const LOOK_MS: u64 = 2_000;
/// A moment that stands for none.
const NONE: u64 = u64::MAX;

/// Written by the tasks of one namespace, read by the exporter.
#[derive(Debug)]
pub struct Health {
    begun: Instant,
    /// Redis takes nothing, or does not answer.
    writes_fail: AtomicBool,
    reads_fail: AtomicBool,
    /// Since when one of them fails.
    away_since: AtomicU64,
    /// Words that were stored.
    written: AtomicU64,
    /// All that waited at this moment is stored when so many words are.
    marked_at: AtomicU64,
    marked: AtomicU64,
    /// So long the last that was marked waited.
    waited_ms: AtomicU64,
    behind_ms: AtomicU64,
    /// When that was looked at.
    looked_at: AtomicU64,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            writes_fail: AtomicBool::new(false),
            reads_fail: AtomicBool::new(true),
            away_since: AtomicU64::new(0),
            written: AtomicU64::new(0),
            marked_at: AtomicU64::new(NONE),
            marked: AtomicU64::new(0),
            waited_ms: AtomicU64::new(0),
            behind_ms: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
        }
    }
}

impl Health {
    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Whether that is news.
    pub(super) fn writes_fail(&self, fail: bool) -> bool {
        let is_news = self.writes_fail.swap(fail, Ordering::Relaxed) != fail;
        self.note_away();
        is_news
    }

    /// The same of reading.
    pub(super) fn reads_fail(&self, fail: bool) -> bool {
        let is_news = self.reads_fail.swap(fail, Ordering::Relaxed) != fail;
        self.note_away();
        is_news
    }

    fn note_away(&self) {
        let since = match self.is_away() {
            false => NONE,
            true => self.away_since.load(Ordering::Relaxed).min(self.now_ms()),
        };
        self.away_since.store(since, Ordering::Relaxed);
    }

    pub(super) fn is_away(&self) -> bool {
        self.writes_fail.load(Ordering::Relaxed) || self.reads_fail.load(Ordering::Relaxed)
    }

    /// So many words are not stored, some of which are being written.
    pub(super) fn writing(&self, unwritten: usize) {
        if self.marked_at.load(Ordering::Relaxed) == NONE {
            let marked = self.written.load(Ordering::Relaxed) + unwritten as u64;
            self.marked.store(marked, Ordering::Relaxed);
            self.marked_at.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// So many more are stored, and so many are left.
    pub(super) fn wrote(&self, words: usize, left: usize) {
        let before = self.written.fetch_add(words as u64, Ordering::Relaxed);
        if before + words as u64 >= self.marked.load(Ordering::Relaxed) {
            let waited_ms = match left {
                0 => 0,
                _ => self.marked_ms().unwrap_or_default(),
            };
            self.waited_ms.store(waited_ms, Ordering::Relaxed);
            self.marked_at.store(NONE, Ordering::Relaxed);
        }
    }

    fn marked_ms(&self) -> Option<u64> {
        let at = self.marked_at.load(Ordering::Relaxed);
        (at != NONE).then(|| self.now_ms().saturating_sub(at))
    }

    /// The stream is further than this node has read, by so much.
    pub(super) fn is_behind(&self, ms: u64) {
        self.behind_ms.store(ms, Ordering::Relaxed);
        self.looked_at.store(self.now_ms(), Ordering::Relaxed);
    }

    /// For so long it took nothing, or said nothing.
    pub fn away_seconds(&self) -> f64 {
        let since = self.away_since.load(Ordering::Relaxed);
        seconds(self.now_ms().saturating_sub(since))
    }

    /// For so long the oldest that is not stored waits.
    pub fn waiting_seconds(&self) -> f64 {
        let waited_ms = self.waited_ms.load(Ordering::Relaxed);
        seconds(self.marked_ms().map_or(0, |ms| ms.max(waited_ms)))
    }

    pub fn behind_seconds(&self) -> f64 {
        // Nobody looks while shards have too much before them.
        let looked_at = self.looked_at.load(Ordering::Relaxed);
        let since = self.now_ms().saturating_sub(looked_at);
        let more = since.saturating_sub(LOOK_MS);
        seconds(self.behind_ms.load(Ordering::Relaxed) + more)
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn later(health: &mut Health, ms: u64) {
        let earlier = health.begun.checked_sub(Duration::from_millis(ms));
        health.begun = earlier.expect("a clock that runs for longer");
    }

    #[test]
    fn what_waits_is_as_old_as_its_oldest() {
        let mut health = Health::default();
        health.reads_fail(false);
        assert_eq!(health.waiting_seconds(), 0.0);
        // Two wait, and the first is being written.
        health.writing(2);
        later(&mut health, 300);
        assert!(health.waiting_seconds() >= 0.3);
        health.wrote(1, 5);
        health.writing(5);
        assert!(health.waiting_seconds() >= 0.3, "the second still waits");
        health.wrote(1, 4);
        assert_eq!(health.waiting_seconds(), 0.0);
        health.writing(4);
        assert!(health.waiting_seconds() >= 0.3, "as long as those before");
        health.wrote(4, 0);
        assert_eq!(health.waiting_seconds(), 0.0);
    }

    #[test]
    fn a_stream_is_away_until_it_takes_and_gives() {
        let mut health = Health::default();
        later(&mut health, 2_000);
        assert!(health.away_seconds() >= 2.0, "nobody has read it yet");
        assert!(health.writes_fail(true) && !health.writes_fail(true));
        assert!(health.reads_fail(false) && health.is_away());
        assert!(health.away_seconds() >= 2.0);
        assert!(health.writes_fail(false));
        assert_eq!(health.away_seconds(), 0.0);
        assert!(health.reads_fail(true));
        assert!(health.away_seconds() < 1.0);
    }
}
