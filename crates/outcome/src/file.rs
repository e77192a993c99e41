//! Owns reading and writing of result files: `format`, `kind`, then the run or the comparison.
//! Written so that a person finds the figures at the top and a diff shows single seconds: objects
//! are indented to a small depth, and what lies deeper stays on one line.

use super::{Comparison, FORMAT, Outcome, Suite};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Depth below which values are written on one line.
const INDENTED_DEPTH: usize = 2;

/// What a result file may hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ResultFile {
    Run(Box<Outcome>),
    Comparison(Comparison),
    Suite(Suite),
}

#[derive(Serialize)]
struct Versioned<'a> {
    format: u32,
    #[serde(flatten)]
    content: &'a ResultFile,
}

/// Read first, so that a file of another version is refused by name and not by a missing field.
#[derive(Deserialize)]
struct Version {
    format: Option<u32>,
}

impl ResultFile {
    pub fn scenario(&self) -> &str {
        match self {
            ResultFile::Run(outcome) => &outcome.scenario,
            ResultFile::Comparison(comparison) => &comparison.scenario,
            ResultFile::Suite(_) => "suite",
        }
    }

    /// Every run in the file, with the server it was on.
    pub fn runs(&self) -> Vec<&Outcome> {
        match self {
            ResultFile::Run(outcome) => vec![outcome],
            ResultFile::Suite(suite) => suite.runs(),
            ResultFile::Comparison(comparison) => comparison.runs().collect(),
        }
    }

    pub fn to_json(&self) -> Result<String> {
        let versioned = Versioned {
            format: FORMAT,
            content: self,
        };
        Ok(indented(&serde_json::to_string(&versioned)?))
    }

    pub fn from_json(text: &str) -> Result<ResultFile> {
        let version: Version = serde_json::from_str(text)?;
        match version.format {
            Some(FORMAT) => Ok(serde_json::from_str(text)?),
            Some(other) => bail!("its format is {other}, this program reads {FORMAT}"),
            None => bail!("it is not the result of a scenario: there is no \"format\""),
        }
    }
}

pub fn load(path: &Path) -> Result<ResultFile> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read result {}", path.display()))?;
    ResultFile::from_json(&text).with_context(|| format!("cannot use result {}", path.display()))
}

pub fn save(file: &ResultFile, path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make folder {}", folder.display()))?;
    }
    std::fs::write(path, file.to_json()?)
        .with_context(|| format!("cannot write result {}", path.display()))
}

/// Breaks the lines of compact JSON, down to `INDENTED_DEPTH`.
fn indented(compact: &str) -> String {
    let mut out = String::with_capacity(compact.len() * 2);
    let (mut depth, mut in_text, mut is_escaped, mut last) = (0, false, false, ' ');
    for c in compact.chars() {
        if !in_text && depth <= INDENTED_DEPTH {
            let (opened, closes) = (matches!(last, '{' | '['), matches!(c, '}' | ']'));
            if opened != closes || last == ',' {
                out.push('\n');
                out.push_str(&"  ".repeat(depth - usize::from(closes)));
            }
            out.push_str(if last == ':' { " " } else { "" });
        }
        match c {
            '"' if !is_escaped => in_text = !in_text,
            '{' | '[' if !in_text => depth += 1,
            '}' | ']' if !in_text => depth -= 1,
            _ => {}
        }
        is_escaped = in_text && c == '\\' && !is_escaped;
        out.push(c);
        last = c;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Contestant, Distribution, Phase, Second};

    fn outcome() -> Outcome {
        let delivery = Distribution::of(&[(1_000_000, 3), (2_500_000, 1)]);
        let mut outcome = Outcome {
            scenario: "chat \"10k\" <&>\n".into(),
            scale: 0.02,
            partial: Some("interrupted".into()),
            ..Outcome::default()
        };
        outcome.phases = vec![Phase {
            name: "hold".into(),
            delivery: delivery.clone(),
            ..Phase::default()
        }];
        outcome.timeline = vec![
            Second {
                t_s: 1.0,
                delivery: delivery.percentiles(),
                ..Second::default()
            };
            2
        ];
        outcome.errors.insert("connect: refused".into(), 3);
        outcome
    }

    #[test]
    fn what_is_written_is_read_again() {
        let comparison = Comparison {
            scenario: "ticker".into(),
            servers: vec![Contestant {
                name: "a".into(),
                runs: vec![outcome()],
            }],
            notes: vec!["interleaved".into()],
        };
        for file in [
            ResultFile::Run(Box::new(outcome())),
            ResultFile::Comparison(comparison),
        ] {
            let text = file.to_json().unwrap();
            let again = ResultFile::from_json(&text).unwrap();
            assert_eq!(again.to_json().unwrap(), text);
            let plain: serde_json::Value = serde_json::from_str(&text).unwrap();
            let direct = serde_json::to_value(&file).unwrap();
            assert_eq!(plain["format"], FORMAT);
            for (key, value) in direct.as_object().unwrap() {
                assert_eq!(&plain[key], value, "{key}");
            }
            assert_eq!(again.runs()[0].phases, outcome().phases);
            assert_eq!(again.runs()[0].timeline, outcome().timeline);
        }
    }

    #[test]
    fn a_second_is_a_line() {
        let text = ResultFile::Run(Box::new(outcome())).to_json().unwrap();
        let seconds = text
            .lines()
            .filter(|line| line.contains("\"t_s\":1.0"))
            .count();
        assert_eq!(seconds, 2);
        assert!(
            text.starts_with("{\n  \"format\": 1,\n  \"kind\": \"run\",\n"),
            "{text}"
        );
    }

    #[test]
    fn other_versions_and_other_files_are_refused_by_name() {
        let refusal = |text: &str| ResultFile::from_json(text).unwrap_err().to_string();
        assert_eq!(
            refusal("{\"format\": 2}"),
            "its format is 2, this program reads 1"
        );
        assert!(refusal("{\"machine\": {}, \"runs\": []}").contains("there is no \"format\""));
    }
}
