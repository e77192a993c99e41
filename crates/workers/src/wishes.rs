//! What the log says of requests for sessions: workers want to decide about them and may not, or have to and none does.

use backend::Backend;

/// How often it looks: a moment without a worker is no news.
const LOOK_MS: u64 = 1_000;
/// A fault that goes on is told again after so long.
const AGAIN_MS: u64 = 60_000;

#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// Name of the backend.
    backend: String,
    looked_ms: u64,
    /// At the last look a request waited, and nobody was there to ask.
    lacked: bool,
    told_ms: Option<u64>,
    /// That a wish is in vain is told once.
    in_vain: bool,
}

impl Wishes {
    pub(super) fn new(backend: String) -> Self {
        Self {
            backend,
            ..Self::default()
        }
    }

    pub(super) fn look(&mut self, now_ms: u64, state: &Backend) {
        if now_ms < self.looked_ms + LOOK_MS {
            return;
        }
        self.looked_ms = now_ms;
        let backend = &self.backend;
        if !self.in_vain && state.wishes_in_vain() {
            self.in_vain = true;
            tracing::warn!(
                backend,
                "a worker wants to decide about requests for sessions (allowRequest, middleware of the engine) and is asked about none: \
                 set backends.{backend}.openings = true if it may decide about all clients of this gateway"
            );
        }
        let lacks = state.lacks_deciders();
        let lasts = std::mem::replace(&mut self.lacked, lacks) && lacks;
        if lasts && self.told_ms.is_none_or(|told| now_ms >= told + AGAIN_MS) {
            self.told_ms = Some(now_ms);
            tracing::warn!(
                backend,
                workers = state.workers(),
                "clients cannot open sessions: no worker of this backend decides about their requests. Attach one that does \
                 (allowRequest), or remove backends.{backend}.openings"
            );
        }
    }
}
