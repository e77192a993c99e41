//! Owns the plots of how a run went, second by second: of one run with all its lines, of several
//! servers with one line each.

use super::plot::{Horizontal, Kind, Line, Look, Plot, Reduce};
use crate::outcome::{Distribution, Outcome, Percentiles, Second};

const MIB: f64 = 1024.0 * 1024.0;
/// Further out than 99.999 nobody reads.
const NINES_MAX: u32 = 5;

const PER_SECOND: &str = "per second";

/// A figure of a second.
type OfSecond = fn(&Second) -> Option<f64>;

/// What stands beside each other whatever was measured.
const BESIDE: [(&str, &str, &str, Reduce, OfSecond); 4] = [
    (
        "throughput",
        "Messages received",
        PER_SECOND,
        Reduce::Mean,
        |s| Some((s.received + s.acked) as f64),
    ),
    (
        "connections",
        "Open connections",
        "connections",
        Reduce::Max,
        connections,
    ),
    ("cpu", "Server CPU", "% of a core", Reduce::Level, |s| {
        s.server_cpu_percent
    }),
    (
        "memory",
        "Server memory",
        "MiB resident",
        Reduce::Level,
        memory_mib,
    ),
];

/// Picks one of the percentiles.
type Percentile = fn(Percentiles) -> f64;

/// Plots of one run.
pub fn of_run(outcome: &Outcome) -> Vec<Plot> {
    let open = line(outcome, "open", 0, Reduce::Max, connections);
    let resident = line(outcome, "resident", 0, Reduce::Level, memory_mib);
    let server = line(outcome, "server", 0, Reduce::Level, |s| {
        s.server_cpu_percent
    });
    let generator = line(outcome, "generator", 2, Reduce::Mean, |s| {
        Some(s.generator_cpu_percent)
    });
    let latencies = [
        latency(outcome, "latency", "Delivery latency", |s| s.delivery),
        latency(outcome, "ack-latency", "Acknowledgement latency", |s| s.ack),
        latency(outcome, "connect-latency", "Connect latency", |s| s.connect),
    ];
    let others = [
        ("throughput", "Messages", PER_SECOND, throughput(outcome)),
        ("connections", "Open connections", "connections", vec![open]),
        (
            "connects",
            "Connects and drops",
            PER_SECOND,
            connects(outcome),
        ),
        ("cpu", "CPU", "% of a core", vec![server, generator]),
        ("memory", "Server memory", "MiB resident", vec![resident]),
    ];
    let others = others
        .into_iter()
        .map(|(id, title, unit, lines)| over_time(&[outcome], id, title, unit, lines));
    let plots = latencies.into_iter().chain(others);
    plots.filter(|plot| !plot.is_empty()).collect()
}

/// Latency over the percentiles; without lines when it is refused.
pub fn latency_by_percentile(outcome: &Outcome) -> Plot {
    let kinds = match outcome.latency_refused() {
        Some(_) => Vec::new(),
        None => outcome.latency.kinds(),
    };
    distribution(&kinds, "Latency by percentile")
}

/// The same plots with one line for each server; without latencies when those of any round are
/// refused.
pub fn of_servers(runs: &[(String, &Outcome)], has_latencies: bool) -> Vec<Plot> {
    let mut plots = Vec::new();
    if has_latencies {
        let p99 = |s: &Second| s.latency().map(|latency| latency.p99_ms);
        plots.push(beside(
            runs,
            "latency",
            "p99 latency",
            "ms",
            Reduce::Max,
            p99,
        ));
        let all: Vec<(&str, &Distribution)> = runs
            .iter()
            .map(|(name, run)| (name.as_str(), run.main_latency()))
            .collect();
        plots.push(distribution(&all, "Latency by percentile"));
    }
    for (id, title, unit, reduce, figure) in BESIDE {
        plots.push(beside(runs, id, title, unit, reduce, figure));
    }
    if let Some(latency) = plots.first_mut().filter(|plot| plot.id == "latency") {
        latency.y = Kind::Log;
    }
    plots.retain(|plot| !plot.is_empty());
    plots
}

fn latency(
    outcome: &Outcome,
    id: &'static str,
    title: &str,
    figure: fn(&Second) -> Option<Percentiles>,
) -> Plot {
    let percentiles: [(&str, Look, Percentile); 5] = [
        ("max", Look::Faint, |p| p.max_ms),
        ("p99.9", Look::Plain(3), |p| p.p999_ms),
        ("p99", Look::Plain(1), |p| p.p99_ms),
        ("p90", Look::Plain(4), |p| p.p90_ms),
        ("p50", Look::Plain(0), |p| p.p50_ms),
    ];
    let lines = percentiles.map(|(name, look, percentile)| {
        let points = outcome.timeline.iter().map(|second| {
            let phase = outcome.phases.get(second.phase);
            let is_shown = phase.map_or(outcome.latency_refused().is_none(), |phase| {
                !outcome.is_refused_in(phase)
            });
            let shown = figure(second).filter(|_| is_shown).map(percentile);
            (second.t_s, shown)
        });
        Line::over_time(name, look, Reduce::Max, points)
    });
    let mut plot = over_time(&[outcome], id, title, "ms", lines.into());
    plot.y = Kind::Log;
    plot
}

/// Latency over the percentiles, with as many nines as there are values for.
fn distribution(all: &[(&str, &Distribution)], title: &str) -> Plot {
    const STEPS_PER_NINE: u32 = 32;
    let most = all
        .iter()
        .map(|(_, latency)| latency.count())
        .max()
        .unwrap_or(0);
    let nines = most.checked_ilog10().unwrap_or(0).clamp(1, NINES_MAX);
    let lines = all.iter().enumerate().map(|(index, (name, latency))| {
        let own_nines = f64::from(latency.count().checked_ilog10().unwrap_or(0));
        let points = (0..=nines * STEPS_PER_NINE).map(|step| {
            let x = f64::from(step) / f64::from(STEPS_PER_NINE);
            let value = latency.at_ms(1.0 - 10f64.powf(-x));
            (x, (!latency.is_empty() && x <= own_nines).then_some(value))
        });
        Line {
            name: (*name).into(),
            look: Look::Plain(index),
            points: points.collect(),
        }
    });
    Plot {
        id: "distribution",
        title: title.into(),
        unit: "ms".into(),
        y: Kind::Log,
        x: Horizontal::Nines { nines },
        lines: lines.collect(),
        marks: Vec::new(),
    }
}

/// Connects, and what went wrong as far as anything did.
fn connects(outcome: &Outcome) -> Vec<Line> {
    let drops = line(outcome, "drops", 3, Reduce::Mean, |s| Some(s.drops as f64));
    let errors = line(outcome, "errors", 1, Reduce::Mean, |s| {
        Some(s.errors as f64)
    });
    let happened = |line: &Line| line.points.iter().any(|point| point.1 > Some(0.0));
    let faults = [drops, errors].into_iter().filter(happened);
    let connects = line(outcome, "connects", 0, Reduce::Mean, |s| {
        Some(s.connects as f64)
    });
    [connects].into_iter().chain(faults).collect()
}

fn throughput(outcome: &Outcome) -> Vec<Line> {
    let mut lines = vec![
        line(outcome, "sent", 4, Reduce::Mean, |s| Some(s.sent as f64)),
        line(outcome, "received", 0, Reduce::Mean, |s| {
            Some(s.received as f64)
        }),
    ];
    let mut expected = line(outcome, "expected", 1, Reduce::Mean, |s| {
        Some(s.expected as f64)
    });
    expected.look = Look::Dashed(1);
    lines.push(expected);
    if outcome.totals.acks_expected > 0 {
        lines.push(line(outcome, "acknowledged", 2, Reduce::Mean, |s| {
            Some(s.acked as f64)
        }));
    }
    let is_quiet = outcome
        .timeline
        .iter()
        .all(|s| s.sent + s.received + s.acked == 0);
    if is_quiet { Vec::new() } else { lines }
}

fn connections(second: &Second) -> Option<f64> {
    Some(second.connections as f64)
}

fn memory_mib(second: &Second) -> Option<f64> {
    second.server_rss_bytes.map(|rss| rss as f64 / MIB)
}

fn line(
    outcome: &Outcome,
    name: &str,
    colour: usize,
    reduce: Reduce,
    figure: impl Fn(&Second) -> Option<f64>,
) -> Line {
    let points = outcome
        .timeline
        .iter()
        .map(|second| (second.t_s, figure(second)));
    Line::over_time(name, Look::Plain(colour), reduce, points)
}

/// Over the time of the longest run; phases are those of the first.
fn over_time(
    runs: &[&Outcome],
    id: &'static str,
    title: &str,
    unit: &str,
    lines: Vec<Line>,
) -> Plot {
    let phases = runs.first().map_or(&[][..], |run| &run.phases);
    let marks = phases
        .iter()
        .map(|phase| (phase.from_s, phase.name.clone()));
    let end_s = runs.iter().map(|run| end_s(run)).fold(0.0, f64::max);
    Plot {
        id,
        title: title.into(),
        unit: unit.into(),
        y: Kind::Linear,
        x: Horizontal::Seconds { end_s },
        lines,
        marks: marks.collect(),
    }
}

fn beside(
    runs: &[(String, &Outcome)],
    id: &'static str,
    title: &str,
    unit: &str,
    reduce: Reduce,
    figure: OfSecond,
) -> Plot {
    let lines = runs.iter().enumerate();
    let lines = lines.map(|(index, (name, run))| line(run, name, index, reduce, figure));
    let outcomes: Vec<&Outcome> = runs.iter().map(|(_, run)| *run).collect();
    over_time(&outcomes, id, title, unit, lines.collect())
}

fn end_s(outcome: &Outcome) -> f64 {
    let last = outcome.timeline.last().map_or(0.0, |second| second.t_s);
    last.max(outcome.duration_s)
}
