//! Runs scenarios. The *conductor* (this process) leads several *workers*, each a process with one
//! reactor that holds its share of the users; it never touches a connection itself.
//!
//! `stage` is a worker's reactor with its users, each with its `course`, its `connection` and what it has `sent`; `plan` is what
//! stays as it is, `shared` what users change together (`schedule` has the phases, `turns` the loops of all). `play` carries out
//! steps, `requests` and `parting` begin and end connections, `net` and `polling` read bytes, `messages` says what they lead to.
//! `speech` has the protocols' words, `repeats` knows messages just read, `stopping` what is left open at the end. What was received
//! is judged by `membership` (who should have had it), `flight` (how long messages may have been under way), `received` (what one
//! member has of one stream) and `identity` (what a message carries). `tally` counts, `summary` turns counts into the outcome.

pub mod command;
mod conductor;
mod connection;
mod course;
mod credentials;
mod crew;
mod deflate;
mod flight;
mod http;
pub mod identity;
pub mod membership;
mod messages;
mod net;
mod parting;
mod phase_sum;
mod plan;
mod play;
mod polling;
mod publications;
pub mod received;
mod repeats;
mod requests;
mod schedule;
mod scratch;
mod sent;
mod shared;
pub(crate) mod socket;
pub mod speech;
mod stage;
mod stopping;
mod summary;
pub mod tally;
mod timers;
mod turns;
mod user;
mod wakeup;
mod watch;
pub mod worker;

pub use crate::target::Target;
pub use crew::Launcher;
pub use plan::{Place, Server};

use crate::descriptors;
use crate::live::Observer;
use crate::scenario::{Protocol, Scenario, Transport};
use crate::url::{Authority, authority};
use anyhow::{Context, Result, bail};
use outcome::Outcome;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How a run is carried out.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where workers live; processes are started as it says.
    pub launcher: Launcher,
    /// As many as the connections need, unless said.
    pub workers: Option<u32>,
    /// Certificates in PEM that TLS servers are checked with, instead of those of the machine.
    pub authorities: Option<String>,
    /// Silence after the last phase that ends the wait for stragglers.
    pub grace: Duration,
    /// Set from outside to end the run early, with what there is.
    pub interrupt: Arc<AtomicBool>,
    /// Set from outside to wait for no more stragglers.
    pub hurry: Arc<AtomicBool>,
}

/// Users of one worker that connect at the same time.
const IN_FLIGHT: u32 = 256;

/// Runs a scenario against a server. An interrupted run has an outcome too, which says so.
pub fn run(
    scenario: &Scenario,
    target: &Target,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    scenario.check_counts().map_err(anyhow::Error::msg)?;
    conductor::Conductor::new(scenario, target, options, observer)?.run()
}

impl Options {
    pub fn new(launcher: Launcher) -> Self {
        Options {
            launcher,
            workers: None,
            authorities: None,
            grace: Duration::from_secs(10),
            interrupt: Arc::default(),
            hurry: Arc::default(),
        }
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }
}

impl Target {
    /// The addresses behind the URLs.
    pub fn servers(&self) -> Result<Vec<Server>> {
        if self.urls.is_empty() {
            bail!("cannot run without a server: give --url http://127.0.0.1:3000");
        }
        self.urls.iter().map(|url| server(url)).collect()
    }
}

fn server(url: &str) -> Result<Server> {
    let Authority { host, address, tls } = authority(url)?;
    let mut addrs = address
        .to_socket_addrs()
        .with_context(|| format!("cannot find the address of {url}"))?;
    let addr = addrs
        .next()
        .with_context(|| format!("{url} has no address"))?;
    Ok(Server { addr, host, tls })
}

/// Workers that hold all sockets of a scenario.
fn workers_for(scenario: &Scenario) -> u32 {
    let sockets_each = |flow: &crate::scenario::Flow| match flow.endpoint {
        ref endpoint if endpoint.protocol != Protocol::SocketIo => 1,
        ref endpoint if endpoint.transport == Transport::WebSocket => 1,
        _ => 2,
    };
    let each = scenario.flows.iter().map(sockets_each).max().unwrap_or(1);
    let sockets = scenario.users().saturating_mul(each);
    descriptors::workers_for(sockets)
}
