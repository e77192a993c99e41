//! The two text formats that Prometheus reads: OpenMetrics 1.0 for who asks for it, else the classic format 0.0.4. They
//! differ in the names of counters' descriptions, in how bounds are written, and in the last line.

use super::row::{Kind, Metric};
use super::table::GROUPS;
use super::{Buckets, Samples, View};
use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Classic,
}

impl Format {
    /// What an Accept header asks for; Prometheus names OpenMetrics, people's tools do not.
    pub fn accepted(accept: &str) -> Format {
        if accept.contains("application/openmetrics-text") {
            Format::OpenMetrics
        } else {
            Format::Classic
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Name in the HELP and TYPE lines: OpenMetrics names the family, the classic format the series.
    fn family(self, metric: &Metric) -> &'static str {
        match self {
            Format::OpenMetrics if metric.kind == Kind::Counter => {
                metric.name.strip_suffix("_total").unwrap_or(metric.name)
            }
            _ => metric.name,
        }
    }

    /// OpenMetrics wants numbers that are the same text everywhere: `5.0`, not `5`.
    fn bound(self, bound: f64) -> String {
        match self {
            Format::OpenMetrics => format!("{bound:?}"),
            Format::Classic => bound.to_string(),
        }
    }
}

pub(super) fn encode(view: &View<'_>, prefix: &str, format: Format) -> String {
    let mut out = String::with_capacity(32 * 1024);
    let all = GROUPS.iter().flat_map(|group| group.metrics);
    for metric in all.filter(|metric| metric.name.starts_with(prefix)) {
        let samples = view.read(metric);
        if samples == Samples::One(None) {
            continue;
        }
        describe(&mut out, metric, format);
        write_samples(&mut out, metric, &samples, format);
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn describe(out: &mut String, metric: &Metric, format: Format) {
    let (family, help) = (format.family(metric), metric.help);
    let kind = metric.kind.name();
    // Writing to a string does not fail.
    let _ = write!(out, "# HELP {family} {help}\n# TYPE {family} {kind}\n");
}

fn write_samples(out: &mut String, metric: &Metric, samples: &Samples, format: Format) {
    let name = metric.name;
    match samples {
        Samples::One(value) => {
            let _ = writeln!(out, "{name} {}", value.unwrap_or_default());
        }
        Samples::Labelled(values) => {
            for (label, value) in values {
                let _ = writeln!(out, "{name}{{{}}} {value}", labels(metric, label));
            }
        }
        Samples::Histogram(buckets) => histogram(out, name, "", buckets, format),
        Samples::Histograms(all) => {
            for (label, buckets) in all {
                histogram(out, name, &labels(metric, label), buckets, format);
            }
        }
    }
}

/// `call="emit",door="http"`
fn labels(metric: &Metric, values: &str) -> String {
    let pairs = metric.label.split(',').zip(values.split(','));
    let pairs: Vec<String> = pairs
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    pairs.join(",")
}

fn histogram(out: &mut String, name: &str, labels: &str, buckets: &Buckets, format: Format) {
    let (own, before_le) = match labels {
        "" => (String::new(), String::new()),
        _ => (format!("{{{labels}}}"), format!("{labels},")),
    };
    let bounds = buckets.bounds.iter().map(|bound| format.bound(*bound));
    let mut count = 0;
    for (le, n) in bounds.chain(["+Inf".to_owned()]).zip(&buckets.counts) {
        count += n;
        let _ = writeln!(out, "{name}_bucket{{{before_le}le=\"{le}\"}} {count}");
    }
    let sum = buckets.sum;
    let _ = write!(out, "{name}_sum{own} {sum}\n{name}_count{own} {count}\n");
}
