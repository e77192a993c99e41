//! Owns the result file: every sample of every round with the facts of the machine, and the
//! medians drawn from them. What a report shows is computed from this file and nothing else.

use crate::measure::{Case, Sample};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    pub machine: Machine,
    /// Contenders in column order.
    pub servers: Vec<String>,
    pub quick: bool,
    pub runs: Vec<Run>,
}

/// One measurement of one server in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub case: Case,
    pub server: String,
    pub round: u32,
    pub sample: Option<Sample>,
    /// Why there is no sample.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub started_unix_s: u64,
    pub cpu: String,
    pub cores: usize,
    pub kernel: String,
    pub memory_gib: f64,
    /// One-minute load average when the run began: other people's work.
    pub load_before: f64,
    pub node: Option<String>,
    pub socket_io: Option<String>,
    pub commit: Option<String>,
}

/// The middle of the valid samples of one case and server.
#[derive(Clone, Debug, Default)]
pub struct Median {
    pub valid: usize,
    pub invalid: usize,
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub per_second: Option<f64>,
    pub cpu_us: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
    pub server_cores: f64,
    pub generator_cores: f64,
    pub lag_p99_ms: Option<f64>,
    pub rss_bytes: f64,
}

impl Results {
    pub fn load(path: &Path) -> Result<Results> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read results {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))
    }

    pub fn save(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Takes over the runs of `old` for every case that was not measured again, in its order.
    pub fn keep(&mut self, old: Results) {
        let measured = self.cases();
        let mut fresh = std::mem::take(&mut self.runs);
        for case in old.cases() {
            let is_case = |run: &Run| run.case == case;
            let source = if measured.contains(&case) {
                &fresh
            } else {
                &old.runs
            };
            self.runs
                .extend(source.iter().filter(|run| is_case(run)).cloned());
            fresh.retain(|run| !is_case(run));
        }
        self.runs.append(&mut fresh);
        let mut servers = old.servers;
        servers.append(&mut self.servers);
        for server in servers {
            if !self.servers.contains(&server) {
                self.servers.push(server);
            }
        }
    }

    /// Cases by family, and within one in the order they were run.
    pub fn cases(&self) -> Vec<Case> {
        let mut cases: Vec<Case> = Vec::new();
        for run in &self.runs {
            if !cases.contains(&run.case) {
                cases.push(run.case);
            }
        }
        cases.sort_by_key(Case::family);
        cases
    }

    /// Most rounds that any case was run.
    pub fn rounds(&self) -> u32 {
        self.runs.iter().map(|run| run.round).max().unwrap_or(0)
    }

    /// `None` when the server was not measured in this case.
    pub fn median(&self, case: &Case, server: &str) -> Option<Median> {
        let runs = self
            .runs
            .iter()
            .filter(|run| run.case == *case && run.server == server);
        let runs: Vec<&Run> = runs.collect();
        let valid: Vec<&Sample> = runs
            .iter()
            .filter_map(|run| run.sample.as_ref())
            .filter(|sample| sample.problems.is_empty())
            .collect();
        (!runs.is_empty()).then(|| Median::of(&valid, runs.len() - valid.len()))
    }

    /// Problems and errors, one line each.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for run in &self.runs {
            let at = format!("{} on {} (round {})", run.case.id(), run.server, run.round);
            let problems = run.sample.iter().flat_map(|sample| &sample.problems);
            faults.extend(
                problems
                    .chain(&run.error)
                    .map(|problem| format!("{at}: {problem}")),
            );
        }
        faults
    }
}

impl Median {
    fn of(samples: &[&Sample], invalid: usize) -> Median {
        let of = |figure: &dyn Fn(&Sample) -> Option<f64>| {
            middle(samples.iter().filter_map(|sample| figure(sample)).collect())
        };
        let values = samples.iter().map(|sample| sample.value);
        Median {
            valid: samples.len(),
            invalid,
            value: of(&|s| Some(s.value)).unwrap_or(f64::NAN),
            low: values.clone().fold(f64::INFINITY, f64::min),
            high: values.fold(f64::NEG_INFINITY, f64::max),
            per_second: of(&|s| s.per_second),
            cpu_us: of(&|s| s.cpu_us),
            p50_ms: of(&|s| s.latency.map(|l| l.p50_ms)),
            p99_ms: of(&|s| s.latency.map(|l| l.p99_ms)),
            max_ms: of(&|s| s.latency.map(|l| l.max_ms)),
            server_cores: of(&|s| Some(s.server_cores)).unwrap_or(f64::NAN),
            generator_cores: of(&|s| Some(s.generator_cores)).unwrap_or(f64::NAN),
            lag_p99_ms: of(&|s| s.generator_lag_p99_ms),
            rss_bytes: of(&|s| Some(s.rss_bytes as f64)).unwrap_or(f64::NAN),
        }
    }
}

/// The median.
pub(crate) fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(servers: &[&str], cases: &[(u32, &str)]) -> Results {
        let machine = Machine::detect(Path::new("."));
        let runs = cases.iter().map(|&(connections, server)| Run {
            case: Case::Connect { connections },
            server: server.into(),
            round: 1,
            sample: None,
            error: Some("not run".into()),
        });
        let servers = servers.iter().map(ToString::to_string).collect();
        Results {
            machine,
            servers,
            quick: false,
            runs: runs.collect(),
        }
    }

    #[test]
    fn a_second_run_replaces_its_cases_and_keeps_the_others() {
        let old = results(&["a", "b"], &[(1, "a"), (1, "b"), (2, "a"), (3, "a")]);
        let mut new = results(&["a", "c"], &[(4, "a"), (2, "a"), (2, "c")]);
        new.keep(old);
        assert_eq!(new.servers, ["a", "b", "c"]);
        let order: Vec<_> = new
            .runs
            .iter()
            .map(|run| (run.case, run.server.as_str()))
            .collect();
        let expected = [(1, "a"), (1, "b"), (2, "a"), (2, "c"), (3, "a"), (4, "a")];
        let expected =
            expected.map(|(connections, server)| (Case::Connect { connections }, server));
        assert_eq!(order, expected);
    }

    #[test]
    fn the_middle_of_an_even_count_is_between_the_two() {
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(middle(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(middle(vec![]), None);
    }
}
