//! Owns the report of one run: which sections it has and what stands in them.

use super::document::{Block, Document, Section};
use super::{course, figures};
use outcome::Outcome;
use outcome::verdict::{badges, verdict};

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
    let processes = figures::processes(outcome);
    sections.push(Section::new("Server processes", processes));
    let crowd = figures::crowd(outcome);
    sections.extend(crowd.map(|crowd| Section::half("Crowd", crowd)));
    let errors = figures::errors(outcome);
    sections.extend(errors.map(|errors| Section::half("Errors by kind", vec![errors])));
    sections.extend(notes(&outcome.notes));
    Document {
        title: format!("{} on {}", outcome.scenario, outcome.server),
        description: outcome.description.clone(),
        badges: badges(outcome),
        verdict: verdict(outcome),
        tiles: figures::tiles(outcome),
        sections,
        origin: origins(Some(outcome), source),
    }
}

fn latency(outcome: &Outcome) -> Vec<Block> {
    let plot = course::latency_by_percentile(outcome);
    let plot = (!plot.is_empty()).then(|| Block::Plots(vec![plot]));
    figures::latency(outcome).into_iter().chain(plot).collect()
}

pub fn notes(notes: &[String]) -> Option<Section> {
    let blocks = notes.iter().cloned().map(Block::Text).collect();
    (!notes.is_empty()).then(|| Section::new("Notes", blocks))
}

/// Where figures come from, in a sentence.
pub fn origins(run: Option<&Outcome>, source: &str) -> Vec<String> {
    let origin = run.map(|Outcome { machine, .. }| {
        let commit = machine.commit.as_deref();
        let commit = commit.map_or(String::new(), |commit| format!(" at commit {commit}"));
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
    });
    origin.into_iter().collect()
}
