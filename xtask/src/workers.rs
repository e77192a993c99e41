//! `cargo xtask workers`: what clients notice while workers are killed, cut off, absent, replaced or slow, by the tests of the gateway
//! with the binary as it is shipped, and its record.

use crate::bench::production;
use crate::repository;
use crate::steps::Step;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

const RECORD: &str = "benchmarks/results/workers.md";

/// How much of it.
#[derive(Debug, clap::Args)]
pub struct Scale {
    #[arg(long, default_value_t = 10_000)]
    clients: u32,
    /// Events a second of all clients.
    #[arg(long, default_value_t = 5_000)]
    rate: u32,
    /// Workers that are killed; a deploy of all three is repeated three times at most.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Seconds without any worker.
    #[arg(long, default_value_t = 60)]
    absence: u32,
    /// Only the tests whose name contains this word.
    #[arg(default_value = "workers::")]
    only: String,
}

/// A line that a test left: what was done, and numbers by name.
struct Line {
    what: String,
    numbers: Vec<(String, f64)>,
}

/// Plays the histories one after the other, and writes the record.
pub fn run(scale: &Scale) -> Result<()> {
    production(&["--package", "gateway"]).run()?;
    let raw = repository::built("workers.txt");
    let _ = fs::remove_file(&raw);
    let args = ["--test", "it", "--", &scale.only, "--ignored"];
    let mut tests = Step::new("workers", "cargo test --package gateway")
        .args(&args.map(str::to_owned))
        .args(&["--skip", "faults::", "--test-threads", "1"].map(str::to_owned))
        .env("SOCKEYE_BIN", &built())
        .env("WORKERS_RECORD", &raw.display().to_string());
    let settings = [
        ("CLIENTS", scale.clients),
        ("RATE", scale.rate),
        ("ROUNDS", scale.rounds),
        ("ABSENCE", scale.absence),
        ("CUT", 8),
        ("PAIRS", 12),
        ("HALF", 8),
    ];
    for (name, value) in settings {
        tests = tests.env(&format!("WORKERS_{name}"), &value.to_string());
    }
    let ended = tests.run();
    let text = fs::read_to_string(&raw).context("cannot read the record of the tests")?;
    let page = page(&text, scale);
    println!("{page}");
    ended?;
    fs::write(repository::root().join(RECORD), &page).context("cannot write the record")
}

fn built() -> String {
    repository::built("production/sockeye")
        .display()
        .to_string()
}

fn read(line: &str) -> Option<Line> {
    let mut words = line.split(' ').peekable();
    let mut what = vec![words.next()?];
    while let Some(word) = words.next_if(|word| !word.contains('=')) {
        what.push(word);
    }
    let number = |word: &str| {
        let (name, number) = word.split_once('=')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    Some(Line {
        what: what.join(" "),
        numbers: words.map(number).collect::<Option<_>>()?,
    })
}

fn page(text: &str, scale: &Scale) -> String {
    let Scale { clients, rate, .. } = scale;
    let mut page = format!(
        "# Troubles of workers\n\nMade by `cargo xtask workers`: {clients} clients, {rate} answered events a second, workers of Node. The first number is the\n\
         median of all times, the second the most. What each figure means is in [workers.md](../../docs/results/workers.md).\n\n"
    );
    let mut tables: BTreeMap<String, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for line in text.lines().filter_map(read) {
        let table = tables.entry(line.what).or_default();
        for (name, number) in line.numbers {
            table.entry(name).or_default().push(number);
        }
    }
    for (what, numbers) in tables {
        let _ = writeln!(
            page,
            "## {what}\n\n| figure | times | median | most |\n|---|---:|---:|---:|"
        );
        for (name, mut all) in numbers {
            all.sort_by(f64::total_cmp);
            let (times, most) = (all.len(), all[all.len() - 1]);
            let _ = writeln!(
                page,
                "| {name} | {times} | {} | {} |",
                short(all[times / 2]),
                short(most)
            );
        }
        page.push('\n');
    }
    page.truncate(page.trim_end().len() + 1);
    page
}

/// Whole, unless it is small.
fn short(number: f64) -> String {
    if number.fract() == 0.0 {
        format!("{number}")
    } else {
        format!("{number:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_gathered_by_what_was_done() {
        let scale = Scale {
            clients: 10,
            rate: 5,
            rounds: 2,
            absence: 1,
            only: String::new(),
        };
        let text = "killed p99_ms=700 lost=0\nkilled p99_ms=900.25 lost=0\nabsent keep lost=0\nkilled half=";
        let page = page(text, &scale);
        assert!(page.contains("## absent keep\n"), "{page}");
        assert!(page.contains("| p99_ms | 2 | 900.25 | 900.25 |"), "{page}");
        assert!(page.contains("| lost | 2 | 0 | 0 |\n"), "{page}");
    }
}
