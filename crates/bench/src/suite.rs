//! Owns the comparison: which contenders run which cases, in interleaved rounds (A B C A B C …),
//! so that a change of the machine's mood hits all of them alike.

use crate::measure::{Bench, Case, Sample};
use crate::results::{Machine, Results, Run};
use crate::server::{Contender, Kind};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// A case and who takes part in it.
#[derive(Debug)]
pub struct Entry {
    pub case: Case,
    pub contenders: Vec<Contender>,
}

/// Everything one command runs.
#[derive(Debug)]
pub struct Suite {
    pub bench: Bench,
    pub rounds: u32,
    pub quick: bool,
    pub entries: Vec<Entry>,
    pub machine: Machine,
}

/// Cases at full size.
pub fn full_cases() -> Vec<Case> {
    let holds = [100, 1].map(|rooms| Case::Hold {
        connections: 18_000,
        per_second: 100,
        rooms,
        seconds: 35,
    });
    cases([2_000, 18_000], 8_000, &[100, 1_000, 5_000], &holds)
}

/// The same shape in a minute or two; figures are rougher.
pub fn quick_cases() -> Vec<Case> {
    let hold = Case::Hold {
        connections: 5_000,
        per_second: 100,
        rooms: 50,
        seconds: 5,
    };
    cases([1_000, 6_000], 3_000, &[100, 1_000], &[hold])
}

fn cases(idle: [u32; 2], connections: u32, rooms: &[u32], holds: &[Case]) -> Vec<Case> {
    let [low, high] = idle;
    let idle = [false, true].map(|plain| Case::Idle { low, high, plain });
    let acks = [1, 8].map(|depth| Case::Ack {
        connections: 1_000,
        depth,
    });
    let deliveries = rooms.iter().map(|&members| (members, 16));
    let deliveries = deliveries.chain([(1_000, 1)]);
    let mut cases = Vec::from(idle);
    cases.push(Case::Connect { connections });
    cases.extend(acks);
    cases.extend(deliveries.map(|(members, window)| Case::Delivery { members, window }));
    cases.push(Case::Latency {
        members: 1_000,
        deliveries_per_second: 20_000,
    });
    cases.extend_from_slice(holds);
    cases
}

/// Which floor a case stands on; `None` where a bare loop has nothing to compare.
pub fn floor_mode(case: &Case) -> Option<&'static str> {
    match case {
        Case::Idle { .. } | Case::Connect { .. } => Some("accept"),
        Case::Ack { .. } => Some("echo"),
        Case::Delivery { window: 1, .. } | Case::Latency { .. } => Some("send"),
        Case::Delivery { .. } => Some("send-coalesced"),
        Case::Hold { .. } => None,
    }
}

/// Whether a contender can be measured in a case at all.
pub fn takes_part(kind: &Kind, case: &Case) -> bool {
    match (kind, case) {
        (Kind::Floor { mode, .. }, _) => floor_mode(case) == Some(mode),
        // Only Sockeye speaks the plain protocol at `/ws`.
        (Kind::Sockeye { .. }, Case::Idle { plain: true, .. }) => true,
        (_, Case::Idle { plain: true, .. }) => false,
        // 1.8 million deliveries a second: other servers cannot finish, only grow.
        (
            Kind::Node { .. },
            Case::Hold {
                connections,
                per_second,
                rooms,
                ..
            },
        ) => connections / rooms * per_second <= 40_000,
        // Bare servers have one room.
        (kind, Case::Hold { rooms, .. }) => *rooms == 1 || kind.speaks_socket_io(),
        _ => true,
    }
}

impl Suite {
    /// Runs all rounds; a contender that fails is recorded as such and does not stop the rest.
    pub fn run(&self) -> Results {
        let mut servers: Vec<String> = Vec::new();
        let mut runs = Vec::new();
        for entry in &self.entries {
            for contender in &entry.contenders {
                if !servers.contains(&contender.name) {
                    servers.push(contender.name.clone());
                }
            }
            eprintln!("{}", entry.case.id());
            for round in 1..=self.rounds {
                runs.extend(
                    entry
                        .contenders
                        .iter()
                        .map(|c| self.run_one(entry.case, c, round)),
                );
            }
        }
        Results {
            machine: self.machine.clone(),
            servers,
            quick: self.quick,
            runs,
        }
    }

    fn run_one(&self, case: Case, contender: &Contender, round: u32) -> Run {
        let outcome = contender
            .start()
            .and_then(|mut server| self.bench.measure(&mut server, case));
        let (sample, error) = match outcome {
            Ok(sample) => (Some(sample), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        eprintln!(
            "  {:<24} {}",
            contender.name,
            describe(sample.as_ref(), error.as_deref())
        );
        Run {
            case,
            server: contender.name.clone(),
            round,
            sample,
            error,
        }
    }
}

/// One line about a sample while the suite runs.
pub fn describe(sample: Option<&Sample>, error: Option<&str>) -> String {
    let Some(sample) = sample else {
        return format!("failed: {}", error.unwrap_or("no reason given"));
    };
    let mut text = format!("{:>10.2}", sample.value);
    if let Some(rate) = sample.per_second {
        text += &format!("  {rate:>10.0}/s");
    }
    if let Some(latency) = sample.latency {
        text += &format!("  p50 {:.2} p99 {:.2} ms", latency.p50_ms, latency.p99_ms);
    }
    let (server, generator) = (sample.server_cores, sample.generator_cores);
    text += &format!("  cores {server:.2} server {generator:.2} generator");
    for problem in &sample.problems {
        text += &format!("\n    INVALID: {problem}");
    }
    text
}

/// Installs the packages of a Node peer when they are missing.
pub fn install_node_peer(folder: &Path) -> Result<()> {
    if folder.join("node_modules").is_dir() {
        return Ok(());
    }
    eprintln!("npm ci in {}", folder.display());
    let status = Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--silent"])
        .current_dir(folder)
        .status()
        .context("cannot run npm (Node.js is needed for the peers; --no-node leaves them out)")?;
    if !status.success() {
        bail!("npm ci failed in {}", folder.display());
    }
    Ok(())
}
