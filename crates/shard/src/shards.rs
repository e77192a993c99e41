//! Starting, steering and ending the shard threads.

use crate::accept::{Door, DoorSettings};
use crate::clock::Clock;
use crate::cores;
use crate::effects::Hands;
use crate::entropy::entropy;
use crate::guests::{Guest, Guests};
use crate::mail::{Coming, Mail, Outside, Post};
use crate::onset::Onset;
use crate::passing::Arrival;
use crate::reactor::stream::Stream;
use crate::reactor::{Reactor, listener};
use crate::read::Reader;
use crate::streams::Streams;
use crate::turn::Shard;
use crate::walks::{ShardMemory, Walk, What};
use hub::bounds::SHARDS_MAX;
use hub::limits::Limits;
use hub::mailbox::{Loads, Receiver, Sender, mailbox};
use hub::metrics::{Cells, Limit};
use hub::{
    Carried, HandlerFactory, Hub, Identity, Letter, LiveTrace, Look, MemoryWalk, Outlets, Places,
    Process, Question, Sight, Uplink,
};
use rustls::ServerConfig;
use std::any::Any;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What the shards are told at start.
#[derive(Debug)]
pub struct Settings {
    /// Public addresses; port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// Other shards of this process listen there, and will end.
    pub takes_over: bool,
    /// Sockets that another process listens on, of each shard those of each address. Then the shards begin with what that process brings
    /// ([`Shards::takers`]).
    pub inherited: Option<Vec<Vec<TcpListener>>>,
    /// What that process says of its clock and of rates.
    pub onset: Option<Onset>,
    /// Unix sockets, bound and listening: their files are the business of who made them.
    pub unix: Vec<UnixListener>,
    /// Threads; 1..=256.
    pub shards: usize,
    /// Number of this process in the cluster; 0..=1023.
    pub node: u16,
    pub hub: hub::config::Config,
    /// What the hubs share with the way to other nodes, if there is one.
    pub uplink: Option<Arc<Uplink>>,
    /// The outlets to programs outside.
    pub outlets: Outlets,
    /// Bind each thread to a core, where each allowed core has one.
    pub pin: bool,
    /// Connections of the whole process; above it newcomers get 503.
    pub conns_max: usize,
    /// Connections beyond these, for sessions that exist and for health checks.
    pub conns_reserve: usize,
    /// For all of them, and for connections that are relayed to other nodes.
    pub places: Arc<Places>,
    pub tls: Option<Tls>,
}

/// Addresses that speak TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    pub listen: Vec<SocketAddr>,
    pub config: Arc<ServerConfig>,
}

/// A shard thread ended by a panic; what it was is on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardDied {
    pub shard: u16,
}

impl std::fmt::Display for ShardDied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "shard {} died", self.shard)
    }
}

impl std::error::Error for ShardDied {}

/// Asks the shards; stays valid until they end.
#[derive(Clone, Debug)]
pub struct Inspector {
    pub(crate) mail: Vec<Sender<Mail>>,
}

impl Inspector {
    /// The memory of all shards that answer in time.
    pub fn memory(&self, within: Duration) -> Vec<ShardMemory> {
        let mut shards = self.ask(within, |answer| What::Memory(MemoryWalk::default(), answer));
        shards.sort_by_key(|shard| shard.shard);
        shards
    }

    /// What the shards that answer in time have to show, each with its number.
    pub fn look(&self, question: &Question, within: Duration) -> Vec<(u16, Sight)> {
        let look = |answer| What::Look(Box::new(Look::new(question.clone())), answer);
        let mut sights = self.ask(within, look);
        sights.sort_by_key(|(shard, _)| *shard);
        sights
    }

    /// All shards tell this trace what passes, until it is over.
    pub fn trace(&self, trace: &Arc<LiveTrace>) {
        for mail in &self.mail {
            mail.send(Mail::Trace(Arc::clone(trace)));
        }
    }

    fn ask<T>(&self, within: Duration, what: impl Fn(mpsc::Sender<T>) -> What) -> Vec<T> {
        let (answer, answers) = mpsc::channel();
        let deadline = Instant::now() + within;
        for mail in &self.mail {
            mail.send(Mail::Walk(Walk {
                what: what(answer.clone()),
                until: deadline,
            }));
        }
        drop(answer);
        let next = || {
            let left = deadline.saturating_duration_since(Instant::now());
            answers.recv_timeout(left).ok()
        };
        std::iter::from_fn(next).collect()
    }
}

/// Brings the shards' handlers what the process has for them ([`hub::Handler::outside`]).
#[derive(Clone, Debug)]
pub struct ToHandlers {
    mail: Vec<Sender<Mail>>,
    loads: Arc<Loads>,
}

impl ToHandlers {
    pub fn shards(&self) -> u16 {
        self.mail.len() as u16
    }

    /// In order with all that is sent to this shard. `bytes`: what the word costs while it waits.
    pub fn send(&self, shard: u16, word: Box<dyn Any + Send>, bytes: usize) {
        if let Some(mail) = self.mail.get(usize::from(shard)) {
            mail.send(Mail::Outside { word, bytes });
        }
    }

    /// The shard serves it from now on. A guest that cannot be served is dropped.
    pub fn send_guest(&self, shard: u16, guest: Box<dyn Guest>) {
        if let Some(mail) = self.mail.get(usize::from(shard)) {
            mail.send(Mail::Guest(Coming(guest)));
        }
    }

    /// The guests of the shard look for what is new.
    pub fn call_guests(&self, shard: u16) {
        if let Some(mail) = self.mail.get(usize::from(shard)) {
            mail.send(Mail::CallGuests);
        }
    }

    /// Some shard has more in its mailbox than it may; those who can wait should.
    pub fn are_behind(&self, limits: &Limits) -> bool {
        (0..self.shards()).any(|shard| self.loads.is_long(shard, limits))
    }
}

/// Asks sessions to go elsewhere; stays valid until the shards end.
#[derive(Clone, Debug)]
pub struct Thinner {
    mail: Vec<Sender<Mail>>,
    cells: Arc<[Arc<Cells>]>,
}

impl Thinner {
    /// So many sessions of all shards, spread over the window; of an earlier call none any more. 0: nobody goes.
    pub fn thin(&self, count: usize, window: Duration, patience: Duration) {
        let sessions = |cells: &Arc<Cells>| cells.sessions.load(Ordering::Relaxed) as usize;
        let here: Vec<usize> = self.cells.iter().map(sessions).collect();
        let (window_ms, patience_ms) = (window.as_millis() as u64, patience.as_millis() as u64);
        for (mail, count) in self.mail.iter().zip(shares(count, &here)) {
            mail.send(Mail::Thin {
                count,
                window_ms,
                patience_ms,
            });
        }
    }
}

/// Each shard's part of a number, by what it has. The parts make up the whole.
fn shares(count: usize, here: &[usize]) -> Vec<usize> {
    let all: usize = here.iter().sum();
    let (mut seen, mut dealt) = (0, 0);
    let share = |own: &usize| {
        seen += own;
        let by_now = (count.min(all) * seen).checked_div(all).unwrap_or_default();
        by_now - std::mem::replace(&mut dealt, by_now)
    };
    here.iter().map(share).collect()
}

/// Running shard threads.
#[derive(Debug)]
pub struct Shards {
    addrs: Vec<SocketAddr>,
    /// From this one on the addresses speak TLS.
    secure_from: usize,
    cells: Arc<[Arc<Cells>]>,
    mail: Vec<Sender<Mail>>,
    places: Arc<Places>,
    conns_max: usize,
    conns_reserve: usize,
    process: Process,
    clock: Clock,
    ended: mpsc::Receiver<Result<(), ShardDied>>,
    /// Of shards that wait for what another process brings.
    pub(crate) takers: Vec<mpsc::Sender<Arrival>>,
}

/// Opens the listeners and starts the threads. If one cannot be started, those that were started end.
pub fn start(
    mut settings: Settings,
    handlers: &dyn HandlerFactory,
    outside: Arc<dyn Outside>,
) -> io::Result<Shards> {
    let count = settings.shards.clamp(1, SHARDS_MAX);
    let secure = settings.tls.iter().flat_map(|tls| &tls.listen);
    let all = settings.listen.iter().chain(secure);
    let claim = match settings.takes_over {
        true => listener::share,
        false => listener::claim,
    };
    let mut inherited = settings.inherited.take();
    let claims = match &inherited {
        Some(inherited) => known_addrs(inherited, count, all.count())?,
        None => all.map(|addr| claim(*addr)).collect::<io::Result<_>>()?,
    };
    let process = Onset::process(settings.onset, &settings.hub.rates);
    let mut process = process.sharing(&settings.hub);
    process.uplink = settings.uplink.clone();
    process.outlets = settings.outlets.clone();
    let offices = (0..count).map(|shard| Office::new(&process, shard as u16));
    let offices = offices.collect::<io::Result<Vec<_>>>()?;
    let mut unix = deal(std::mem::take(&mut settings.unix), count).into_iter();
    let clock = Onset::clock(settings.onset);
    let mut workshop = Workshop {
        shards: Shards {
            secure_from: settings.listen.len(),
            addrs: claims.iter().map(|claim| claim.addr).collect(),
            cells: (0..count).map(|_| Arc::default()).collect(),
            mail: offices.iter().map(|office| office.sender.clone()).collect(),
            places: Arc::clone(&settings.places),
            conns_max: settings.conns_max,
            conns_reserve: settings.conns_reserve,
            process,
            clock,
            ended: mpsc::channel().1,
            takers: Vec::new(),
        },
        config: Arc::new(settings.hub.clone()),
        clock,
        outside,
        settings,
    };
    // Every shard is whole before the first one runs: a listener that cannot be opened leaves no thread behind.
    let mut made = Vec::new();
    for (number, office) in offices.into_iter().enumerate() {
        let unix = unix.next().unwrap_or_default();
        let tcp = inherited
            .as_mut()
            .map(|all| std::mem::take(&mut all[number]));
        let arrivals = tcp.is_some().then(mpsc::channel);
        let (taker, arrivals) = arrivals.unzip();
        workshop.shards.takers.extend(taker);
        let shard = workshop.make(number as u16, office, (tcp, unix), handlers)?;
        made.push(shard.behind(arrivals));
    }
    drop(claims);
    workshop.run(made)
}

/// The addresses of sockets that another process listens on: each shard has one of each.
fn known_addrs(
    inherited: &[Vec<TcpListener>],
    shards: usize,
    addrs: usize,
) -> io::Result<Vec<listener::Claim>> {
    let fits = inherited.len() == shards && inherited.iter().all(|own| own.len() == addrs);
    if !fits {
        return Err(io::Error::other(format!(
            "the process before this one gave other listeners than {addrs} for each of {shards} shards"
        )));
    }
    let first = inherited.iter().take(1).flatten();
    let claims = first.map(|listener| listener::share(listener.local_addr()?));
    claims.collect()
}

/// A shard's mailbox and the reactor that it wakes.
struct Office {
    reactor: Reactor,
    sender: Sender<Mail>,
    receiver: Receiver<Mail>,
}

impl Office {
    fn new(process: &Process, shard: u16) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let loads = Arc::clone(&process.loads);
        let (sender, receiver) = mailbox(reactor.waker()?, loads, shard);
        Ok(Self {
            reactor,
            sender,
            receiver,
        })
    }
}

/// What all shards are made with.
struct Workshop {
    shards: Shards,
    config: Arc<hub::config::Config>,
    clock: Clock,
    outside: Arc<dyn Outside>,
    settings: Settings,
}

impl Workshop {
    fn make(
        &self,
        shard: u16,
        office: Office,
        (inherited, unix): (Option<Vec<TcpListener>>, Vec<UnixListener>),
        handlers: &dyn HandlerFactory,
    ) -> io::Result<Shard> {
        let (shards, limits) = (&self.shards, &self.config.limits);
        let me = Identity {
            node: self.settings.node,
            shard,
            shards: shards.mail.len() as u16,
        };
        let cells = &shards.cells[usize::from(shard)];
        let hub = Hub::in_process(
            Arc::clone(&self.config),
            me,
            handlers.build(shard),
            Arc::clone(cells),
            entropy(),
            &shards.process,
        );
        let tls = self.settings.tls.as_ref();
        let door = DoorSettings {
            addrs: shards.addrs.clone(),
            inherited,
            unix,
            secure_from: shards.secure_from,
            tls: tls.map(|tls| Arc::clone(&tls.config)),
            conns_max: self.settings.conns_max,
            conns_reserve: self.settings.conns_reserve,
        };
        let door = Door::open(door, &office.reactor)?;
        let hands = Hands {
            me,
            reactor: office.reactor,
            streams: Streams::new(limits.read_bytes_per_turn),
            mailbox: office.receiver,
            post: Post::new(shards.mail.clone()),
            loads: Arc::clone(&shards.process.loads),
            places: Arc::clone(&shards.places),
            cells: Arc::clone(cells),
            outside: Arc::clone(&self.outside),
            released: false,
            guests: Guests::default(),
        };
        let reader = Reader::new(limits.clone());
        Ok(Shard::new(hub, hands, door, reader, self.clock))
    }

    fn run(mut self, made: Vec<Shard>) -> io::Result<Shards> {
        let (sender, ended) = mpsc::channel();
        self.shards.ended = ended;
        let cores = self.settings.pin.then(|| cores::for_shards(made.len()));
        let cores = cores.flatten();
        for (number, shard) in made.into_iter().enumerate() {
            let core = cores.as_ref().map(|cores| cores[number]);
            let spawned = spawn(shard, number as u16, core, sender.clone());
            if let Err(error) = spawned {
                self.shards.stop();
                return Err(error);
            }
        }
        Ok(self.shards)
    }
}

/// Gives each listener to one shard.
fn deal(listeners: Vec<UnixListener>, shards: usize) -> Vec<Vec<UnixListener>> {
    let mut hands: Vec<_> = (0..shards).map(|_| Vec::new()).collect();
    for (n, listener) in listeners.into_iter().enumerate() {
        hands[n % shards].push(listener);
    }
    hands
}

fn spawn(
    mut shard: Shard,
    number: u16,
    core: Option<usize>,
    ended: mpsc::Sender<Result<(), ShardDied>>,
) -> io::Result<()> {
    std::thread::Builder::new()
        .name(format!("shard-{number}"))
        .spawn(move || {
            if let Some(core) = core {
                cores::bind(core);
            }
            // A panic here is a bug of ours: the process reports it and ends (the supervisor starts another).
            let run = catch_unwind(AssertUnwindSafe(|| shard.run()));
            let result = run.map_err(|_| ShardDied { shard: number });
            let _ = ended.send(result);
        })?;
    Ok(())
}

impl Shards {
    /// Addresses listened on, with the ports taken.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addrs[..self.secure_from]
    }

    /// The same of those that speak TLS.
    pub fn tls_addrs(&self) -> &[SocketAddr] {
        &self.addrs[self.secure_from..]
    }

    /// Gives new handshakes other certificates. Connections stay as they are.
    pub fn set_tls(&self, config: &Arc<ServerConfig>) {
        self.mail
            .iter()
            .for_each(|mail| mail.send(Mail::Tls(Arc::clone(config))));
    }

    /// Counters, one set per shard.
    pub fn metrics(&self) -> Arc<[Arc<Cells>]> {
        Arc::clone(&self.cells)
    }

    /// Where to ask for memory.
    pub fn inspector(&self) -> Inspector {
        Inspector {
            mail: self.mail.clone(),
        }
    }

    /// What the shards share.
    pub fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The time as the shards' limiters count it, microseconds.
    pub fn limiter_time(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let clock = self.clock;
        move || clock.limiter_us(Instant::now())
    }

    /// Brings a connection that another node relays to a shard. `false`: the process is full, and the connection is closed. Half of the
    /// reserve is left to clients of this node and to health checks.
    pub fn adopter(
        &self,
        tls: Option<Arc<ServerConfig>>,
    ) -> impl Fn(u16, std::net::TcpStream, IpAddr) -> bool + Send + Sync + 'static {
        let (mail, places) = (self.mail.clone(), Arc::clone(&self.places));
        let (max, reserve) = (self.conns_max, self.conns_reserve / 2);
        move |shard, stream, client| {
            let Some(mail) = mail.get(usize::from(shard)) else {
                return false;
            };
            let usual = places.try_keep(max, 0);
            let beyond = usual.is_none();
            let Some(place) = usual.or_else(|| places.try_keep(max, reserve)) else {
                return false;
            };
            let tls = match &tls {
                None => None,
                Some(config) => match crate::tls::Tls::new(config) {
                    None => return false,
                    session => session,
                },
            };
            mail.send(Mail::Conn {
                place,
                stream: Stream::Tcp(mio::net::TcpStream::from_std(stream)),
                tls,
                peer: client,
                read: Vec::new(),
                beyond: beyond.then_some(Limit::Conns),
                relayed: true,
                carried: false,
                new: true,
            });
            true
        }
    }

    /// Brings streams that stand for others of another kind, whose far ends a carrier has, to the shards in turn. The carrier keeps the place
    /// of its end as long as that. `None`: the process is full, and the stream is closed.
    pub fn carrier(
        &self,
    ) -> impl Fn(UnixStream, IpAddr) -> Option<Carried> + Send + Sync + 'static {
        self.bringer(true)
    }

    /// The same for clients that this process has itself: they speak as by TCP.
    pub fn doorway(
        &self,
    ) -> impl Fn(UnixStream, IpAddr) -> Option<Carried> + Send + Sync + 'static {
        self.bringer(false)
    }

    fn bringer(
        &self,
        carried: bool,
    ) -> impl Fn(UnixStream, IpAddr) -> Option<Carried> + Send + Sync + 'static {
        let (mail, places) = (self.mail.clone(), Arc::clone(&self.places));
        let (max, next) = (self.conns_max, AtomicUsize::new(0));
        move |stream, client| {
            let (place, theirs) = places.try_carry(max)?;
            stream.set_nonblocking(true).ok()?;
            let shard = next.fetch_add(1, Ordering::Relaxed) % mail.len();
            mail[shard].send(Mail::Conn {
                place,
                stream: Stream::Unix(mio::net::UnixStream::from_std(stream)),
                tls: None,
                peer: client,
                read: Vec::new(),
                beyond: None,
                relayed: false,
                carried,
                new: true,
            });
            Some(theirs)
        }
    }

    /// Brings a letter to one shard.
    pub fn postman(&self) -> impl Fn(u16, Arc<Letter>) + Send + Sync + 'static {
        let mail = self.mail.clone();
        move |shard, letter| {
            if let Some(mail) = mail.get(usize::from(shard)) {
                mail.send(Mail::Letter(letter));
            }
        }
    }

    /// The way to the handlers of all shards.
    pub fn to_handlers(&self) -> ToHandlers {
        ToHandlers {
            mail: self.mail.clone(),
            loads: Arc::clone(&self.process.loads),
        }
    }

    /// Connections open now.
    pub fn open_conns(&self) -> usize {
        self.places.open()
    }

    /// Stops accepting, tells the clients, closes them with 1001 evenly over the window, each in a pause of its client; one that never
    /// pauses has this patience more. The threads end when all are gone.
    pub fn drain(&self, window: Duration, patience: Duration) {
        let (window_ms, patience_ms) = (window.as_millis() as u64, patience.as_millis() as u64);
        let drain = || Mail::Drain {
            window_ms,
            patience_ms,
        };
        self.mail.iter().for_each(|mail| mail.send(drain()));
    }

    /// Where sessions are asked to go elsewhere.
    pub fn thinner(&self) -> Thinner {
        Thinner {
            mail: self.mail.clone(),
            cells: Arc::clone(&self.cells),
        }
    }

    /// Ends the threads at once.
    pub fn stop(&self) {
        self.mail.iter().for_each(|mail| mail.send(Mail::Stop));
    }

    /// The same, and turns that run have so long to end: what they write is still taken.
    pub fn stop_within(&self, limit: Duration) {
        self.stop();
        // The process ends, whatever became of them.
        let _ = self.wait_for(limit);
    }

    /// Waits until every thread has ended in order, or one died.
    pub fn wait(&self) -> Result<(), ShardDied> {
        for _ in &self.mail {
            self.ended.recv().unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// The same with a limit; `None` = time is over.
    pub fn wait_for(&self, limit: Duration) -> Option<Result<(), ShardDied>> {
        let deadline = Instant::now() + limit;
        for _ in &self.mail {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.ended.recv_timeout(left) {
                Ok(Ok(())) => {}
                Ok(Err(died)) => return Some(Err(died)),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Some(Ok(())),
                Err(mpsc::RecvTimeoutError::Timeout) => return None,
            }
        }
        Some(Ok(()))
    }
}
