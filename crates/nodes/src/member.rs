//! This process as a member of a cluster: a thread that owns the engine, the native plane and the node's number.

use super::arrival::{Arrival, Arrived, Start, Succession};
use super::budgets::Exchange;
use super::card::Card;
use super::directory::Directory;
use super::driver::{DOUBT, Ended, Rig, drive};
use super::engine::Trouble;
use super::feed::Opened;
use super::gauges::Gauges;
use super::office::{Office, Order};
use super::roster::Roster;
use super::seal::Seal;
use super::standing::{Orders, Stop};
use cluster::frame::{Epoch, NodeId, Peer};
use cluster::node::{Limits, Node};
use hub::{Naming, Parcel, Uplink};
use process::vitals::Pulse;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// How long a clean leave waits for the peers.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

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
    /// What to do while the engine cannot be reached.
    pub start: Start,
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
    /// Number and epoch of the life as which this process goes on, once another one has handed it over.
    pub succeeds: Option<(u16, u64)>,
}

/// A member of a cluster.
#[derive(Debug)]
pub struct Member {
    number: u16,
    epoch: u64,
    limits: Limits,
    stop: Stop,
    /// Another process was this life before.
    goes_on: bool,
    /// The place in the cluster that it had.
    place: Option<Box<Node>>,
    card: Card,
    roster: Arc<Roster>,
    orders: UnboundedSender<Order>,
    uplink: Arc<Uplink>,
    gauges: Arc<Gauges>,
    parcels: UnboundedSender<Parcel>,
    open: Option<oneshot::Sender<(Office, Option<Box<Node>>)>>,
    leave: Option<oneshot::Sender<()>>,
    directory: Option<Directory>,
    ended: mpsc::Receiver<Ended>,
}

/// A process on its way into the cluster.
#[derive(Debug)]
pub struct Joining {
    /// Without a number yet.
    member: Option<Member>,
    number: mpsc::Receiver<Result<Peer, Trouble>>,
}

impl Joining {
    /// Begins to find the engine and a number. Both take as long as they take.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn begin<F>(
        settings: Settings,
        gauges: Arc<Gauges>,
        pulse: Pulse,
        open: impl Fn() -> F + Send + 'static,
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
        let relays = settings.card.relay.is_some();
        let roster = Arc::new(Roster::new(Arc::clone(&uplink), relays));
        let (orders, ordered) = unbounded_channel();
        let (parcels, received) = unbounded_channel();
        let (open_office, office) = oneshot::channel();
        let (leave, left) = oneshot::channel();
        let (stop, stops) = Stop::new();
        let (joined, number) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let member = Member {
            number: 0,
            epoch: 0,
            limits: settings.limits(),
            stop,
            goes_on: settings.succeeds.is_some(),
            place: None,
            card: settings.card.clone(),
            roster: Arc::clone(&roster),
            orders,
            uplink: Arc::clone(&uplink),
            gauges: Arc::clone(&gauges),
            parcels,
            open: Some(open_office),
            leave: Some(leave),
            directory: None,
            ended,
        };
        let seed = Seed {
            settings,
            roster,
            orders: ordered,
            uplink,
            gauges,
            parcels: received,
            office,
            left,
            stops,
            joined,
        };
        spawn(move |runtime| {
            let how = runtime.block_on(seed.live(open));
            pulse.rest();
            let _ = end.send(how);
        })?;
        Ok(Self {
            member: Some(member),
            number,
        })
    }

    /// Waits for at most so long; `None`: not yet.
    ///
    /// # Errors
    /// Why this process cannot be a member.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<Member>, Trouble> {
        let life = match self.number.recv_timeout(limit) {
            Ok(life) => life?,
            Err(mpsc::RecvTimeoutError::Timeout) => return Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Trouble::new(
                    "cannot join the cluster: its thread has ended",
                ));
            }
        };
        let member = self.member.take();
        Ok(member.map(|member| Member {
            number: life.node.0,
            epoch: life.epoch.0,
            ..member
        }))
    }
}

/// Starts the thread for the cluster.
fn spawn(run: impl FnOnce(tokio::runtime::Runtime) + Send + 'static) -> Result<(), Trouble> {
    let start = |error| Trouble::new(format!("cannot start the thread for the cluster: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(start)?;
    let thread = std::thread::Builder::new().name("cluster".to_owned());
    thread.spawn(move || run(runtime)).map_err(start)?;
    Ok(())
}

impl Member {
    /// The node's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Tells this life of the node from all others.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Where it is brought to a stand for another process.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Another process had this place in the cluster. Nothing is published before [`Self::open`]. `some_stay`: some of its sockets are not
    /// here, and others count them until they ask.
    ///
    /// # Errors
    /// The record contradicts itself.
    pub fn go_on_with(&mut self, record: &[u8], some_stay: bool) -> Result<(), String> {
        let me = Peer {
            node: NodeId(self.number),
            epoch: Epoch(self.epoch),
        };
        let place = Node::restored(me, self.limits, record);
        let mut place =
            place.map_err(|why| format!("the record of the place in the cluster has {why}"))?;
        // Shards may serve somebody before the thread begins.
        let peers: Vec<Peer> = place.neighbours().up().collect();
        for peer in &peers {
            self.uplink.meets(peer.node.0);
            self.roster.up(peer.node.0, peer.epoch.0);
        }
        self.uplink.counts_nodes(peers.len() as u64);
        if some_stay {
            peers.iter().for_each(|peer| place.order(peer.node, DOUBT));
        }
        self.place = Some(Box::new(place));
        Ok(())
    }

    /// It is the life that another process was, whose place it has got.
    pub fn goes_on(&self) -> bool {
        self.goes_on
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
            let _ = open.send((office, self.place.take()));
        }
    }

    /// Why it is no member any more; `None` while it is.
    pub fn has_ended(&self) -> Option<Ended> {
        self.ended.try_recv().ok()
    }

    /// It writes a directory, too.
    pub fn keep(&mut self, directory: Directory) {
        self.directory = Some(directory);
    }

    /// Tells the peers, waits until what was sent has left, and gives the number back.
    pub fn leave(&mut self) {
        if let Some(mut directory) = self.directory.take() {
            directory.leave();
        }
        if let Some(leave) = self.leave.take()
            && leave.send(()).is_ok()
        {
            let _ = self.ended.recv_timeout(LEAVE_TIMEOUT);
        }
    }
}

impl Settings {
    /// Comes into the cluster: as a new life of a node, or as the one that another process is.
    async fn arrive<F>(
        &self,
        seal: &Seal,
        roster: &Roster,
        open: impl Fn() -> F,
    ) -> Result<Arrived, Trouble>
    where
        F: Future<Output = Result<Opened, Trouble>>,
    {
        let (prefix, card) = (&self.prefix, &self.card);
        let Some((node, epoch)) = self.succeeds else {
            let arrival = Arrival {
                prefix,
                given: self.number,
                card,
                seal,
                start: self.start,
            };
            return arrival.arrive(open).await;
        };
        let life = Peer {
            node: NodeId(node),
            epoch: Epoch(epoch),
        };
        let succession = Succession {
            prefix,
            life,
            card,
            seal,
        };
        let arrived = succession.arrive(open).await?;
        roster.leases(node, &arrived.leases);
        Ok(arrived)
    }

    /// The bounds of the native plane.
    fn limits(&self) -> Limits {
        let mut limits = Limits {
            flood_always: self.flood_always,
            ..Limits::default()
        };
        limits.outlet.frame_letters = self.frame_letters;
        limits.outlet.ring_bytes = self.ring_bytes;
        limits.outlet.queue_bytes = self.queue_bytes;
        limits
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
    office: oneshot::Receiver<(Office, Option<Box<Node>>)>,
    left: oneshot::Receiver<()>,
    stops: UnboundedReceiver<Orders>,
    joined: mpsc::Sender<Result<Peer, Trouble>>,
}

impl Seed {
    async fn live<F>(self, open: impl Fn() -> F) -> Ended
    where
        F: Future<Output = Result<Opened, Trouble>>,
    {
        let settings = self.settings;
        let seal = Seal::new(settings.secret.as_deref());
        let arrived = settings.arrive(&seal, &self.roster, open).await;
        let Arrived {
            engine,
            feed,
            number,
            expected,
            leases,
        } = match arrived {
            Ok(arrived) => arrived,
            Err(trouble) => {
                let _ = self.joined.send(Err(trouble));
                return Ended::Left;
            }
        };
        let life = Peer {
            node: number.node,
            epoch: number.epoch(),
        };
        let node = life.node.0;
        let _ = self.joined.send(Ok(life));
        if let Ok(server) = engine.server().await {
            let (name, version, mode) = (server.name, server.version, server.mode);
            tracing::info!(node, %name, %version, mode, "joined the cluster");
        }
        let Ok((mut office, place)) = self.office.await else {
            return Ended::Left;
        };
        if settings.succeeds.is_some() != place.is_some() {
            return Ended::Left;
        }
        let exchange = Exchange {
            engine: engine.clone(),
            seal: seal.clone(),
            prefix: settings.prefix.clone(),
            me: life,
            roster: Arc::clone(&self.roster),
            gauges: Arc::clone(&self.gauges),
        };
        let shares = office.shares.take().map(|of| exchange.start(of));
        let rig = Rig {
            limits: settings.limits(),
            prefix: settings.prefix,
            seal,
            number,
            expected,
            leases,
            engine,
            feed,
            office,
            uplink: self.uplink,
            gauges: self.gauges,
            parcels: self.parcels,
            card: settings.card,
            roster: self.roster,
            orders: self.orders,
            stops: self.stops,
            place,
        };
        let ended = drive(rig, self.left).await;
        if let Some(shares) = shares.filter(|_| ended == Ended::Left) {
            shares.leave().await;
        }
        ended
    }
}
