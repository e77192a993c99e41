//! A session: one client's presence, whatever transport carries it.

use crate::books::claims::Claims;
use crate::bounds::PARTED_MAX;
use crate::clients::client::Client;
use crate::clients::get::Get;
use crate::clients::heart::Heart;
use crate::clients::lag::Lag;
use crate::clients::language::Language;
pub use crate::clients::language::Protocol;
use crate::clients::repeats::LastPoll;
use crate::clients::table::{Named, Table};
use crate::dialect::speech::Variant;
use crate::output::backlog::Backlog;
use crate::tables::clock::Clock;
use crate::tables::position::Reading;
use crate::tables::slot::{AskId, ConnId, SessionId, SessionKey, SocketId};
use crate::tables::timer::SessionTimer;
use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;
use wire::base64url::Id20;
use wire::http::Chunked;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) sid: Id20,
    pub(crate) language: Language,
    pub(crate) client: Client,
    pub(crate) flags: Flags,
    pub(crate) heart: Heart,
    /// The WebSocket, or what stands for one, or the event stream; none while polling.
    pub(crate) conn: Option<ConnId>,
    /// Sockets, one per namespace.
    pub(crate) sockets: SmallVec<[SocketId; 4]>,
    pub(crate) polling: Option<Box<Polling>>,
    pub(crate) binary: Option<Box<Partial>>,
    pub(crate) rare: Option<Box<Rare>>,
    pub(crate) joining: Joining,
    pub(crate) dues: Dues,
}

// Most of what a session costs; a page of them is a block of memory.
const _: () = assert!(size_of::<Session>() <= 152);

/// What a session may join with, and what it waits for.
#[derive(Debug, Default)]
pub(crate) struct Joining {
    pub(crate) token: Option<Box<RequestToken>>,
    /// Questions that have to be answered before the session goes on.
    pub(crate) gates: Gates,
}

/// What a session used of the rates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dues {
    /// Rate limiter's state.
    pub(crate) rate: u64,
    /// Messages rejected, less those accepted since.
    pub(crate) rejections: u16,
    /// Messages not yet booked with its user and address.
    pub(crate) unbooked: u8,
    /// Messages that may pass until the next is booked.
    pub(crate) granted: u8,
}

impl Dues {
    /// A message was accepted, and makes up for one that was rejected. Returns whether there was such a one.
    pub(crate) fn forgive(&mut self) -> bool {
        let any = self.rejections > 0;
        self.rejections = self.rejections.saturating_sub(1);
        any
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// A namespace was joined at least once.
    pub(crate) joined: bool,
    /// `3probe` was sent: polls are ended with a noop at once.
    pub(crate) upgrading: bool,
    /// In the list of polls to answer at the end of the turn.
    pub(crate) poll_ready: bool,
    /// An `Attachments` timer is armed.
    pub(crate) attachments_timer: bool,
    /// Polling and closed: the close packet waits for the next poll.
    pub(crate) closing: bool,
    /// Its connection stands for a stream of WebTransport.
    pub(crate) carried: bool,
}

impl Named for Session {
    fn id(&self) -> Option<&Id20> {
        self.language.protocol().is_engineio().then_some(&self.sid)
    }
}

impl Table<SessionId, Session> {
    /// The session, unless it was ended.
    pub(crate) fn open(&self, session: SessionId) -> Option<&Session> {
        self.get(session).filter(|slot| !slot.flags.closing)
    }

    /// The session of a key, if the key still names one and it was not ended.
    pub(crate) fn still_open(&self, key: SessionKey) -> Option<&Session> {
        self.live(key).filter(|slot| !slot.flags.closing)
    }

    /// Whether the session is there and was not ended.
    pub(crate) fn is_open(&self, session: SessionId) -> bool {
        self.open(session).is_some()
    }

    /// What a session keeps for polling, if it polls.
    pub(crate) fn polling(&mut self, session: SessionId) -> Option<&mut Polling> {
        self.get_mut(session)?.polling.as_deref_mut()
    }

    /// Whether more packets wait for its polls than may.
    pub(crate) fn overflows(&self, session: SessionId) -> bool {
        let polling = self.get(session).and_then(|slot| slot.polling.as_ref());
        polling.is_some_and(|polling| polling.overflowed)
    }

    /// Arms a timer of a session.
    pub(crate) fn arm(
        &self,
        clock: &mut Clock,
        kind: SessionTimer,
        delay: Duration,
        session: SessionId,
    ) {
        let (due, key) = (clock.after(delay), self.key(session));
        let timers = &mut clock.timers.sessions;
        // Nearly all of these two are settled before their time: their lanes are kept short.
        match kind {
            SessionTimer::Connect => {
                timers.forget(kind, |key| {
                    self.live(key).is_none_or(|slot| slot.flags.joined)
                });
            }
            SessionTimer::Pong => {
                timers.forget(kind, |key| {
                    self.live(key).is_none_or(|slot| !slot.heart.awaits_pong())
                });
            }
            _ => {}
        }
        timers.arm(kind, due, key);
    }
}

impl Session {
    pub(crate) fn new(sid: Id20, language: Language, client: Client) -> Self {
        Self {
            sid,
            language,
            client,
            flags: Flags::default(),
            heart: Heart::default(),
            conn: None,
            sockets: SmallVec::new(),
            polling: None,
            binary: None,
            rare: None,
            joining: Joining::default(),
            dues: Dues::default(),
        }
    }

    /// How it is told things now.
    pub(crate) fn variant(&self) -> Variant {
        Variant {
            dialect: self.language.dialect(),
            framing: self.language.framing(self.polling.is_some()),
            offsets: false,
        }
    }

    /// Whether it may join one more namespace: those that it waits for count as well.
    pub(crate) fn may_join(&self, sockets_max: usize) -> bool {
        self.sockets.len() + self.joining.gates.len() < sockets_max
    }

    /// Whether its transport has a frame for an attachment without a byte: WebTransport has none.
    pub(crate) fn takes_empty(&self) -> bool {
        !(self.flags.carried && self.variant().dialect.attaches())
    }

    /// The WebSocket that probes for an upgrade.
    pub(crate) fn probe(&self) -> Option<ConnId> {
        let probe = self.polling.as_ref()?.probe;
        probe.map(|probe| probe.conn)
    }

    pub(crate) fn transport(&self) -> &'static str {
        match self.language.protocol() {
            _ if self.polling.is_some() => "polling",
            Protocol::EventStream => "sse",
            _ if self.flags.carried => "webtransport",
            _ => "websocket",
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let polling = self
            .polling
            .as_ref()
            .map_or(0, |p| size_of::<Polling>() + p.queue.heap_bytes());
        let binary = self
            .binary
            .as_ref()
            .map_or(0, |b| size_of::<Partial>() + b.bytes());
        let rare = self.rare.as_ref().map_or(0, |rare| rare.heap_bytes());
        let token = self
            .joining
            .token
            .as_ref()
            .map_or(0, |token| token.heap_bytes());
        let spilled = if self.sockets.spilled() {
            self.sockets.capacity() * 4
        } else {
            0
        };
        polling + binary + rare + token + spilled
    }
}

/// The questions that a session waits for to join namespaces, or to begin; most wait for none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gates(Option<Box<SmallVec<[AskId; 4]>>>);

impl Gates {
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |asks| asks.len())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = AskId> {
        self.0.iter().flat_map(|asks| asks.iter().copied())
    }

    pub(crate) fn open(&mut self, ask: AskId) {
        debug_assert!(self.iter().all(|open| open != ask), "one gate a question");
        self.0.get_or_insert_default().push(ask);
    }

    pub(crate) fn close(&mut self, ask: AskId) {
        if let Some(asks) = &mut self.0 {
            asks.retain(|open| *open != ask);
            if asks.is_empty() {
                self.0 = None;
            }
        }
    }
}

/// The token of the opening request: it holds for all namespaces that are joined without one of their own.
#[derive(Debug)]
pub(crate) enum RequestToken {
    /// Nobody has looked at it yet.
    Unread(Arc<str>),
    /// The token was good, and these are its claims. A refresh puts later ones in their place.
    Good(Claims),
}

impl RequestToken {
    fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Unread(token) => token.len(),
                Self::Good(claims) => claims.heap_bytes(),
            }
    }
}

/// What only polling sessions need.
#[derive(Debug, Default)]
pub(crate) struct Polling {
    pub(crate) get: Option<Get>,
    pub(crate) post: Post,
    pub(crate) probe: Option<Probe>,
    /// Packets that wait for a poll, in payload form (text, or `b` + base64).
    pub(crate) queue: Backlog,
    /// A packet found no room in the queue: the session ends with the turn.
    pub(crate) overflowed: bool,
    pub(crate) lag: Lag,
    /// The last GET, so that it is known when a proxy repeats it.
    pub(crate) last: LastPoll,
    /// The session ended with `parse error`: no more is taken from its client.
    pub(crate) violated: bool,
    /// The client came by TLS once: it may ask next on a connection that is kept for it, and that no other process can have.
    pub(crate) secure: bool,
}

// Each session that polls has one.
const _: () = assert!(size_of::<Polling>() <= 168);

impl Polling {
    /// The connection of the GET that waits.
    pub(crate) fn waiting(&self) -> Option<ConnId> {
        self.get.as_ref().map(Get::conn)
    }
}

/// The POST being received.
#[derive(Debug, Default)]
pub(crate) struct Post {
    pub(crate) conn: Option<ConnId>,
    /// Its body is a form with the payload in it.
    pub(crate) form: bool,
    /// The packets of its body were counted.
    pub(crate) counted: bool,
    /// Its body comes in chunks.
    pub(crate) chunked: Option<Box<Chunked>>,
    /// CORS header lines for its answer.
    pub(crate) cors: Option<Box<[u8]>>,
}

/// A WebSocket that probes for an upgrade.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) conn: ConnId,
    /// Low 32 bits of the millisecond clock when it came.
    pub(crate) at_ms: u32,
    /// The client takes no binary on this WebSocket.
    pub(crate) b64: bool,
}

/// A binary packet whose attachments are still coming.
#[derive(Debug)]
pub(crate) struct Partial {
    /// Text of the packet, without the Engine.IO `4`.
    pub(crate) text: Box<str>,
    pub(crate) wanted: usize,
    pub(crate) attachments: Vec<Vec<u8>>,
    /// When it was announced, monotonic milliseconds.
    pub(crate) since_ms: u64,
}

impl Partial {
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.attachment_bytes()
    }

    /// Bytes of the attachments that have come.
    pub(crate) fn attachment_bytes(&self) -> usize {
        self.attachments.iter().map(Vec::len).sum()
    }
}

/// What few sessions have.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// Query of the opening request, when handshakes are kept.
    pub(crate) query: Box<str>,
    /// Its header lines, when the handler reads requests.
    pub(crate) headers: Box<[u8]>,
    /// Limiter states by number. A client that leaves a namespace and comes back finds them as they were.
    rates: SmallVec<[(u32, u64); 2]>,
    parted: Parted,
    /// The socket that left last, its namespace and its user: for those who ask how the session ended.
    pub(crate) last: Option<Box<Left>>,
    /// Namespaces that it was not let into.
    pub(crate) refusals: u8,
    pub(crate) stream: Option<Box<Stream>>,
}

/// A socket that left its namespace.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) socket: Id20,
    pub(crate) namespace: Arc<str>,
    pub(crate) user: Option<Box<str>>,
}

/// What an event stream asked for.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Header lines of its answer. It is written when the client is let in.
    pub(crate) headers: Vec<u8>,
    /// The rooms that it asked for, and how far it has come there.
    pub(crate) reading: Reading,
}

impl Stream {
    fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.headers.capacity() + self.reading.heap_bytes()
    }
}

impl Rare {
    /// The state of a limiter.
    pub(crate) fn rate(&mut self, number: u32) -> &mut u64 {
        let known = self.rates.iter().position(|(known, _)| *known == number);
        let at = known.unwrap_or_else(|| {
            self.rates.push((number, 0));
            self.rates.len() - 1
        });
        &mut self.rates[at].1
    }

    /// The states of all limiters, by number.
    pub(crate) fn rates(&self) -> &[(u32, u64)] {
        &self.rates
    }

    /// Sets the states of all limiters, as they were in another process.
    pub(crate) fn set_rates(&mut self, rates: impl Iterator<Item = (u32, u64)>) {
        self.rates = rates.collect();
    }

    /// The session is not in this namespace any more, or was not let in for a rate.
    pub(crate) fn part(&mut self, namespace: &str) {
        self.parted.add(namespace);
    }

    /// Hashes of the namespaces that it left.
    pub(crate) fn parted(&self) -> &[u64] {
        &self.parted.0
    }

    /// Sets these hashes, as they were in another process: the latest of them.
    pub(crate) fn set_parted(&mut self, hashes: &[u64]) {
        let latest = hashes.len().saturating_sub(PARTED_MAX);
        self.parted.0 = hashes[latest..].iter().copied().collect();
    }

    pub(crate) fn has_parted(&self, namespace: &str) -> bool {
        self.parted.holds(namespace)
    }

    fn heap_bytes(&self) -> usize {
        let rates = spilled_bytes(&self.rates);
        size_of::<Self>()
            + self.query.len()
            + self.headers.len()
            + rates
            + spilled_bytes(&self.parted.0)
            + self.last.as_ref().map_or(0, |left| {
                size_of::<Left>() + left.user.as_ref().map_or(0, |user| user.len())
            })
            + self.stream.as_ref().map_or(0, |stream| stream.heap_bytes())
    }
}

fn spilled_bytes<A: smallvec::Array>(list: &SmallVec<A>) -> usize {
    if list.spilled() {
        list.capacity() * size_of::<A::Item>()
    } else {
        0
    }
}

/// Namespaces that a session left, by hash, the latest last. Packets may still be on their way to them.
#[derive(Debug, Default)]
struct Parted(SmallVec<[u64; 2]>);

impl Parted {
    fn add(&mut self, namespace: &str) {
        let hash = namespace_hash(namespace);
        self.0.retain(|known| *known != hash);
        if self.0.len() == PARTED_MAX {
            self.0.remove(0);
        }
        self.0.push(hash);
    }

    fn holds(&self, namespace: &str) -> bool {
        self.0.contains(&namespace_hash(namespace))
    }
}

/// A client that finds two names with one hash is pardoned a packet for the other: no secret is needed.
fn namespace_hash(namespace: &str) -> u64 {
    FixedState::with_seed(0).hash_one(namespace)
}
