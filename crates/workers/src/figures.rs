//! Figures of one backend, for the exporter.

use backend::Backend;
use process::durations::Durations;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub struct Figures {
    /// Bytes on their way from shards.
    pub queued: AtomicUsize,
    /// What may wait for its workers (`queue_max`).
    pub queue_bytes_max: AtomicU64,
    pub workers: AtomicU64,
    /// Links of workers that shards serve.
    pub links_of_shards: AtomicU64,
    pub sockets: AtomicU64,
    pub parked: AtomicU64,
    /// What is kept for workers.
    pub bytes: AtomicU64,
    pub events: AtomicU64,
    pub redelivered: AtomicU64,
    pub moved: AtomicU64,
    pub lost_away: AtomicU64,
    pub lost_silent: AtomicU64,
    pub lost_stalled: AtomicU64,
    pub lost_failing: AtomicU64,
    pub lost_expelled: AtomicU64,
    pub refused_absent: AtomicU64,
    pub refused_busy: AtomicU64,
    pub refused_unanswered: AtomicU64,
    pub refused_deadly: AtomicU64,
    pub refused_failed: AtomicU64,
    pub alone: AtomicU64,
    pub overdue: AtomicU64,
    /// Refused by shards, because more waited than the backend had room for.
    pub refused_early: AtomicU64,
    pub late: AtomicU64,
    /// Requests for sessions.
    pub openings: Openings,
    /// Calls of endpoints, by how they went.
    pub calls_taken: AtomicU64,
    pub calls_unread: AtomicU64,
    pub calls_refused: AtomicU64,
    pub calls_failed: AtomicU64,
    pub call_durations: Durations,
    pub dead_letters: AtomicU64,
    pub commands_failed: AtomicU64,
}

/// Requests for sessions that workers decide about: those that wait, and what became of the others.
#[derive(Debug, Default)]
pub struct Openings {
    pub waiting: AtomicU64,
    pub admitted: AtomicU64,
    pub refused: AtomicU64,
    pub unanswered: AtomicU64,
    pub busy: AtomicU64,
    pub deadly: AtomicU64,
}

impl Figures {
    /// Nothing is on its way that a worker or an endpoint would take now. They are published a moment later than it happens.
    pub fn are_quiet(&self) -> bool {
        self.workers.load(Ordering::Relaxed) == 0 || self.untold_bytes() == 0
    }

    /// Of all that waits for workers or the endpoint.
    pub fn untold_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) + self.queued.load(Ordering::Relaxed) as u64
    }

    /// How much of `queue_max` waits.
    pub fn fullness(&self) -> f64 {
        let max = self.queue_bytes_max.load(Ordering::Relaxed).max(1);
        self.untold_bytes() as f64 / max as f64
    }

    pub(super) fn publish(&self, backend: &Backend) {
        let counts = backend.counts();
        for (cell, value) in [
            (&self.workers, backend.workers() as u64),
            (&self.sockets, backend.sockets() as u64),
            (&self.parked, backend.parked() as u64),
            (&self.bytes, backend.bytes() as u64),
            (&self.events, counts.events),
            (&self.redelivered, counts.redelivered),
            (&self.moved, counts.moved),
            (&self.lost_away, counts.lost_away),
            (&self.lost_silent, counts.lost_silent),
            (&self.lost_stalled, counts.lost_stalled),
            (&self.lost_failing, counts.lost_failing),
            (&self.lost_expelled, counts.lost_expelled),
            (&self.refused_absent, counts.refused_absent),
            (&self.refused_busy, counts.refused_busy),
            (&self.refused_unanswered, counts.refused_unanswered),
            (&self.refused_deadly, counts.refused_deadly),
            (&self.refused_failed, counts.refused_failed),
            (&self.alone, counts.alone),
            (&self.overdue, counts.overdue),
            (&self.late, counts.late),
            (&self.openings.waiting, counts.openings.waiting()),
            (&self.openings.admitted, counts.openings.admitted),
            (&self.openings.refused, counts.openings.refused),
            (&self.openings.unanswered, counts.openings.unanswered),
            (&self.openings.busy, counts.openings.busy),
            (&self.openings.deadly, counts.openings.deadly),
            (&self.calls_taken, counts.calls_taken),
            (&self.calls_unread, counts.calls_unread),
            (&self.calls_refused, counts.calls_refused),
            (&self.calls_failed, counts.calls_failed),
            (&self.dead_letters, counts.dead_letters),
            (&self.commands_failed, counts.commands_failed),
        ] {
            cell.store(value, Ordering::Relaxed);
        }
    }
}
