//! Owns one phase while it is added up, and the judgement whether its latencies are the server's or the generator's own.

use super::tally::Tally;
use outcome::Distribution;
use outcome::{Latencies, Phase, Second};

/// A worker that works, or waits for a core, for more of its time than this hears everything late.
pub const BUSY_CORES: f64 = 0.95;
/// Share of seconds in which a worker may be that busy.
const BUSY_SECONDS_MAX: f64 = 0.1;
/// Lateness of the generator that no latency table may hide…
const LATE_MS: f64 = 10.0;
/// …if it is more than this share of what was measured.
const LATE_SHARE: f64 = 0.25;

/// One phase while it is added up.
#[derive(Debug)]
pub struct PhaseSum {
    pub phase: usize,
    pub first: u64,
    /// That it occupies; the last one perhaps in part.
    pub seconds: u64,
    pub lasts_s: f64,
    pub row: Phase,
    pub latencies: Latencies,
    pub busy_seconds: u64,
    pub worker_seconds: u64,
    /// Seconds that the worker worst off was ready without a core.
    pub waited: f64,
    /// The same of the server's thread worst off.
    pub server_waited: f64,
    /// Memory of the server when the phase ended: exact, unlike what is read each second.
    pub rss_at_end: Option<u64>,
}

impl PhaseSum {
    pub fn new(phase: usize, name: &str, first: u64, lasts_s: f64) -> Self {
        PhaseSum {
            phase,
            first,
            seconds: lasts_s.ceil().max(1.0) as u64,
            lasts_s,
            row: Phase {
                name: name.into(),
                from_s: first as f64,
                ..Phase::default()
            },
            latencies: Latencies::default(),
            busy_seconds: 0,
            worker_seconds: 0,
            waited: 0.0,
            server_waited: 0.0,
            rss_at_end: None,
        }
    }

    pub fn add_second(&mut self, second: &Second, busy: &[f64]) {
        let row = &mut self.row;
        row.duration_s += 1.0;
        row.connections = row.connections.max(second.connections);
        row.connects += second.connects;
        row.sent += second.sent;
        row.received += second.received;
        row.acked += second.acked;
        row.errors += second.errors;
        row.generator_cpu_s += second.generator_cpu_percent / 100.0;
        if let Some(percent) = second.server_cpu_percent {
            *row.server_cpu_s.get_or_insert(0.0) += percent / 100.0;
        }
        row.server_rss_bytes = row.server_rss_bytes.max(second.server_rss_bytes);
        self.server_waited += second.server_waited.unwrap_or(0.0);
        self.worker_seconds += busy.len() as u64;
        let is_busy = |share: &&f64| **share >= BUSY_CORES;
        self.busy_seconds += busy.iter().filter(is_busy).count() as u64;
    }

    /// What each process used in a second.
    pub fn add_cpu(&mut self, used: &[f64]) {
        let each = &mut self.row.process_cpu_s;
        each.resize(used.len().max(each.len()), 0.0);
        each.iter_mut()
            .zip(used)
            .for_each(|(sum, used)| *sum += used);
    }

    /// Counts of a worker after the last whole second.
    pub fn add_rest(&mut self, rest: &Tally, open: u64) {
        let row = &mut self.row;
        row.connections = row.connections.max(open);
        row.connects += rest.totals.connects_succeeded;
        row.sent += rest.totals.sent;
        row.received += rest.totals.heard;
        row.acked += rest.totals.acked;
        row.errors += rest.totals.fault_count();
    }

    /// Why this phase's latencies are the generator's own, if they are.
    pub fn judge(&self) -> Option<String> {
        let busy = self.busy_seconds as f64 / self.worker_seconds.max(1) as f64;
        let row = &self.row;
        if row.delivery.count() + row.ack.count() + row.connects + row.sent == 0 {
            return None;
        }
        // One second may be the machine's mood.
        if busy > BUSY_SECONDS_MAX && self.busy_seconds > 1 {
            return Some(format!(
                "generator workers were working or waiting for a core for more than {:.0} % of the time in {} of {} \
                 seconds; use more --workers, a machine with free cores, or less load",
                BUSY_CORES * 100.0,
                self.busy_seconds,
                self.worker_seconds
            ));
        }
        let turns = ("with its own turns", &self.latencies.turn_lag);
        let reads = ("to read what had come", &self.latencies.read_lag);
        [turns, reads]
            .into_iter()
            .find_map(|(what, lag)| self.judge_lag(what, lag))
    }

    fn judge_lag(&self, what: &str, lag: &Distribution) -> Option<String> {
        let (late_ms, measured) = (lag.at_ms(0.99), [&self.row.delivery, &self.row.ack]);
        let slowest_ms = measured.iter().map(|d| d.at_ms(0.99)).fold(0.0, f64::max);
        let is_late = !lag.is_empty() && late_ms > LATE_MS && late_ms > slowest_ms * LATE_SHARE;
        (is_late && slowest_ms > 0.0).then(|| {
            format!(
                "the generator was late by {late_ms:.1} ms (p99) {what} where {slowest_ms:.1} ms were measured; use more \
                 --workers, a machine with free cores, or less load"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 1,000 turns, each with 40 deliveries: 80 turns and what they caused are late by 700 ms.
    fn late_turns() -> PhaseSum {
        let mut sum = PhaseSum::new(0, "go", 0, 10.0);
        for turn in 0..1_000 {
            let late_ns = if turn < 80 { 700 * MS } else { MS / 10 };
            sum.latencies.turn_lag.record(late_ns);
            (0..40).for_each(|_| sum.latencies.delivery.record(late_ns + MS));
            (0..40).for_each(|_| sum.latencies.read_lag.record(1_000));
        }
        sum.row.delivery = sum.latencies.delivery.clone();
        sum
    }

    #[test]
    fn late_turns_are_not_hidden_by_reads_that_are_in_time() {
        let why = late_turns().judge().unwrap();
        assert!(why.contains("own turns"), "{why}");
    }

    #[test]
    fn late_reads_are_not_hidden_by_turns_that_are_in_time() {
        let mut sum = late_turns();
        std::mem::swap(&mut sum.latencies.turn_lag, &mut sum.latencies.read_lag);
        let why = sum.judge().unwrap();
        assert!(why.contains("to read"), "{why}");
        sum.latencies.read_lag = Distribution::default();
        assert_eq!(sum.judge(), None);
    }
}
