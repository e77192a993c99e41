//! Requests for sessions of other nodes. The node that a client came to passes its connection on: one request of long-polling, or a
//! WebSocket for as long as it lives. The owner's shard serves it like a connection of its own.

mod asking;
mod greeting;
mod lock;
mod pipe;
mod shares;
mod traffic;
mod turns;

use crate::roster::{Roster, Route};
pub use asking::ANSWER_BYTES_MAX;
use asking::{Answerer, QUESTION};
use greeting::{Ask, Secret};
use hub::Places;
use lock::{Keyring, Lock};
use pipe::{Client, Owner};
use process::seats::Seats;
use process::stream::{Duplex, Stream};
use rustls::ServerConfig;
use shares::{Share, Shares};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use traffic::Traffic;
use turns::Turns;

/// A node that has not taken a connection over by then is given up: one that stands still accepts and never answers.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections at the door that have not shown a code yet.
const STRANGERS_MAX: usize = 256;
/// Stands for the number of a shard: the other node wants to follow something here, and brings no client.
const TO_FOLLOW: u16 = QUESTION - 1;
/// Greetings of one connection: a node whose door is crowded hangs up on those that wait there for longest.
const GREETINGS_MAX: u32 = 5;
/// Before the second greeting; longer before each further one.
const GREETING_PAUSE: Duration = Duration::from_millis(20);
/// After an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Written here, read by the exporter.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Connections that are relayed now.
    pub open: AtomicU64,
    /// Connections that their owner took over.
    pub relayed: AtomicU64,
    /// Connections that could not be relayed.
    pub failed: AtomicU64,
    /// Connections above the bound: those that came, or in their place those of the address that had most.
    pub refused: AtomicU64,
    pub bytes_up: AtomicU64,
    pub bytes_down: AtomicU64,
    /// Connections taken over from other nodes.
    pub taken: AtomicU64,
    /// Connections to this node's door that showed no code.
    pub strangers: AtomicU64,
    /// Those of them that gave their place to a newcomer.
    pub displaced: AtomicU64,
}

/// A connection to be relayed.
#[derive(Debug)]
pub struct Relayed {
    pub stream: Stream,
    /// The bytes read of it: the head of a request, and perhaps more.
    pub read: Vec<u8>,
    pub client: IpAddr,
    pub node: u16,
    pub shard: u16,
    /// The answer if the node cannot be reached.
    pub refusal: Vec<u8>,
}

/// Gives a connection to a shard; `false`: there is no room.
pub type Adopt = Box<dyn Fn(u16, std::net::TcpStream, IpAddr) -> bool + Send + Sync>;

/// Ends when the operator of the other node hangs up, or has seen enough.
pub type Showing = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Shows an operator of another node what passes here.
pub type Show = Arc<dyn Fn(Box<dyn Duplex>) -> Showing + Send + Sync>;

/// What keeps others out.
#[derive(Clone, Copy)]
pub struct Secrets<'a> {
    /// The cluster's.
    pub secret: &'a str,
    /// Other nodes are to encrypt what they relay to this one.
    pub encrypts: bool,
}

impl fmt::Debug for Secrets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encrypts = &self.encrypts;
        f.debug_struct("Secrets")
            .field("encrypts", encrypts)
            .finish_non_exhaustive()
    }
}

/// This node's part in relaying.
#[derive(Clone, Debug)]
pub struct Relays(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    runtime: Handle,
    me: u16,
    secret: Secret,
    /// `None`: what comes from other nodes is not encrypted.
    lock: Option<Lock>,
    /// For other nodes.
    keyring: Keyring,
    roster: Arc<Roster>,
    /// Of clients; strangers at the door borrow from them.
    places: Arc<Places>,
    shares: Arc<Shares>,
    gauges: Arc<Gauges>,
    /// Connections that are relayed now, by the node that they go to.
    open: Mutex<BTreeMap<u16, u64>>,
    answerer: Answerer,
    turns: Turns,
    /// Clients are to be sent away within this time.
    closing: watch::Sender<Option<Duration>>,
    /// Nothing is taken over any more.
    closed: watch::Sender<bool>,
    /// Nothing is taken over now: who comes waits.
    held: watch::Sender<bool>,
    /// Connections of other nodes that have not shown what they are.
    greetings: AtomicUsize,
    /// A stranger was told of.
    told: AtomicBool,
}

impl Relays {
    /// `relays_max`: connections relayed at once, as far as there are places.
    pub fn new(
        runtime: &Handle,
        me: u16,
        secrets: Secrets<'_>,
        roster: &Arc<Roster>,
        (places, relays_max): (&Arc<Places>, usize),
        gauges: &Arc<Gauges>,
    ) -> io::Result<Self> {
        let lock = secrets.encrypts.then(Lock::roll).transpose()?;
        Ok(Self(Arc::new(Shared {
            runtime: runtime.clone(),
            me,
            secret: Secret::new(secrets.secret),
            lock,
            keyring: Keyring::default(),
            roster: Arc::clone(roster),
            places: Arc::clone(places),
            shares: Arc::new(Shares::new(places, relays_max)),
            gauges: Arc::clone(gauges),
            open: Mutex::default(),
            answerer: Answerer::default(),
            turns: Turns::default(),
            closing: watch::Sender::new(None),
            closed: watch::Sender::new(false),
            held: watch::Sender::new(false),
            greetings: AtomicUsize::new(0),
            told: AtomicBool::new(false),
        })))
    }

    /// How shards decrypt what other nodes bring; `None`: it comes as it is.
    pub fn tls(&self) -> Option<&Arc<ServerConfig>> {
        Some(&self.0.lock.as_ref()?.config)
    }

    /// Passes a connection on. Never blocks: shards call this in the middle of a turn.
    pub fn relay(&self, mut relayed: Relayed) {
        let shared = Arc::clone(&self.0);
        let refused = &shared.gauges.refused;
        let Some((share, displaced)) = shared.shares.take(relayed.client) else {
            refused.fetch_add(1, Ordering::Relaxed);
            // One attempt: there is no descriptor for somebody who reads slowly.
            let _ = relayed.stream.write(&relayed.refusal);
            return;
        };
        refused.fetch_add(u64::from(displaced), Ordering::Relaxed);
        self.0.runtime.spawn(async move {
            let open = Open::new(&shared, relayed.node);
            if let Err(error) = shared.pass(relayed, share).await {
                tracing::debug!(%error, "cannot take over a connection that is to be relayed");
            }
            drop(open);
        });
    }

    /// Connections that are relayed now.
    pub fn open(&self) -> u64 {
        self.0.gauges.open.load(Ordering::Relaxed)
    }

    /// The same by the node that they go to.
    pub fn open_by_node(&self) -> BTreeMap<u16, u64> {
        let open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone()
    }

    /// Sends the clients of relayed connections away, evenly over the window.
    pub fn drain(&self, window: Duration) {
        self.0.closing.send_replace(Some(window));
    }

    /// The shards are gone: other nodes find the door shut, and tell their clients.
    pub fn close(&self) {
        self.0.closed.send_replace(true);
    }

    /// Takes nothing over until [`Self::go_on`]: who comes waits at the door, for this process or for one that gets it.
    pub fn hold(&self) {
        self.0.held.send_replace(true);
    }

    pub fn go_on(&self) {
        self.0.held.send_replace(false);
    }

    /// Connections of other nodes that came and have not shown what they are.
    pub fn greetings(&self) -> usize {
        self.0.greetings.load(Ordering::Acquire)
    }

    /// A conversation with another node's desk of live traces.
    pub async fn follow(&self, node: u16) -> io::Result<Box<dyn Duplex>> {
        let route = self.0.roster.route(node);
        let route = route.ok_or_else(|| io::Error::other("it is not reached now"))?;
        let ask = Ask {
            from: self.0.me,
            to: node,
            shard: TO_FOLLOW,
            client: Ipv4Addr::UNSPECIFIED.into(),
        };
        Ok(Box::new(self.0.reach(&route, ask).await?))
    }

    /// Takes connections over from other nodes, and lets their operators follow what passes here.
    pub fn serve(&self, listener: TcpListener, adopt: Adopt, show: Option<Show>) {
        let shared = Arc::clone(&self.0);
        let services = Arc::new(Services { adopt, show });
        self.0.runtime.spawn(async move {
            let mut closed = shared.closed.subscribe();
            tokio::select! {
                () = shared.receive(listener, &services) => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
        });
    }
}

impl Shared {
    /// Lets nodes in that have the secret.
    async fn receive(self: &Arc<Self>, listener: TcpListener, services: &Arc<Services>) {
        let seats = Seats::new(&self.places);
        let mut held = self.held.subscribe();
        loop {
            seats.settle().await;
            // The sender is here.
            let _ = held.wait_for(|held| !*held).await;
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = held.wait_for(|held| *held) => continue,
            };
            let Ok((stream, from)) = accepted else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // A node shows its code within two round trips: the one that is silent for longest is a stranger.
            let (mut seat, displaced) = seats.take(STRANGERS_MAX);
            if displaced {
                self.gauges.displaced.fetch_add(1, Ordering::Relaxed);
            }
            let (shared, services) = (Arc::clone(self), Arc::clone(services));
            shared.greetings.fetch_add(1, Ordering::AcqRel);
            tokio::spawn(async move {
                let taken = tokio::select! {
                    taken = timeout(GREETING_TIMEOUT, shared.take_over(stream, &services)) => taken,
                    () = seat.lost() => Ok(Err(io::Error::other("its place was needed"))),
                };
                shared.greetings.fetch_sub(1, Ordering::AcqRel);
                if let Err(error) = taken.unwrap_or_else(|slow| Err(slow.into())) {
                    shared.turned_away(from.ip(), &error);
                }
            });
        }
    }

    async fn pass(&self, relayed: Relayed, mut share: Share) -> io::Result<()> {
        let mut client = Client::new(relayed.stream.open()?);
        let gauges = &*self.gauges;
        let ask = Ask {
            from: self.me,
            to: relayed.node,
            shard: relayed.shard,
            client: relayed.client,
        };
        let mut displaced = false;
        if let Some(mut route) = self.roster.route(relayed.node) {
            match self.reach(&route, ask).await {
                Ok(owner) => {
                    gauges.relayed.fetch_add(1, Ordering::Relaxed);
                    let traffic = client.traffic().clone();
                    let cut = async {
                        tokio::select! {
                            () = self.cut(&mut route, traffic) => {}
                            () = share.lost() => displaced = true,
                        }
                    };
                    client.carry(owner, &relayed.read, gauges, cut).await;
                }
                Err(error) => {
                    let (node, address) = (relayed.node, route.address);
                    tracing::debug!(node, %address, %error, "cannot relay to a node");
                }
            }
        }
        if !displaced && !client.traffic().is_answered() {
            gauges.failed.fetch_add(1, Ordering::Relaxed);
        }
        client.finish(&relayed.refusal).await;
        Ok(())
    }

    /// A connection to a node that takes it over. Nothing of the client's was said before, so it may be tried again.
    async fn reach(&self, route: &Route, ask: Ask) -> io::Result<Owner> {
        let reached = async {
            let mut tried = 1;
            loop {
                match self.greet(route, ask).await {
                    Err(error) if is_cut(&error) && tried < GREETINGS_MAX => {
                        sleep(GREETING_PAUSE * tried).await;
                        tried += 1;
                    }
                    greeted => return greeted,
                }
            }
        };
        timeout(GREETING_TIMEOUT, reached).await?
    }

    async fn greet(&self, route: &Route, ask: Ask) -> io::Result<Owner> {
        let _turn = self.turns.wait(ask.to).await;
        let mut owner = TcpStream::connect(route.address).await?;
        owner.set_nodelay(true)?;
        Ok(match self.secret.ask(&mut owner, ask).await? {
            Some(key) => {
                let owner = self.keyring.encrypt(ask.to, key, owner).await?;
                Owner::Encrypted(Box::new(owner))
            }
            None => Owner::Plain(owner),
        })
    }

    /// Ends when the owner is given up, or when this node sends its clients away: those that wait for an answer last.
    async fn cut(&self, route: &mut Route, traffic: Traffic) {
        let mut closing = self.closing.subscribe();
        let drained = async {
            let window = closing
                .wait_for(Option::is_some)
                .await
                .map(|window| *window);
            let window = window.ok().flatten().unwrap_or_default();
            let dice = RandomState::new().build_hasher().finish();
            match traffic.is_answered() {
                true => {
                    sleep(window.mul_f64(dice as f64 / u64::MAX as f64)).await;
                    traffic.pause().await;
                }
                false => sleep(window).await,
            }
        };
        tokio::select! {
            () = route.ends() => {}
            () = drained => {}
        }
    }

    async fn take_over(
        self: &Arc<Self>,
        mut stream: TcpStream,
        services: &Services,
    ) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let key = self.lock.as_ref().map(|lock| lock.public);
        let ask = self.secret.answer(&mut stream, self.me, key).await?;
        if ask.shard == QUESTION {
            // It has shown its code: whatever becomes of its question, it is no stranger.
            self.answer(stream);
            return Ok(());
        }
        if ask.shard == TO_FOLLOW {
            let Some(show) = services.show.clone() else {
                return Ok(());
            };
            let lock = self.lock.as_ref();
            let acceptor = lock.map(|lock| TlsAcceptor::from(Arc::clone(&lock.config)));
            // It stays for longer than a greeting may.
            self.runtime.spawn(serve_follower(show, acceptor, stream));
            return Ok(());
        }
        let adopt = &services.adopt;
        // No room: the other node sees the end, and refuses its client.
        if adopt(ask.shard, stream.into_std()?, ask.client) {
            self.gauges.taken.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn turned_away(&self, from: IpAddr, error: &io::Error) {
        self.gauges.strangers.fetch_add(1, Ordering::Relaxed);
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %from, %error,
                "a connection to cluster.relay_listen was refused: all nodes need the same cluster.secret, and nobody else needs this port"
            );
        }
    }
}

/// The services of this node for others.
struct Services {
    adopt: Adopt,
    /// `None`: operators of other nodes see nothing that passes here.
    show: Option<Show>,
}

async fn serve_follower(show: Show, acceptor: Option<TlsAcceptor>, stream: TcpStream) {
    let served = match acceptor {
        None => show(Box::new(stream)).await,
        Some(acceptor) => match timeout(GREETING_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => show(Box::new(stream)).await,
            Ok(Err(error)) => Err(error),
            Err(slow) => Err(slow.into()),
        },
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a trace of another node ended");
    }
}

/// The other end hung up.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Counts a connection while it is relayed.
struct Open<'a> {
    shared: &'a Shared,
    node: u16,
}

impl<'a> Open<'a> {
    fn new(shared: &'a Shared, node: u16) -> Self {
        shared.gauges.open.fetch_add(1, Ordering::Relaxed);
        let mut open = shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open.entry(node).or_default() += 1;
        drop(open);
        Self { shared, node }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.gauges.open.fetch_sub(1, Ordering::Relaxed);
        let mut open = self
            .shared
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.node) {
            *count -= 1;
        }
        open.retain(|_, count| *count > 0);
    }
}
