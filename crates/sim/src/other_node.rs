//! Another node: it sends to those whom it knows of.

use crate::names::user;
use hub::config::Config;
use hub::metrics::Cells;
use hub::{
    ConnectRequest, Context, Decision, Effect, Emit, Event, Handler, Hub, Identity, Inbox, Letter,
    Now, Parcel, Piece, Process, Sink, SocketKey, Spent, Tidings, Uplink, Writes,
};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Longer than a history: only other nodes end the waiting of a client.
const JOIN_WAIT: Duration = Duration::from_secs(1_000_000);

/// A way to other nodes on which there is always room.
pub(crate) fn uplink() -> Arc<Uplink> {
    Arc::new(Uplink::new(usize::MAX, JOIN_WAIT))
}

/// To whom the other node says a number.
pub(crate) enum Saying {
    Welcome { client: usize, number: u64 },
    Room { args: String, room: usize },
}

struct Speaker;

impl Handler for Speaker {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn event(&mut self, _: &mut Context<'_>, _: SocketKey, _: Event<'_>) {}

    fn outside(&mut self, cx: &mut Context<'_>, word: Box<dyn Any + Send>) {
        let saying = word.downcast::<Saying>().expect("a word of ours");
        match *saying {
            Saying::Welcome { client, number } => {
                let user = user(client);
                let number = number.to_string();
                cx.of("/")
                    .to_users(&[&user])
                    .emit(&Emit::new("behind", &number));
            }
            Saying::Room { args, room } => {
                let (name, event) = (format!("room-{room}"), format!("say-{room}"));
                cx.of("/").to(&[&name]).emit(&Emit::new(&event, &args));
            }
        };
    }
}

/// What its hub acts on: only what it has for other nodes matters.
#[derive(Default)]
struct Desk(Vec<Parcel>);

impl Sink for Desk {
    fn write(&mut self, _: Writes<'_>) {}
}

impl hub::World for Desk {
    fn carry_out(&mut self, effect: Effect) {
        if let Effect::Away(parcel) = effect {
            self.0.push(parcel);
        }
    }
}

pub(crate) struct Elsewhere {
    hub: Hub,
    desk: Desk,
    uplink: Arc<Uplink>,
    /// How many hubs of the first node hold each key, as far as this one has heard.
    known: BTreeMap<u64, u64>,
    /// On its way to the first node, with the step in which it was said.
    pub(crate) said: VecDeque<(u64, Vec<u8>)>,
    /// Reads for the first node, whose uplink is beside it.
    pub(crate) inbox: Inbox,
    theirs: Arc<Uplink>,
    /// What each hub of the first node has told, and this one has not heard, with the step in which.
    pub(crate) told: Vec<VecDeque<(u64, Parcel)>>,
}

impl Elsewhere {
    /// Beside a process that has a way to other nodes.
    pub(crate) fn beside(first: &Process, hubs: usize, config: &Config) -> Option<Self> {
        let theirs = Arc::clone(first.uplink.as_ref()?);
        let (mut process, uplink) = (Process::new(&config.rates), uplink());
        process.uplink = Some(Arc::clone(&uplink));
        let me = Identity {
            node: 2,
            shard: 0,
            shards: 1,
        };
        let entropy = Box::new(|bytes: &mut [u8]| bytes.fill(7));
        let (config, cells) = (Arc::new(config.clone()), Arc::new(Cells::default()));
        Some(Self {
            hub: Hub::in_process(config, me, Box::new(Speaker), cells, entropy, &process),
            desk: Desk::default(),
            uplink,
            known: BTreeMap::new(),
            said: VecDeque::new(),
            inbox: Inbox::new(first, 1, hubs as u16),
            theirs,
            told: (0..hubs).map(|_| VecDeque::new()).collect(),
        })
    }

    /// It says something now: that goes to whom it knows of now.
    pub(crate) fn say(&mut self, now: Now, step: u64, saying: Saying) {
        let mut turn = self.hub.turn(now, &mut self.desk);
        turn.outside(Box::new(saying));
        turn.end(false, |_| Spent::default());
        for parcel in self.desk.0.drain(..) {
            self.uplink.took(&parcel);
            for piece in parcel.pieces() {
                if let Piece::Letter { keys, bytes, .. } = piece
                    && keys.iter().any(|key| self.known.get(key) > Some(&0))
                {
                    self.said.push_back((step, bytes.to_vec()));
                }
            }
        }
    }

    /// It hears the oldest of what a hub told; the answers.
    pub(crate) fn hears(&mut self, hub: usize) -> Vec<Letter> {
        let mut answers = Vec::new();
        let Some((_, parcel)) = self.told[hub].pop_front() else {
            return answers;
        };
        self.theirs.took(&parcel);
        for piece in parcel.pieces() {
            match piece {
                Piece::Hold { key, ticket } => {
                    *self.known.entry(key).or_default() += 1;
                    answers.push(Tidings::Confirmed { ticket }.into());
                }
                Piece::Release { key } => *self.known.entry(key).or_default() -= 1,
                // It has no clients that could answer.
                Piece::Letter {
                    round: Some(round), ..
                } => {
                    let nodes = Vec::new();
                    answers.push(Tidings::Posted { round, nodes }.into());
                }
                Piece::Letter { .. } | Piece::Room { .. } => {}
            }
        }
        answers
    }

    /// The steps in which what is on its way was said or told.
    pub(crate) fn steps(&self) -> impl Iterator<Item = u64> {
        let told = self.told.iter().flatten().map(|(step, _)| *step);
        told.chain(self.said.iter().map(|(step, _)| *step))
    }
}
