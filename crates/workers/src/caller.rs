//! The calls of one endpoint: each is a task of its own, and its end is a letter to the driver.

use super::figures::Figures;
use super::letter::{Called, Letter};
use super::standstill::CallGate;
use super::webhook::{Endpoint, parent};
use backend::{Call, Outcome, Pace, PaceFigures};
use bridge::Failures;
use process::flood::Flood;
use process::vitals::Vitals;
use rules::{Doing, Tracer};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::Sender;

pub(super) struct Caller {
    name: String,
    endpoint: Arc<Endpoint>,
    letters: Sender<Letter>,
    gate: Arc<CallGate>,
    tracer: Option<Arc<dyn Tracer>>,
    figures: Arc<Figures>,
    vitals: Vitals,
    well: bool,
    /// That a content was no answer is told once.
    unread: bool,
    flood: Flood,
    pace: Pace,
}

impl Caller {
    pub(super) fn new(
        name: String,
        endpoint: Endpoint,
        (letters, gate): (Sender<Letter>, Arc<CallGate>),
        tracer: Option<Arc<dyn Tracer>>,
        figures: Arc<Figures>,
        vitals: Vitals,
    ) -> Self {
        Self {
            name,
            endpoint: Arc::new(endpoint),
            letters,
            gate,
            tracer,
            figures,
            vitals,
            well: true,
            unread: false,
            flood: Flood::new("call failed"),
            pace: Pace::default(),
        }
    }

    /// Calls that are due, unless another process is to make them.
    pub(super) fn call_all(&self, mut next: impl FnMut() -> Option<Call>) {
        while self.gate.begin() {
            let Some(call) = next() else {
                return self.gate.ended();
            };
            self.call(call);
        }
    }

    fn call(&self, call: Call) {
        let (endpoint, letters) = (Arc::clone(&self.endpoint), self.letters.clone());
        let (tracer, name) = (self.tracer.clone(), self.name.clone());
        let figures = Arc::clone(&self.figures);
        let pulse = self.vitals.pulse("a call of an endpoint");
        tokio::spawn(async move {
            let span = tracer
                .as_ref()
                .and_then(|tracer| tracer.begin(parent(&call), Doing::Call, &name));
            let (outcome, failed, took) = endpoint.call(&call, span.as_ref()).await;
            figures.call_durations.note(took);
            let context = span.as_ref().map(|span| span.context);
            if let (Some(tracer), Some(mut span)) = (tracer, span) {
                span.failed = failed.is_some();
                tracer.end(span);
            }
            let number = call.number;
            let called = Called {
                number,
                outcome,
                failed: failed.map(|failed| (failed, call)),
                took,
                context,
            };
            // The driver ends with the process.
            let _ = letters.send(Letter::Called(called)).await;
            pulse.rest();
        });
    }

    pub(super) fn pass_time(&mut self) {
        self.flood.pass_time(Instant::now());
    }

    /// How fast it is called.
    pub(super) fn figures(&mut self, now_ms: u64) -> PaceFigures {
        self.pace.figures(now_ms)
    }

    /// Takes in the outcome of a call. Logs a failure, and keeps it for operators.
    pub(super) fn note(&mut self, now_ms: u64, called: &Called, failures: &Failures) {
        self.gate.ended();
        self.pace.note(now_ms, called.took.as_millis() as u64);
        let Some((failed, call)) = &called.failed else {
            return;
        };
        let (backend, cause) = (&self.name, &failed.why);
        if matches!(called.outcome, Outcome::Unread) {
            if !std::mem::replace(&mut self.unread, true) {
                tracing::warn!(
                    backend,
                    cause,
                    "an event was taken, and what came with the answer is not read; more of these are counted only \
                     (sockeye_backend_calls_total)"
                );
            }
            return;
        }
        let again = matches!(called.outcome, Outcome::Failed);
        let what = if again { "call failed" } else { "call refused" };
        failures.note_said(what, cause, || failed.said(call));
        if !self.flood.admits() {
            return;
        }
        tracing::warn!(backend, cause, comes_again = again, "call failed");
    }

    /// An answer let a client in, beside commands that cannot be carried out.
    pub(super) fn note_refused(&mut self, cause: &str) {
        if self.flood.admits() {
            let backend = &self.name;
            tracing::warn!(backend, cause, comes_again = false, "call failed");
        }
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
