//! The door: listeners, whether they are asked, and which shard gets a newcomer.

use crate::effects::Hands;
use crate::mail::Mail;
use crate::passing::{self, Listening};
use crate::reactor::Reactor;
use crate::reactor::listener::{self, Listener};
use crate::reactor::stream::Stream;
use crate::tls::Tls;
use hub::trust::ProxyProtocol;
use hub::{Places, Strain, Turn};
use rustix::io::Errno;
use rustls::ServerConfig;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections accepted per turn and listener: enough for a storm, few enough to keep the established ones served.
const ACCEPTS: usize = 64;
/// After so many, somebody else is looked for first: mostly there is nobody, and to accept in vain costs as much as to accept. Where more
/// come at once, one such attempt for all of them is cheaper.
const LOOKS: Range<usize> = 1..4;
/// How long accepting rests when the kernel cannot: no descriptor is free and none of ours is closed, or it says why not.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Answer of a process that is full.
const SHED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// What the door is made of.
pub(crate) struct DoorSettings {
    pub(crate) addrs: Vec<SocketAddr>,
    /// Sockets that another process listens on at these addresses: nobody is let in before `open_up`.
    pub(crate) inherited: Option<Vec<TcpListener>>,
    /// Those that this shard accepts from, for all.
    pub(crate) unix: Vec<UnixListener>,
    /// Addresses from this one on speak TLS.
    pub(crate) secure_from: usize,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) conns_max: usize,
    /// Connections beyond these, for sessions that exist and for health checks.
    pub(crate) conns_reserve: usize,
}

pub(crate) struct Door {
    listeners: Vec<Listener>,
    /// Those that speak TLS.
    secure: Range<usize>,
    tls: Option<Arc<ServerConfig>>,
    conns_max: usize,
    conns_reserve: usize,
    /// The shard that gets the next connection that the kernel does not spread.
    next: u16,
    state: Accept,
}

/// State of accepting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accept {
    /// Listeners tell when somebody comes.
    Waiting,
    /// There may be more in the backlog: edge-triggered listeners do not tell again.
    Pending,
    /// The kernel could not; try again then, or when a descriptor is closed.
    Paused(Instant),
}

/// Why `accept` brought nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Nobody waits.
    Nobody,
    /// That peer gave up while it waited (accept(2): errors of the new connection); the next one may be fine.
    Aborted,
    /// No descriptor or memory is free.
    Exhausted,
    /// The listener itself fails. Asking again at once would burn a core.
    Broken,
}

impl Door {
    pub(crate) fn open(settings: DoorSettings, reactor: &Reactor) -> io::Result<Self> {
        let secure = settings.secure_from..settings.addrs.len();
        let inherits = settings.inherited.is_some();
        let mut listeners = Vec::new();
        match settings.inherited {
            Some(inherited) => {
                for listener in inherited {
                    listeners.push(Listener::tcp(listener)?);
                }
            }
            None => {
                for addr in settings.addrs {
                    listeners.push(listener::listen(addr)?);
                }
            }
        }
        for listener in settings.unix {
            listeners.push(Listener::unix(listener)?);
        }
        let mut door = Self {
            listeners,
            secure,
            tls: settings.tls,
            conns_max: settings.conns_max,
            conns_reserve: settings.conns_reserve,
            next: 0,
            state: Accept::Waiting,
        };
        if !inherits {
            door.open_up(reactor)?;
        }
        Ok(door)
    }

    /// Those who knock are heard from now on.
    pub(crate) fn open_up(&mut self, reactor: &Reactor) -> io::Result<()> {
        for (n, listener) in self.listeners.iter_mut().enumerate() {
            reactor.watch_listener(listener, n)?;
        }
        Ok(())
    }

    /// Copies of the listening sockets.
    pub(crate) fn copies(&self, shard: u16) -> io::Result<Vec<Listening>> {
        let tcp = self.listeners.iter();
        let tcp = tcp.filter(|one| matches!(one, Listener::Tcp(_))).count();
        let listeners = self.listeners.iter().enumerate();
        let copies = listeners.map(|(at, listener)| {
            let unix = matches!(listener, Listener::Unix(_));
            Ok(Listening {
                shard,
                place: if unix { at - tcp } else { at },
                unix,
                socket: passing::copy(listener)?,
            })
        });
        copies.collect()
    }

    /// Another process listens from now on.
    pub(crate) fn hand_over(&mut self, reactor: &Reactor) {
        for mut listener in self.listeners.drain(..) {
            // What is not watched needs not be forgotten.
            let _ = reactor.forget_listener(&mut listener);
        }
        self.state = Accept::Waiting;
    }

    /// Somebody came.
    pub(crate) fn knocked(&mut self) {
        if self.state == Accept::Waiting {
            self.state = Accept::Pending;
        }
    }

    /// A descriptor became free.
    pub(crate) fn released(&mut self) {
        if let Accept::Paused(_) = self.state {
            self.state = Accept::Pending;
        }
    }

    /// How long until there is something to do: at once, so long, or never.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        match self.state {
            Accept::Waiting => None,
            Accept::Pending => Some(Duration::ZERO),
            Accept::Paused(until) => Some(until.saturating_duration_since(now)),
        }
    }

    pub(crate) fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// New handshakes use this; what is under way and what is established stay as they are.
    pub(crate) fn set_tls(&mut self, config: Arc<ServerConfig>) {
        self.tls = Some(config);
    }

    pub(crate) fn close(&mut self) {
        self.listeners.clear();
    }

    pub(crate) fn accept(&mut self, turn: &mut Turn<'_, Hands>, now: Instant) {
        match self.state {
            Accept::Waiting => return,
            Accept::Paused(until) if now < until => return,
            _ => self.state = Accept::Waiting,
        }
        for n in 0..self.listeners.len() {
            self.accept_from(n, turn, now);
            if let Accept::Paused(_) = self.state {
                return;
            }
        }
    }

    fn accept_from(&mut self, listener: usize, turn: &mut Turn<'_, Hands>, now: Instant) {
        for accepted in 0..ACCEPTS {
            if LOOKS.contains(&accepted) && !self.listeners[listener].is_asked() {
                return;
            }
            match self.listeners[listener].accept() {
                Ok((stream, peer)) => self.place(stream, peer, listener, turn),
                Err(error) => match failure(&error) {
                    Failure::Nobody => return,
                    Failure::Aborted => {}
                    Failure::Exhausted | Failure::Broken => {
                        turn.strained(Strain::NoDescriptor);
                        self.state = Accept::Paused(now + ACCEPT_PAUSE);
                        return;
                    }
                },
            }
        }
        self.state = Accept::Pending;
    }

    /// Finds a shard for a new connection.
    fn place(&mut self, stream: Stream, peer: IpAddr, listener: usize, turn: &mut Turn<'_, Hands>) {
        if let Stream::Unix(_) = stream {
            let hands = turn.world();
            self.next = (self.next + 1) % hands.me.shards;
            if self.next != hands.me.shard {
                hands.post.leave(self.next, Mail::Accepted { stream, peer });
                return;
            }
        }
        if !self.secure.contains(&listener) {
            return self.admit(stream, peer, None, turn);
        }
        match self.tls.as_ref().and_then(Tls::new) {
            Some(tls) => self.admit(stream, peer, Some(tls), turn),
            None => turn.strained(Strain::Full),
        }
    }

    pub(crate) fn admit(
        &self,
        mut stream: Stream,
        peer: IpAddr,
        tls: Option<Box<Tls>>,
        turn: &mut Turn<'_, Hands>,
    ) {
        let places = Arc::clone(&turn.world().places);
        let full = |places: &Places| places.free(self.conns_max, self.conns_reserve) == 0;
        // The reserve is for those that have shown a session or a probe: the oldest of the others makes way. Another shard may take
        // the place that became free, so the next makes way then.
        let mut is_full = full(&places);
        while is_full && turn.make_way() {
            is_full = full(&places);
        }
        // Strangers at other shards may have all of it, and this shard cannot send them away: a share is its own.
        if is_full {
            let share = self.conns_reserve / (2 * usize::from(turn.world().me.shards));
            is_full = turn.hub().in_reserve() >= share.max(1);
        }
        if is_full {
            turn.strained(Strain::Full);
            // Best effort: the buffer of a new connection takes it. Saying it by TLS would cost a handshake.
            if tls.is_none() {
                let _ = stream.write(SHED);
            }
            return;
        }
        let preface = turn.hub().proxy_protocol(peer) != ProxyProtocol::Off;
        let secure = tls.is_some();
        let adopt = |hands: &mut Hands, conn| {
            let adopted = hands.adopt(stream, tls, conn);
            hands.streams.set_preface(conn, preface);
            adopted
        };
        let conn = if places.free(self.conns_max, 0) > 0 {
            turn.opened(peer, adopt)
        } else {
            turn.opened_beyond(peer, adopt)
        };
        if secure {
            turn.speaks_tls(conn);
        }
    }
}

fn failure(error: &io::Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(Errno::WOULDBLOCK) => Failure::Nobody,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => Failure::Exhausted,
        Some(
            Errno::INTR
            | Errno::CONNABORTED
            | Errno::CONNRESET
            | Errno::PERM
            | Errno::PROTO
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
            | Errno::TIMEDOUT,
        ) => Failure::Aborted,
        _ => Failure::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_fails_for_good_made_its_shard_spin() {
        for (errno, failure_) in [
            (Errno::AGAIN, Failure::Nobody),
            (Errno::CONNABORTED, Failure::Aborted),
            (Errno::MFILE, Failure::Exhausted),
            (Errno::INVAL, Failure::Broken),
            (Errno::BADF, Failure::Broken),
        ] {
            assert_eq!(failure(&errno.into()), failure_, "{errno}");
        }
    }
}
