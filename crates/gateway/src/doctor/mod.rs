//! `sockeye doctor`: what this machine or container allows, what a number of connections needs, and what to type where the
//! two differ. Judging is a pure function of a [`snapshot::Snapshot`]; only taking one looks at the machine.

mod cgroup;
mod checks;
mod engine;
mod finding;
mod kernel;
mod machine;
mod memory;
mod report;
pub mod snapshot;

#[cfg(test)]
mod tests;

use crate::config::{self, Loaded, Problems, Request};
use crate::tls;
use finding::Need;
use process::files;
use snapshot::Snapshot;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A certificate that expires sooner is worth a warning: the alert has the same number.
const CERTIFICATE_DAYS: i64 = 14;

/// What the command line asks for.
#[derive(Debug)]
pub struct Order {
    pub request: Request,
    /// Connections to prepare for; those of the configuration if `None`.
    pub connections: Option<u64>,
    pub json: bool,
    /// Ask the running gateway.
    pub live: bool,
    /// Print the snapshot instead of judging it.
    pub record: bool,
    /// Judge a snapshot that was recorded elsewhere.
    pub from: Option<PathBuf>,
}

/// 0: all is well. 1: warnings. 2: something will fail.
pub fn run(order: &Order) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let snapshot = match &order.from {
        None => machine::look(),
        Some(path) => match files::text(path, files::BYTES_MAX) {
            Ok(text) => match Snapshot::from_text(&text) {
                Ok(snapshot) => snapshot,
                Err(problem) => return Ok(no_snapshot(path, &problem)),
            },
            Err(error) => return Ok(no_snapshot(path, &error.to_string())),
        },
    };
    if order.record {
        out.write_all(snapshot.to_text().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let loaded = config::load(&order.request);
    let need = need(&loaded, order.connections, &snapshot);
    let mut findings = vec![configuration(&loaded)];
    findings.extend(certificates(&loaded));
    findings.extend(checks::examine(&snapshot, &need));
    // A snapshot of another machine says nothing of what this one can reach.
    if order.from.is_none() {
        findings.extend(engine::examine(&loaded));
    }
    let report = report::Report {
        connections: need.connections,
        in_container: cgroup::in_container(&snapshot),
        findings,
    };
    if order.json {
        writeln!(out, "{:#}", report.to_json())?;
    } else {
        let colours = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        out.write_all(report.to_text(colours).as_bytes())?;
    }
    Ok(ExitCode::from(report.exit_code()))
}

fn no_snapshot(path: &Path, problem: &str) -> ExitCode {
    eprintln!(
        "cannot judge {}: {problem}\nmake a snapshot where the gateway is to run: sockeye doctor --record > snapshot.txt",
        path.display()
    );
    ExitCode::from(2)
}

/// For a number that was asked for, by flag or configuration; else for what there is room for, up to the default.
fn need(loaded: &Result<Loaded, Problems>, connections: Option<u64>, snapshot: &Snapshot) -> Need {
    let loaded = loaded.as_ref().ok();
    let config = loaded.map(|loaded| &loaded.resolved);
    let configured = config.map_or_else(
        || hub::limits::Limits::default().conns_max,
        |config| config.hub.limits.conns_max,
    );
    let is_wish = loaded.is_some_and(|loaded| loaded.is_set("limits.conns_max"));
    let mut need = Need {
        connections: connections.unwrap_or(configured as u64),
        shards: config.map_or_else(
            || snapshot.cores().unwrap_or(1),
            |config| config.server.shards as u64,
        ),
        tls: config.is_some_and(|config| config.tls.is_some()),
    };
    if connections.is_none() && !is_wish {
        let findings = checks::examine(snapshot, &need);
        let ceilings = findings.iter().filter_map(|finding| finding.ceiling);
        need.connections = ceilings.fold(need.connections, u64::min);
    }
    need
}

/// One for each certificate; one that cannot be read is a problem of the configuration.
fn certificates(loaded: &Result<Loaded, Problems>) -> Vec<finding::Finding> {
    let Ok(loaded) = loaded else {
        return Vec::new();
    };
    let public = loaded.resolved.tls.iter().map(|tls| &tls.files);
    let all = public.chain(&loaded.resolved.workers_tls);
    let read = all.filter_map(|files| tls::load(files).ok());
    let findings = read.flat_map(|read| read.facts).map(|facts| {
        let file = facts.file.display();
        let finding = finding::Finding::new("certificate", "TLS certificate in use");
        let Some(days) = facts.days_left else {
            return finding.value(file).note("does not say when it expires");
        };
        let finding = finding
            .value(format!("{file}, {days} days"))
            .needed(format!("{CERTIFICATE_DAYS} days"));
        let fix = "renew it, then SIGHUP: connections stay";
        match days {
            ..0 => finding.fail(fix).note("it has expired: clients refuse it"),
            0..CERTIFICATE_DAYS => finding.warn(fix),
            _ => finding,
        }
    });
    findings.collect()
}

fn configuration(loaded: &Result<Loaded, Problems>) -> finding::Finding {
    let finding = finding::Finding::new("configuration", "`sockeye config check`");
    match loaded {
        Ok(loaded) => {
            let file = loaded.file.clone();
            finding.value(file.unwrap_or_else(|| "defaults, no file".to_owned()))
        }
        Err(problems) => finding
            .value(format!("{} problems", problems.0.len()))
            .needed("none")
            .fail("sockeye config check")
            .note("the numbers below are judged for the built-in defaults"),
    }
}
