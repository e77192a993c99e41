//! One pass of the loop: collect readiness, take mail, read, tick, flush once, carry out effects.
//!
//! HOT PATH: no allocation (once warm), no lock, no dyn but the hub's handler, no async, no log.

mod preface;
mod secure;

use crate::clock::Clock;
use crate::listener::{self, Listener};
use crate::memory::Measuring;
use crate::shards::{Answerer, Handover, Mail, Outside, WAKE};
use crate::sockets::{Got, Sockets};
use crate::stream::Stream;
use crate::tls::{SecureStream, Session};
use hub::ConnId;
use hub::limits::Limits;
use hub::mailbox::{Loads, Receiver, Sender};
use hub::metrics::{Cells, Limit};
use hub::trust::ProxyProtocol;
use hub::{Effect, Hub, Identity, Written};
use mio::event::{Event, Source};
use mio::{Events, Interest, Poll, Token};
use rustls::ServerConfig;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Readiness events per turn.
const EVENTS: usize = 4096;
/// Connections accepted per turn and listener: enough for a storm, few enough to keep the established ones served.
const ACCEPTS: usize = 64;
/// Mails per turn.
const MAILS: usize = 4096;
/// How long accepting rests when no descriptor is free and none of ours is closed.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Answer of a process that is full.
const SHED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// What a shard is made of.
pub(crate) struct Parts {
    pub(crate) hub: Hub,
    pub(crate) me: Identity,
    pub(crate) poll: Poll,
    pub(crate) receiver: Receiver<Mail>,
    pub(crate) mail: Vec<Sender<Mail>>,
    pub(crate) addrs: Vec<SocketAddr>,
    /// Those that this shard accepts from, for all.
    pub(crate) unix: Vec<UnixListener>,
    pub(crate) clock: Clock,
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) conns_max: usize,
    /// Connections beyond these, for sessions that exist and for health checks.
    pub(crate) conns_reserve: usize,
    /// Bytes of one read; a connection with more waits for the next turn.
    pub(crate) read_bytes: usize,
    pub(crate) limits: Limits,
    pub(crate) loads: Arc<Loads>,
    /// Listeners from this one on speak TLS.
    pub(crate) secure_from: usize,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Steps of TLS handshakes per turn.
    pub(crate) handshakes_per_turn: usize,
    pub(crate) cells: Arc<Cells>,
    pub(crate) outside: Arc<dyn Outside>,
}

/// One thread and all it owns.
pub(crate) struct Shard {
    parts: Parts,
    listeners: Vec<Listener>,
    /// Who gets the next connection that the kernel does not spread.
    next: usize,
    sockets: Sockets,
    /// Connections with something to read.
    ready: VecDeque<ConnId>,
    /// The same, for those that are not beyond the TLS handshake.
    handshakes: VecDeque<ConnId>,
    tls: Option<Arc<ServerConfig>>,
    buf: Box<[u8]>,
    accept: Accept,
    /// Clients wait to be read until the mailbox of a peer is short again.
    held_back: bool,
    measuring: Measuring,
    /// Shards that have nobody left, and whether this one has said so.
    drained: usize,
    told_drained: bool,
    running: bool,
}

/// State of accepting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accept {
    /// Listeners tell when somebody comes.
    Waiting,
    /// There may be more in the backlog: edge-triggered listeners do not tell again.
    Pending,
    /// No descriptor was free; try again then, or when one is closed.
    Paused(Instant),
}

impl Shard {
    pub(crate) fn new(mut parts: Parts) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for addr in &parts.addrs {
            listeners.push(listener::listen(*addr)?);
        }
        for listener in parts.unix.drain(..) {
            listeners.push(Listener::unix(listener)?);
        }
        for (n, listener) in listeners.iter_mut().enumerate() {
            listener.watch(parts.poll.registry(), token(n))?;
        }
        let buf = vec![0; parts.read_bytes.max(wire::proxy::HEADER_BYTES_MAX)].into();
        Ok(Self {
            sockets: Sockets::new(parts.read_bytes),
            tls: parts.tls.clone(),
            parts,
            listeners,
            next: 0,
            ready: VecDeque::new(),
            handshakes: VecDeque::new(),
            buf,
            accept: Accept::Waiting,
            held_back: false,
            measuring: Measuring::default(),
            drained: 0,
            told_drained: false,
            running: true,
        })
    }

    /// Runs until drained or stopped.
    pub(crate) fn run(&mut self) {
        let mut events = Events::with_capacity(EVENTS);
        while self.running {
            let timeout = self.timeout();
            match self.parts.poll.poll(&mut events, timeout) {
                Ok(()) => self.turn(&events),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => panic!("cannot wait for readiness: {error}"),
            }
        }
    }

    fn turn(&mut self, events: &Events) {
        let started = Instant::now();
        self.parts.hub.begin_turn(self.parts.clock.now(started));
        self.take_mail();
        for event in events {
            self.on_event(event);
        }
        self.accept_more(started);
        self.resume_stalled();
        let all_read = self.read_ready();
        // A full list of events may have more behind it.
        let behind = !all_read || events.iter().count() >= EVENTS;
        self.parts.hub.tick(behind);
        self.apply_effects();
        self.parts.hub.flush(&mut self.sockets);
        self.apply_effects();
        if !self.measuring.is_idle() {
            self.measure();
        }
        let took = started.elapsed();
        let took_us = took.as_micros() as u64;
        self.parts.hub.end_turn(took_us, self.parts.receiver.len());
        self.shake_hands(took);
        self.publish_tls();
        if self.parts.hub.has_let_go() {
            self.listeners.clear();
        }
        if self.parts.hub.is_drained() {
            self.end_with_all();
        }
    }

    /// Nobody is left here. Others may still have somebody, whose rooms' histories and counts come here: all end together.
    fn end_with_all(&mut self) {
        if !std::mem::replace(&mut self.told_drained, true) {
            let all = self.parts.mail.iter();
            all.for_each(|mail| mail.send(Mail::Drained));
        }
        if self.drained == self.parts.mail.len() {
            self.running = false;
        }
    }

    /// Counts some of the memory, after everybody was served.
    #[cold]
    fn measure(&mut self) {
        let mail = self.parts.receiver.len();
        let own = || {
            let buffers = self.buf.len() + self.ready.capacity() * size_of::<u32>();
            vec![
                ("streams", self.sockets.heap_bytes()),
                ("tls", self.sockets.sessions().1),
                ("mailbox", mail * size_of::<Mail>()),
                ("buffers", buffers),
            ]
        };
        let shard = self.parts.me.shard;
        self.measuring.step(&self.parts.hub, shard, own);
    }

    fn timeout(&self) -> Option<Duration> {
        let busy = self.parts.hub.has_stalled()
            || !self.measuring.is_idle()
            || self.accept == Accept::Pending
            || !self.parts.receiver.is_empty();
        let unread = !self.ready.is_empty() || !self.handshakes.is_empty();
        let held = self.parts.hub.held_back();
        let free = self.ready.len() + self.handshakes.len() > held && !self.congested();
        if busy || free {
            return Some(Duration::ZERO);
        }
        // Nobody tells when a mailbox is short again.
        if unread || held > 0 {
            return Some(Duration::from_millis(1));
        }
        let now = Instant::now();
        let mono_ms = self.parts.clock.now(now).mono_ms;
        let due = self
            .parts
            .hub
            .next_deadline()
            .map(|due| due.saturating_sub(mono_ms));
        let due = due.map(Duration::from_millis);
        match self.accept {
            Accept::Paused(until) => {
                let pause = until.saturating_duration_since(now);
                Some(due.map_or(pause, |due| due.min(pause)))
            }
            _ => due,
        }
    }

    fn on_event(&mut self, event: &Event) {
        let Token(number) = event.token();
        if event.token() == WAKE {
            return;
        }
        if number >= token(self.listeners.len().max(1) - 1).0 {
            if self.accept == Accept::Waiting {
                self.accept = Accept::Pending;
            }
            return;
        }
        let Some(conn) = ConnId::from_index(number) else {
            return;
        };
        if event.is_writable() {
            self.writable(conn);
        }
        if event.is_read_closed() {
            self.sockets.set_ending(conn);
        }
        if (event.is_readable() || event.is_error()) && self.sockets.set_ready(conn, true) {
            self.enqueue(conn);
        }
    }

    fn writable(&mut self, conn: ConnId) {
        match self.sockets.resume(conn) {
            Written::Bytes(_) => self.parts.hub.writable(conn, &mut self.sockets),
            Written::Held(_) | Written::WouldBlock => {}
            Written::Gone => self.parts.hub.broken(conn),
        }
        self.apply_effects();
    }

    // ---- mail -----------------------------------------------------------------------------------------------------------

    /// Works on mail until the turn has its share: what another shard's clients send must not starve ours.
    fn take_mail(&mut self) {
        self.parts.receiver.begin();
        for _ in 0..MAILS {
            let Some(mail) = self.parts.receiver.pop() else {
                break;
            };
            self.on_mail(mail);
            self.apply_effects();
            if self.parts.hub.turn_is_full() {
                self.parts.hub.flush(&mut self.sockets);
                self.apply_effects();
                break;
            }
        }
    }

    fn on_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Relay(relay) => self.parts.hub.relay(&relay),
            Mail::Accepted { stream, peer } => self.admit(stream, peer, None),
            Mail::Conn {
                stream,
                session,
                peer,
                mut read,
                beyond,
            } => {
                let ended = session.as_ref().is_some_and(|session| session.is_ended());
                let conn = self.parts.hub.moved_here(peer, beyond);
                if self.adopt(stream, session, conn) {
                    self.parts.hub.bytes(conn, &mut read);
                    if ended {
                        self.parts.hub.eof(conn);
                    }
                }
            }
            Mail::Answer { key, reply } => self.parts.hub.answered(key, reply),
            Mail::Tls(config) => self.set_tls(config),
            // Listeners stay until everyone was told to go: who comes back early hears when to.
            Mail::Drain { window_ms } => self.parts.hub.drain(window_ms),
            Mail::Drained => self.drained += 1,
            Mail::Memory(answer) => self.measuring.ask(answer),
            Mail::Stop => self.running = false,
        }
    }

    fn congested(&self) -> bool {
        let shards = self.parts.mail.len() as u16;
        let (loads, limits) = (&self.parts.loads, &self.parts.limits);
        shards > 1 && (0..shards).any(|shard| loads.is_overfull(shard, limits))
    }

    // ---- accepting --------------------------------------------------------------------------------------------------------

    fn accept_more(&mut self, now: Instant) {
        match self.accept {
            Accept::Waiting => return,
            Accept::Paused(until) if now < until => return,
            _ => self.accept = Accept::Waiting,
        }
        for n in 0..self.listeners.len() {
            self.accept_from(n, now);
            if let Accept::Paused(_) = self.accept {
                return;
            }
        }
    }

    fn accept_from(&mut self, listener: usize, now: Instant) {
        for _ in 0..ACCEPTS {
            match self.listeners[listener].accept() {
                Ok((stream, peer)) => self.place(stream, peer, listener),
                Err(error) => return self.accept_failed(&error, now),
            }
        }
        self.accept = Accept::Pending;
    }

    fn accept_failed(&mut self, error: &io::Error, now: Instant) {
        const EMFILE: i32 = 24;
        const ENFILE: i32 = 23;
        const ENOMEM: i32 = 12;
        const ENOBUFS: i32 = 105;
        match error.raw_os_error() {
            Some(EMFILE | ENFILE | ENOMEM | ENOBUFS) => {
                self.parts.hub.accept_paused();
                self.accept = Accept::Paused(now + ACCEPT_PAUSE);
            }
            _ if error.kind() == io::ErrorKind::WouldBlock => {}
            // The peer gave up while waiting, or the like: the next one may be fine.
            _ => self.accept = Accept::Pending,
        }
    }

    /// Finds a shard for a new connection.
    fn place(&mut self, stream: Stream, peer: IpAddr, listener: usize) {
        if let Stream::Unix(_) = stream {
            self.next = (self.next + 1) % self.parts.mail.len();
            if self.next != usize::from(self.parts.me.shard) {
                self.parts.mail[self.next].send(Mail::Accepted { stream, peer });
                return;
            }
        }
        match self.secure(listener) {
            Ok(session) => self.admit(stream, peer, session),
            Err(_) => self.parts.hub.connection_shed(),
        }
    }

    fn admit(&mut self, mut stream: Stream, peer: IpAddr, session: Option<Box<Session>>) {
        let bound = self.parts.conns_max;
        let open = self.parts.open.load(Ordering::Relaxed);
        if open >= bound + self.parts.conns_reserve {
            self.parts.hub.connection_shed();
            // Best effort: the buffer of a new connection takes it. Saying it by TLS would cost a handshake.
            if session.is_none() {
                let _ = stream.write(SHED);
            }
            return;
        }
        let conn = match open < bound {
            true => self.parts.hub.opened(peer),
            false => self.parts.hub.opened_beyond(peer),
        };
        let preface = self.parts.hub.proxy_protocol(peer) != ProxyProtocol::Off;
        if self.adopt(stream, session, conn) && preface {
            self.sockets.set_preface(conn, true);
        }
        // It may be one too many of its address, and its slot the next one's.
        self.apply_effects();
    }

    /// Watches the socket of a connection that the hub knows; `false` if that is not possible.
    fn adopt(&mut self, mut stream: Stream, session: Option<Box<Session>>, conn: ConnId) -> bool {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = self.parts.poll.registry();
        let registered = stream.register(registry, Token(conn.index()), interest);
        self.sockets.insert(conn, stream, session);
        self.parts.open.fetch_add(1, Ordering::Relaxed);
        if registered.is_err() {
            // epoll has no memory or watches left; the connection cannot be served.
            self.parts.hub.broken(conn);
            self.apply_effects();
            return false;
        }
        true
    }

    // ---- reading ----------------------------------------------------------------------------------------------------------

    /// Goes on with input that full turns left. What this fills is flushed, so that others are read in the same turn.
    fn resume_stalled(&mut self) {
        if !self.parts.hub.has_stalled() && self.parts.hub.held_back() == 0 {
            return;
        }
        self.parts.hub.resume();
        self.apply_effects();
        if self.parts.hub.turn_is_full() {
            self.parts.hub.flush(&mut self.sockets);
            self.apply_effects();
        }
    }

    /// Reads once from each connection that has something, until the turn is full; `true` if all had their turn.
    fn read_ready(&mut self) -> bool {
        if !self.congested() {
            self.held_back = false;
        }
        for _ in 0..self.ready.len() {
            if self.congested() {
                self.hold_back();
                return false;
            }
            if self.parts.hub.turn_is_full() {
                return false;
            }
            let Some(conn) = self.ready.pop_front() else {
                break;
            };
            self.read(conn);
        }
        true
    }

    /// Counts a pause once, however many turns it lasts.
    fn hold_back(&mut self) {
        let unread = !self.ready.is_empty() || !self.handshakes.is_empty();
        if unread && !self.held_back {
            self.held_back = true;
            self.parts.hub.reading_paused();
        }
    }

    fn read(&mut self, conn: ConnId) {
        if self.parts.hub.is_stalled(conn) {
            self.ready.push_back(conn);
            return;
        }
        if self.parts.hub.is_ignored(conn) {
            return;
        }
        if self.sockets.expects_preface(conn) && !self.read_preface(conn) {
            return;
        }
        if self.sockets.is_secure(conn) {
            return self.read_secure(conn);
        }
        match self.sockets.read(conn, &mut self.buf) {
            Got::Bytes(n) => {
                // Bytes and the end of the stream may come as one event: then the end is still to be read.
                if n == self.buf.len() || self.sockets.is_ending(conn) {
                    self.ready.push_back(conn);
                } else {
                    self.sockets.set_ready(conn, false);
                }
                self.parts.hub.bytes(conn, &mut self.buf[..n]);
            }
            Got::Nothing => {
                self.sockets.set_ready(conn, false);
            }
            Got::End => {
                self.sockets.set_ready(conn, false);
                self.parts.hub.eof(conn);
            }
            Got::Broken => {
                self.sockets.set_ready(conn, false);
                self.parts.hub.broken(conn);
            }
        }
        if self.parts.hub.has_effects() {
            self.apply_effects();
        }
    }

    // ---- effects ----------------------------------------------------------------------------------------------------------

    fn apply_effects(&mut self) {
        while self.parts.hub.has_effects() {
            let mut effects = self.parts.hub.take_effects();
            for effect in effects.drain(..) {
                self.apply(effect);
            }
            self.parts.hub.recycle_effects(effects);
        }
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Close { conn } => {
                self.sockets.close_notify(conn);
                let mut released = self.release(conn);
                if let Some((_, Some(session))) = &mut released {
                    session.dropped(&self.parts.cells.tls);
                }
                if released.is_some()
                    && let Accept::Paused(_) = self.accept
                {
                    self.accept = Accept::Pending;
                }
            }
            Effect::Shutdown { conn } => self.sockets.shutdown(conn),
            Effect::Send { shard, relay } => {
                if let Some(mail) = self.parts.mail.get(usize::from(shard)) {
                    mail.send(Mail::Relay(relay));
                }
            }
            Effect::Move {
                conn,
                shard,
                read,
                peer,
                beyond,
            } => self.hand_to_shard(conn, shard, read, (peer, beyond)),
            Effect::Handover { conn, read, peer } => self.hand_over(conn, read, peer),
            Effect::Ask { key, ask } => {
                let answerer = Answerer {
                    mail: self.parts.mail[usize::from(self.parts.me.shard)].clone(),
                    key,
                };
                self.parts.outside.ask(ask, answerer);
            }
            Effect::Log(notice) => self.parts.outside.log(notice),
        }
    }

    fn release(&mut self, conn: ConnId) -> Option<(Stream, Option<Box<Session>>)> {
        let released = self.sockets.remove(conn)?;
        self.parts.open.fetch_sub(1, Ordering::Relaxed);
        Some(released)
    }

    /// Takes a connection off this shard's loop.
    fn detach(&mut self, conn: ConnId) -> Option<(Stream, Option<Box<Session>>)> {
        let (mut stream, session) = self.release(conn)?;
        stream.deregister(self.parts.poll.registry()).ok()?;
        Some((stream, session))
    }

    fn hand_to_shard(
        &mut self,
        conn: ConnId,
        shard: u16,
        read: Vec<u8>,
        (peer, beyond): (IpAddr, Option<Limit>),
    ) {
        debug_assert_ne!(shard, self.parts.me.shard);
        if let Some((stream, session)) = self.detach(conn)
            && let Some(mail) = self.parts.mail.get(usize::from(shard))
        {
            mail.send(Mail::Conn {
                stream,
                session,
                peer,
                read,
                beyond,
            });
        }
    }

    fn hand_over(&mut self, conn: ConnId, read: Vec<u8>, peer: IpAddr) {
        if let Some((stream, session)) = self.detach(conn) {
            self.parts.outside.handover(Handover {
                stream: stream.into(),
                tls: session.map(SecureStream::new),
                read,
                peer,
            });
        }
    }
}

/// Tokens of listeners are the highest, below the waker's.
fn token(listener: usize) -> Token {
    Token(usize::MAX - 1 - listener)
}
