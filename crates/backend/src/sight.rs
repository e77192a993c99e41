//! A backend as operators see it: its workers one by one, and which of them has a socket.

use crate::backend::Backend;
use crate::link::Link;
use crate::name::Name;
use crate::pace::PaceFigures;
use crate::worker::Worker;

/// A worker as an operator sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenWorker {
    /// Its own name for itself.
    pub instance: String,
    /// `attached`, `slow` (it begins nothing of what it has), `leaving`, or `away` (its link is cut, and may come back).
    pub state: &'static str,
    /// Sockets that it has.
    pub sockets: usize,
    /// Items that it was sent and has not handled.
    pub under_way: usize,
    /// How much of its window they fill; one large item may fill more than all of it.
    pub window_ratio: f64,
    /// `None`: it is away.
    pub link: Option<Link>,
    /// Items that wait for its window.
    pub waiting: usize,
    /// From the moment an item comes until it is handled.
    pub pace: PaceFigures,
}

impl Backend {
    /// All workers that it counts on, in the order in which they came.
    pub fn seen_workers(&mut self, now_ms: u64) -> Vec<SeenWorker> {
        let queue = &mut self.parts_at(now_ms).queue;
        let slow_after_ms = queue.settings.slow_after_ms;
        let window_bytes = queue.settings.window_bytes;
        let workers = queue.workers.iter_mut();
        let seen = workers.map(|(_, worker)| SeenWorker {
            instance: worker.profile.instance.clone(),
            state: state(worker, now_ms, slow_after_ms),
            sockets: worker.sockets.len(),
            under_way: worker.flight.len(),
            window_ratio: worker.flight.share_of(window_bytes),
            link: worker.link,
            waiting: worker.backlog.len(),
            pace: worker.flight.pace.figures(now_ms),
        });
        seen.collect()
    }

    /// The worker that has a socket; `None`: this backend has no such socket, or nobody has it now.
    pub fn worker_of(&mut self, now_ms: u64, socket: &Name) -> Option<&str> {
        let queue = &self.parts_at(now_ms).queue;
        let worker = queue.homes.get(socket)?.worker?;
        Some(&queue.workers.get(worker)?.profile.instance)
    }
}

fn state(worker: &Worker, now_ms: u64, slow_after_ms: u64) -> &'static str {
    match worker.link {
        None => "away",
        Some(_) if worker.is_leaving() => "leaving",
        Some(_) if worker.is_slow(now_ms, slow_after_ms) => "slow",
        Some(_) => "attached",
    }
}
