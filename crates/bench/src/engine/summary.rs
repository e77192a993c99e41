//! Owns the way from workers' seconds to the outcome: adding up, attributing to phases, and the
//! judgement whether the generator measured the server or itself.

use super::Target;
use super::membership::Account;
use super::phase_sum::{BUSY_CORES, PhaseSum};
use super::tally::Tally;
use super::watch::{Sample, Watch};
use crate::clock::own_cpu_ns;
use crate::scenario::Scenario;
use anyhow::Result;
use outcome::Distribution;
use outcome::machine::Machine;
use outcome::{AND_THEN, BothEnds, Generator, Latencies, Memory, Outcome, PROCESS_ENDED, Second};
use std::time::{SystemTime, UNIX_EPOCH};

const SECOND_NS: f64 = 1e9;

#[derive(Debug)]
pub struct Summary {
    outcome: Outcome,
    sums: Vec<PhaseSum>,
    latencies: Latencies,
    samples: Vec<Option<Sample>>,
    /// The last phase has ended; only stragglers come in.
    is_over: bool,
    /// When sending ended before its time, in seconds since the start.
    ended_s: f64,
    /// CPU of each worker and its wait for it, as told last.
    workers: Vec<[u64; 2]>,
    cpu_before_ns: u64,
    last: Second,
}

/// Result of settling.
#[derive(Debug, Default)]
pub struct Settled {
    pub account: Account,
    pub flight_ns: u64,
    pub rests: Vec<(usize, Tally)>,
}

impl Summary {
    pub fn begin(scenario: &Scenario, target: &Target, workers: u32) -> Self {
        let outcome = Outcome {
            scenario: scenario.name.clone(),
            description: scenario.about.clone(),
            server: target.name.clone(),
            protocol: scenario.protocol_names(),
            scale: scenario.source.scale,
            time_scale: scenario.source.time_scale,
            targets: target.urls.clone(),
            machine: Machine::detect(),
            generator: Generator {
                version: env!("CARGO_PKG_VERSION").into(),
                workers,
                ..Generator::default()
            },
            ..Outcome::default()
        };
        Summary {
            outcome,
            sums: Vec::new(),
            latencies: Latencies::default(),
            samples: Vec::new(),
            is_over: false,
            ended_s: f64::INFINITY,
            workers: vec![[0; 2]; workers as usize],
            cpu_before_ns: own_cpu_ns(),
            last: Second::default(),
        }
    }

    pub fn start(&mut self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        self.outcome.started_unix_ms = since.map_or(0, |since| since.as_millis() as u64);
    }

    pub fn note(&mut self, text: String) {
        self.outcome.notes.push(text);
    }

    /// The memory of both ends, before the first connection and whenever a phase ended.
    pub fn memory(&mut self, now: Memory) {
        let both_ends = self.outcome.both_ends.get_or_insert(BothEnds {
            before: now,
            most: now,
        });
        both_ends.most = both_ends.most.max(now);
    }

    pub fn phases_ended(&mut self) {
        self.is_over = true;
    }

    /// The run ended early, so many seconds after its start.
    pub fn ended_early(&mut self, why: &str, at_s: f64) {
        let told = self.outcome.partial.take();
        let told = told.into_iter().chain([why.to_owned()]);
        self.outcome.partial = Some(told.collect::<Vec<_>>().join(AND_THEN));
        self.ended_s = self.ended_s.min(at_s);
    }

    /// Whether a phase has begun.
    pub fn has_begun(&self) -> bool {
        !self.sums.is_empty()
    }

    /// What stands for the account when there is none, because a worker took what it knew with it:
    /// what arrived is known, what should have arrived is not.
    pub fn unaccounted(&mut self) -> Settled {
        let note = "without every worker's account it is not known what should have arrived";
        self.note(note.into());
        let mut settled = Settled::default();
        let heard = self.outcome.totals.heard;
        settled.account.totals.received = heard;
        settled.account.totals.expected = heard;
        settled
    }

    pub fn sampled(&mut self, sample: Option<Sample>) {
        self.samples.push(sample);
    }

    /// The phase lasts so long, from the beginning of second `first` on.
    pub fn phase_begins(&mut self, phase: usize, name: &str, first: u64, lasts_s: f64) {
        self.sums.push(PhaseSum::new(phase, name, first, lasts_s));
    }

    /// The phase has ended, with so much memory of the server.
    pub fn phase_ends(&mut self, rss_bytes: Option<u64>) {
        if let Some(sum) = self.sums.last_mut() {
            sum.rss_at_end = rss_bytes;
        }
    }

    /// Takes in one second of all workers.
    pub fn second(&mut self, reports: &[Tally]) -> &Second {
        let number = reports.first().map_or(0, |report| report.second);
        let mut second = Second {
            t_s: (number + 1) as f64,
            connections: reports.iter().map(|report| report.connections).sum(),
            ..Second::default()
        };
        let mut latencies = Latencies::default();
        for report in reports {
            fill_second(&mut second, report);
            latencies.merge(&report.latencies);
            self.absorb(report);
        }
        second.delivery = latencies.delivery.percentiles();
        second.ack = latencies.ack.percentiles();
        second.connect = latencies.connect.percentiles();
        second.again = latencies.again.percentiles();
        let lags = [&latencies.turn_lag, &latencies.read_lag];
        let lags = lags.into_iter().filter_map(Distribution::percentiles);
        second.generator_lag_p99_ms = lags.map(|lag| lag.p99_ms).reduce(f64::max);
        let (mut busy, mut waited) = (Vec::new(), 0.0f64);
        for (report, told) in reports.iter().zip(&mut self.workers) {
            let now = [report.own_cpu_ns, report.own_wait_ns];
            let before = std::mem::replace(told, now);
            let since = |at: usize| now[at].saturating_sub(before[at]) as f64 / SECOND_NS;
            // A worker that was kept from telling tells of several seconds at once.
            let (used, wait) = (since(0), since(1).min(1.0));
            second.generator_cpu_percent += used * 100.0;
            busy.push(used + wait);
            waited = waited.max(wait);
        }
        second.generator_busy = busy.iter().any(|share| *share >= BUSY_CORES);
        self.sample_into(&mut second, number as usize);
        self.attribute(number, &mut second, &latencies, (&busy, waited));
        let peak = &mut self.outcome.totals.connections_peak;
        *peak = second.connections.max(*peak);
        self.outcome.timeline.push(second.clone());
        self.last = second;
        &self.last
    }

    /// Adds counts and latencies of a report to the whole run.
    fn absorb(&mut self, report: &Tally) {
        self.outcome.totals.add(&report.totals);
        let (whole, more) = (&mut self.latencies, &report.latencies);
        whole.connect.merge(&more.connect);
        whole.again.merge(&more.again);
        whole.turn_lag.merge(&more.turn_lag);
        whole.read_lag.merge(&more.read_lag);
    }

    /// Adds what was waited for to the whole run: only what belongs to a phase does.
    fn absorb_waits(&mut self, more: &Latencies) {
        self.latencies.delivery.merge(&more.delivery);
        self.latencies.ack.merge(&more.ack);
    }

    fn sample_into(&self, second: &mut Second, number: usize) {
        second.server_cpu_percent =
            (self.cpu_s(number)).map(|used| used.iter().sum::<f64>() * 100.0);
        if let Some(Some(after)) = self.samples.get(number + 1) {
            second.server_rss_bytes = Some(after.rss_bytes);
            second.server_waited = Some(after.waited);
        }
    }

    /// What each process used in a second.
    fn cpu_s(&self, number: usize) -> Option<Vec<f64>> {
        let at = |number: usize| Some(&self.samples.get(number)?.as_ref()?.cpu_ns);
        let used = at(number)?.iter().zip(at(number + 1)?);
        let used = used.map(|(before, after)| after.saturating_sub(*before) as f64 / SECOND_NS);
        Some(used.collect())
    }

    /// Books the second with its phase; seconds in which users were still brought in have none.
    fn attribute(
        &mut self,
        number: u64,
        second: &mut Second,
        latencies: &Latencies,
        (busy, waited): (&[f64], f64),
    ) {
        second.phase = self.sums.len().saturating_sub(1);
        let before = self.last.connections;
        let used = self.cpu_s(number as usize);
        let Some(sum) = self.sums.iter_mut().rev().find(|sum| number >= sum.first) else {
            return;
        };
        second.phase = sum.phase;
        if number == sum.first {
            // Nobody need have left before its first second was over.
            sum.row.connections = before;
        }
        match number < sum.first + sum.seconds {
            true => {
                sum.add_second(second, busy);
                sum.add_cpu(&used.unwrap_or_default());
                sum.waited += waited;
            }
            // What was on its way when the last phase ended belongs to it: the slowest messages
            // of all must not be the ones that are left out.
            false if self.is_over => {
                sum.row.sent += second.sent;
                sum.row.received += second.received;
                sum.row.acked += second.acked;
            }
            false => return,
        }
        sum.latencies.merge(latencies);
        self.absorb_waits(latencies);
    }

    /// The outcome, once workers have settled.
    pub fn settle(mut self, settled: &Settled, watch: Watch) -> Result<Outcome> {
        let left = settled.rests.iter().map(|(_, rest)| rest);
        let left = left.filter(|rest| rest.second == u64::MAX);
        let open: u64 = left.map(|rest| rest.connections).sum();
        let peak = &mut self.outcome.totals.connections_peak;
        *peak = open.max(*peak);
        for (_, rest) in &settled.rests {
            self.absorb(rest);
            // What was on its way when the last phase ended belongs to it.
            let Some(sum) = self.sums.last_mut() else {
                continue;
            };
            sum.add_rest(rest, open);
            sum.latencies.delivery.merge(&rest.latencies.delivery);
            sum.latencies.ack.merge(&rest.latencies.ack);
            self.absorb_waits(&rest.latencies);
        }
        self.close_timeline(settled);
        self.close_generator(settled);
        self.close_totals(settled);
        self.close_phases();
        let totals = &self.outcome.totals;
        let deliveries = totals.heard + totals.acked;
        let gone = watch.ended();
        self.outcome.processes = watch.finish(totals.connections_peak, deliveries);
        for pid in gone {
            self.outcome.notes.push(format!(
                "{PROCESS_ENDED} {pid}: its figures are those of a part"
            ));
        }
        self.outcome.latency = Latencies {
            turn_lag: Distribution::default(),
            read_lag: Distribution::default(),
            ..std::mem::take(&mut self.latencies)
        };
        self.close_errors();
        Ok(self.outcome)
    }

    fn close_timeline(&mut self, settled: &Settled) {
        let by_second = &settled.account.expected_by_second;
        let timeline = &mut self.outcome.timeline;
        for (at, expected) in by_second.iter().enumerate() {
            // What was sent behind the last second that is told belongs to it.
            if let Some(last) = timeline.len().checked_sub(1) {
                timeline[at.min(last)].expected += expected;
            }
        }
        self.cut_last_phase();
        // Rates are of the phases: the time in which users are brought in has none.
        self.outcome.duration_s = self.sums.iter().map(|sum| sum.row.duration_s).sum();
        let last = self.sums.last();
        if let Some(end) = last.map(|sum| sum.first + sum.seconds)
            && (end as usize) < self.outcome.timeline.len()
        {
            // Seconds of waiting for stragglers are no part of the run, unless something came.
            let is_still = |s: &Second| s.expected + s.received + s.acked + s.connects == 0;
            while self.outcome.timeline.len() > end as usize
                && self.outcome.timeline.last().is_some_and(is_still)
            {
                self.outcome.timeline.pop();
            }
        }
    }

    /// The last phase lasted as long as it did, not as many whole seconds.
    fn cut_last_phase(&mut self) {
        let Some(sum) = self.sums.last_mut() else {
            return;
        };
        let lasted_s = (self.ended_s - sum.first as f64).clamp(0.0, sum.lasts_s);
        if lasted_s < sum.seconds as f64 {
            let whole_s = sum.row.duration_s;
            sum.row.duration_s = lasted_s;
            // Sampled once a second: a part that was not is taken to have cost what the others did.
            let share = match whole_s > 0.0 {
                true => (lasted_s / whole_s).max(1.0),
                false => 0.0,
            };
            sum.row.generator_cpu_s *= share;
            sum.row.server_cpu_s = sum.row.server_cpu_s.map(|cpu_s| cpu_s * share);
            let each = sum.row.process_cpu_s.iter_mut();
            each.for_each(|cpu_s| *cpu_s *= share);
        }
    }

    fn close_generator(&mut self, settled: &Settled) {
        for (worker, rest) in &settled.rests {
            let cpu_ns = &mut self.workers[*worker][0];
            *cpu_ns = rest.own_cpu_ns.max(*cpu_ns);
        }
        let conductor_ns = own_cpu_ns().saturating_sub(self.cpu_before_ns);
        let workers_ns = self.workers.iter().map(|[cpu_ns, _]| cpu_ns);
        let all_ns = workers_ns.sum::<u64>() + conductor_ns;
        let totals = &self.outcome.totals;
        let heard = totals.heard + totals.acked;
        let lag_ms = |lag: &Distribution| {
            let known = Some(lag).filter(|lag| !lag.is_empty());
            let ms: [fn(&Distribution) -> f64; 3] = [
                |lag| lag.at_ms(0.5),
                |lag| lag.at_ms(0.99),
                Distribution::max_ms,
            ];
            ms.map(|ms| known.map(ms))
        };
        let turn_lag = lag_ms(&self.latencies.turn_lag);
        let read_lag = lag_ms(&self.latencies.read_lag);
        let generator = std::mem::take(&mut self.outcome.generator);
        self.outcome.generator = Generator {
            cpu_s: all_ns as f64 / SECOND_NS,
            cpu_us_per_received: (heard > 0).then(|| all_ns as f64 / 1e3 / heard as f64),
            turn_lag_p50_ms: turn_lag[0],
            turn_lag_p99_ms: turn_lag[1],
            turn_lag_max_ms: turn_lag[2],
            read_lag_p50_ms: read_lag[0],
            read_lag_p99_ms: read_lag[1],
            read_lag_max_ms: read_lag[2],
            ..generator
        };
    }

    fn close_totals(&mut self, settled: &Settled) {
        let (account, totals) = (&settled.account, &mut self.outcome.totals);
        totals.add(&account.totals);
        let deliveries = totals.received + totals.either_received;
        let others = totals.heard.saturating_sub(deliveries);
        if others > 0 {
            self.outcome.notes.push(format!(
                "{others} of the events in msgs/s were no deliveries: copies, strays, or what the server sent by itself"
            ));
        }
        if account.order_unknown > 0 {
            let note =
                "more may have been out of order: too many publishers were, for all to be kept";
            self.outcome.notes.push(note.into());
        }
        if totals.either_allowed > 0 {
            self.outcome.notes.push(format!(
                "{} deliveries could go either way: their receiver was joining or leaving while they may have been \
                 under way, going by how long deliveries took about then (at most {} ms)",
                totals.either_allowed,
                settled.flight_ns.div_ceil(1_000_000)
            ));
        }
    }

    fn close_phases(&mut self) {
        let scale = self.outcome.scale;
        if scale != 1.0 {
            let note = format!("run at {scale} of the scenario's connections, arrivals and rates");
            self.outcome.notes.insert(0, note);
        }
        let time_scale = self.outcome.time_scale;
        if time_scale != 1.0 {
            let note = format!("run for {time_scale} of the scenario's time");
            self.outcome.notes.insert(0, note);
        }
        let timeline = &self.outcome.timeline;
        let mut saturated = Vec::new();
        for sum in &mut self.sums {
            let seconds = timeline.iter().enumerate().filter(|(number, _)| {
                let number = *number as u64;
                number >= sum.first && number < sum.first + sum.seconds
            });
            sum.row.expected = seconds.map(|(_, second)| second.expected).sum();
            sum.row.delivery = std::mem::take(&mut sum.latencies.delivery);
            sum.row.ack = std::mem::take(&mut sum.latencies.ack);
            sum.row.generator_waited = sum.waited / sum.seconds.max(1) as f64;
            sum.row.server_waited = sum.server_waited / sum.seconds.max(1) as f64;
            sum.row.server_rss_bytes = sum.rss_at_end.max(sum.row.server_rss_bytes);
            sum.row.generator_saturated = sum.judge();
            saturated.extend(sum.row.generator_saturated.clone());
        }
        self.outcome.generator.saturated = saturated.into_iter().next();
    }

    fn close_errors(&mut self) {
        let (errors, totals) = (&mut self.outcome.errors, &self.outcome.totals);
        for (prefix, reasons) in [
            ("connect: ", &totals.connect_failures),
            ("dropped: ", &totals.drops),
            ("", &totals.failures),
            ("loop: rounds not begun, ", &totals.unbegun),
        ] {
            for (reason, count) in reasons {
                *errors.entry(format!("{prefix}{reason}")).or_default() += count;
            }
        }
        for (what, count) in [
            ("lost", totals.lost),
            ("duplicated", totals.duplicated),
            ("reordered", totals.reordered),
            ("stray", totals.stray),
            ("of another run", totals.foreign),
            ("acknowledgement missing at the end", totals.unanswered()),
            ("acknowledgement duplicated", totals.acks_duplicated),
        ] {
            if count > 0 {
                errors.insert(what.into(), count);
            }
        }
        self.outcome.phases = std::mem::take(&mut self.sums)
            .into_iter()
            .map(|sum| sum.row)
            .collect();
    }
}

fn fill_second(second: &mut Second, report: &Tally) {
    let totals = &report.totals;
    second.connects += totals.connects_succeeded;
    second.drops += totals.dropped();
    second.sent += totals.sent;
    second.received += totals.heard;
    second.acked += totals.acked;
    second.errors += totals.fault_count();
    second.bytes_sent += totals.bytes_sent;
    second.bytes_received += totals.bytes_received;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Summary {
        let text = "name = 'test'\n[[phases]]\nconnections = 20\nduration = '2s'\n[flows.a]\nsteps = [{ connect = true }]";
        let scenario = Scenario::parse("test.toml", text).unwrap();
        Summary::begin(&scenario, &Target::default(), 1)
    }

    fn second(number: u64, connections: u64) -> Tally {
        Tally {
            second: number,
            connections,
            ..Tally::default()
        }
    }

    #[test]
    fn a_phase_begins_with_those_who_were_there() {
        let mut summary = begun();
        summary.second(&[second(0, 20)]);
        summary.phase_begins(0, "go", 1, 2.0);
        summary.second(&[second(1, 19)]);
        summary.second(&[second(2, 18)]);
        assert_eq!(summary.sums[0].row.connections, 20);
    }

    #[test]
    fn the_last_phase_lasts_as_long_as_it_did() {
        let mut summary = begun();
        summary.phase_begins(0, "go", 0, 1.5);
        summary.second(&[second(0, 1)]);
        summary.second(&[second(1, 1)]);
        summary.cut_last_phase();
        assert_eq!(summary.sums[0].row.duration_s, 1.5);
    }

    /// On a busy machine a message was sent after the last second that a worker told of, and stood in no second.
    #[test]
    fn what_was_sent_at_the_last_moment_is_in_the_timeline() {
        let mut summary = begun();
        summary.phase_begins(0, "go", 0, 1.0);
        summary.second(&[second(0, 1)]);
        let mut settled = Settled::default();
        settled.account.expected_by_second = vec![7, 2];
        summary.close_timeline(&settled);
        let expected: Vec<u64> = summary
            .outcome
            .timeline
            .iter()
            .map(|s| s.expected)
            .collect();
        assert_eq!(expected, [9]);
    }
}
