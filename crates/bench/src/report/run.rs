//! Owns the report of one run: which sections it has and what stands in them.

use super::document::{Block, Document, Section};
use super::verdict::{badges, verdict};
use super::{course, figures};
use crate::machine::Machine;
use crate::outcome::Outcome;

/// The report of `outcome`, read from the file called `source`.
pub fn document(outcome: &Outcome, source: &str) -> Document {
    let mut sections = vec![
        Section::new("Summary", figures::summary(outcome)),
        Section::half("Latency", latency(outcome)),
        Section::half("Loss, duplicates and order", figures::account(outcome)),
    ];
    let plots = course::of_run(outcome);
    if !plots.is_empty() {
        sections.push(Section::new("Course of the run", vec![Block::Plots(plots)]));
    }
    sections.push(Section::half("Connections", figures::connections(outcome)));
    sections.push(Section::half("Generator", figures::generator(outcome)));
    sections.push(Section::new(
        "Server processes",
        figures::processes(outcome),
    ));
    if let Some(crowd) = figures::crowd(outcome) {
        sections.push(Section::half("Crowd", crowd));
    }
    if let Some(errors) = figures::errors(outcome) {
        sections.push(Section::half("Errors by kind", vec![errors]));
    }
    if !outcome.notes.is_empty() {
        let notes = outcome.notes.iter().cloned().map(Block::Text).collect();
        sections.push(Section::new("Notes", notes));
    }
    Document {
        title: format!("{} on {}", outcome.scenario, outcome.server),
        description: outcome.description.clone(),
        badges: badges(outcome),
        verdict: verdict(outcome),
        tiles: figures::tiles(outcome),
        sections,
        origin: vec![origin(&outcome.machine, source)],
    }
}

fn latency(outcome: &Outcome) -> Vec<Block> {
    let plot = course::latency_by_percentile(outcome);
    let plot = (!plot.is_empty()).then(|| Block::Plots(vec![plot]));
    figures::latency(outcome).into_iter().chain(plot).collect()
}

/// Where figures come from, in a sentence.
pub fn origin(machine: &Machine, source: &str) -> String {
    let commit = machine
        .commit
        .as_deref()
        .map(|c| format!(" at commit {c}"))
        .unwrap_or_default();
    format!(
        "Measured {}{commit} on {} ({} cores, {:.0} GiB), kernel {}; load average before the run \
         {:.1}. Figures: {source}.",
        machine.date(),
        machine.cpu,
        machine.cores,
        machine.memory_gib,
        machine.kernel,
        machine.load_before,
    )
}
