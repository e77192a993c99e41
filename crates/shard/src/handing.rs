//! The shards stand still, and what they have goes to another process: the side of the process that gives.
//!
//! First all *pause*: nobody is read and nobody comes in, until no message is under way between them. Then they *freeze*: a shard looks
//! at nothing but the orders of the one who froze it. If that one goes away, for whatever reason, they go on as if nothing had been.

use crate::effects::Hands;
use crate::mail::Mail;
use crate::reactor::stream::Stream;
use crate::shards::Shards;
use crate::turn::Shard;
use handoff::bounds::{BATCH_BYTES, BATCH_SESSIONS};
use hub::mailbox::Sender as MailSender;
use hub::{ConnId, Handed, Handing, Hub, SessionId, Stays};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Rounds of mail after which shards that still write to each other are left alone.
const ROUNDS_MAX: usize = 200;

/// What would go, and what would stay for which reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Sessions that go.
    pub goes: u64,
    /// Sessions that stay, in the order of [`Stays::ALL`].
    pub stays: [u64; Stays::ALL.len()],
}

impl Census {
    fn of(hub: &Hub, hands: &Hands) -> Self {
        let mut census = Self::default();
        let is_secure = |conn| hands.streams.is_secure(conn);
        hub.count_handed(is_secure, |goes| match goes {
            Ok(()) => census.goes += 1,
            Err(why) => {
                let at = Stays::ALL.iter().position(|one| *one == why);
                census.stays[at.unwrap_or_default()] += 1;
            }
        });
        census
    }

    fn add(&mut self, other: &Self) {
        self.goes += other.goes;
        for (sum, more) in self.stays.iter_mut().zip(other.stays) {
            *sum += more;
        }
    }
}

/// A listening socket of a shard.
#[derive(Debug)]
pub struct Listening {
    /// Its shard, and its place among the listeners of its kind there.
    pub shard: u16,
    pub place: usize,
    pub unix: bool,
    pub socket: OwnedFd,
}

/// Some sessions of a shard, each with the socket of its connection.
#[derive(Debug, Default)]
pub struct Sessions {
    pub records: Vec<handoff::Session>,
    /// Connections without a session.
    pub visitors: Vec<handoff::Visitor>,
    /// Of the sessions that have a connection, and behind them of the visitors.
    pub sockets: Vec<OwnedFd>,
}

impl Sessions {
    fn len(&self) -> usize {
        self.records.len() + self.visitors.len()
    }
}

/// Why shards cannot be frozen, or do not go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unquiet(pub String);

impl std::fmt::Display for Unquiet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unquiet {}

/// What a shard is asked while it lives as ever.
#[derive(Debug)]
pub(crate) enum Wish {
    Count(Sender<Census>),
    Listeners(Sender<io::Result<Vec<Listening>>>),
    /// Reads nobody and lets nobody in.
    Pause,
    /// Answers with the messages that it worked on since it was asked last.
    Round(Sender<u64>),
    Resume,
    Freeze(Receiver<Order>, Sender<Report>),
}

/// What a frozen shard is told.
#[derive(Debug)]
pub(crate) enum Order {
    More,
    Commit,
}

/// What a frozen shard answers.
#[derive(Debug)]
pub(crate) enum Report {
    /// It is frozen, and goes on with this id of an ack.
    Frozen(u64),
    /// `None`: that were all.
    Sessions(Result<Option<Sessions>, Unquiet>),
}

/// How far a shard is with pausing.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    pub(crate) is_on: bool,
    /// Messages worked on since the last round.
    worked: u64,
    /// Those who asked for that are answered when the turn has ended, and what followed from its messages has left.
    rounds: Vec<Sender<u64>>,
    freeze: Option<(Receiver<Order>, Sender<Report>)>,
}

impl Pause {
    #[inline]
    pub(crate) fn note_mail(&mut self) {
        self.worked += u64::from(self.is_on);
    }

    /// The message was about the pause itself.
    pub(crate) fn forget_mail(&mut self) {
        self.worked = self.worked.saturating_sub(1);
    }

    /// A turn has ended.
    pub(crate) fn answer_rounds(&mut self) {
        for answer in self.rounds.drain(..) {
            let _ = answer.send(std::mem::take(&mut self.worked));
        }
    }

    pub(crate) fn take_freeze(&mut self) -> Option<(Receiver<Order>, Sender<Report>)> {
        self.freeze.take()
    }

    /// Those who asked may have gone: then nobody hears the answer.
    pub(crate) fn carry_out(&mut self, wish: Wish, hub: &Hub, hands: &Hands, listeners: Listeners) {
        match wish {
            Wish::Count(answer) => {
                let _ = answer.send(Census::of(hub, hands));
            }
            Wish::Listeners(answer) => {
                let _ = answer.send(listeners(hands.me.shard));
            }
            Wish::Pause => self.is_on = true,
            Wish::Round(answer) => self.rounds.push(answer),
            Wish::Resume => self.is_on = false,
            Wish::Freeze(orders, reports) => self.freeze = Some((orders, reports)),
        }
    }
}

/// Copies of the listeners of a shard with this number.
pub(crate) type Listeners<'a> = &'a dyn Fn(u16) -> io::Result<Vec<Listening>>;

impl Shard {
    /// Stands still for somebody, until that one commits or goes away.
    #[cold]
    pub(crate) fn stand_still(&mut self, orders: &Receiver<Order>, reports: &Sender<Report>) {
        let _ = reports.send(Report::Frozen(self.hub.next_ack()));
        let mut handing = self.hub.handing();
        let mut gone: Vec<Gone> = Vec::new();
        while let Ok(order) = orders.recv() {
            match order {
                Order::More => {
                    let sessions = self.more(&mut handing, &mut gone);
                    let _ = reports.send(Report::Sessions(sessions));
                }
                Order::Commit => {
                    self.let_go(gone);
                    break;
                }
            }
        }
        self.life.pause.is_on = false;
    }

    fn more(
        &mut self,
        handing: &mut Handing,
        gone: &mut Vec<Gone>,
    ) -> Result<Option<Sessions>, Unquiet> {
        let (mut sessions, mut bytes) = (Sessions::default(), 0);
        while sessions.len() < BATCH_SESSIONS && bytes < BATCH_BYTES {
            let streams = &self.hands.streams;
            let Some(handed) = self.hub.hand(handing, |conn| streams.is_secure(conn)) else {
                break;
            };
            let (session, conn) = match &handed {
                Handed::Goes(conn, session, _) => (Some(*session), *conn),
                Handed::Visits(conn, _) => (None, Some(*conn)),
            };
            let unix = match conn {
                None => false,
                Some(conn) => {
                    let Some(stream) = self.hands.streams.get_mut(conn) else {
                        continue;
                    };
                    sessions.sockets.push(copy_of(stream)?);
                    matches!(stream, Stream::Unix(_))
                }
            };
            match handed {
                Handed::Goes(_, _, mut record) => {
                    let units = record.polling.iter().flat_map(|polling| &polling.queue);
                    bytes += units.map(|unit| unit.bytes.len()).sum::<usize>();
                    if let Some(conn) = &mut record.conn {
                        conn.unix = unix;
                        let output: usize = conn.output.iter().map(|unit| unit.bytes.len()).sum();
                        bytes += conn.input.len() + output;
                    }
                    sessions.records.push(*record);
                }
                Handed::Visits(conn, mut visitor) => {
                    visitor.unix = unix;
                    visitor.preface = self.hands.streams.expects_preface(conn);
                    bytes += visitor.input.len();
                    sessions.visitors.push(*visitor);
                }
            }
            gone.push((session, conn));
        }
        Ok((sessions.len() > 0).then_some(sessions))
    }

    /// What was handed over is another process's now; the rest is told to come back, which leads it there.
    fn let_go(&mut self, gone: Vec<Gone>) {
        let now = self.clock.now(Instant::now());
        self.door.hand_over(&self.hands.reactor);
        let mut turn = self.hub.turn(now, &mut self.hands);
        for (session, conn) in gone {
            // A kernel that watches a socket for this process goes on with that while another process has it.
            if let Some(conn) = conn {
                drop(turn.world().detach(conn));
            }
            turn.handed_over(session, conn);
        }
        // Those who stay are closed at once, for what others say does not reach them any more.
        turn.drain(0, 0);
    }
}

/// What goes: a session, a connection, or both.
type Gone = (Option<SessionId>, Option<ConnId>);

fn copy_of(stream: &Stream) -> Result<OwnedFd, Unquiet> {
    copy(stream).map_err(|error| {
        Unquiet(format!(
            "cannot copy the descriptor of a connection: {error}; raise the limit of open files"
        ))
    })
}

pub(crate) fn copy(socket: &impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(socket, 0)?)
}

/// All shards of the process, for one who hands over what they have.
#[derive(Clone, Debug)]
pub struct Givers(Vec<MailSender<Mail>>);

impl Shards {
    /// Where to ask for a handover.
    pub fn givers(&self) -> Givers {
        Givers(self.inspector().mail)
    }
}

impl Givers {
    fn ask_all<T>(
        &self,
        within: Duration,
        wish: impl Fn(Sender<T>) -> Wish,
    ) -> Result<Vec<T>, Unquiet> {
        let deadline = Instant::now() + within;
        let asked: Vec<Receiver<T>> = self
            .0
            .iter()
            .map(|mail| {
                let (answer, answers) = mpsc::channel();
                mail.send(Mail::Handing(wish(answer)));
                answers
            })
            .collect();
        let answers = asked.into_iter().enumerate().map(|(shard, answers)| {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = answers.recv_timeout(left);
            answer.map_err(|_| Unquiet(format!("shard {shard} does not answer")))
        });
        answers.collect()
    }

    fn tell_all(&self, wish: impl Fn() -> Wish) {
        self.0
            .iter()
            .for_each(|mail| mail.send(Mail::Handing(wish())));
    }

    /// What would go now, and what would stay.
    ///
    /// # Errors
    /// A shard does not answer.
    pub fn census(&self, within: Duration) -> Result<Census, Unquiet> {
        let counts = self.ask_all(within, Wish::Count)?;
        let mut sum = Census::default();
        counts.iter().for_each(|count| sum.add(count));
        Ok(sum)
    }

    /// Copies of all listening sockets, which go on as they are.
    ///
    /// # Errors
    /// A shard does not answer, or has no descriptor left.
    pub fn listeners(&self, within: Duration) -> Result<Vec<Listening>, Unquiet> {
        let answers = self.ask_all(within, Wish::Listeners)?;
        let mut all = Vec::new();
        for answer in answers {
            let listeners = answer.map_err(|error| {
                Unquiet(format!("cannot copy the descriptor of a listener: {error}"))
            })?;
            all.extend(listeners);
        }
        Ok(all)
    }

    /// Freezes all shards, once no message is under way between them.
    ///
    /// # Errors
    /// They do not come to rest in time; then they go on.
    pub fn freeze(&self, within: Duration) -> Result<Frozen, Unquiet> {
        let deadline = Instant::now() + within;
        let left = || deadline.saturating_duration_since(Instant::now());
        self.tell_all(|| Wish::Pause);
        let paused = Paused(self);
        let mut rounds = 0;
        // The first round says what was worked on before the others paused.
        while self.ask_all(left(), Wish::Round)?.iter().sum::<u64>() > 0 || rounds == 0 {
            rounds += 1;
            if rounds > ROUNDS_MAX || left().is_zero() {
                return Err(Unquiet(format!(
                    "after {rounds} rounds of messages shards still write to each other"
                )));
            }
        }
        let mut desks = Vec::new();
        for mail in &self.0 {
            let ((orders, take), (reports, hear)) = (mpsc::channel(), mpsc::channel());
            mail.send(Mail::Handing(Wish::Freeze(take, reports)));
            desks.push(Desk {
                orders,
                reports: hear,
                next_ack: 0,
            });
        }
        for (shard, desk) in desks.iter_mut().enumerate() {
            match desk.reports.recv_timeout(left()) {
                Ok(Report::Frozen(next_ack)) => desk.next_ack = next_ack,
                _ => return Err(Unquiet(format!("shard {shard} does not stand still"))),
            }
        }
        // A frozen shard looks at its mail when it is let go.
        drop(paused);
        Ok(Frozen { desks })
    }
}

/// Shards go on when this is dropped.
struct Paused<'a>(&'a Givers);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.tell_all(|| Wish::Resume);
    }
}

#[derive(Debug)]
struct Desk {
    orders: Sender<Order>,
    reports: Receiver<Report>,
    next_ack: u64,
}

/// Shards that stand still. They go on when this is dropped.
#[derive(Debug)]
pub struct Frozen {
    desks: Vec<Desk>,
}

impl Frozen {
    /// Numbers of the shards, and the id with which the acks of each go on.
    pub fn shards(&self) -> impl Iterator<Item = (u16, u64)> {
        (0..).zip(self.desks.iter().map(|desk| desk.next_ack))
    }

    /// More sessions of a shard; `None`: it has no others that go.
    ///
    /// # Errors
    /// It cannot give them, or does not answer.
    pub fn more(&self, shard: u16, within: Duration) -> Result<Option<Sessions>, Unquiet> {
        let silent = || Unquiet(format!("shard {shard} does not answer"));
        let desk = self.desks.get(usize::from(shard)).ok_or_else(silent)?;
        desk.orders.send(Order::More).map_err(|_| silent())?;
        match desk.reports.recv_timeout(within) {
            Ok(Report::Sessions(sessions)) => sessions,
            Ok(Report::Frozen(_)) | Err(_) => Err(silent()),
        }
    }

    /// All that was given is another process's. What stays is told to go.
    pub fn commit(self) {
        for desk in self.desks {
            // A shard that has died has nothing any more.
            let _ = desk.orders.send(Order::Commit);
        }
    }
}
