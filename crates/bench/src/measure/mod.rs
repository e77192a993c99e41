//! Owns the measurements: each takes a running server, drives it with a fleet, and returns one
//! sample. A figure is the server's own CPU time (or memory) per operation, so it does not depend
//! on how fast the generator happens to be.

mod idle;
mod paced;
mod saturated;

use crate::dialect::Protocol;
use crate::fleet::{Fleet, FleetReport, Launcher};
use crate::latency::Percentiles;
use crate::ledger::Account;
use crate::process::Process;
use crate::server::Server;
use crate::swarm::Counters;
use crate::swarm::connect::ConnectReport;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One thing to measure, with its size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, clap::Subcommand)]
#[serde(rename_all = "kebab-case", tag = "measure")]
pub enum Case {
    /// Resident bytes per idle connection: slope between two counts.
    Idle {
        #[arg(long, default_value_t = 2_000)]
        low: u32,
        #[arg(long, default_value_t = 18_000)]
        high: u32,
        /// Plain WebSocket at `/ws` instead of the server's own protocol.
        #[arg(long)]
        plain: bool,
    },
    /// CPU of accept, upgrade, Engine.IO open and Socket.IO connect.
    Connect {
        #[arg(long, default_value_t = 8_000)]
        connections: u32,
    },
    /// CPU of an event and its acknowledgement.
    Ack {
        #[arg(long, default_value_t = 1_000)]
        connections: u32,
        /// Events each connection keeps in flight.
        #[arg(long, default_value_t = 1)]
        depth: u32,
    },
    /// CPU of one delivery to one member of a room.
    Delivery {
        #[arg(long, default_value_t = 1_000)]
        members: u32,
        /// Messages outstanding.
        #[arg(long, default_value_t = 16)]
        window: u32,
    },
    /// p99 at a constant rate of deliveries to one room.
    Latency {
        #[arg(long, default_value_t = 1_000)]
        members: u32,
        #[arg(long, default_value_t = 20_000)]
        deliveries_per_second: u32,
    },
    /// Many connections while messages flow: nothing may be lost.
    Hold {
        #[arg(long, default_value_t = 18_000)]
        connections: u32,
        /// Messages per second, over all rooms.
        #[arg(long, default_value_t = 100)]
        per_second: u32,
        /// Rooms the connections are spread over; 1 = every message to everyone.
        #[arg(long, default_value_t = 100)]
        rooms: u32,
        #[arg(long, default_value_t = 35)]
        seconds: u32,
    },
}

/// Cases of one kind, in the order they are reported; as named by `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Family {
    Idle,
    Connect,
    Ack,
    Delivery,
    Latency,
    Hold,
}

/// What the figure of a case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    BytesPerConnection,
    CpuUs,
    P99Ms,
}

/// One measurement of one server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// In the case's unit.
    pub value: f64,
    /// Operations per second while measured.
    pub per_second: Option<f64>,
    /// CPU microseconds per operation, where `value` is something else.
    pub cpu_us: Option<f64>,
    pub rss_bytes: u64,
    pub latency: Option<Percentiles>,
    pub account: Option<Account>,
    /// CPUs used while measured (1.0 = one core).
    pub server_cores: f64,
    pub generator_cores: f64,
    /// How late the generator was against its own schedule.
    pub generator_lag_p99_ms: Option<f64>,
    /// Anything that makes the sample invalid; empty when it counts.
    pub problems: Vec<String>,
}

/// How much time a measurement may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    pub warm_up: Duration,
    pub span: Duration,
    /// Quiet time before memory is read.
    pub settle: Duration,
    /// Handshakes under way at a time.
    pub in_flight: u32,
    /// Bytes of the event's argument.
    pub payload_bytes: usize,
}

impl Effort {
    pub const FULL: Effort = Effort {
        warm_up: Duration::from_millis(1_500),
        span: Duration::from_secs(5),
        settle: Duration::from_secs(3),
        in_flight: 128,
        payload_bytes: 128,
    };
    pub const QUICK: Effort = Effort {
        warm_up: Duration::from_millis(700),
        span: Duration::from_secs(2),
        settle: Duration::from_millis(1_500),
        ..Effort::FULL
    };
}

/// Who measures: where workers run and how long it may take.
#[derive(Clone, Debug)]
pub struct Bench {
    pub launcher: Launcher,
    pub effort: Effort,
    /// No progress bars.
    pub quiet: bool,
}

/// How long stragglers are waited for before they count as lost.
const GRACE_MS: u64 = 15_000;

impl Bench {
    pub fn measure(&self, server: &mut Server, case: Case) -> Result<Sample> {
        let mut sample = match case {
            Case::Idle { low, high, plain } => self.idle(server, low, high, plain),
            Case::Connect { connections } => self.connect(server, connections),
            Case::Ack { connections, depth } => self.ack(server, connections, depth),
            Case::Delivery { members, window } => self.delivery(server, members, window),
            Case::Latency {
                members,
                deliveries_per_second,
            } => self.latency(server, members, deliveries_per_second),
            Case::Hold {
                connections,
                per_second,
                rooms,
                seconds,
            } => self.hold(server, connections, per_second, rooms, seconds),
        }?;
        if !server.is_alive() {
            sample.problems.push("the server process ended".into());
        }
        Ok(sample)
    }

    /// Bytes of payload that make the delivered frame as long as Socket.IO's: `42["pub","…"]`
    /// is 12 bytes of envelope that bare servers do not have.
    fn payload_bytes(&self, protocol: Protocol) -> usize {
        match protocol {
            Protocol::SocketIo => self.effort.payload_bytes,
            Protocol::Plain | Protocol::Bare => self.effort.payload_bytes + 12,
        }
    }
}

impl Case {
    /// Stable name: key in results, label in tables.
    pub fn id(&self) -> String {
        match self {
            Case::Idle { plain: false, .. } => "idle".into(),
            Case::Idle { plain: true, .. } => "idle-plain".into(),
            Case::Connect { .. } => "connect".into(),
            Case::Ack { depth, .. } => format!("ack-depth-{depth}"),
            Case::Delivery { members, window } => format!("delivery-{members}-window-{window}"),
            Case::Latency { members, .. } => format!("latency-{members}"),
            Case::Hold {
                connections,
                rooms,
                per_second,
                ..
            } => {
                format!("hold-{connections}-rooms-{rooms}-rate-{per_second}")
            }
        }
    }

    pub fn family(&self) -> Family {
        match self {
            Case::Idle { .. } => Family::Idle,
            Case::Connect { .. } => Family::Connect,
            Case::Ack { .. } => Family::Ack,
            Case::Delivery { .. } => Family::Delivery,
            Case::Latency { .. } => Family::Latency,
            Case::Hold { .. } => Family::Hold,
        }
    }

    pub fn unit(&self) -> Unit {
        match self {
            Case::Idle { .. } => Unit::BytesPerConnection,
            Case::Connect { .. } | Case::Ack { .. } | Case::Delivery { .. } => Unit::CpuUs,
            Case::Latency { .. } | Case::Hold { .. } => Unit::P99Ms,
        }
    }
}

/// State of both sides at one moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    counters: Counters,
    server_cpu_ns: u64,
}

/// What happened between two marks.
#[derive(Clone, Copy, Debug)]
struct Span {
    seconds: f64,
    server_cpu_us: f64,
    generator_cpu_us: f64,
    acks: f64,
    deliveries: f64,
}

impl Mark {
    fn take(fleet: &mut Fleet, process: Process, reset: bool) -> Result<Mark> {
        let counters = fleet.snapshot(reset)?;
        Ok(Mark {
            counters,
            server_cpu_ns: process.cpu_ns()?,
        })
    }

    fn until(&self, end: &Mark) -> Span {
        let us = |end: u64, begin: u64| end.saturating_sub(begin) as f64 / 1e3;
        let (begin, end_counters) = (&self.counters, &end.counters);
        Span {
            seconds: us(end_counters.at_ns, begin.at_ns) / 1e6,
            server_cpu_us: us(end.server_cpu_ns, self.server_cpu_ns),
            generator_cpu_us: us(end_counters.own_cpu_ns, begin.own_cpu_ns),
            acks: (end_counters.acks - begin.acks) as f64,
            deliveries: (end_counters.deliveries - begin.deliveries) as f64,
        }
    }
}

impl Span {
    /// A sample whose figure is CPU per operation.
    fn per_operation(&self, operations: f64, process: Process) -> Result<Sample> {
        let mut sample = self.sample(process)?;
        sample.value = self.server_cpu_us / operations.max(1.0);
        sample.per_second = Some(operations / self.seconds);
        if operations == 0.0 {
            sample
                .problems
                .push("nothing happened while measured".into());
        }
        Ok(sample)
    }

    fn sample(&self, process: Process) -> Result<Sample> {
        Ok(Sample {
            value: 0.0,
            per_second: None,
            cpu_us: None,
            rss_bytes: process.rss_bytes()?,
            latency: None,
            account: None,
            server_cores: self.server_cpu_us / 1e6 / self.seconds,
            generator_cores: self.generator_cpu_us / 1e6 / self.seconds,
            generator_lag_p99_ms: None,
            problems: Vec::new(),
        })
    }
}

impl Sample {
    /// Notes connections that could not be made.
    fn check_connected(&mut self, report: &ConnectReport) {
        for (reason, count) in &report.failures {
            self.problems
                .push(format!("{count} connections failed: {reason}"));
        }
    }

    /// Notes the settled load, and whatever went wrong in it.
    fn settle(&mut self, report: &FleetReport) {
        self.latency = report.latency.percentiles();
        self.account = Some(report.account);
        if report.lag.count() > 0 {
            self.generator_lag_p99_ms = Some(report.lag.distribution().at_ms(0.99));
        }
        self.problems.extend(report.account.fault());
        for (reason, count) in &report.losses {
            self.problems
                .push(format!("{count} connections lost: {reason}"));
        }
        if report.stalls > 0 {
            self.problems
                .push(format!("stalled {} times for a second", report.stalls));
        }
    }
}
