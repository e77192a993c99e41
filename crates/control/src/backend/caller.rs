//! The calls of one endpoint: each is a task of its own, and its end is a letter to the driver.

use super::driver::Letter;
use super::webhook::Endpoint;
use crate::flood::Flood;
use backend::{Call, Outcome};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::Sender;

/// How a call went, and why it came to nothing.
pub(super) struct Called {
    pub(super) number: u64,
    pub(super) outcome: Outcome,
    why: Option<String>,
}

pub(super) struct Caller {
    name: String,
    endpoint: Arc<Endpoint>,
    letters: Sender<Letter>,
    well: bool,
    flood: Flood,
}

impl Caller {
    pub(super) fn new(name: String, endpoint: Endpoint, letters: Sender<Letter>) -> Self {
        Self {
            name,
            endpoint: Arc::new(endpoint),
            letters,
            well: true,
            flood: Flood::new("call failed"),
        }
    }

    pub(super) fn call(&self, call: Call) {
        let (endpoint, letters) = (Arc::clone(&self.endpoint), self.letters.clone());
        tokio::spawn(async move {
            let (outcome, why) = endpoint.call(&call).await;
            let number = call.number;
            let called = Called {
                number,
                outcome,
                why,
            };
            // The driver ends with the process.
            let _ = letters.send(Letter::Called(called)).await;
        });
    }

    pub(super) fn pass_time(&mut self) {
        self.flood.pass_time(Instant::now());
    }

    /// Logs what went wrong.
    pub(super) fn note(&mut self, called: &Called) {
        let (Some(cause), true) = (&called.why, self.flood.admits()) else {
            return;
        };
        let again = matches!(called.outcome, Outcome::Failed);
        let backend = &self.name;
        tracing::warn!(backend, cause, comes_again = again, "call failed");
    }

    pub(super) fn note_health(&mut self, well: bool) {
        if std::mem::replace(&mut self.well, well) == well {
            return;
        }
        let backend = &self.name;
        match well {
            true => tracing::info!(backend, "the endpoint is well again"),
            false => tracing::warn!(backend, "the endpoint fails: it is tried now and then"),
        }
    }
}
