//! What was counted before goes on: how much of the rates is used, and the counters of metrics.

use super::line::{Broken, Line};
use control::metrics::node::Node as Facts;
use control::metrics::{Before, Counted, Shards as Cells, counted};
use handoff::bounds::COUNTERS;
use handoff::{Batch, Counter, Kind, Ledger};
use shard::{Limiting, Shards};
use std::sync::Arc;
use std::time::Duration;

/// One message, and the answer to it.
const STEP: Duration = Duration::from_secs(10);
/// Pages of the table of limiters in one message.
const PAGES: usize = 16;

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
        Ok(())
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
}

impl Gathered {
    pub fn new(limiting: Limiting) -> Self {
        Self {
            limiting,
            counters: Vec::new(),
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
        Ok(())
    }

    /// The exporter goes on from there.
    pub fn go_on(self, facts: &Facts) {
        let all = self.counters.into_iter().map(read).collect();
        // Nobody else sets it.
        let _ = facts.before.set(Before::of(all));
    }
}
