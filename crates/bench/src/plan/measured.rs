//! Owns what is known from measurements: CPU and memory by delivery, message and connection, each
//! with the file and the case it was read from. Reads results of scenarios and of the suite.

use crate::measure::Case;
use crate::outcome::{Outcome, ResultFile};
use crate::report::{Level, level};
use crate::results::{Median, Results};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::path::Path;

/// A measured number and where it was read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    pub value: f64,
    pub source: String,
}

/// What one or several result files say. Earlier files win.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Server CPU of one delivery.
    pub delivery_us: Option<Figure>,
    /// The delivery's figure is all that the server did: messages and connects are in it.
    pub is_all_in: bool,
    /// Server CPU of one message received and answered.
    pub message_us: Option<Figure>,
    pub connect_us: Option<Figure>,
    /// Resident memory of one connection.
    pub connection_bytes: Option<Figure>,
    /// Resident memory of a node without connections.
    pub node_bytes: Option<Figure>,
}

impl Measured {
    /// Reads files in order; `server` names the one to plan for where a file holds several.
    pub fn load(paths: &[impl AsRef<Path>], server: &str) -> Result<Measured> {
        let mut measured = Measured::default();
        for path in paths {
            let path = path.as_ref();
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read result {}", path.display()))?;
            let name = path.file_name().unwrap_or(path.as_os_str());
            let name = name.to_string_lossy();
            let found = Measured::read(&text, &name, server)
                .with_context(|| format!("cannot plan from {}", path.display()))?;
            measured.fill(found);
        }
        measured.check()?;
        Ok(measured)
    }

    /// A suite has `runs` beside `servers`; everything else must be a result of a scenario.
    fn read(text: &str, file: &str, server: &str) -> Result<Measured> {
        match serde_json::from_str::<Results>(text) {
            Ok(suite) => of_suite(&suite, file, server),
            Err(_) => of_file(&ResultFile::from_json(text)?, file, server),
        }
    }

    fn fill(&mut self, other: Measured) {
        if self.delivery_us.is_none() {
            self.delivery_us = other.delivery_us;
            self.is_all_in = other.is_all_in;
        }
        self.message_us = self.message_us.take().or(other.message_us);
        self.connect_us = self.connect_us.take().or(other.connect_us);
        self.connection_bytes = self.connection_bytes.take().or(other.connection_bytes);
        self.node_bytes = self.node_bytes.take().or(other.node_bytes);
    }

    fn check(&self) -> Result<()> {
        if self.delivery_us.is_none() {
            bail!(
                "cannot plan: no result has the CPU of a delivery; give one of a scenario with \
                 messages that was run with --pid, or the suite's"
            );
        }
        if self.connection_bytes.is_none() {
            bail!(
                "cannot plan: no result has the memory of a connection; give one of a scenario \
                 that was run with --pid, or the suite's"
            );
        }
        Ok(())
    }
}

fn of_suite(suite: &Results, file: &str, server: &str) -> Result<Measured> {
    if !suite.servers.iter().any(|name| name == server) {
        bail!(
            "it has no server {server:?}, but {}; choose with --server",
            suite.servers.join(", ")
        );
    }
    let pick = |wanted: &dyn Fn(&Case) -> Option<u64>, of: &dyn Fn(&Median) -> Option<f64>| {
        let cases = suite.cases();
        let ranked = cases.iter().filter_map(|case| Some((wanted(case)?, case)));
        let (_, case) = ranked.max_by_key(|(rank, _)| *rank)?;
        let median = suite.median(case, server).filter(|m| m.valid > 0)?;
        let value = of(&median).filter(|value| value.is_finite() && *value > 0.0)?;
        Some(Figure {
            value,
            source: format!("{file}: {server}, {}", case.id()),
        })
    };
    let value = |median: &Median| Some(median.value);
    let idle = |case: &Case| match case {
        Case::Idle {
            high, plain: false, ..
        } => Some(u64::from(*high)),
        _ => None,
    };
    let base = |high: u32| move |m: &Median| Some(m.rss_bytes - m.value * f64::from(high));
    let high = suite.cases().iter().filter_map(idle).max().unwrap_or(0) as u32;
    Ok(Measured {
        delivery_us: pick(&spread_delivery, &|m| m.cpu_us).or_else(|| pick(&lone_delivery, &value)),
        is_all_in: false,
        message_us: pick(
            &|case| matches!(case, Case::Ack { depth: 1, .. }).then_some(0),
            &value,
        ),
        connect_us: pick(
            &|case| matches!(case, Case::Connect { .. }).then_some(0),
            &value,
        ),
        connection_bytes: pick(&idle, &value),
        node_bytes: pick(&idle, &base(high)),
    })
}

/// Deliveries spread over many rooms and seconds cost most: nothing is coalesced. Best first.
fn spread_delivery(case: &Case) -> Option<u64> {
    match case {
        Case::Hold { rooms, .. } if *rooms > 1 => Some(1_000 + u64::from(*rooms)),
        Case::Latency { .. } => Some(0),
        _ => None,
    }
}

/// The smallest window is nearest to single messages.
fn lone_delivery(case: &Case) -> Option<u64> {
    match case {
        Case::Delivery { window, .. } => Some(u64::MAX - u64::from(*window)),
        _ => None,
    }
}

fn of_file(content: &ResultFile, file: &str, server: &str) -> Result<Measured> {
    let runs: Vec<&Outcome> = match content {
        ResultFile::Run(outcome) => vec![outcome],
        ResultFile::Comparison(comparison) => {
            let found = comparison.servers.iter().find(|one| one.name == server);
            let names = || comparison.servers.iter().map(|one| &*one.name);
            let Some(found) = found else {
                bail!(
                    "it has no server {server:?}, but {}; choose with --server",
                    names().collect::<Vec<_>>().join(", ")
                );
            };
            found.runs.iter().collect()
        }
    };
    if runs.iter().all(|run| run.processes.is_empty()) {
        bail!("it watched no server process: run the scenario again with --pid");
    }
    let scenario = format!("{}{}", content.scenario(), caveats(&runs));
    let figure = |what: &str, of: &dyn Fn(&Outcome) -> Option<f64>| {
        let values = runs.iter().filter_map(|run| of(run)).collect();
        let value = middle(values)?;
        Some(Figure {
            value,
            source: format!("{file}: {scenario}, {what}"),
        })
    };
    Ok(Measured {
        delivery_us: figure("all CPU by delivery", &delivery_us),
        is_all_in: true,
        message_us: None,
        connect_us: None,
        connection_bytes: figure("growth by connection", &connection_bytes),
        node_bytes: figure("before the first connection", &node_bytes),
    })
}

/// What makes a result less than a measurement at full size, in brackets.
fn caveats(runs: &[&Outcome]) -> String {
    let any = |is: &dyn Fn(&Outcome) -> bool| runs.iter().any(|run| is(run));
    let mut caveats = Vec::new();
    if any(&|run| run.partial.is_some()) {
        caveats.push("broken off".to_owned());
    }
    if let Some(run) = runs.iter().find(|run| run.scale != 1.0) {
        caveats.push(format!("at scale {}", run.scale));
    }
    match runs.iter().map(|run| level(run)).max() {
        Some(Level::Mismatched) => caveats.push("of another application".to_owned()),
        Some(Level::Bad) => caveats.push("with faults".to_owned()),
        Some(Level::Doubtful) => caveats.push("doubtful".to_owned()),
        Some(Level::Good) | None => {}
    }
    if let Some(run) = runs.iter().find(|run| run.protocol != "socket.io") {
        caveats.push(format!("of {} clients", run.protocol));
    }
    match caveats.is_empty() {
        true => String::new(),
        false => format!(" ({})", caveats.join(", ")),
    }
}

/// Everything the server did, by message that reached someone.
fn delivery_us(run: &Outcome) -> Option<f64> {
    let made = run.totals.received + run.totals.acked;
    (made > 0).then_some(run.server_cpu_s()? * 1e6 / made as f64)
}

fn connection_bytes(run: &Outcome) -> Option<f64> {
    let of = |bytes: fn(&crate::outcome::ServerProcess) -> u64| {
        run.processes.iter().map(bytes).sum::<u64>()
    };
    let grown = of(|p| p.rss_peak_bytes).saturating_sub(of(|p| p.rss_before_bytes));
    let held = run.totals.connections_peak;
    (held > 0 && grown > 0).then(|| grown as f64 / held as f64)
}

fn node_bytes(run: &Outcome) -> Option<f64> {
    let before: u64 = run.processes.iter().map(|p| p.rss_before_bytes).sum();
    (before > 0).then(|| before as f64 / run.processes.len() as f64)
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}
