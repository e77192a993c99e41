//! The shards' way out: connections for the control plane, and lines for the log. Shards call this
//! in the middle of a turn, so both are handed on without waiting and without formatting.

use crate::queue::{Queue, Waiting, queue};
use crate::secure::Secure;
use control::bridge::Bridges;
use control::history::History;
use control::page::Pages;
use hub::claims::Denied;
use hub::{Ask, Notice, Parcel, Reply};
use identity::Verifier;
use nodes::relay::{Relayed, Relays};
use process::flood::{FLOOD_WINDOW, Flood};
use process::log::LogLoss;
use process::stream::Stream;
use rules::bridge::read_question;
use rules::history::Request;
use shard::tls::SecureStream;
use shard::{Answerer, Detached, Handover, Outside, Relay};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use workers::Turns;

/// Notices waiting to become lines; more are dropped and counted.
const QUEUE_NOTICES: usize = 65_536;

#[derive(Debug)]
pub struct Link {
    pages: Pages,
    relays: Option<Relays>,
    history: Option<Arc<History>>,
    bridges: Arc<Bridges>,
    turns: Arc<Turns>,
    verifier: Option<TokenDesk>,
    notices: Queue<Notice>,
    log_connections: bool,
    /// The way to other nodes.
    parcels: Option<UnboundedSender<Parcel>>,
    /// Dropped since the log last said so.
    dropped: Arc<AtomicU64>,
    loss: Arc<LogLoss>,
}

/// Where tokens are looked at, and who does it.
#[derive(Debug)]
pub struct TokenDesk {
    pub runtime: Handle,
    pub verifier: Arc<Verifier>,
}

/// The parts that answer for shards beside the pages.
#[derive(Debug)]
pub struct Desks {
    /// `None`: no keys are configured.
    pub tokens: Option<TokenDesk>,
    /// `None`: nothing is relayed to other nodes.
    pub relays: Option<Relays>,
    /// `None`: nothing is stored.
    pub history: Option<Arc<History>>,
    /// They write what clients do.
    pub bridges: Arc<Bridges>,
    /// Backends work at their ends.
    pub turns: Arc<Turns>,
}

impl Link {
    /// `log_connections`: write a line for each client that connects, leaves or is refused.
    pub fn start(
        pages: Pages,
        desks: Desks,
        parcels: Option<UnboundedSender<Parcel>>,
        log_connections: bool,
        loss: Arc<LogLoss>,
    ) -> io::Result<Self> {
        let dropped = Arc::new(AtomicU64::new(0));
        let (notices, waiting) = queue(QUEUE_NOTICES);
        let (lost, counters) = (Arc::clone(&dropped), Arc::clone(&loss));
        let thread = std::thread::Builder::new().name("notices".to_owned());
        thread.spawn(move || write(&waiting, &lost, &counters))?;
        Ok(Link {
            pages,
            relays: desks.relays,
            history: desks.history,
            bridges: desks.bridges,
            turns: desks.turns,
            verifier: desks.tokens,
            notices,
            log_connections,
            parcels,
            dropped,
            loss,
        })
    }
}

/// As the control plane reads and writes connections.
fn stream(stream: Detached, tls: Option<SecureStream>) -> Stream {
    match (stream, tls) {
        (Detached::Tcp(stream), None) => Stream::Tcp(stream),
        (Detached::Unix(stream), None) => Stream::Unix(stream),
        (stream, Some(tls)) => Stream::Wrapped(Box::new(Secure::new(stream, tls))),
    }
}

impl Outside for Link {
    fn handover(&self, handover: Handover) {
        let stream = stream(handover.stream, handover.tls);
        self.pages.accept(stream, handover.read, handover.peer);
    }

    fn relay(&self, relay: Relay) {
        let Some(relays) = &self.relays else {
            // Hubs relay to nodes whose addresses are known, and none are asked for then.
            return;
        };
        let Relay {
            conn,
            owner,
            refusal,
        } = relay;
        relays.relay(Relayed {
            stream: stream(conn.stream, conn.tls),
            read: conn.read,
            client: conn.peer,
            node: owner.node,
            shard: owner.shard,
            refusal,
        });
    }

    fn ask(&self, ask: Ask, answerer: Answerer) {
        let token = match ask {
            Ask::Verify { token } => token,
            // The built-in rules ask for pages of history, for answers of Kafka and NATS, and for large events to be stored.
            Ask::Handler { question } => {
                let answered = move |answer| answerer.answer(Reply::Answered(answer));
                if Request::read(&question).is_some() {
                    return match &self.history {
                        Some(history) => history.ask(&question, answered),
                        None => answered(None),
                    };
                }
                if let Some((bus, number)) = read_question(&question) {
                    return match self.bridges.get(bus) {
                        Some(bridge) => bridge.ask(number, Box::new(answered)),
                        None => answered(None),
                    };
                }
                return match self.pages.bodies() {
                    Some(bodies) => bodies.ask(question, answered),
                    None => answered(None),
                };
            }
        };
        let Some(desk) = &self.verifier else {
            return answerer.answer(Reply::Verified(Err(Denied::Unavailable.into())));
        };
        let verifier = Arc::clone(&desk.verifier);
        desk.runtime.spawn(async move {
            let verdict = verifier.verify(&token, unix_seconds()).await;
            answerer.answer(Reply::Verified(verdict));
        });
    }

    fn away(&self, parcel: Parcel) {
        if let Some(parcels) = &self.parcels {
            // Its receiver ends with the process.
            let _ = parcels.send(parcel);
        }
    }

    fn turn_ended(&self, shard: u16) -> Option<Duration> {
        self.turns.ended(shard)
    }

    fn log(&self, notice: Notice) {
        if let Notice::DistrustedProxy { .. } = notice {
            // Not about a connection, and there are two of them at most.
            return line(notice);
        }
        let wanted = match notice {
            Notice::Connected { .. } | Notice::Disconnected { .. } | Notice::Refused { .. }
                if !self.log_connections =>
            {
                false
            }
            Notice::UnknownEvent { .. } => tracing::enabled!(tracing::Level::DEBUG),
            _ => tracing::enabled!(tracing::Level::INFO),
        };
        if wanted && !self.notices.offer(notice) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.loss.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

fn write(waiting: &Waiting<Notice>, dropped: &AtomicU64, loss: &LogLoss) {
    let mut refusals = Flood::new("refused");
    let mut tokens = Flood::new("token refused");
    let mut failures = Flood::new("a handler failed");
    let mut reserved = Flood::new("reserved event not sent");
    let mut unknown = Flood::new("no rule knows this event");
    loop {
        let notice = match waiting.next_within(FLOOD_WINDOW) {
            Ok(notice) => Some(notice),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(count = lost, "connection log lines dropped");
        }
        let now = Instant::now();
        let floods = [
            &mut refusals,
            &mut tokens,
            &mut failures,
            &mut reserved,
            &mut unknown,
        ];
        for lines in floods {
            lines.pass_time(now);
        }
        let Some(notice) = notice else { continue };
        let admitted = match &notice {
            Notice::Refused { .. } | Notice::NotRecovered { .. } => refusals.admits(),
            Notice::TokenRefused { .. } => tokens.admits(),
            Notice::HandlerPanic { .. } => failures.admits(),
            Notice::ReservedEvent { .. } => reserved.admits(),
            Notice::UnknownEvent { .. } => unknown.admits(),
            // One line for each client that comes, and one when it goes: that is what they are for.
            _ => true,
        };
        if admitted {
            line(notice);
        } else {
            loss.suppressed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn line(notice: Notice) {
    match notice {
        Notice::Connected {
            socket,
            peer,
            transport,
            protocol,
            uid,
        } => {
            let id = socket.encode();
            let id = String::from_utf8_lossy(&id);
            tracing::info!(%id, %peer, transport, protocol, uid = uid.as_deref(), "connected");
        }
        Notice::Disconnected { socket, peer, how } => {
            let id = socket.encode();
            let id = String::from_utf8_lossy(&id);
            tracing::info!(%id, %peer, reason = how.name(), "disconnected");
        }
        Notice::Refused { peer, reason } => {
            tracing::info!(%peer, reason = reason.name(), "refused");
        }
        Notice::TokenRefused { peer, cause, why } => {
            tracing::info!(%peer, cause, why = why.as_deref(), "token refused");
        }
        Notice::NotRecovered { peer, cause } => {
            tracing::info!(%peer, cause, "came back, and is a new socket");
        }
        Notice::DistrustedProxy { peer } => tracing::warn!(
            %peer,
            "X-Forwarded-For or Forwarded from an address that server.trusted_proxies does not name is not read: if a proxy \
             of yours is there, name it, or all its clients count as one address"
        ),
        Notice::UnknownEvent {
            socket,
            namespace,
            event,
        } => {
            let id = socket.encode();
            let id = String::from_utf8_lossy(&id);
            let (namespace, event, rule) = (&*namespace, event.as_str(), "default");
            tracing::debug!(%id, namespace, event, rule, "no rule knows this event");
        }
        Notice::HandlerPanic { peer } => tracing::error!(%peer, "a handler failed"),
        Notice::ReservedEvent { name } => {
            tracing::error!(
                name,
                "a handler emitted a reserved event, which was not sent"
            );
        }
    }
}
