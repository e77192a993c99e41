//! Which worker gets a socket, or a request for a session.

use crate::state::Backend;
use crate::worker::Worker;

impl Backend {
    /// The worker for one more socket.
    pub(crate) fn choose(&self, now_ms: u64) -> Option<u64> {
        self.choose_among(now_ms, Worker::takes_sockets)
    }

    pub(crate) fn choose_among(&self, now_ms: u64, takes: impl Fn(&Worker) -> bool) -> Option<u64> {
        let slow_after_ms = self.settings.slow_after_ms;
        let slow = |worker: &Worker| worker.is_slow(now_ms, slow_after_ms);
        let takers = self.workers.iter();
        let takers = takers.filter(|(_, worker)| takes(worker));
        let best = takers.reduce(|best, other| match (slow(best.1), slow(other.1)) {
            (true, false) => other,
            (false, true) => best,
            _ if other.1.is_freer_than(best.1) => other,
            _ => best,
        });
        best.map(|(id, _)| *id)
    }
}
