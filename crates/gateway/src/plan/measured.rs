//! Owns what is known from measurements: CPU and memory by delivery, message and connection, each
//! with the file and the case it was read from. Reads results of scenarios and of the suite.

use anyhow::{Context, Result, bail};
use outcome::verdict::{Level, verdict};
use outcome::{Contestant, Figure, Outcome, ResultFile, load, middle};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::slice::from_ref;

/// A measured number and where it was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    pub value: f64,
    pub source: String,
}

/// What one or several result files say. Earlier files win.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Server CPU of one delivery.
    pub delivery_us: Option<Reading>,
    /// The delivery's figure is all that the server did: messages and connects are in it.
    pub is_all_in: bool,
    /// Server CPU of one message received and answered.
    pub message_us: Option<Reading>,
    pub connect_us: Option<Reading>,
    /// Resident memory of one connection.
    pub connection_bytes: Option<Reading>,
    /// Resident memory of a node without connections.
    pub node_bytes: Option<Reading>,
}

/// What `cargo xtask bench` measured of this version, for plans without a result of one's own.
const BUILT_IN: &str = include_str!("../../../../benchmarks/figures.json");

/// Of a run, the figure.
type Tell = fn(&Outcome) -> Option<f64>;

/// A case and all its runs with the wanted server; a scenario of one's own is a case, too.
type Case<'a> = (String, Vec<&'a Outcome>);

impl Measured {
    pub fn built_in() -> Result<Measured> {
        serde_json::from_str(BUILT_IN).context("cannot read the built-in figures")
    }

    /// Reads files in order; `server` names the one to plan for where a file holds several.
    pub fn load(paths: &[impl AsRef<Path>], server: &str) -> Result<Measured> {
        let mut measured = Measured::default();
        for path in paths {
            let path = path.as_ref();
            let (content, name) = (load(path)?, path.file_name().unwrap_or_default());
            let found = read(&content, &name.to_string_lossy(), server);
            measured.fill(found.with_context(|| format!("cannot plan from {}", path.display()))?);
        }
        Ok(measured)
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
}

fn read(content: &ResultFile, file: &str, server: &str) -> Result<Measured> {
    let cases = cases(content, server)?;
    // Of the first kind that tells the figure; of its cases the first, whose messages are spread most.
    let pick = |kinds: &[&str], what: &str, tell: Tell| {
        let of_kind = |kind: &&str| {
            let mut cases = cases.iter().filter(|(name, _)| name.starts_with(*kind));
            cases.find_map(|(name, runs)| {
                let value = middle(runs.iter().filter_map(|run| tell(run)).collect())?;
                let source = format!("{file}: {name}{what}");
                (value.is_finite() && value > 0.0).then_some(Reading { value, source })
            })
        };
        kinds.iter().find_map(of_kind)
    };
    let by_message: Tell = |run| run.phases.last()?.cpu_us_per_message();
    if let ResultFile::Suite(_) = content {
        let spread = ["hold", "latency", "delivery-1000-window-1", "delivery"];
        return Ok(Measured {
            delivery_us: pick(&spread, "", by_message),
            is_all_in: false,
            message_us: pick(&["ack-depth-1"], "", by_message),
            connect_us: pick(&["connect"], "", |run| Figure::CpuUsPerConnect.of(run)),
            connection_bytes: pick(&["idle"], "", |run| Figure::BytesPerConnection.of(run)),
            node_bytes: pick(&["idle"], "", node_of_the_suite),
        });
    }
    let (any, growth) = ([""], ", growth by connection");
    Ok(Measured {
        delivery_us: pick(&any, ", all CPU by delivery", Outcome::cpu_us_per_delivery),
        is_all_in: true,
        connection_bytes: pick(&any, growth, Outcome::rss_per_connection_bytes),
        node_bytes: pick(&any, ", before the first connection", node_alone),
        ..Measured::default()
    })
}

/// The cases of a file with the wanted server. What makes one less than a measurement stands behind its name, or keeps it out of the
/// suite's figures.
fn cases<'a>(content: &'a ResultFile, server: &'a str) -> Result<Vec<Case<'a>>> {
    let servers = |case: &str, servers: &'a [Contestant]| {
        let named = |one: &'a Contestant| (format!("{case}, {}", one.name), &*one.name, &*one.runs);
        servers.iter().map(named).collect::<Vec<_>>()
    };
    let all = match content {
        // It does not say of which server it is.
        ResultFile::Run(run) => vec![(run.scenario.clone(), server, from_ref(&**run))],
        ResultFile::Comparison(all) => servers(&all.scenario, &all.servers),
        ResultFile::Suite(all) => {
            let cases = all.cases.iter();
            let cases = cases.flat_map(|case| servers(&case.case, &case.servers));
            cases.collect()
        }
    };
    if !all.iter().any(|(_, name, _)| *name == server) {
        let names: BTreeSet<&str> = all.iter().map(|(_, name, _)| *name).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        bail!("it has no server {server:?}, but {names}; choose with --server");
    }
    let wanted = all.iter().filter(|(_, name, _)| *name == server);
    let of_suite = matches!(content, ResultFile::Suite(_));
    let cases = wanted.map(|(case, _, runs)| {
        let sound = runs
            .iter()
            .filter(|run| !of_suite || verdict(run).level < Level::Mismatched);
        let runs: Vec<&Outcome> = sound.collect();
        (format!("{case}{}", caveats(&runs)), runs)
    });
    let cases: Vec<Case> = cases.collect();
    let mut runs = cases.iter().flat_map(|(_, runs)| runs);
    if runs.all(|run| run.processes.is_empty()) {
        bail!("it watched no server process: run the scenario again with --pid");
    }
    Ok(cases)
}

/// What makes a result less than a measurement at full size, in brackets.
fn caveats(runs: &[&Outcome]) -> String {
    let partial = runs.iter().find_map(|run| run.partial.as_ref());
    let scaled = runs.iter().find(|run| run.scale != 1.0);
    let worst = runs.iter().map(|run| verdict(run).level).max();
    let worst = worst.filter(|worst| *worst != Level::Good);
    let other = runs.iter().find(|run| run.protocol != "socket.io");
    let caveats = [
        partial.map(|_| "broken off".to_owned()),
        scaled.map(|run| format!("at scale {}", run.scale)),
        worst.map(|worst| worst.word().to_lowercase()),
        other.map(|run| format!("of {} clients", run.protocol)),
    ];
    let caveats: Vec<String> = caveats.into_iter().flatten().collect();
    match caveats.is_empty() {
        true => String::new(),
        false => format!(" ({})", caveats.join(", ")),
    }
}

fn node_alone(run: &Outcome) -> Option<f64> {
    let before: u64 = run.processes.iter().map(|p| p.rss_before_bytes).sum();
    Some(before as f64 / run.processes.len() as f64)
}

/// What is left when the connections are taken off.
fn node_of_the_suite(run: &Outcome) -> Option<f64> {
    let each = Figure::BytesPerConnection.of(run)?;
    let many = run.phases.last()?;
    Some(many.server_rss_bytes? as f64 - each * many.connections as f64)
}
