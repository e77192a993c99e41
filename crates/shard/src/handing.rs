//! The shards stand still, and what they have goes to another process: the side of the process that gives.
//!
//! First all *pause*: nobody is read and nobody comes in, until no message is under way between them. Then they *freeze*: a shard looks
//! at nothing but the orders of the one who froze it. If that one goes away, for whatever reason, they go on as if nothing had been.

use crate::bounds::ROUNDS_MAX;
use crate::mail::Mail;
use crate::passing::{Census, Listening, Order, Report, Sessions, Unquiet, Wish, copy};
use crate::reactor::stream::Stream;
use crate::shards::Shards;
use crate::turn::Shard;
use handoff::bounds::{BATCH_BYTES, BATCH_SESSIONS, FRAME_BYTES};
use hub::mailbox::Sender as MailSender;
use hub::{ConnId, Handed, Handing, SessionId};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

impl Shard {
    /// Stands still for somebody, until that one commits or goes away. `takes`: what the next process can go on with.
    #[cold]
    pub(crate) fn stand_still(
        &mut self,
        takes: u64,
        orders: &Receiver<Order>,
        reports: &Sender<Report>,
    ) {
        let _ = reports.send(Report::Frozen(self.hub.onward()));
        let mut handing = self.hub.handing(takes);
        let mut gone: Vec<Gone> = Vec::new();
        while let Ok(order) = orders.recv() {
            match order {
                Order::More(copied) => {
                    if let Some(copied) = copied {
                        handing.keep_from(copied);
                    }
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
        // A session has two at most.
        while sessions.len().max(sessions.sockets.len()) < BATCH_SESSIONS && bytes < BATCH_BYTES {
            let streams = &self.hands.streams;
            let Some(handed) = self.hub.hand(handing, |conn| streams.is_secure(conn)) else {
                break;
            };
            let (session, conns) = match &handed {
                Handed::Marks(_) | Handed::Keeps(_) => (None, Vec::new()),
                Handed::Goes(conns, session, _) => (Some(*session), conns.clone()),
                Handed::Visits(conn, _) => (None, vec![*conn]),
            };
            let Some(copies) = self.copies_of(&conns)? else {
                continue;
            };
            let is_unix = |at: usize| copies.get(at).is_some_and(|(_, unix)| *unix);
            match handed {
                Handed::Marks(marks) => {
                    bytes += marks.size() + FRAME_BYTES;
                    sessions.marks.push(*marks);
                    continue;
                }
                Handed::Keeps(piece) => {
                    bytes += piece.size() + FRAME_BYTES;
                    sessions.keepsakes.push(*piece);
                    continue;
                }
                Handed::Goes(_, _, mut record) => {
                    for (at, conn) in record.conns_mut().enumerate() {
                        conn.unix = is_unix(at);
                    }
                    bytes += record.size() + FRAME_BYTES;
                    sessions.records.push(*record);
                }
                Handed::Visits(conn, mut visitor) => {
                    visitor.unix = is_unix(0);
                    visitor.preface = self.hands.streams.expects_preface(conn);
                    bytes += visitor.size() + FRAME_BYTES;
                    sessions.visitors.push(*visitor);
                }
            }
            let sockets = copies.into_iter().map(|(socket, _)| socket);
            sessions.sockets.extend(sockets);
            gone.push((session, conns));
        }
        sessions.stays = handing.take_stays();
        sessions.left_behind = handing.take_left_behind();
        Ok((!sessions.is_empty()).then_some(sessions))
    }

    /// Copies of the sockets of these connections; `None`: one of them is gone.
    fn copies_of(&mut self, conns: &[ConnId]) -> Result<Option<Vec<Copied>>, Unquiet> {
        let mut copies = Vec::with_capacity(conns.len());
        for conn in conns {
            let Some(stream) = self.hands.streams.get_mut(*conn) else {
                return Ok(None);
            };
            copies.push((copy_of(stream)?, matches!(stream, Stream::Unix(_))));
        }
        Ok(Some(copies))
    }

    /// What was handed over is another process's now; the rest is told to come back, which leads it there.
    fn let_go(&mut self, gone: Vec<Gone>) {
        let now = self.clock.now(Instant::now());
        self.door.hand_over(&self.hands.reactor);
        let mut turn = self.hub.turn(now, &mut self.hands);
        turn.all_handed_over();
        for (session, conns) in gone {
            // A kernel that watches a socket for this process goes on with that while another process has it.
            for conn in &conns {
                drop(turn.world().detach(*conn));
            }
            turn.handed_over(session, &conns);
        }
        // Those who stay are closed at once, for what others say does not reach them any more.
        turn.drain(0, 0, false);
    }
}

/// What goes: a session, connections, or both.
type Gone = (Option<SessionId>, Vec<ConnId>);

/// A copy of a socket, and whether it is a Unix socket.
type Copied = (OwnedFd, bool);

fn copy_of(stream: &Stream) -> Result<OwnedFd, Unquiet> {
    copy(stream).map_err(|error| {
        Unquiet(format!(
            "cannot copy the descriptor of a connection: {error}; raise the limit of open files"
        ))
    })
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

    /// What would go now to a process that takes these ([`handoff::takes`]), and what would stay.
    ///
    /// # Errors
    /// A shard does not answer.
    pub fn census(&self, takes: u64, within: Duration) -> Result<Census, Unquiet> {
        let counts = self.ask_all(within, |answer| Wish::Count(takes, answer))?;
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

    /// How many shards there are.
    pub fn count(&self) -> u16 {
        u16::try_from(self.0.len()).unwrap_or(u16::MAX)
    }

    /// Some of the journal of a shard behind a place, while it serves its clients; `None`: there is no more.
    ///
    /// # Errors
    /// The shard does not answer.
    pub fn journal_behind(
        &self,
        shard: u16,
        after: u64,
        within: Duration,
    ) -> Result<Option<handoff::Keepsakes>, Unquiet> {
        let silent = || Unquiet(format!("shard {shard} does not answer"));
        let mail = self.0.get(usize::from(shard)).ok_or_else(silent)?;
        let (answer, answers) = mpsc::channel();
        mail.send(Mail::Handing(Wish::Journal(after, answer)));
        answers.recv_timeout(within).map_err(|_| silent())
    }

    /// All shards pause: nobody is read and nobody comes in. They go on when this is dropped.
    pub fn pause(&self) -> Paused<'_> {
        self.tell_all(|| Wish::Pause);
        Paused(self)
    }
}

/// Shards that pause.
#[derive(Debug)]
pub struct Paused<'a>(&'a Givers);

impl Paused<'_> {
    /// Freezes all shards for a process that takes these ([`handoff::takes`]), once no message is under way between them, nor to others:
    /// `beside` does the work that shards have left to these, and says how much that was.
    ///
    /// # Errors
    /// They do not come to rest in time; then they go on.
    pub fn freeze(
        self,
        takes: u64,
        within: Duration,
        beside: impl Fn() -> Result<u64, Unquiet>,
    ) -> Result<Frozen, Unquiet> {
        let deadline = Instant::now() + within;
        let left = || deadline.saturating_duration_since(Instant::now());
        let Self(givers) = &self;
        let mut rounds = 0;
        // The first round says what was worked on before the others paused.
        while givers.ask_all(left(), Wish::Round)?.iter().sum::<u64>() + beside()? > 0
            || rounds == 0
        {
            rounds += 1;
            if rounds > ROUNDS_MAX || left().is_zero() {
                return Err(Unquiet(format!(
                    "after {rounds} rounds of messages shards still write to each other"
                )));
            }
        }
        let mut desks = Vec::new();
        for mail in &givers.0 {
            let ((orders, take), (reports, hear)) = (mpsc::channel(), mpsc::channel());
            mail.send(Mail::Handing(Wish::Freeze(takes, take, reports)));
            desks.push(Desk {
                orders,
                reports: hear,
                onward: handoff::ShardWord::default(),
            });
        }
        for (shard, desk) in desks.iter_mut().enumerate() {
            match desk.reports.recv_timeout(left()) {
                Ok(Report::Frozen(onward)) => desk.onward = onward,
                _ => return Err(Unquiet(format!("shard {shard} does not stand still"))),
            }
        }
        // A frozen shard looks at its mail when it is let go.
        drop(self);
        Ok(Frozen { desks })
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.tell_all(|| Wish::Resume);
    }
}

#[derive(Debug)]
struct Desk {
    orders: Sender<Order>,
    reports: Receiver<Report>,
    onward: handoff::ShardWord,
}

/// Shards that stand still. They go on when this is dropped.
#[derive(Debug)]
pub struct Frozen {
    desks: Vec<Desk>,
}

impl Frozen {
    /// Numbers of the shards, and what each goes on with beside its sessions.
    pub fn shards(&self) -> impl Iterator<Item = (u16, handoff::ShardWord)> {
        (0..).zip(self.desks.iter().map(|desk| desk.onward))
    }

    /// More sessions of a shard; `None`: it has no others that go. `copied`: the next process has its journal up to there, if it takes what is
    /// kept for those who come.
    ///
    /// # Errors
    /// It cannot give them, or does not answer.
    pub fn more(
        &self,
        shard: u16,
        copied: Option<u64>,
        within: Duration,
    ) -> Result<Option<Sessions>, Unquiet> {
        let silent = || Unquiet(format!("shard {shard} does not answer"));
        let desk = self.desks.get(usize::from(shard)).ok_or_else(silent)?;
        desk.orders
            .send(Order::More(copied))
            .map_err(|_| silent())?;
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
