//! Owns how several rounds on several servers are told: the middle, the range, and ratios to the first server.

use outcome::number::{NONE, short, told};
use outcome::{Contestant, Outcome, middle};

/// A column for each server, and one for the ratio of each other server to the first.
pub fn columns(names: &[&str]) -> Vec<String> {
    let first = names.first().copied().unwrap_or_default();
    let ratios = names.iter().skip(1).map(|name| format!("{name} ÷ {first}"));
    names
        .iter()
        .map(ToString::to_string)
        .chain(ratios)
        .collect()
}

/// The middle of the rounds, and their range where they differ.
pub fn spread(values: &[f64], write: fn(f64) -> String) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    told(middle(values.to_vec()), |middle| match low == high {
        true => write(middle),
        false => format!("{} ({}–{})", write(middle), write(low), write(high)),
    })
}

/// How many times the middle of the first the other one's is.
pub fn ratio(first: &[f64], other: &[f64]) -> Option<f64> {
    let first = middle(first.to_vec()).filter(|own| *own > 0.0)?;
    Some(middle(other.to_vec())? / first)
}

/// The middle of each other server by that of the first.
pub fn ratios(values: &[Vec<f64>]) -> Vec<String> {
    let others = values.iter().skip(1);
    let ratios = others.map(|other| told(ratio(&values[0], other), |x| short(x) + " x"));
    ratios.collect()
}

/// No ratios, for as many servers.
pub fn no_ratios(values: &[Vec<f64>]) -> Vec<String> {
    vec![NONE.into(); values.len() - 1]
}

/// The round with the middle figure.
pub fn middle_run(server: &Contestant, figure: impl Fn(&Outcome) -> f64) -> Option<&Outcome> {
    let mut runs: Vec<&Outcome> = server.runs.iter().collect();
    runs.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    runs.get(runs.len().saturating_sub(1) / 2).copied()
}
