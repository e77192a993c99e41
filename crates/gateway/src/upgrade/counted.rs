//! What was counted before goes on: how much of the rates is used, the counters of metrics, and calls of the server API.

use super::line::{Broken, Line};
use control::api::{self, Past};
use control::metrics::node::Node as Facts;
use control::metrics::{Before, Counted, Shards as Cells, counted};
use handoff::bounds::{
    ANSWER_BYTES_MAX, BATCH_BYTES, CALLED_NAMESPACE_BYTES_MAX, CALLS_MAX, COUNTERS,
};
use handoff::{Batch, Called, Caller, Counter, Kind, Ledger};
use shard::{Limiting, Shards};
use std::sync::Arc;
use std::time::Duration;

/// One message, and the answer to it.
const STEP: Duration = Duration::from_secs(10);
/// Pages of the table of limiters in one message.
const PAGES: usize = 16;
const _: () = assert!(api::ANSWER_BYTES_MAX <= ANSWER_BYTES_MAX);
const _: () = assert!(api::KEYS_MAX <= CALLS_MAX);
const _: () = assert!(api::BODY_BYTES_MAX <= CALLED_NAMESPACE_BYTES_MAX);

/// Where it is counted in this process.
#[derive(Debug)]
pub struct Books {
    cells: Cells,
    facts: Arc<Facts>,
    pub limiting: Limiting,
}

impl Books {
    pub fn of(shards: &Shards, facts: &Arc<Facts>) -> Self {
        Self {
            cells: shards.metrics(),
            facts: Arc::clone(facts),
            limiting: shards.limiting(),
        }
    }

    /// Sends all of it. Nothing is counted any more.
    pub fn send(&self, line: &mut Line) -> Result<(), Broken> {
        for pages in self.limiting.pages().chunks(PAGES) {
            let limiters = pages.to_vec();
            say(
                line,
                &Batch {
                    limiters,
                    ..Batch::default()
                },
            )?;
        }
        let rests = self.limiting.rests();
        if !rests.is_empty() {
            say(
                line,
                &Batch {
                    rests,
                    ..Batch::default()
                },
            )?;
        }
        for some in self.limiting.shares().chunks(COUNTERS) {
            let shares = some.to_vec();
            say(
                line,
                &Batch {
                    shares,
                    ..Batch::default()
                },
            )?;
        }
        let all: Vec<Counter> = counted(&self.cells, &self.facts)
            .into_iter()
            .map(written)
            .collect();
        for some in all.chunks(COUNTERS) {
            let counters = some.to_vec();
            say(
                line,
                &Batch {
                    counters,
                    ..Batch::default()
                },
            )?;
        }
        self.facts
            .api
            .get()
            .map_or(Ok(()), |api| send_past(line, api.past()))
    }
}

/// Calls are short, and their answers may be long.
fn send_past(line: &mut Line, past: Past) -> Result<(), Broken> {
    let callers: Vec<Caller> = past.callers.into_iter().map(written_caller).collect();
    for some in callers.chunks(COUNTERS) {
        let callers = some.to_vec();
        let batch = Batch {
            callers,
            ..Batch::default()
        };
        say(line, &batch)?;
    }
    let mut calls = past.calls.into_iter().map(written_call).peekable();
    while calls.peek().is_some() {
        let (mut batch, mut bytes) = (Batch::default(), 0);
        while bytes < BATCH_BYTES
            && let Some(call) = calls.next()
        {
            bytes += call.size();
            batch.calls.push(call);
        }
        say(line, &batch)?;
    }
    Ok(())
}

fn written_call(call: api::Called) -> Called {
    Called {
        caller: call.caller,
        namespace: call.namespace,
        key: call.key,
        digest: call.digest.to_vec(),
        age_ms: call.age.as_millis() as u64,
        answer: call.answer,
    }
}

fn written_caller(used: api::Used) -> Caller {
    Caller {
        name: used.caller,
        used: used.calls,
        left_ms: used.left.as_millis() as u64,
    }
}

fn read_call(call: Called) -> api::Called {
    api::Called {
        caller: call.caller,
        namespace: call.namespace,
        key: call.key,
        digest: call.digest.try_into().unwrap_or_default(),
        age: Duration::from_millis(call.age_ms),
        answer: call.answer,
    }
}

fn read_caller(caller: Caller) -> api::Used {
    api::Used {
        caller: caller.name,
        calls: caller.used,
        left: Duration::from_millis(caller.left_ms),
    }
}

fn say(line: &mut Line, batch: &Batch) -> Result<(), Broken> {
    line.send(Kind::Sessions, batch, STEP)?;
    line.expect::<()>(Kind::Taken, STEP)
}

fn written(one: Counted) -> Counter {
    Counter {
        name: one.name,
        label: one.label,
        value: one.value,
        bounds: one.bounds,
        counts: one.counts,
    }
}

fn read(counter: Counter) -> Counted {
    Counted {
        name: counter.name,
        label: counter.label,
        value: counter.value,
        bounds: counter.bounds,
        counts: counter.counts,
    }
}

/// What came of it in this process.
#[derive(Debug)]
pub struct Gathered {
    limiting: Limiting,
    counters: Vec<Counter>,
    past: Past,
}

impl Gathered {
    pub fn new(limiting: Limiting) -> Self {
        Self {
            limiting,
            counters: Vec::new(),
            past: Past::default(),
        }
    }

    /// Takes what a batch has of it. The limiters are used when the shards begin.
    pub fn take(&mut self, ledger: &mut Ledger, batch: &mut Batch) -> Result<(), Broken> {
        let unfit = |unfit| Broken::Strange(format!("a record has {unfit}"));
        for page in &batch.limiters {
            ledger.admit_limiters(page).map_err(unfit)?;
            self.limiting.take(page);
        }
        for rest in &batch.rests {
            ledger.admit_rest(rest).map_err(unfit)?;
            self.limiting.take_rest(rest);
        }
        for share in &batch.shares {
            ledger.admit_share(share).map_err(unfit)?;
            self.limiting.take_share(share);
        }
        for counter in &batch.counters {
            ledger.admit_counter(counter).map_err(unfit)?;
        }
        self.counters.append(&mut batch.counters);
        for call in batch.calls.drain(..) {
            ledger.admit_call(&call).map_err(unfit)?;
            self.past.calls.push(read_call(call));
        }
        for caller in batch.callers.drain(..) {
            ledger.admit_caller(&caller).map_err(unfit)?;
            self.past.callers.push(read_caller(caller));
        }
        Ok(())
    }

    /// The exporter goes on from there, and so does the server API.
    pub fn go_on(self, facts: &Facts) {
        let all = self.counters.into_iter().map(read).collect();
        // Nobody else sets it.
        let _ = facts.before.set(Before::of(all));
        facts.note_past(self.past);
    }
}
