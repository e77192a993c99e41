//! Owns one simulated user: where it is in its flow, its connection, and what it should receive.
//! An idle user holds no buffer and no timer.

use super::http::EventStream;
use super::membership::Membership;
use crate::scenario::EXPECTED_EVENTS_MAX;
use crate::scenario::Scope;
use crate::stream::Stream;
use fastrand::Rng;
use std::collections::VecDeque;

/// What a user waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing: its steps are being carried out.
    #[default]
    Running,
    /// A point in time.
    Sleeping,
    /// The protocol to be ready.
    Connecting,
    /// The answer to what it sent.
    Answer { id: u32, of: Request },
    /// Fewer unanswered events.
    Full,
    /// Messages of an expected event.
    Expecting { event: usize, count: u32 },
    /// A turn in a loop that all users share.
    Parked,
    /// The beginning of a phase.
    Phase(usize),
    /// The flow is at its end; the connection stays.
    Finished,
    /// The server to end the connection, as it was asked to.
    Leaving,
    /// Not connected and not coming back.
    Gone,
}

/// An event without an answer that its user does not wait for, or not yet.
#[derive(Clone, Copy, Debug)]
pub struct Flying {
    /// `None`: the message that comes back is the answer.
    pub id: Option<u32>,
    pub due_ns: u64,
    pub deadline_ns: u64,
}

/// What an answer is awaited for; memberships by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Event,
    Join(usize),
    Leave(usize),
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    #[default]
    Closed,
    /// WebSocket upgrade request sent.
    Upgrading,
    /// WebSocket open, Engine.IO's greeting awaited.
    Greeting,
    /// First poll sent.
    PollHandshake,
    /// Namespace asked for.
    Hello,
    /// Connected by polling, the WebSocket is being tried.
    Probing,
    /// Event stream asked for.
    StreamHead,
    Open,
}

/// One loop that a user is in.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Index of the loop's step.
    pub step: usize,
    pub done: u32,
    /// When the next round is due, for loops with a period.
    pub next_due_ns: u64,
    /// No round begins later.
    pub end_ns: u64,
}

/// The HTTP side of a user that polls or listens to an event stream.
#[derive(Debug, Default)]
pub struct Http {
    /// Long polls, or the event stream.
    pub get: Stream,
    pub post: Stream,
    pub sid: String,
    /// Packets for the next POST.
    pub queue: Vec<u8>,
    pub posting: bool,
    pub polling: bool,
    /// The probe was answered: no new poll.
    pub paused: bool,
    /// The WebSocket of an upgrade answered its request.
    pub switched: bool,
    pub events: Option<EventStream>,
}

#[derive(Debug, Default)]
pub struct User {
    /// Over all workers.
    pub number: u32,
    pub flow: usize,
    /// Index of its server.
    pub server: usize,
    pub step: usize,
    pub state: State,
    /// Makes older timers void.
    pub epoch: u32,
    /// When waiting turns into an error.
    pub deadline_ns: u64,
    /// When the present step should have begun.
    pub due_ns: u64,
    /// It was connected before: every later connect is a return.
    pub has_been: bool,
    /// Past its first connect and joins.
    pub arrived: bool,
    pub link: Link,
    pub ws: Stream,
    pub http: Option<Box<Http>>,
    pub next_id: u32,
    /// Events sent so far.
    pub seq: u64,
    /// Unconsumed messages of each expected event.
    pub inbox: [u32; EXPECTED_EVENTS_MAX],
    pub loops: Vec<Round>,
    pub rooms: Vec<Membership>,
    /// Last sequence number by room, for the order of this publisher.
    pub published: Vec<(u64, u64)>,
    pub auth: Option<Box<str>>,
    /// Failed attempts of the present connect.
    pub attempts: u32,
    /// Unanswered events of steps with a `window`, oldest first.
    pub flying: VecDeque<Flying>,
    /// Ids whose answers were given up and have not come since, ascending.
    pub given_up: Vec<u32>,
    pub dice: Rng,
}

impl User {
    pub fn new(number: u32, flow: usize, due_ns: u64) -> Self {
        User {
            number,
            flow,
            deadline_ns: u64::MAX,
            due_ns,
            // Seeded so that a run repeats itself; forked because neighbouring seeds begin alike.
            dice: Rng::with_seed(number.into()).fork(),
            ..User::default()
        }
    }

    pub fn scope(&self, users: u32) -> Scope {
        Scope {
            user: self.number.into(),
            users: users.into(),
            iteration: self
                .loops
                .last()
                .map_or(0, |round| round.done.saturating_sub(1).into()),
            seq: self.seq,
        }
    }

    /// Index of the membership of a room, made when there is none.
    pub fn membership(&mut self, room: u64) -> usize {
        let known = self
            .rooms
            .iter()
            .position(|membership| membership.room == room);
        known.unwrap_or_else(|| {
            self.rooms.push(Membership::new(room));
            self.rooms.len() - 1
        })
    }

    /// Distance to this user's message before in the stream of its worker; 0 for the first.
    pub fn back(&mut self, room: u64, sequence: u64) -> u32 {
        let known = self.published.iter_mut().find(|(own, _)| *own == room);
        match known {
            Some((_, last)) => (sequence - std::mem::replace(last, sequence)) as u32,
            None => {
                self.published.push((room, sequence));
                0
            }
        }
    }

    pub fn take_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id - 1
    }

    /// The question that an answer without a number is for.
    pub fn oldest_question(&self) -> Option<u32> {
        match self.state {
            State::Answer { id, .. } => Some(id),
            _ => self.flying.iter().find_map(|flying| flying.id),
        }
    }

    /// Waits for something else from now on.
    pub fn wait(&mut self, state: State, deadline_ns: u64) {
        self.state = state;
        self.deadline_ns = deadline_ns;
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Whether it is on HTTP, and all that it said there was taken.
    pub fn is_posted(&self) -> bool {
        let posted = |http: &Http| !http.posting && http.queue.is_empty();
        !self.ws.is_open() && self.http.as_deref().is_some_and(posted)
    }

    pub fn close(&mut self) {
        self.ws.close();
        // No answer can come any more: another connection would not bring it.
        self.given_up.clear();
        self.http = None;
        self.link = Link::Closed;
    }
}
