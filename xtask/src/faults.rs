//! `cargo xtask faults`: seeded histories of nodes whose Redis or NATS fails, by the tests of the gateway, and their record.

use crate::lanes::said;
use crate::repository;
use crate::steps::Step;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

const RECORD: &str = "benchmarks/results/faults.md";
/// Words of a line that a test writes: fault, seed, then numbers.
const NUMBERS: usize = 8;

/// One history.
struct Line {
    fault: String,
    /// Sent, came, lost, twice, reordered, outage, silence, repair (the last three in milliseconds).
    numbers: [u64; NUMBERS],
}

/// Plays each fault with so many seeds, and writes the record.
pub fn run(runs: u64, node_timeout_ms: u32, only: &str) -> Result<()> {
    let commit = said("git describe --always --dirty")?;
    let raw = repository::built(&format!("faults-{commit}-{node_timeout_ms}.txt"));
    let tests = format!("faults::{only}");
    let args = [
        "--test",
        "it",
        "--",
        &tests,
        // It has no seeds.
        "--skip",
        "what_cannot_be_repaired",
        "--skip",
        "what_nats_cannot_repair",
        "--ignored",
        "--test-threads",
        "2",
    ];
    let tests = Step::new("faults", "cargo test --profile ci --workspace --locked")
        .args(&args.map(str::to_owned))
        .env("FAULT_SEEDS", &format!("0..{runs}"))
        .env("FAULT_NODE_TIMEOUT_MS", &node_timeout_ms.to_string())
        .env("FAULT_RECORD", &raw.display().to_string());
    let ended = tests.run();
    let text = fs::read_to_string(&raw).context("cannot read the record of the tests")?;
    let lines: Vec<Line> = text.lines().filter_map(read).collect();
    ensure!(!lines.is_empty(), "the tests left no record");
    let page = page(&lines, node_timeout_ms);
    // Some of the faults are no page.
    if only.is_empty() {
        fs::write(repository::root().join(RECORD), &page).context("cannot write the record")?;
    }
    println!("{page}");
    ended
}

fn read(line: &str) -> Option<Line> {
    let mut words = line.split(' ');
    let fault = words.next()?.to_owned();
    let _seed = words.next()?;
    let mut numbers = [0; NUMBERS];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    Some(Line { fault, numbers })
}

fn page(lines: &[Line], node_timeout_ms: u32) -> String {
    let mut by_fault: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in lines {
        by_fault.entry(&line.fault).or_default().push(line);
    }
    let mut page = format!(
        "# Faults of Redis and NATS\n\nMade by `cargo xtask faults`: three nodes, 5,000 messages a second, one fault in each of {} histories;\n\
         `cluster-node-timeout` {node_timeout_ms} ms. *Outage*: until a master serves every slot again, or the network is back. *Repair*: from\n\
         then until no message is later than 200 ms. Median and most, in milliseconds.\n\n\
         | fault | histories | sent | received | lost | twice | reordered | outage | repair |\n|---|---|---|---|---|---|---|---|---|\n",
        lines.len()
    );
    for (fault, lines) in by_fault {
        let sum = |at: usize| -> u64 { lines.iter().map(|line| line.numbers[at]).sum() };
        let spread = |at: usize| {
            let mut all: Vec<u64> = lines.iter().map(|line| line.numbers[at]).collect();
            all.sort_unstable();
            let most = all.last().copied().unwrap_or(0);
            format!("{}, {most}", all[all.len() / 2])
        };
        let fault = match fault {
            "Kick" => "subscribers kicked",
            "Restart" => "restart of a single Redis",
            "Cut" => "network of a node cut",
            "Kill" => "kill -9 of a master",
            "Freeze" => "SIGSTOP of a master",
            "Failover" => "graceful failover",
            "Migrate" => "slots moved",
            "NatsRestart" => "restart of NATS",
            "NatsDead" => "NATS dead for six seconds",
            "NatsStand" => "SIGSTOP of NATS for six seconds",
            "NatsCut" => "way of a node to NATS cut for ten seconds",
            "NatsLongCut" => "way of a node to NATS cut for 25 seconds",
            other => other,
        };
        let sums: Vec<String> = (0..5).map(|at| sum(at).to_string()).collect();
        let _ = writeln!(
            page,
            "| {fault} | {} | {} | {} | {} |",
            lines.len(),
            sums.join(" | "),
            spread(5),
            spread(7)
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_are_summed_by_fault() {
        let text = "Kill 0 100 250 0 0 0 2000 2500 300\nKill 1 200 500 1 0 2 3000 3500 900\nhalf a";
        let lines: Vec<Line> = text.lines().filter_map(read).collect();
        assert_eq!(lines.len(), 2);
        let page = page(&lines, 1_000);
        let row = "| kill -9 of a master | 2 | 300 | 750 | 1 | 0 | 2 | 3000, 3000 | 900, 900 |";
        assert!(page.contains(row), "{page}");
    }
}
