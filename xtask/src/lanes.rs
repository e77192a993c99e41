//! `cargo xtask lanes`: plays lanes again and again beside threads that compute, and records each run. What is in the record is not
//! played again, so it goes on where it was ended, also on another day.

use crate::{plan, repository, suite};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const RECORD: &str = "benchmarks/results/lanes.md";
const COLUMNS: &str = "| lane | run | day | commit | load | s | tests | failed | second try |";
const PASSED: &str = "-";
/// Where the summary of the record stands between two marks.
const PAGE: &str = "CONTRIBUTING.md";

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
    let mut is_built = false;
    for run in 1..=again.runs {
        for lane in &again.only {
            if rows.iter().filter(|row| row.is_of(lane)).count() >= run {
                continue;
            }
            if !std::mem::replace(&mut is_built, true) {
                build()?;
            }
            let row = play(lane, run, again.load)?;
            println!("{}", row.0.join("  "));
            rows.push(row);
            fs::write(&path, page(&rows))
                .with_context(|| format!("cannot write {}", path.display()))?;
            if again.record.as_os_str() == RECORD {
                let shown = filled(&repository::read(PAGE)?, &rates(&rows))?;
                let file = repository::root().join(PAGE);
                fs::write(&file, shown).with_context(|| format!("cannot write {PAGE}"))?;
            }
        }
    }
    println!("{}", page(&rows));
    Ok(())
}

/// The page with these rates between the marks.
fn filled(page: &str, rates: &str) -> Result<String> {
    let (begin, end) = ("<!-- lanes:begin -->\n", "<!-- lanes:end -->");
    let place = page.split_once(begin);
    let place = place.and_then(|(head, rest)| Some((head, rest.split_once(end)?)));
    let (head, (_, tail)) = place.with_context(|| format!("{PAGE} has no {begin}{end}"))?;
    Ok(format!("{head}{begin}{rates}{end}{tail}"))
}

/// How often each lane failed.
fn rates(rows: &[Row]) -> String {
    let mut text = match rows {
        [] => "No run is recorded yet.\n".to_owned(),
        _ => "| lane | runs | failed | needed a second try | s, the middle one |\n|---|---:|---:|---:|---:|\n"
            .to_owned(),
    };
    for (lane, own) in by_lane(rows) {
        let [failed, again] =
            [Row::failed, Row::tried_again].map(|is| own.iter().filter(|row| is(row)).count());
        let mut seconds: Vec<u64> = own.iter().flat_map(|row| row.0[5].parse()).collect();
        seconds.sort_unstable();
        let middle = seconds.get(seconds.len() / 2).copied().unwrap_or_default();
        let _ = writeln!(
            text,
            "| `{lane}` | {} | {failed} | {again} | {middle} |",
            own.len()
        );
    }
    text
}

fn by_lane(rows: &[Row]) -> BTreeMap<&str, Vec<&Row>> {
    let mut lanes: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        lanes.entry(&row.0[0]).or_default().push(row);
    }
    lanes
}

/// Builds what lanes build on idle cores: beside threads that compute no core is idle.
fn build() -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["test", "--no-install", plan::BUILD_TESTS]);
    let status = command.current_dir(repository::root()).status()?;
    ensure!(status.success(), "the tests cannot be built");
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
    let _ = write!(page, "\n{}", rates(rows));
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
            text.contains("\n| `binary` | 1 | 0 | 1 | 403 |\n"),
            "{text}"
        );
        let read: Vec<Row> = text.lines().filter_map(Row::read).collect();
        assert_eq!(page(&read), text);
        rows.extend(read);
        assert!(page(&rows).contains("\n| `binary` | 2 | 0 | 2 | 403 |\n"));
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
