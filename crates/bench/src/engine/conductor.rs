//! Owns the course of a run: workers started, users brought in, phase after phase, the end, and
//! the settling of accounts between workers.

use super::crew::Crew;
use super::flight::Flights;
use super::plan::{Place, Server};
use super::summary::{Settled, Summary};
use super::tally::Tally;
use super::watch::Watch;
use super::worker::{Notice, Order, longest_wait};
use super::{IN_FLIGHT, Options, Target, workers_for};
use crate::clock::now_ns;
use crate::live::{Observer, Progress};
use crate::scenario::Scenario;
use anyhow::{Context, Result, ensure};
use outcome::machine::memory_used;
use outcome::{INTERRUPTED, Memory, Outcome};
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;
/// A phase is announced at least so long before it begins.
const LEAD_NS: u64 = 50_000_000;
/// Longest that the first of all connects may take.
const LISTEN_PATIENCE: Duration = Duration::from_secs(5);
const PUMP_INTERVAL: Duration = Duration::from_millis(20);
/// A worker that says nothing for so long is stuck.
const WORKER_SILENCE_NS: u64 = 120 * SECOND_NS;
/// Connecting may take so long in all before the run goes on with the users who are there.
const CONNECT_PATIENCE_NS: u64 = 600 * SECOND_NS;

pub struct Conductor<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    observer: &'a mut dyn Observer,
    crew: Crew,
    watch: Watch,
    summary: Summary,
    start_ns: u64,
    /// Reports of seconds that not every worker has told yet.
    pending: BTreeMap<u64, Vec<Option<Box<Tally>>>>,
    arrived: Vec<u64>,
    absent: Vec<u64>,
    /// Users wanted by now, while they are brought in.
    wanted: Option<u32>,
    next_sample_ns: u64,
    /// All users gave up connecting.
    nobody_came: bool,
    /// Where workers leave their send times.
    folder: PathBuf,
}

impl<'a> Conductor<'a> {
    pub fn new(
        scenario: &'a Scenario,
        target: &Target,
        options: &'a Options,
        observer: &'a mut dyn Observer,
    ) -> Result<Self> {
        let servers = target.servers()?;
        check_listening(target, &servers)?;
        let watch = Watch::begin(&target.pids)?;
        let workers = options
            .workers
            .unwrap_or_else(|| workers_for(scenario))
            .max(1);
        ensure!(
            workers <= 4096,
            "cannot lead {workers} workers: 4096 at most"
        );
        let mut crew = Crew::launch(&options.launcher, workers as usize)?;
        let run = run_number();
        for worker in 0..workers as usize {
            let place = Place {
                run,
                worker: worker as u16,
                workers: workers as u16,
                servers: servers.clone(),
                authorities: options.authorities.clone(),
                in_flight: (IN_FLIGHT / workers).max(32),
            };
            let order = Order::Begin {
                source: scenario.source.clone(),
                place,
            };
            crew.order(worker, &order)?;
        }
        Ok(Conductor {
            summary: Summary::begin(scenario, target, workers),
            scenario,
            options,
            observer,
            arrived: vec![0; crew.size()],
            absent: vec![0; crew.size()],
            wanted: None,
            crew,
            watch,
            start_ns: 0,
            pending: BTreeMap::new(),
            next_sample_ns: u64::MAX,
            nobody_came: false,
            folder: private_folder()?,
        })
    }

    pub fn run(mut self) -> Result<Outcome> {
        let result = self.perform();
        self.observer.finish();
        // Best effort: what is left lies in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
        let settled = match result {
            Ok(settled) => settled,
            // Before anything was measured there is nothing to tell.
            Err(error) if !self.summary.has_begun() => return Err(error),
            Err(error) => {
                self.ends_early(&format!("{error:#}"));
                self.summary.unaccounted()
            }
        };
        self.summary.settle(&settled, self.watch)
    }

    fn perform(&mut self) -> Result<Settled> {
        self.await_all(|notice| matches!(notice, Notice::Ready))?;
        let servers = self.watch.sample().map(|sample| sample.rss_bytes);
        self.note_memory(servers);
        self.start_ns = now_ns() + LEAD_NS;
        self.next_sample_ns = self.start_ns;
        self.summary.start();
        self.crew.order_all(&Order::Start {
            start_ns: self.start_ns,
        })?;
        let mut announced = None;
        for phase in 0..self.scenario.phases.len() {
            if self.is_interrupted() || self.nobody_came {
                break;
            }
            self.play(phase, &mut announced)?;
        }
        if self.is_interrupted() {
            self.ends_early(INTERRUPTED);
        }
        self.settle()
    }

    /// Brings in the users of a phase and sees it through. `announced` is when the phase begins,
    /// if the workers know already.
    fn play(&mut self, phase: usize, announced: &mut Option<u64>) -> Result<()> {
        if self.waits_for_users(phase) {
            self.fill(phase)?;
            if self.nobody_came {
                self.ends_early("no user could connect");
                return Ok(());
            }
        }
        let begins_ns = match announced.take() {
            Some(begins_ns) => begins_ns,
            None => self.announce(phase, now_ns())?,
        };
        let name = &self.scenario.phases[phase].name;
        self.observer.note(&format!("phase {name:?} begins"));
        let length_ns = self.scenario.phases[phase].duration.as_nanos() as u64;
        let ends_ns = begins_ns + length_ns;
        let first = (begins_ns - self.start_ns) / SECOND_NS;
        self.summary
            .phase_begins(phase, name, first, length_ns as f64 / SECOND_NS as f64);
        self.pump_until(|now_ns| now_ns >= begins_ns)?;
        let next = phase + 1;
        if next < self.scenario.phases.len() && !self.waits_for_users(next) {
            // Announced early, so that nothing is lost between two phases.
            self.crew.order_all(&Order::Phase {
                phase: next,
                begins_ns: ends_ns,
            })?;
            *announced = Some(ends_ns);
        }
        if self.scenario.phases[phase].arrivals.is_some() {
            self.wanted = Some(self.scenario.users_by(phase));
        }
        self.pump_until(|now_ns| now_ns >= ends_ns)?;
        let rss_bytes = self.watch.note_exact_memory();
        self.summary.phase_ends(rss_bytes);
        self.note_memory(rss_bytes);
        self.wanted = None;
        self.observer.finish_connecting();
        Ok(())
    }

    /// Memory of servers, generator and machine at this moment.
    fn note_memory(&mut self, servers: Option<u64>) {
        if let (Some(servers_bytes), Some(machine_bytes)) = (servers, memory_used()) {
            self.summary.memory(Memory {
                machine_bytes,
                servers_bytes,
                generator_bytes: self.crew.rss_bytes(),
            });
        }
    }

    /// Nothing is sent from here on, before its time.
    fn ends_early(&mut self, why: &str) {
        let since_ns = now_ns().saturating_sub(self.start_ns);
        self.summary.ended_early(why, since_ns as f64 / 1e9);
    }

    /// Shows how many of the wanted users are there.
    fn show_progress(&mut self, users: u32) {
        self.observer.connecting(Progress {
            done: self.arrived.iter().sum(),
            failed: self.absent.iter().sum(),
            total: users.into(),
        });
    }

    /// A phase with a target but no rate begins when its users are there.
    fn waits_for_users(&self, phase: usize) -> bool {
        let phase = &self.scenario.phases[phase];
        phase.connections.is_some() && phase.arrivals.is_none()
    }

    /// Begins the phase at the next whole second of the run.
    fn announce(&mut self, phase: usize, now_ns: u64) -> Result<u64> {
        let since = (now_ns + LEAD_NS).saturating_sub(self.start_ns);
        let begins_ns = self.start_ns + since.div_ceil(SECOND_NS) * SECOND_NS;
        self.crew.order_all(&Order::Phase { phase, begins_ns })?;
        Ok(begins_ns)
    }

    fn fill(&mut self, phase: usize) -> Result<()> {
        let users = self.scenario.users_by(phase);
        self.crew.order_all(&Order::Raise { users })?;
        let patience_ns = now_ns() + CONNECT_PATIENCE_NS;
        let mut shown = u64::MAX;
        loop {
            let arrived: u64 = self.arrived.iter().sum();
            if arrived != shown {
                shown = arrived;
                self.show_progress(users);
            }
            if arrived >= u64::from(users) || self.is_interrupted() {
                self.nobody_came = arrived > 0 && self.absent.iter().sum::<u64>() >= arrived;
                return Ok(());
            }
            if now_ns() > patience_ns {
                self.summary.note(format!(
                    "{arrived} of {users} users were there after {} minutes; the run went on with them",
                    CONNECT_PATIENCE_NS / SECOND_NS / 60
                ));
                return Ok(());
            }
            self.pump(PUMP_INTERVAL)?;
        }
    }

    fn is_interrupted(&mut self) -> bool {
        self.options.is_interrupted() || self.observer.wants_end()
    }

    fn pump_until(&mut self, done: impl Fn(u64) -> bool) -> Result<()> {
        while !done(now_ns()) && !self.is_interrupted() {
            self.pump(PUMP_INTERVAL)?;
        }
        Ok(())
    }

    /// Takes in what workers tell, and samples the server when a second has ended.
    fn pump(&mut self, timeout: Duration) -> Result<()> {
        self.sample_due();
        if let Some((worker, notice)) = self.crew.next(timeout)? {
            self.take(worker, notice)?;
        }
        Ok(())
    }

    fn sample_due(&mut self) {
        if now_ns() >= self.next_sample_ns {
            self.next_sample_ns += SECOND_NS;
            self.summary.sampled(self.watch.sample());
        }
    }

    /// Handles what may come at any time.
    fn take(&mut self, worker: usize, notice: Notice) -> Result<()> {
        match notice {
            Notice::Second(report) => self.second(worker, report),
            Notice::Arrived { arrived, absent } => {
                self.arrived[worker] = arrived;
                self.absent[worker] = absent;
                if let Some(users) = self.wanted {
                    self.show_progress(users);
                }
            }
            other => anyhow::bail!("worker {worker} said {other:?} unasked"),
        }
        Ok(())
    }

    fn second(&mut self, worker: usize, report: Box<Tally>) {
        self.arrived[worker] = self.arrived[worker].max(report.arrived);
        self.absent[worker] = self.absent[worker].max(report.absent);
        let workers = self.crew.size();
        let reports = self.pending.entry(report.second).or_default();
        reports.resize_with(workers, || None);
        let second = report.second;
        reports[worker] = Some(report);
        if reports.iter().all(Option::is_some)
            && let Some(reports) = self.pending.remove(&second)
        {
            let reports: Vec<Tally> = reports.into_iter().flatten().map(|r| *r).collect();
            // Workers may be quicker to tell that a second has ended than the clock here.
            self.sample_due();
            let second = self.summary.second(&reports);
            self.observer.second(second);
        }
    }

    /// Waits until every worker has given an answer of the wanted kind; returns them by worker.
    fn await_all(&mut self, wanted: impl Fn(&Notice) -> bool) -> Result<Vec<Notice>> {
        self.await_all_or(wanted, Duration::ZERO, |_| Ok(()))
    }

    /// The same where workers may have to wait themselves; `meanwhile` is called again and again.
    fn await_all_or(
        &mut self,
        wanted: impl Fn(&Notice) -> bool,
        wait: Duration,
        mut meanwhile: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<Vec<Notice>> {
        let mut answers: Vec<Option<Notice>> = (0..self.crew.size()).map(|_| None).collect();
        let patience_ns = now_ns().saturating_add(patience_ns(wait));
        while answers.iter().any(Option::is_none) {
            ensure!(now_ns() < patience_ns, "a worker does not answer");
            meanwhile(self)?;
            match self.crew.next(PUMP_INTERVAL)? {
                Some((worker, notice)) if wanted(&notice) => answers[worker] = Some(notice),
                Some((worker, notice)) => self.take(worker, notice)?,
                None => {}
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Waits for the accounts. An interrupt ends the wait at once, without the stragglers.
    fn await_accounts(&mut self) -> Result<Vec<Notice>> {
        let was_interrupted = self.is_interrupted();
        let mut hurried = false;
        self.await_all_or(
            |notice| matches!(notice, Notice::Settled { .. }),
            longest_wait(self.options.grace),
            |conductor| {
                let hurry = conductor.options.hurry.load(Ordering::Relaxed);
                if !hurried && (hurry || conductor.is_interrupted() != was_interrupted) {
                    hurried = true;
                    conductor.ends_early("interrupted while stragglers were waited for");
                    conductor.crew.order_all(&Order::Hurry)?;
                }
                Ok(())
            },
        )
    }

    /// Stops sending, lets workers exchange send times, waits for stragglers.
    fn settle(&mut self) -> Result<Settled> {
        self.summary.phases_ended();
        self.crew.order_all(&Order::Stop)?;
        let stopped = self.await_all(|notice| matches!(notice, Notice::Stopped { .. }))?;
        let mut flights = Flights::default();
        for notice in &stopped {
            if let Notice::Stopped { flights: own } = notice {
                flights.merge(own);
            }
        }
        let flight_ns = flights.longest_ns();
        let logs: Vec<PathBuf> = (0..self.crew.size())
            .map(|worker| self.folder.join(format!("sent-{worker}")))
            .collect();
        if logs.len() > 1 {
            for (worker, path) in logs.iter().enumerate() {
                let path = path.clone();
                self.crew.order(worker, &Order::Save { path })?;
            }
            self.await_all(|notice| matches!(notice, Notice::Saved))?;
        }
        let grace_ms = u64::try_from(self.options.grace.as_millis()).unwrap_or(u64::MAX);
        self.crew.order_all(&Order::Settle {
            logs,
            flights,
            grace_ms,
        })?;
        let answers = self.await_accounts()?;
        let mut settled = Settled {
            flight_ns,
            ..Settled::default()
        };
        for (worker, answer) in answers.into_iter().enumerate() {
            if let Notice::Settled { account, rest } = answer {
                settled.account.add(&account);
                settled.rests.push((worker, *rest));
            }
        }
        // Seconds that some worker did not end any more.
        for (_, reports) in std::mem::take(&mut self.pending) {
            let reports = reports.into_iter().enumerate();
            settled
                .rests
                .extend(reports.filter_map(|(worker, report)| Some((worker, *report?))));
        }
        Ok(settled)
    }
}

/// Nobody waits through a scenario to learn that nobody listens.
fn check_listening(target: &Target, servers: &[Server]) -> Result<()> {
    for (url, server) in target.urls.iter().zip(servers) {
        TcpStream::connect_timeout(&server.addr, LISTEN_PATIENCE).with_context(|| {
            format!("cannot reach the server at {url}: check that it runs, and the address")
        })?;
    }
    Ok(())
}

/// How long a worker may say nothing that waits for so long itself.
fn patience_ns(wait: Duration) -> u64 {
    let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    wait_ns.saturating_add(WORKER_SILENCE_NS)
}

/// A folder of this run alone.
fn private_folder() -> Result<PathBuf> {
    let name = format!("sockeye-bench-{}-{}", std::process::id(), now_ns());
    let folder: PathBuf = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", Path::new(&folder).display()))?;
    Ok(folder)
}

/// Differs between runs that meet on one server, most probably.
fn run_number() -> u16 {
    let mixed = u64::from(std::process::id()).wrapping_mul(0x9e37_79b9) ^ (now_ns() >> 30);
    (mixed & 0xfff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_wait_for_stragglers_are_not_taken_for_stuck() {
        for seconds in [0, 10, 125, 3_600] {
            let wait = longest_wait(Duration::from_secs(seconds));
            assert!(u128::from(patience_ns(wait)) >= wait.as_nanos() + 60_000_000_000);
        }
        assert_eq!(patience_ns(longest_wait(Duration::MAX)), u64::MAX);
    }
}
