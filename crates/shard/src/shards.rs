//! Starting, steering and ending the shard threads.

use crate::clock::Clock;
use crate::entropy::entropy;
use crate::listener;
use crate::memory::{Inspector, ShardMemory};
use crate::stream::{Detached, Stream};
use crate::tls::{SecureStream, Session};
use crate::turn::Shard;
use hub::mailbox::{Receiver, SHARDS_MAX, Sender, Weigh, mailbox, waker};
use hub::metrics::{Cells, Limit};
use hub::{Ask, AskKey, HandlerFactory, Hub, Identity, Notice, Process, Relay, Reply};
use mio::{Poll, Token, Waker};
use rustls::ServerConfig;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// What the shards are told at start.
#[derive(Debug)]
pub struct Settings {
    /// Public addresses; port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// Unix sockets, bound and listening: their files are the business of who made them.
    pub unix: Vec<UnixListener>,
    /// Threads; 1..=256.
    pub shards: usize,
    /// Number of this process in the cluster; 0..=1023.
    pub node: u16,
    pub hub: hub::config::Config,
    /// Bind each thread to a core.
    pub pin: bool,
    /// Connections of the whole process; above it newcomers get 503.
    pub conns_max: usize,
    /// Connections beyond these, for sessions that exist and for health checks.
    pub conns_reserve: usize,
    pub tls: Option<Tls>,
}

/// Addresses that speak TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    pub listen: Vec<SocketAddr>,
    pub config: Arc<ServerConfig>,
}

/// What the data plane needs from outside. Called on shard threads: must not block.
pub trait Outside: Send + Sync {
    /// A connection whose request is not a realtime one.
    fn handover(&self, handover: Handover);
    /// A question; whoever knows the answer gives it to the answerer.
    fn ask(&self, ask: Ask, answerer: Answerer);
    /// Something for the log.
    fn log(&self, notice: Notice);
}

/// The way back to the hub that asked. Not answering is an answer too: the hub does not wait for ever.
#[derive(Debug)]
pub struct Answerer {
    pub(crate) mail: Sender<Mail>,
    pub(crate) key: AskKey,
}

impl Answerer {
    pub fn answer(self, reply: Reply) {
        let key = self.key;
        self.mail.send(Mail::Answer { key, reply });
    }
}

/// A connection for the control plane: non-blocking, with the bytes already read from it.
#[derive(Debug)]
pub struct Handover {
    pub stream: Detached,
    /// Where the plaintext is, if the connection speaks TLS.
    pub tls: Option<SecureStream>,
    pub read: Vec<u8>,
    /// The client, as far as it is known: behind a trusted proxy not the proxy.
    pub peer: IpAddr,
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

/// What a shard finds in its mailbox.
#[derive(Debug)]
pub(crate) enum Mail {
    Relay(Arc<Relay>),
    /// A new connection that another shard accepted.
    Accepted {
        stream: Stream,
        peer: IpAddr,
    },
    /// A connection whose request belongs here.
    Conn {
        stream: Stream,
        session: Option<Box<Session>>,
        peer: IpAddr,
        read: Vec<u8>,
        beyond: Option<Limit>,
    },
    /// What the control plane was asked.
    Answer {
        key: AskKey,
        reply: Reply,
    },
    /// Certificates for new handshakes.
    Tls(Arc<ServerConfig>),
    Drain {
        window_ms: u64,
    },
    /// A shard has nobody left.
    Drained,
    /// Where is the memory?
    Memory(mpsc::Sender<ShardMemory>),
    Stop,
}

impl Weigh for Mail {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Relay(relay) => relay.bytes(),
                Self::Conn { read, .. } => read.len(),
                _ => 0,
            }
    }
}

/// Running shard threads.
#[derive(Debug)]
pub struct Shards {
    addrs: Vec<SocketAddr>,
    /// From this one on the addresses speak TLS.
    secure_from: usize,
    cells: Arc<[Arc<Cells>]>,
    mail: Vec<Sender<Mail>>,
    open: Arc<AtomicUsize>,
    process: Process,
    ended: mpsc::Receiver<Result<(), ShardDied>>,
}

pub(crate) const WAKE: Token = Token(usize::MAX);

/// Opens the listeners and starts the threads.
pub fn start(
    mut settings: Settings,
    handlers: &dyn HandlerFactory,
    outside: Arc<dyn Outside>,
) -> io::Result<Shards> {
    let shards = settings.shards.clamp(1, SHARDS_MAX);
    let mut addrs = Vec::new();
    let secure = settings.tls.iter().flat_map(|tls| &tls.listen);
    for addr in settings.listen.iter().chain(secure) {
        addrs.push(listener::claim(*addr)?);
    }
    let secure_from = settings.listen.len();
    let config = Arc::new(settings.hub.clone());
    let cells: Arc<[Arc<Cells>]> = (0..shards).map(|_| Arc::default()).collect();
    let (mut polls, mut mail) = (Vec::new(), Vec::new());
    let process = Process::new(&config.rates);
    for shard in 0..shards {
        let (poll, sender, receiver) = post_office(&process, shard as u16)?;
        polls.push((poll, receiver));
        mail.push(sender);
    }
    let open = Arc::new(AtomicUsize::new(0));
    let (ended_sender, ended) = mpsc::channel();
    let clock = Clock::new();
    let mut unix = deal(std::mem::take(&mut settings.unix), shards);
    for (number, (poll, receiver)) in polls.into_iter().enumerate() {
        let me = Identity {
            node: settings.node,
            shard: number as u16,
            shards: shards as u16,
        };
        let hub = Hub::in_process(
            Arc::clone(&config),
            me,
            handlers.build(me.shard),
            Arc::clone(&cells[number]),
            entropy(),
            &process,
        );
        let shard = Shard::new(crate::turn::Parts {
            hub,
            me,
            poll,
            receiver,
            mail: mail.clone(),
            addrs: addrs.clone(),
            unix: std::mem::take(&mut unix[number]),
            clock,
            open: Arc::clone(&open),
            conns_max: settings.conns_max,
            conns_reserve: settings.conns_reserve,
            read_bytes: settings.hub.limits.read_bytes_per_turn,
            limits: settings.hub.limits.clone(),
            loads: Arc::clone(&process.loads),
            secure_from,
            tls: settings.tls.as_ref().map(|tls| Arc::clone(&tls.config)),
            handshakes_per_turn: settings.hub.limits.tls_handshakes_per_turn.max(1),
            cells: Arc::clone(&cells[number]),
            outside: Arc::clone(&outside),
        })?;
        spawn(shard, me, settings.pin && shards > 1, ended_sender.clone())?;
    }
    Ok(Shards {
        addrs,
        secure_from,
        cells,
        mail,
        open,
        process,
        ended,
    })
}

/// Gives each listener to one shard.
fn deal(listeners: Vec<UnixListener>, shards: usize) -> Vec<Vec<UnixListener>> {
    let mut hands: Vec<_> = (0..shards).map(|_| Vec::new()).collect();
    for (n, listener) in listeners.into_iter().enumerate() {
        hands[n % shards].push(listener);
    }
    hands
}

fn post_office(process: &Process, shard: u16) -> io::Result<(Poll, Sender<Mail>, Receiver<Mail>)> {
    let poll = Poll::new()?;
    let wake = Waker::new(poll.registry(), WAKE)?;
    let wake = waker(move || {
        // Fails only if the eventfd is gone, that is, with the shard.
        let _ = wake.wake();
    });
    let (sender, receiver) = mailbox(wake, Arc::clone(&process.loads), shard);
    Ok((poll, sender, receiver))
}

fn spawn(
    mut shard: Shard,
    me: Identity,
    pin: bool,
    ended: mpsc::Sender<Result<(), ShardDied>>,
) -> io::Result<()> {
    std::thread::Builder::new()
        .name(format!("shard-{}", me.shard))
        .spawn(move || {
            if pin {
                pin_to_core(me.shard);
            }
            // A panic here is a bug of ours: the process reports it and ends (the supervisor starts another).
            let run = catch_unwind(AssertUnwindSafe(|| shard.run()));
            let result = run.map_err(|_| ShardDied { shard: me.shard });
            let _ = ended.send(result);
        })?;
    Ok(())
}

#[cfg(target_os = "linux")]
fn pin_to_core(shard: u16) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(usize::from(shard));
    // Pinning is an optimisation; a container may forbid it.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Elsewhere the system places threads as it likes.
#[cfg(not(target_os = "linux"))]
fn pin_to_core(_shard: u16) {}

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

    /// Has every shard carry out a relay, as if another shard had sent it.
    pub fn relayer(&self) -> impl Fn(Relay) + Send + Sync + 'static {
        let mail = self.mail.clone();
        move |relay| {
            let relay = Arc::new(relay);
            mail.iter()
                .for_each(|mail| mail.send(Mail::Relay(Arc::clone(&relay))));
        }
    }

    /// Connections open now.
    pub fn open_conns(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Stops accepting, tells the clients, closes them with 1001 evenly over the window; the threads end when all are gone.
    pub fn drain(&self, window: Duration) {
        let window_ms = window.as_millis() as u64;
        self.mail
            .iter()
            .for_each(|mail| mail.send(Mail::Drain { window_ms }));
    }

    /// Ends the threads at once.
    pub fn stop(&self) {
        self.mail.iter().for_each(|mail| mail.send(Mail::Stop));
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
        let deadline = std::time::Instant::now() + limit;
        for _ in &self.mail {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
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
