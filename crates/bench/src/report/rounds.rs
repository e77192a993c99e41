//! Owns how several rounds on several servers are told: the middle, the range, and ratios to the first server.

use super::number::short;
use crate::outcome::{Contestant, Outcome, middle};

const NONE: &str = "–";

/// A column for each server, and one for the ratio of each other server to the first.
pub fn columns(names: &[&str]) -> Vec<String> {
    let first = names.first().copied().unwrap_or_default();
    let ratios = names.iter().skip(1);
    let ratios = ratios.map(|name| format!("{name} ÷ {first}"));
    names
        .iter()
        .map(ToString::to_string)
        .chain(ratios)
        .collect()
}

/// The middle of the rounds, and their range where they differ.
pub fn spread(values: &[f64], write: fn(f64) -> String) -> String {
    let Some(middle) = middle(values.to_vec()) else {
        return NONE.into();
    };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match low == high {
        true => write(middle),
        false => format!("{} ({}–{})", write(middle), write(low), write(high)),
    }
}

/// The middle of each other server by that of the first.
pub fn ratios(values: &[Vec<f64>]) -> Vec<String> {
    let middles: Vec<Option<f64>> = values.iter().cloned().map(middle).collect();
    let first = middles.first().copied().flatten().filter(|own| *own > 0.0);
    let ratio = |other: &Option<f64>| match (other, first) {
        (Some(other), Some(first)) => format!("{} x", short(other / first)),
        _ => NONE.into(),
    };
    middles.iter().skip(1).map(ratio).collect()
}

/// The round with the middle figure.
pub fn middle_run(server: &Contestant, figure: impl Fn(&Outcome) -> f64) -> Option<&Outcome> {
    let mut runs: Vec<&Outcome> = server.runs.iter().collect();
    runs.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    runs.get(runs.len().saturating_sub(1) / 2).copied()
}
