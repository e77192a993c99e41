//! Owns the plots of how a run went, second by second: of one run with all its lines, of several
//! servers with one line each.

use super::plot::{Horizontal, Kind, Line, Look, Plot, Reduce};
use outcome::{Distribution, Outcome, Percentiles, Second};

/// Further out than 99.999 nobody reads.
const NINES_MAX: u32 = 5;

/// Something that each second has.
#[derive(Clone, Copy)]
struct Series {
    name: &'static str,
    look: Look,
    reduce: Reduce,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    Count(fn(&Second) -> u64),
    Figure(fn(&Second) -> Option<f64>),
}

/// Plot, title, unit and lines of one run beside its latencies. A line that is zero throughout is left out.
const COURSE: [(&str, &str, &str, &[Series]); 5] = [
    ("throughput", "Messages", "per second", &THROUGHPUT),
    ("connections", "Open connections", "connections", &[OPEN]),
    ("connects", "Connects and drops", "per second", &CONNECTS),
    ("cpu", "CPU", "% of a core", &[SERVER_CPU, GENERATOR_CPU]),
    ("memory", "Server memory", "MiB resident", &[MEMORY]),
];
/// The same of several servers, with a line for each.
const BESIDE: [(&str, &str, &str, Series); 4] = [
    ("throughput", "Messages received", "per second", RECEIVED),
    ("connections", "Open connections", "connections", OPEN),
    ("cpu", "Server CPU", "% of a core", SERVER_CPU),
    ("memory", "Server memory", "MiB resident", MEMORY),
];
const THROUGHPUT: [Series; 4] = [
    mean("sent", 4, |s| s.sent),
    mean("received", 0, |s| s.received),
    Series {
        look: Look::Dashed(1),
        ..mean("expected", 1, |s| s.expected)
    },
    mean("acknowledged", 2, |s| s.acked),
];
const CONNECTS: [Series; 3] = [
    mean("connects", 0, |s| s.connects),
    mean("drops", 3, |s| s.drops),
    mean("errors", 1, |s| s.errors),
];
const RECEIVED: Series = mean("received", 0, |s| s.received + s.acked);
const OPEN: Series = Series {
    reduce: Reduce::Max,
    ..mean("open", 0, |s| s.connections)
};
const SERVER_CPU: Series = level("server", |s| s.server_cpu_percent);
const GENERATOR_CPU: Series = Series {
    look: Look::Plain(2),
    reduce: Reduce::Mean,
    ..level("generator", |s| Some(s.generator_cpu_percent))
};
const MEMORY: Series = level("resident", |s| {
    s.server_rss_bytes.map(|rss| rss as f64 / 1024.0 / 1024.0)
});

const fn mean(name: &'static str, colour: usize, of: fn(&Second) -> u64) -> Series {
    Series {
        name,
        look: Look::Plain(colour),
        reduce: Reduce::Mean,
        of: Of::Count(of),
    }
}

const fn level(name: &'static str, of: fn(&Second) -> Option<f64>) -> Series {
    Series {
        name,
        look: Look::Plain(0),
        reduce: Reduce::Level,
        of: Of::Figure(of),
    }
}

impl Series {
    fn line(&self, run: &Outcome) -> Line {
        let value = |second: &Second| match self.of {
            Of::Count(of) => Some(of(second) as f64),
            Of::Figure(of) => of(second),
        };
        let points = run.timeline.iter().map(|s| (s.t_s, value(s)));
        Line::over_time(self.name, self.look, self.reduce, points)
    }
}

/// Plots of one run.
pub fn of_run(run: &Outcome) -> Vec<Plot> {
    let mut plots = vec![
        latency(run, "latency", "Delivery latency", |s| s.delivery),
        latency(run, "ack-latency", "Acknowledgement latency", |s| s.ack),
        latency(run, "connect-latency", "First connect latency", |s| {
            s.connect
        }),
        latency(run, "return-latency", "Return latency", |s| s.again),
    ];
    plots.extend(COURSE.map(|(id, title, unit, series)| {
        let mut lines: Vec<Line> = series.iter().map(|series| series.line(run)).collect();
        lines.retain(|line| line.points.iter().any(|point| point.1 > Some(0.0)));
        over_time(&[run], (id, title, unit), lines)
    }));
    plots.retain(|plot| !plot.is_empty());
    plots
}

/// Latency over the percentiles; without lines when it is refused.
pub fn latency_by_percentile(outcome: &Outcome) -> Plot {
    distribution(&match outcome.latency_refused() {
        Some(_) => Vec::new(),
        None => outcome.latency.kinds(),
    })
}

/// The same plots with one line for each server; without latencies when those of any round are
/// refused.
pub fn of_servers(runs: &[(String, &Outcome)], has_latencies: bool) -> Vec<Plot> {
    let outcomes: Vec<&Outcome> = runs.iter().map(|(_, run)| *run).collect();
    let beside = |about, series: Series| {
        let lines = runs.iter().enumerate().map(|(index, (name, run))| Line {
            name: name.clone(),
            look: Look::Plain(index),
            ..series.line(run)
        });
        over_time(&outcomes, about, lines.collect())
    };
    let mut plots = Vec::new();
    if has_latencies {
        let p99 = level("p99", |s| s.latency().map(|latency| latency.p99_ms));
        let reduce = Reduce::Max;
        let p99 = beside(("latency", "p99 latency", "ms"), Series { reduce, ..p99 });
        plots.push(Plot {
            y: Kind::Log,
            ..p99
        });
        let all = runs.iter().map(|(name, run)| (&**name, run.main_latency()));
        plots.push(distribution(&all.collect::<Vec<_>>()));
    }
    plots.extend(BESIDE.map(|(id, title, unit, series)| beside((id, title, unit), series)));
    plots.retain(|plot| !plot.is_empty());
    plots
}

fn latency(
    outcome: &Outcome,
    id: &'static str,
    title: &str,
    figure: fn(&Second) -> Option<Percentiles>,
) -> Plot {
    type Pick = fn(Percentiles) -> f64;
    let percentiles: [(&str, Look, Pick); 5] = [
        ("max", Look::Faint, |p| p.max_ms),
        ("p99.9", Look::Plain(3), |p| p.p999_ms),
        ("p99", Look::Plain(1), |p| p.p99_ms),
        ("p90", Look::Plain(4), |p| p.p90_ms),
        ("p50", Look::Plain(0), |p| p.p50_ms),
    ];
    let lines = percentiles.map(|(name, look, percentile)| {
        let points = outcome.timeline.iter().map(|second| {
            let is_refused = match outcome.phases.get(second.phase) {
                Some(phase) => outcome.is_refused_in(phase),
                None => outcome.latency_refused().is_some(),
            };
            let shown = figure(second).filter(|_| !is_refused);
            (second.t_s, shown.map(percentile))
        });
        Line::over_time(name, look, Reduce::Max, points)
    });
    Plot {
        y: Kind::Log,
        ..over_time(&[outcome], (id, title, "ms"), lines.into())
    }
}

/// Latency over the percentiles, with as many nines as there are values for.
fn distribution(all: &[(&str, &Distribution)]) -> Plot {
    const STEPS_PER_NINE: u32 = 32;
    let nines_of = |latency: &Distribution| latency.count().checked_ilog10().unwrap_or(0);
    let nines = all.iter().map(|(_, latency)| nines_of(latency)).max();
    let nines = nines.unwrap_or(0).clamp(1, NINES_MAX);
    let lines = all.iter().enumerate().map(|(index, (name, latency))| {
        let points = (0..=nines * STEPS_PER_NINE).map(|step| {
            let x = f64::from(step) / f64::from(STEPS_PER_NINE);
            let is_known = !latency.is_empty() && x <= f64::from(nines_of(latency));
            (x, is_known.then(|| latency.at_ms(1.0 - 10f64.powf(-x))))
        });
        Line {
            name: (*name).into(),
            look: Look::Plain(index),
            points: points.collect(),
        }
    });
    Plot {
        id: "distribution",
        title: "Latency by percentile".into(),
        unit: "ms".into(),
        y: Kind::Log,
        x: Horizontal::Nines { nines },
        lines: lines.collect(),
        marks: Vec::new(),
    }
}

/// Over the time of the longest run; phases are those of the first.
fn over_time(runs: &[&Outcome], about: (&'static str, &str, &str), lines: Vec<Line>) -> Plot {
    let (id, title, unit) = about;
    let phases = runs.first().map_or(&[][..], |run| &run.phases);
    let marks = phases
        .iter()
        .map(|phase| (phase.from_s, phase.name.clone()));
    let end_s = |run: &&Outcome| {
        let last = run.timeline.last().map_or(0.0, |second| second.t_s);
        last.max(run.duration_s)
    };
    Plot {
        id,
        title: title.into(),
        unit: unit.into(),
        y: Kind::Linear,
        x: Horizontal::Seconds {
            end_s: runs.iter().map(end_s).fold(0.0, f64::max),
        },
        lines,
        marks: marks.collect(),
    }
}
