//! Bridges to programs: records of what clients do go out, and records of programs come in as orders to shards. The crates `kafka` and `nats`
//! have the clients; the modules of the same names have their places in the process.

#[cfg(any(feature = "kafka", feature = "nats"))]
mod orders;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod outwards;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod readers;
mod settings;

#[cfg(any(feature = "kafka", feature = "nats"))]
pub(crate) use orders::{Counted, counted};
#[cfg(any(feature = "kafka", feature = "nats"))]
pub(crate) use outwards::{Asked, Outline, answer, settled, unwritten};
#[cfg(any(feature = "kafka", feature = "nats"))]
pub(crate) use readers::{Reader, Readers, figures};
pub use settings::{Reads, Writes};

use ::bridge::Failure;
use rules::bridge::{Bus, Recorder};
use rules::{Outcome, Wanted};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use types::Target;

/// Events with the same key keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The user; the socket where there is none.
    User,
    /// The document; the socket where there is none.
    Room,
    /// The socket.
    Socket,
    /// A claim of the token; the socket where there is none.
    Claim,
}

/// Sends an order to the shards, which carry it out on all nodes. Those of one namespace keep their order.
pub type Carry = Arc<dyn Fn(Target, Wanted) -> Result<Carrying, Uncarried> + Send + Sync>;

/// An order on its way.
#[derive(Debug)]
pub struct Carrying(oneshot::Receiver<Outcome>);

impl Carrying {
    pub(crate) fn new(answered: oneshot::Receiver<Outcome>) -> Self {
        Self(answered)
    }

    /// Blocks until the shards have it.
    ///
    /// # Errors
    /// Nobody took it.
    pub fn wait(self) -> Result<Carried, Uncarried> {
        match self.0.blocking_recv() {
            Ok(Outcome::Done { everywhere }) => Ok(Carried { everywhere }),
            // The shard is gone, and the process ends.
            Ok(_) | Err(_) => Err(Uncarried::Later),
        }
    }
}

/// An order that the shards have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// `false`: too much waits for the other nodes, which do not get it.
    pub everywhere: bool,
}

/// Why an order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncarried {
    /// It is none, for this reason.
    Flaw(String),
    /// Nobody takes it now.
    Later,
}

/// What became of records so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Events that the bus has.
    pub produced: u64,
    /// Events that were taken, and that the bus did not acknowledge.
    pub failed: u64,
    /// Events that were not taken.
    pub refused: u64,
    /// Requests to servers that were sent again.
    pub retried: u64,
    /// Bytes that wait for the bus.
    pub waiting_bytes: u64,
    /// Commands that were handed over.
    pub handed: u64,
    /// Commands that other nodes did not get.
    pub partial: u64,
    /// Records that were left out, because they had been handed over before.
    pub repeated: u64,
    /// Records that are no command, written as dead letters.
    pub dead: u64,
    /// Records that are no command and were not written there, or that were given up unread.
    pub lost: u64,
    /// Records that wait for this process.
    pub lag: u64,
}

/// What answers a question of a shard.
pub type Answered = Box<dyn FnOnce(Option<Box<[u8]>>) + Send>;

/// One of them as the process has it: started before the rules are made, opened for commands when shards are there, closed at the end.
pub trait Bridge: Send + Sync {
    /// The way of records out.
    fn recorder(&self) -> Option<Arc<dyn Recorder>>;
    /// Begins to read commands. Within a runtime.
    ///
    /// # Errors
    /// A setting is wrong.
    fn open(&self, carry: &Carry) -> Result<(), String>;
    /// Stops to read commands: those at hand are carried out, and all are acknowledged. Blocks for that time, and not for long: servers
    /// may be away. `false`: the last may be read again.
    fn stop_reading(&self) -> bool;
    /// Whether all readers that were told to stop have.
    fn has_stopped(&self) -> bool;
    /// Blocks until the bus has all that it took; `false`: it has not in this time.
    fn settle(&self, within: Duration) -> bool;
    /// Writes what waits, for at most so long.
    fn close(&self, within: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// Answers a shard's question about a record with this number.
    fn ask(&self, number: u64, answered: Answered);
    /// For metrics.
    fn figures(&self) -> Figures;
    /// The last ones, the newest first.
    fn failures(&self) -> Vec<Failure>;
    /// Forgets what was said in failures that are old.
    fn pass_time(&self);
}

/// Those that this process has.
#[derive(Default)]
pub struct Bridges {
    kafka: OnceLock<Arc<dyn Bridge>>,
    nats: OnceLock<Arc<dyn Bridge>>,
    /// Where commands go.
    carry: OnceLock<(Carry, Handle)>,
    gate: Mutex<Gate>,
}

/// Whether readers may begin.
#[derive(Default)]
struct Gate {
    /// Pauses so far: only the last one ends by reading again.
    pauses: u64,
    /// Clients are sent away: nothing is read any more.
    is_closed: bool,
}

/// How soon readers are begun anew when those before have stopped.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// The log tells of a reader that has not stopped within this time, and again each minute.
const LATE: Duration = Duration::from_secs(10);
const LATE_AGAIN: Duration = Duration::from_secs(60);

impl fmt::Debug for Bridges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridges").finish_non_exhaustive()
    }
}

impl Bridges {
    /// Once.
    pub fn set(&self, bus: Bus, bridge: Arc<dyn Bridge>) {
        // Nobody else sets it.
        let _ = self.of(bus).set(bridge);
    }

    /// The one to this bus.
    pub fn get(&self, bus: Bus) -> Option<&Arc<dyn Bridge>> {
        self.of(bus).get()
    }

    /// All.
    pub fn all(&self) -> impl Iterator<Item = (Bus, &Arc<dyn Bridge>)> {
        Bus::ALL
            .into_iter()
            .filter_map(|bus| Some((bus, self.get(bus)?)))
    }

    /// From now on commands are read. Within a runtime.
    ///
    /// # Errors
    /// A setting is wrong: of which bus, and what.
    pub fn open(&self, carry: Carry) -> Result<(), (Bus, String)> {
        let (carry, _) = self.carry.get_or_init(|| (carry, Handle::current()));
        for (bus, bridge) in self.all() {
            bridge.open(carry).map_err(|why| (bus, why))?;
        }
        Ok(())
    }

    /// Reads no commands, until what this returns is dropped. Blocks.
    ///
    /// # Errors
    /// A bus has not acknowledged the last in time.
    pub fn pause(self: &Arc<Self>) -> Result<Paused, Bus> {
        let pause = {
            let mut gate = self.gate();
            gate.pauses += 1;
            gate.pauses
        };
        let paused = Paused(Some((Arc::clone(self), pause)));
        let late = self.stop_reading();
        late.map_or(Ok(paused), Err)
    }

    /// Reads no commands any more, however many pauses end. Blocks.
    pub fn close_reading(&self) {
        self.gate().is_closed = true;
        // Whoever was late has said so.
        let _ = self.stop_reading();
    }

    /// A bus that has not acknowledged the last in time.
    fn stop_reading(&self) -> Option<Bus> {
        std::thread::scope(|scope| {
            let all = self.all();
            let all = all.map(|(bus, bridge)| (bus, scope.spawn(move || bridge.stop_reading())));
            let all: Vec<_> = all.collect();
            let late = |(bus, stopped): (Bus, ScopedJoinHandle<'_, bool>)| {
                (!stopped.join().unwrap_or_default()).then_some(bus)
            };
            all.into_iter().filter_map(late).next()
        })
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pause is over: each bus is read again when its readers have stopped, and what they had is acknowledged or known to come again.
    fn read_again(&self, pause: u64) {
        // Nothing was read before.
        let Some((carry, runtime)) = self.carry.get() else {
            return;
        };
        let _context = runtime.enter();
        let mut left: Vec<(Bus, &Arc<dyn Bridge>)> = self.all().collect();
        let mut told = Instant::now() + LATE;
        loop {
            if Instant::now() >= told {
                told = Instant::now() + LATE_AGAIN;
                let buses: Vec<Bus> = left.iter().map(|(bus, _)| *bus).collect();
                tracing::warn!(
                    ?buses,
                    "no commands are read until the readers before an upgrade that was given up have ended: is the bus away? restart the gateway if it is not"
                );
            }
            {
                let gate = self.gate();
                if gate.is_closed || gate.pauses != pause {
                    return;
                }
                left.retain(|(bus, bridge)| {
                    if !bridge.has_stopped() {
                        return true;
                    }
                    if let Err(why) = bridge.open(carry) {
                        tracing::error!(
                            ?bus,
                            why,
                            "commands are not read any more: restart the gateway"
                        );
                    }
                    false
                });
            }
            if left.is_empty() {
                return;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Blocks until all buses have what they took.
    ///
    /// # Errors
    /// One has not in this time.
    pub fn settle(&self, within: Duration) -> Result<(), Bus> {
        let deadline = Instant::now() + within;
        for (bus, bridge) in self.all() {
            if !bridge.settle(deadline.saturating_duration_since(Instant::now())) {
                return Err(bus);
            }
        }
        Ok(())
    }

    /// To be called now and then.
    pub(crate) fn pass_time(&self) {
        self.all().for_each(|(_, bridge)| bridge.pass_time());
    }

    fn of(&self, bus: Bus) -> &OnceLock<Arc<dyn Bridge>> {
        match bus {
            Bus::Kafka => &self.kafka,
            Bus::Nats => &self.nats,
        }
    }
}

/// Commands are not read. They are again when this is dropped.
#[derive(Debug)]
pub struct Paused(Option<(Arc<Bridges>, u64)>);

impl Paused {
    /// Another process reads them.
    pub fn commit(mut self) {
        self.0 = None;
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let Some((bridges, pause)) = self.0.take() else {
            return;
        };
        if bridges.all().next().is_none() {
            return;
        }
        let thread = std::thread::Builder::new().name("bridges-back".to_owned());
        // A bus that is away keeps its readers for a while.
        if let Err(error) = thread.spawn(move || bridges.read_again(pause)) {
            tracing::error!(%error, "commands are not read any more: no thread can be started; restart the gateway");
        }
    }
}
