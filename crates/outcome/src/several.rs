//! Owns results of several runs: of one scenario on several servers, and of the suite.

use super::{Outcome, Phase};
use serde::{Deserialize, Serialize};

/// The same scenario on several servers in one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Comparison {
    pub scenario: String,
    /// In the order of the command line; the first is what ratios are drawn to.
    pub servers: Vec<Contestant>,
    /// How the rounds were interleaved, for the reader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Several servers on many cases.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Suite {
    pub cases: Vec<CaseResult>,
}

/// One case of the suite, with every round of every server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseResult {
    pub case: String,
    pub about: String,
    /// Subject of the case.
    pub figure: Figure,
    pub servers: Vec<Contestant>,
    /// Runs without any result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// Kind of figure that a case yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    BytesPerConnection,
    CpuUsPerConnect,
    CpuUsPerMessage,
    P99Ms,
}

impl Suite {
    /// Names in the order in which they first occur.
    pub fn servers(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for server in self.cases.iter().flat_map(|case| &case.servers) {
            if !names.contains(&server.name) {
                names.push(server.name.clone());
            }
        }
        names
    }

    pub fn runs(&self) -> Vec<&Outcome> {
        let servers = self.cases.iter().flat_map(|case| &case.servers);
        servers.flat_map(|server| &server.runs).collect()
    }

    /// Takes over the cases of `old` that were not measured again, in its order.
    pub fn keep(&mut self, old: Suite) {
        let mut fresh = std::mem::take(&mut self.cases);
        for case in old.cases {
            match fresh.iter().position(|own| own.case == case.case) {
                Some(at) => self.cases.push(fresh.remove(at)),
                None => self.cases.push(case),
            }
        }
        self.cases.append(&mut fresh);
    }
}

impl Comparison {
    pub fn runs(&self) -> impl Iterator<Item = &Outcome> {
        self.servers.iter().flat_map(|server| &server.runs)
    }
}

impl CaseResult {
    pub fn server(&self, name: &str) -> Option<&Contestant> {
        self.servers.iter().find(|server| server.name == name)
    }
}

impl Contestant {
    pub fn new(name: &str) -> Contestant {
        Contestant {
            name: name.to_owned(),
            runs: Vec::new(),
        }
    }
}

/// The median.
pub fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

/// One server of a comparison with its rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Contestant {
    pub name: String,
    pub runs: Vec<Outcome>,
}

impl Figure {
    /// What the run says; `None` when it says nothing.
    pub fn of(self, run: &Outcome) -> Option<f64> {
        let measured = run.phases.last()?;
        match self {
            Figure::BytesPerConnection => slope(run.phases.first()?, measured),
            Figure::CpuUsPerConnect => {
                let connects = run.totals.connects_succeeded;
                (connects > 0).then_some(run.server_cpu_s()? * 1e6 / connects as f64)
            }
            Figure::CpuUsPerMessage => measured.cpu_us_per_message(),
            Figure::P99Ms => Some(measured.main_latency().percentiles()?.p99_ms),
        }
    }
}

/// The process itself, without any connection, cancels out.
fn slope(few: &Phase, many: &Phase) -> Option<f64> {
    let grown = many.server_rss_bytes? as f64 - few.server_rss_bytes? as f64;
    let more = many.connections.checked_sub(few.connections)?;
    (more > 0).then_some(grown / more as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_count_is_between_the_two() {
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(middle(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(middle(vec![]), None);
    }

    #[test]
    fn a_second_suite_replaces_its_cases_and_keeps_the_others() {
        let suite = |cases: &[(&str, &str)]| Suite {
            cases: cases
                .iter()
                .map(|(case, about)| CaseResult {
                    case: (*case).into(),
                    about: (*about).into(),
                    figure: Figure::P99Ms,
                    servers: Vec::new(),
                    failures: Vec::new(),
                })
                .collect(),
        };
        let mut new = suite(&[("d", "new"), ("b", "new")]);
        new.keep(suite(&[("a", "old"), ("b", "old"), ("c", "old")]));
        let kept = new.cases.iter().map(|case| (&*case.case, &*case.about));
        let expected = [("a", "old"), ("b", "new"), ("c", "old"), ("d", "new")];
        assert_eq!(kept.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn memory_is_the_slope_between_two_counts() {
        let phase = |connections, rss| Phase {
            connections,
            server_rss_bytes: Some(rss),
            ..Phase::default()
        };
        let run = Outcome {
            phases: vec![phase(1_000, 5_000_000), phase(6_000, 7_000_000)],
            ..Outcome::default()
        };
        assert_eq!(Figure::BytesPerConnection.of(&run), Some(400.0));
    }
}
