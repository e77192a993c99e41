//! Owns what is known from measurements: CPU and memory by delivery, message and connection, each
//! with the file and the case it was read from. Reads results of scenarios and of the suite.

use anyhow::{Context, Result, bail};
use bench::outcome::{Outcome, ResultFile, Suite, middle};
use bench::report::{Level, level};
use bench::suite::cpu_us_per_message;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A measured number and where it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub value: f64,
    pub source: String,
}

/// What one or several result files say. Earlier files win.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// What `cargo xtask bench` measured of this version, for plans without a result of one's own.
const BUILT_IN: &str = include_str!("../../../../benchmarks/figures.json");

impl Measured {
    pub fn built_in() -> Result<Measured> {
        serde_json::from_str(BUILT_IN).context("cannot read the built-in figures")
    }

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

    fn read(text: &str, file: &str, server: &str) -> Result<Measured> {
        match &ResultFile::from_json(text)? {
            ResultFile::Suite(suite) => of_suite(suite, file, server),
            result => of_file(result, file, server),
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
        let needed = [
            ("CPU of a delivery", &self.delivery_us, "with messages that"),
            ("memory of a connection", &self.connection_bytes, "that"),
        ];
        if let Some((what, _, which)) = needed.iter().find(|(_, figure, _)| figure.is_none()) {
            bail!(
                "cannot plan: no result has the {what}; give one of a scenario {which} was run with --pid, or the suite's"
            );
        }
        Ok(())
    }
}

/// Where a file holds several servers, one of them must be the wanted one.
fn no_server(server: &str, names: &[&str]) -> anyhow::Error {
    anyhow::anyhow!(
        "it has no server {server:?}, but {}; choose with --server",
        names.join(", ")
    )
}

fn of_suite(suite: &Suite, file: &str, server: &str) -> Result<Measured> {
    let servers = suite.servers();
    if !servers.iter().any(|name| name == server) {
        let names: Vec<&str> = servers.iter().map(String::as_str).collect();
        return Err(no_server(server, &names));
    }
    // The first case of a kind is the one whose messages are spread most.
    let pick = |kind: &str, of: &dyn Fn(&Outcome) -> Option<f64>| {
        let mut cases = suite
            .cases
            .iter()
            .filter(|case| case.case.starts_with(kind));
        cases.find_map(|case| {
            let runs = &case.server(server)?.runs;
            let valid = runs.iter().filter(|run| level(run) < Level::Mismatched);
            let value = middle(valid.filter_map(of).collect())?;
            Some(Figure {
                value,
                source: format!("{file}: {server}, {}", case.case),
            })
            .filter(|figure| figure.value.is_finite() && figure.value > 0.0)
        })
    };
    use bench::outcome::Figure as Kind;
    let per_message = |run: &Outcome| cpu_us_per_message(run.phases.last()?);
    let node = |run: &Outcome| {
        let each = Kind::BytesPerConnection.of(run)?;
        let many = run.phases.last()?;
        Some(many.server_rss_bytes? as f64 - each * many.connections as f64)
    };
    Ok(Measured {
        delivery_us: pick("hold", &per_message)
            .or_else(|| pick("latency", &per_message))
            .or_else(|| pick("delivery-1000-window-1", &per_message))
            .or_else(|| pick("delivery", &per_message)),
        is_all_in: false,
        message_us: pick("ack-depth-1", &per_message),
        connect_us: pick("connect", &|run| Kind::CpuUsPerConnect.of(run)),
        connection_bytes: pick("idle", &|run| Kind::BytesPerConnection.of(run)),
        node_bytes: pick("idle", &node),
    })
}

fn of_file(content: &ResultFile, file: &str, server: &str) -> Result<Measured> {
    let runs: Vec<&Outcome> = match content {
        ResultFile::Run(outcome) => vec![outcome],
        ResultFile::Comparison(comparison) => {
            let found = comparison.servers.iter().find(|one| one.name == server);
            let names = comparison.servers.iter().map(|one| &*one.name);
            let found = found.ok_or_else(|| no_server(server, &names.collect::<Vec<_>>()))?;
            found.runs.iter().collect()
        }
        ResultFile::Suite(suite) => suite.runs(),
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
        delivery_us: figure("all CPU by delivery", &Outcome::cpu_us_per_delivery),
        is_all_in: true,
        message_us: None,
        connect_us: None,
        connection_bytes: figure("growth by connection", &Outcome::rss_per_connection_bytes),
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

fn node_bytes(run: &Outcome) -> Option<f64> {
    let before: u64 = run.processes.iter().map(|p| p.rss_before_bytes).sum();
    (before > 0).then(|| before as f64 / run.processes.len() as f64)
}
