//! What a row of the table of metrics is made of.

use super::{Samples, View};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

#[derive(Debug)]
pub(super) struct Metric {
    /// As it is queried: counters with `_total`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Names of its labels, separated by commas; empty if it has none.
    pub(super) label: &'static str,
    pub(super) help: &'static str,
    pub(super) read: fn(&View<'_>) -> Samples,
}

#[derive(Debug)]
#[cfg_attr(
    not(test),
    expect(
        dead_code,
        reason = "titles are for docs/metrics.md, which a test makes"
    )
)]
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) intro: &'static str,
    pub(super) metrics: &'static [Metric],
}

type Read = fn(&View<'_>) -> Samples;

const fn metric(kind: Kind, name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric {
        name,
        kind,
        label: "",
        help,
        read,
    }
}

pub(super) const fn gauge(name: &'static str, help: &'static str, read: Read) -> Metric {
    metric(Kind::Gauge, name, help, read)
}

pub(super) const fn counter(name: &'static str, help: &'static str, read: Read) -> Metric {
    metric(Kind::Counter, name, help, read)
}

pub(super) const fn histogram(name: &'static str, help: &'static str, read: Read) -> Metric {
    metric(Kind::Histogram, name, help, read)
}

impl Metric {
    pub(super) const fn by(mut self, label: &'static str) -> Metric {
        self.label = label;
        self
    }
}
