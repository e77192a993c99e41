//! `cargo xtask lanes`: plays lanes again and again beside threads that compute, and records each run. What is in the record is not
//! played again, so it goes on where it was ended, also on another day.

use crate::{repository, suite};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const RECORD: &str = "benchmarks/results/lanes.md";
const COLUMNS: &str = "| lane | run | day | commit | load | s | tests | failed | second try |";
const PASSED: &str = "-";

#[derive(Debug, clap::Args)]
pub struct Again {
    /// Lanes, or words in names of steps.
    #[arg(default_values_t = ["binary".to_owned(), "foreign".to_owned()])]
    only: Vec<String>,
    /// How often each is in the record at the end.
    #[arg(long, default_value_t = 10)]
    runs: usize,
    /// Threads that compute beside it.
    #[arg(long, default_value_t = 2)]
    load: usize,
    #[arg(long, default_value = RECORD)]
    record: PathBuf,
}

/// A line of the table.
struct Row(Vec<String>);

impl Row {
    fn read(line: &str) -> Option<Row> {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let cells: Vec<String> = cells.map(str::to_owned).collect();
        let is_run =
            cells.len() == COLUMNS.matches(" |").count() && cells[1].parse::<usize>().is_ok();
        is_run.then_some(Row(cells))
    }

    fn is_of(&self, lane: &str) -> bool {
        self.0[0] == lane
    }

    fn failed(&self) -> bool {
        self.0[7] != PASSED
    }

    fn tried_again(&self) -> bool {
        self.0[8] != PASSED
    }
}

pub fn run(again: &Again) -> Result<()> {
    suite::choose(&again.only)?;
    let path = repository::root().join(&again.record);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let mut rows: Vec<Row> = text.lines().filter_map(Row::read).collect();
    for run in 1..=again.runs {
        for lane in &again.only {
            if rows.iter().filter(|row| row.is_of(lane)).count() >= run {
                continue;
            }
            let row = play(lane, run, again.load)?;
            println!("{}", row.0.join("  "));
            rows.push(row);
            fs::write(&path, page(&rows))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    println!("{}", page(&rows));
    Ok(())
}

/// One run of a lane, by this program, in a process of its own.
fn play(lane: &str, run: usize, load: usize) -> Result<Row> {
    let log = repository::built(&format!("lane-{lane}-{run}.log"));
    println!("· {lane}, run {run}: {}", log.display());
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(std::env::current_exe()?);
    // What is missing was installed by an earlier `cargo xtask test`.
    command
        .args(["test", "--no-install", lane])
        .current_dir(repository::root());
    command.stdout(file.try_clone()?).stderr(file);
    let (start, is_over) = (Instant::now(), AtomicBool::new(false));
    let status = std::thread::scope(|scope| {
        for _ in 0..load {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let status = command.status();
        is_over.store(true, Ordering::Relaxed);
        status
    });
    let output = fs::read(&log).context("cannot read the log of the lane")?;
    let output = String::from_utf8_lossy(&output);
    let failed = match status?.success() {
        true => PASSED.to_owned(),
        false => failed_steps(&output),
    };
    let second_try = second_tries(&output, "    passed only at the second try: ");
    let numbers = [run, load].map(|number| number.to_string());
    let [run, load] = numbers;
    let took = format!("{:.0}", start.elapsed().as_secs_f64());
    let closing = output.lines().rev().find(|line| line.contains(" passed, "));
    let tests = closing.unwrap_or(PASSED).to_owned();
    let (day, commit) = (said("date --utc +%F")?, said("git rev-parse --short HEAD")?);
    let cells = [
        lane.to_owned(),
        run,
        day,
        commit,
        load,
        took,
        tests,
        failed,
        second_try,
    ];
    Ok(Row(cells.to_vec()))
}

/// By the closing table: a step that passed at its second try failed before it.
fn failed_steps(output: &str) -> String {
    let table = output
        .rsplit_once("\nstep  ")
        .map_or("", |(_, table)| table);
    let steps = table.lines().filter(|line| line.contains("  FAILED"));
    let steps: Vec<&str> = steps.filter_map(|line| line.split("  ").next()).collect();
    match steps.is_empty() {
        true => "no step: the suite itself".to_owned(),
        false => steps.join(", "),
    }
}

/// What stands in lines after this beginning; `PASSED` if there is none.
fn second_tries(output: &str, begin: &str) -> String {
    let found = output.lines().filter_map(|line| line.strip_prefix(begin));
    let found: Vec<&str> = found.collect();
    match found.is_empty() {
        true => PASSED.to_owned(),
        // A bar would end the cell.
        false => found.join(", ").replace('|', "/"),
    }
}

/// What a command says.
pub fn said(command: &str) -> Result<String> {
    let mut words = command.split(' ');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program)
        .args(words)
        .current_dir(repository::root())
        .output();
    let output = output.with_context(|| format!("cannot run {command}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn page(rows: &[Row]) -> String {
    let mut page = format!(
        "# Lanes, again and again\n\nMade by `cargo xtask lanes`: each run is a lane with as many threads that compute beside it as `load` says. *Second try*: tests\n\
         that passed only when they were played once more. A run that was ended is not here.\n\n{COLUMNS}\n|{}\n",
        "---|".repeat(COLUMNS.matches(" |").count())
    );
    for row in rows {
        let _ = writeln!(page, "| {} |", row.0.join(" | "));
    }
    let mut lanes: Vec<&str> = rows.iter().map(|row| row.0[0].as_str()).collect();
    lanes.sort_unstable();
    lanes.dedup();
    page.push('\n');
    for lane in lanes {
        let own: Vec<&Row> = rows.iter().filter(|row| row.is_of(lane)).collect();
        let failed = own.iter().filter(|row| row.failed()).count();
        let again = own.iter().filter(|row| row.tried_again()).count();
        let _ = writeln!(
            page,
            "* `{lane}`: {} runs, {failed} failed, {again} needed a second try.",
            own.len()
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_read_again_is_the_same() {
        let cells = [
            "binary",
            "1",
            "2026-11-25",
            "abc",
            "2",
            "403",
            "5 passed, 0 failed",
            PASSED,
            "a::b",
        ];
        let mut rows = vec![Row(cells.map(str::to_owned).to_vec())];
        let text = page(&rows);
        assert!(
            text.contains("* `binary`: 1 runs, 0 failed, 1 needed a second try."),
            "{text}"
        );
        let read: Vec<Row> = text.lines().filter_map(Row::read).collect();
        assert_eq!(page(&read), text);
        rows.extend(read);
        assert!(page(&rows).contains("2 runs"));
    }

    #[test]
    fn names_are_found_in_what_the_suite_says() {
        let output = "  FAILED a (1.0 s)\n  FAILED b (2.5 s), 1 passed, 1 failed\n\nstep             seconds  result\n\
                      a                1.0  ok, 3 tests\n    passed only at the second try: c::d\n\
                      b                2.5  FAILED, 1 passed, 1 failed\n";
        assert_eq!(failed_steps(output), "b");
        assert!(failed_steps("error: no such step").contains("suite"));
        let begin = "    passed only at the second try: ";
        assert_eq!(second_tries(output, begin), "c::d");
        assert_eq!(second_tries("", begin), PASSED);
    }
}
