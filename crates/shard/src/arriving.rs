//! Shards that begin with what another process has: they take sessions in, and read and write nothing until they are told to begin.

use crate::passing::{Arrival, Sessions};
use crate::reactor::stream::Stream;
use crate::shards::Shards;
use crate::turn::Shard;
use hub::ConnId;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Shards that have not begun. If this is dropped before, they end.
#[derive(Debug)]
pub struct Takers(Vec<Sender<Arrival>>);

impl Shards {
    /// Where sessions are brought to; once, if the shards were started for that.
    pub fn takers(&mut self) -> Option<Takers> {
        let takers = std::mem::take(&mut self.takers);
        (!takers.is_empty()).then_some(Takers(takers))
    }
}

impl Takers {
    /// Brings sessions to a shard, each with its socket. Returns how much of what is kept for those who come has no place there.
    ///
    /// # Errors
    /// The shard cannot have them: it is of no use any more.
    pub fn bring(&self, shard: u16, sessions: Sessions, within: Duration) -> Result<u64, String> {
        self.ask(shard, within, |answer| Arrival::Sessions(sessions, answer))
    }

    /// All sessions of a shard have come, and it goes on with this beside them.
    ///
    /// # Errors
    /// The shard does not answer.
    pub fn complete(&self, onward: handoff::ShardWord, within: Duration) -> Result<(), String> {
        let shard = u16::try_from(onward.shard).unwrap_or(u16::MAX);
        self.ask(shard, within, |answer| Arrival::All(onward, answer))
    }

    fn ask<T>(
        &self,
        shard: u16,
        within: Duration,
        what: impl FnOnce(Sender<Result<T, String>>) -> Arrival,
    ) -> Result<T, String> {
        let silent = || format!("shard {shard} does not answer");
        let taker = self.0.get(usize::from(shard));
        let taker = taker.ok_or_else(|| format!("there is no shard {shard}"))?;
        let (answer, answers) = mpsc::channel();
        taker.send(what(answer)).map_err(|_| silent())?;
        answers.recv_timeout(within).map_err(|_| silent())?
    }

    /// All shards serve from now on.
    pub fn begin(self) {
        for taker in &self.0 {
            // A shard that has died is told of elsewhere.
            let _ = taker.send(Arrival::Begin);
        }
    }
}

impl Shard {
    /// Takes in what comes; `false`: nobody wants it to begin any more.
    #[cold]
    pub(crate) fn gather(&mut self, arrivals: &Receiver<Arrival>) -> bool {
        let mut conns = Vec::new();
        while let Ok(arrival) = arrivals.recv() {
            // The one who waits may have given up, and then this channel ends.
            match arrival {
                Arrival::Sessions(sessions, answer) => {
                    let _ = answer.send(self.take_in(sessions, &mut conns));
                }
                Arrival::All(onward, answer) => {
                    let now = self.clock.now(Instant::now());
                    self.hub.turn(now, &mut self.hands).all_arrived(onward);
                    // Those who knock are heard when it has begun. What can fail of that fails while the other process goes on.
                    let watched = self.door.open_up(&self.hands.reactor);
                    let _ = answer.send(watched.map_err(|error| {
                        format!("cannot watch the listeners: {error}; raise the limits of epoll (fs.epoll.max_user_watches)")
                    }));
                }
                Arrival::Begin => {
                    self.begin(conns);
                    return true;
                }
            }
        }
        false
    }

    fn take_in(&mut self, sessions: Sessions, conns: &mut Vec<ConnId>) -> Result<u64, String> {
        let now = self.clock.now(Instant::now());
        let mut turn = self.hub.turn(now, &mut self.hands);
        turn.now_is(now);
        for marks in &sessions.marks {
            turn.marks_arrived(marks);
        }
        let mut left_out = 0;
        for piece in &sessions.keepsakes {
            let arrived = turn.keepsakes_arrived(piece);
            let arrived = arrived.map_err(|why| format!("cannot go on with {}", why.0));
            left_out += arrived?;
        }
        let mut sockets = sessions.sockets.into_iter();
        let mut next = |unix| match sockets.next() {
            None => Err("there are fewer sockets than records".to_owned()),
            Some(socket) => stream(socket, unix)
                .map_err(|error| format!("cannot go on with the socket of a connection: {error}")),
        };
        for record in &sessions.records {
            let streams: Result<Vec<Stream>, String> =
                record.conns().map(|conn| next(conn.unix)).collect();
            let mut streams = streams?.into_iter();
            let arrived = turn.arrived(record, |hands, conn| {
                if let Some(stream) = streams.next() {
                    hands.seat(stream, conn);
                    conns.push(conn);
                }
            });
            arrived.map_err(|why| format!("cannot go on with a session: {}", why.0))?;
        }
        for visitor in &sessions.visitors {
            let stream = next(visitor.unix)?;
            let arrived = turn.visitor_arrived(visitor, |hands, conn| {
                hands.seat(stream, conn);
                hands.streams.set_preface(conn, visitor.preface);
                conns.push(conn);
            });
            arrived.map_err(|why| format!("cannot go on with a connection: {}", why.0))?;
        }
        Ok(left_out)
    }

    fn begin(&mut self, conns: Vec<ConnId>) {
        let now = self.clock.now(Instant::now());
        let mut turn = self.hub.turn(now, &mut self.hands);
        for conn in conns {
            // What has come meanwhile, and whether it can be written to, the kernel tells at once.
            if !turn.world().watch(conn) {
                turn.broken(conn);
            }
        }
    }
}

fn stream(socket: OwnedFd, unix: bool) -> std::io::Result<Stream> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(match unix {
        true => Stream::Unix(mio::net::UnixStream::from_std(UnixStream::from(socket))),
        false => Stream::Tcp(mio::net::TcpStream::from_std(TcpStream::from(socket))),
    })
}
