//! `cargo xtask test`: checks, then every test there is, each against the real thing, in lanes. What CI runs.

use crate::install::{self, For};
use crate::plan;
use crate::report::Report;
use crate::steps::Step;
use anyhow::{Result, bail};

/// Cases of Autobahn's sections 1-7, 9 and 10.
const AUTOBAHN_QUICK_CASES: u64 = 301;

/// Which tests belong together, by what they need and how long they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Before each commit: checks and the tests that need no process.
    Fast,
    /// The real binary; nothing but Rust and a C++ compiler.
    Binary,
    /// Programs of others: clients in three languages, proxies, Prometheus, a browser.
    Foreign,
    /// Long runs; only when asked for.
    Nightly,
}

impl Lane {
    pub fn name(self) -> &'static str {
        match self {
            Lane::Fast => "fast",
            Lane::Binary => "binary",
            Lane::Foreign => "foreign",
            Lane::Nightly => "nightly",
        }
    }

    fn needs(self) -> For {
        match self {
            Lane::Fast => For::Fast,
            Lane::Binary => For::Binary,
            Lane::Foreign | Lane::Nightly => For::Foreign,
        }
    }
}

/// A step of a lane.
#[derive(Debug)]
pub struct Entry {
    pub lane: Lane,
    pub name: &'static str,
    pub group: Group,
    /// In its group it comes after the step before it, and beside those of other rows.
    pub follows: bool,
    pub run: Run,
}

/// Neighbours in the plan that run beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Neighbour to nobody.
    Alone,
    /// The build, and downloads of what it does not need.
    Build,
    /// Tests of the gateway alone, and what computes meanwhile.
    Gateway,
    /// Its tests that wait for other programs, and what computes meanwhile.
    Waiting,
    /// Tests of the other crates that wait.
    Crates,
    /// Clients and workers in all languages.
    Clients,
}

/// How a step is run.
#[derive(Debug)]
pub enum Run {
    Command(fn() -> Step),
    Check(fn() -> Result<()>),
    /// Needs a Python 2.7, which is not to be had everywhere.
    Autobahn(fn() -> Step),
}

pub fn run(only: &[String], may_install: bool) -> Result<()> {
    let chosen = choose(only)?;
    let mut report = Report::default();
    // Hosted runners set it.
    if std::env::var_os("CI").is_some_and(|set| !set.is_empty()) {
        report.demand_all();
    }
    let mut downloads = None;
    if may_install {
        let needs = chosen.iter().map(|entry| entry.lane.needs()).max();
        match needs {
            Some(For::Foreign) => {
                report.check("install", || install::tools(For::Binary));
                downloads = Some(plan::downloads());
            }
            Some(needs) => report.check("install", || install::all(needs)),
            None => {}
        }
    }
    let mut rest = &chosen[..];
    while let Some(first) = rest.first() {
        let alike = |entry: &&&Entry| first.group != Group::Alone && entry.group == first.group;
        let count = rest.iter().take_while(alike).count().max(1);
        let (now, later) = rest.split_at(count);
        let downloads = downloads.take_if(|_| first.group == Group::Build);
        run_group(now, downloads, &mut report);
        rest = later;
    }
    let is_chosen = |name: &&str| chosen.iter().any(|entry| entry.name == *name);
    if plan::FOREIGN_TESTS.iter().all(is_chosen) {
        report.foreign_tests_were_run();
    }
    if !report.close() {
        bail!("not everything passed");
    }
    Ok(())
}

fn run_group(entries: &[&Entry], downloads: Option<Step>, report: &mut Report) {
    let mut rows: Vec<Vec<Step>> = downloads.into_iter().map(|step| vec![step]).collect();
    for entry in entries {
        let step = match entry.run {
            Run::Check(check) => {
                report.check(entry.name, check);
                continue;
            }
            Run::Autobahn(_) if install::python27().is_none() => {
                let why = "no Python 2.7, which the suite is written in: pyenv install 2.7.18, or name one with PYTHON27";
                report.skip(entry.name, AUTOBAHN_QUICK_CASES, why);
                continue;
            }
            Run::Command(step) | Run::Autobahn(step) => step(),
        };
        match rows.last_mut() {
            Some(row) if entry.follows => row.push(step),
            _ => rows.push(vec![step]),
        }
    }
    report.together(&rows);
}

/// Lanes by their names, or steps whose name contains a word; without any, all that CI runs. A word that means nothing would pass
/// without running anything. Whatever runs a program is led by the step that builds it.
pub fn choose(words: &[String]) -> Result<Vec<&'static Entry>> {
    let means = |word: &str, entry: &Entry| {
        entry.lane.name() == word || (!is_lane(word) && entry.name.contains(word))
    };
    for word in words {
        if !plan::ENTRIES.iter().any(|entry| means(word, entry)) {
            let names: Vec<_> = plan::ENTRIES.iter().map(|entry| entry.name).collect();
            bail!(
                "no lane and no step is called {word:?}; lanes: fast, binary, foreign, nightly; steps: {}",
                names.join(", ")
            );
        }
    }
    let is_meant = |entry: &Entry| match words {
        [] => entry.lane != Lane::Nightly,
        words => words.iter().any(|word| means(word, entry)),
    };
    let runs_programs = |entry: &Entry| entry.lane != Lane::Fast;
    let mut meant = plan::ENTRIES.iter().filter(|entry| is_meant(entry));
    let builds = meant.any(runs_programs);
    let chosen = plan::ENTRIES
        .iter()
        .filter(|entry| is_meant(entry) || (builds && entry.name == plan::BUILD));
    Ok(chosen.collect())
}

fn is_lane(word: &str) -> bool {
    plan::ENTRIES.iter().any(|entry| entry.lane.name() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(words: &[&str]) -> Result<Vec<&'static str>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let entries = choose(&words).map_err(|error| error.to_string())?;
        Ok(entries.iter().map(|entry| entry.name).collect())
    }

    #[test]
    fn only_lanes_and_steps_that_exist_can_be_asked_for() {
        assert_eq!(
            chosen(&["js"]),
            Ok(vec!["build", "js clients", "js timing"])
        );
        let error = chosen(&["js", "jss"]).expect_err("a slip");
        assert!(
            error.starts_with("no lane and no step is called \"jss\""),
            "{error}"
        );
    }

    /// On a fresh checkout there was no gateway to run.
    #[test]
    fn a_step_that_runs_a_program_was_run_before_it_was_built() {
        assert_eq!(chosen(&["browser"]), Ok(vec!["build", "browser"]));
        assert_eq!(chosen(&["foreign"]).map(|steps| steps[0]), Ok("build"));
        assert_eq!(chosen(&["lints"]), Ok(vec!["lints"]));
    }

    #[test]
    fn without_a_word_all_but_the_nights_are_run() {
        let all = chosen(&[]).expect("all");
        let lanes = chosen(&["fast", "binary", "foreign"]).expect("three lanes");
        assert_eq!(all, lanes);
        assert!(
            !all.contains(&"long fuzz") && all.contains(&"browser"),
            "{all:?}"
        );
    }
}
