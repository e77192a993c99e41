//! This process as a member of a cluster: a thread that owns the engine, the native plane and the node's number.

use super::card::Card;
use super::driver::{Ended, Rig, drive};
use super::engine::{Opened, Trouble};
use super::foreign::Ear;
use super::gauges::Gauges;
use super::number::Number;
use super::roster::Roster;
use crate::health::Readiness;
use crate::vitals::Pulse;
use cluster::node::Limits;
use hub::{Inbox, Letter, Naming, Parcel, Uplink};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// How long a member has to find the engine and its number.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a clean leave waits for the peers.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Hears that a node is gone: its number, and which of its lives it was.
pub type Gone = Box<dyn Fn(u16, u64) + Send>;

/// Brings a letter to a shard.
pub type Deliver = Box<dyn Fn(u16, Arc<Letter>) + Send>;

/// What a member needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of all channels and keys.
    pub prefix: String,
    /// The node's number; `None` = any that is free.
    pub number: Option<u16>,
    /// What others read of this node beside its number.
    pub card: Card,
    /// Frames carry a code made with it.
    pub secret: Option<String>,
    /// Letters in a frame.
    pub frame_letters: u16,
    /// Bytes of frames kept for nodes that miss some.
    pub ring_bytes: usize,
    /// What anybody wants goes to everybody.
    pub flood_always: bool,
    /// Bytes that may wait before publishers are refused.
    pub queue_bytes: usize,
    /// How long the ack of a join waits for other nodes.
    pub join_wait: Duration,
    /// What servers of other kinds want to know by name.
    pub naming: Naming,
    /// Namespaces that clients may join; others come with their first clients.
    pub namespaces: Vec<String>,
}

/// What is there once the shards run.
pub struct Office {
    pub inbox: Inbox,
    pub shards: u16,
    pub deliver: Deliver,
    /// Some shard has more letters than it may: others wait at the engine's end, which is bounded.
    pub are_behind: Box<dyn Fn() -> bool + Send>,
    /// Sessions of this node.
    pub sessions: Box<dyn Fn() -> u64 + Send>,
    pub readiness: Readiness,
    pub gone: Gone,
    /// Servers of other kinds listen by it.
    pub foreign: Option<Ear>,
}

impl std::fmt::Debug for Office {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Office").finish_non_exhaustive()
    }
}

/// Orders of operators to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// This node is to send its clients away.
    Drain(u16),
    /// The others are to know how this node stands, now.
    Renew,
}

/// A member of a cluster.
#[derive(Debug)]
pub struct Member {
    number: u16,
    card: Card,
    roster: Arc<Roster>,
    orders: UnboundedSender<Order>,
    uplink: Arc<Uplink>,
    gauges: Arc<Gauges>,
    parcels: UnboundedSender<Parcel>,
    open: Option<oneshot::Sender<Office>>,
    leave: Option<oneshot::Sender<()>>,
    ended: mpsc::Receiver<Ended>,
}

impl Member {
    /// Finds the engine, takes a number and begins to listen.
    ///
    /// # Errors
    /// Why this process cannot be a member.
    pub fn join<F>(
        settings: Settings,
        gauges: Arc<Gauges>,
        pulse: Pulse,
        open: impl FnOnce() -> F + Send + 'static,
    ) -> Result<Self, Trouble>
    where
        F: Future<Output = Result<Opened, Trouble>>,
    {
        let uplink = Uplink::new(settings.queue_bytes, settings.join_wait);
        let uplink = Arc::new(
            uplink
                .naming(settings.naming)
                .serving(settings.namespaces.clone()),
        );
        let roster = Arc::new(Roster::new(
            Arc::clone(&uplink),
            settings.card.relay.is_some(),
        ));
        let (orders, ordered) = unbounded_channel();
        let (parcels, received) = unbounded_channel();
        let (open_office, office) = oneshot::channel();
        let (leave, left) = oneshot::channel();
        let (joined, number) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let card = settings.card.clone();
        let seed = Seed {
            settings,
            roster: Arc::clone(&roster),
            orders: ordered,
            uplink: Arc::clone(&uplink),
            gauges: Arc::clone(&gauges),
            parcels: received,
            office,
            left,
            joined,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let start =
            |error| Trouble::new(format!("cannot start the thread for the cluster: {error}"));
        let runtime = runtime.map_err(start)?;
        let thread = std::thread::Builder::new().name("cluster".to_owned());
        let spawned = thread.spawn(move || {
            let how = runtime.block_on(seed.live(open));
            pulse.rest();
            let _ = end.send(how);
        });
        spawned.map_err(start)?;
        let number = number.recv_timeout(JOIN_TIMEOUT).unwrap_or_else(|_| {
            let seconds = JOIN_TIMEOUT.as_secs();
            let message =
                format!("cannot join the cluster: the engine did not answer within {seconds} s");
            Err(Trouble::new(message))
        })?;
        Ok(Self {
            number,
            card,
            roster,
            orders,
            uplink,
            gauges,
            parcels,
            open: Some(open_office),
            leave: Some(leave),
            ended,
        })
    }

    /// The node's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The description of this node for others, as it was at its start.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// The other nodes.
    pub fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }

    /// Where orders of operators go.
    pub fn orders(&self) -> UnboundedSender<Order> {
        self.orders.clone()
    }

    /// What the shards share with it.
    pub fn uplink(&self) -> &Arc<Uplink> {
        &self.uplink
    }

    /// Where the shards send what they have for other nodes.
    pub fn parcels(&self) -> UnboundedSender<Parcel> {
        self.parcels.clone()
    }

    /// The engine answers.
    pub fn is_up(&self) -> bool {
        self.gauges.up.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The shards run: letters can be delivered.
    pub fn open(&mut self, office: Office) {
        if let Some(open) = self.open.take() {
            let _ = open.send(office);
        }
    }

    /// Why it is no member any more; `None` while it is.
    pub fn has_ended(&self) -> Option<Ended> {
        self.ended.try_recv().ok()
    }

    /// Tells the peers, waits until what was sent has left, and gives the number back.
    pub fn leave(&mut self) {
        if let Some(leave) = self.leave.take()
            && leave.send(()).is_ok()
        {
            let _ = self.ended.recv_timeout(LEAVE_TIMEOUT);
        }
    }
}

/// What the thread starts with.
struct Seed {
    settings: Settings,
    roster: Arc<Roster>,
    orders: UnboundedReceiver<Order>,
    uplink: Arc<Uplink>,
    gauges: Arc<Gauges>,
    parcels: UnboundedReceiver<Parcel>,
    office: oneshot::Receiver<Office>,
    left: oneshot::Receiver<()>,
    joined: mpsc::Sender<Result<u16, Trouble>>,
}

impl Seed {
    async fn live<F>(self, open: impl FnOnce() -> F) -> Ended
    where
        F: Future<Output = Result<Opened, Trouble>>,
    {
        let settings = self.settings;
        let joined = async {
            let (engine, feed) = open().await?;
            let (given, payload) = (settings.number, settings.card.text());
            let number = Number::take(&engine, &settings.prefix, given, clock(), &payload).await?;
            Ok((engine, feed, number))
        };
        let (engine, feed, number) = match joined.await {
            Ok(joined) => joined,
            Err(trouble) => {
                let _ = self.joined.send(Err(trouble));
                return Ended::Left;
            }
        };
        let _ = self.joined.send(Ok(number.number));
        if let Ok(server) = engine.server().await {
            let (name, version, mode) = (server.name, server.version, server.mode);
            tracing::info!(node = number.number, %name, %version, mode, "joined the cluster");
        }
        let mut limits = Limits {
            flood_always: settings.flood_always,
            ..Limits::default()
        };
        limits.outlet.frame_letters = settings.frame_letters;
        limits.outlet.ring_bytes = settings.ring_bytes;
        limits.outlet.queue_bytes = settings.queue_bytes;
        let Ok(office) = self.office.await else {
            return Ended::Left;
        };
        let rig = Rig {
            prefix: settings.prefix,
            secret: settings.secret,
            limits,
            number,
            engine,
            feed,
            office,
            uplink: self.uplink,
            gauges: self.gauges,
            parcels: self.parcels,
            card: settings.card,
            roster: self.roster,
            orders: self.orders,
        };
        drive(rig, self.left).await
    }
}

/// Where epochs begin if the engine knows of none: above those that it may have forgotten.
fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| since.as_micros() as u64)
}
