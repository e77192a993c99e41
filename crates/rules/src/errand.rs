//! Orders of programs outside about sockets: each errand is carried out once, and its sender gets an answer.

use crate::aim::{borrowed, with};
use hub::{Author, Collected, Context, Emit, Found, Presence, Reach, Spot, Unwatched};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::Target;

/// Something to be done, and the way back. [`hub::Handler::outside`] gets it in a box.
pub struct Errand {
    /// The sockets that are meant.
    pub of: Target,
    /// The deed.
    pub what: Wanted,
    /// Called once. An errand that is lost is dropped with it.
    pub answer: Answer,
    /// Whoever has to know whether it may be carried out by now.
    pub begun: Begun,
}

/// Set as soon as a shard may have the errand.
pub type Begun = Option<Arc<AtomicBool>>;

/// Called on a shard's thread: it must not block.
pub type Answer = Box<dyn FnOnce(Outcome) + Send>;

impl fmt::Debug for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Errand")
            .field("of", &self.of)
            .field("what", &self.what)
            .finish_non_exhaustive()
    }
}

/// The deed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum Wanted {
    Emit(Message),
    /// They are to answer.
    Ask(Message, Duration),
    Join(Vec<String>),
    Leave(Vec<String>),
    Disconnect {
        close: bool,
    },
    Fetch(Duration),
    /// The members of the first of the rooms.
    Present,
    /// Rooms forget what they keep for those who join; without rooms, all of the namespace.
    Forget(Vec<String>),
}

/// An event, checked by its sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "a field says what it is")]
pub struct Message {
    pub event: String,
    /// Raw JSON elements, separated by commas.
    pub args: String,
    pub attachments: Vec<Vec<u8>>,
    pub volatile: bool,
    /// The program waits until the event is stored, and knows it by this number.
    pub receipt: Option<u64>,
    /// Where it stands on a bus: each shard sends it once.
    pub spot: Option<Spot>,
}

/// The result of an errand.
#[derive(Debug)]
pub enum Outcome {
    /// It is done here; `everywhere`: other nodes will do it, too.
    Done {
        /// `false`: too much waits for the other nodes already.
        everywhere: bool,
    },
    /// The answers to an event.
    Collected(Collected),
    /// The sockets.
    Found(Found),
    /// The members of a room, or why they are not told.
    Present(Result<Presence, Unwatched>),
    /// Nothing was done: another process serves the clients from now on.
    Moved,
    /// Nothing was done: what all nodes read cannot be written now.
    Unwritten,
}

impl Errand {
    /// It is on its way to a shard.
    pub fn begins(&self) {
        if let Some(begun) = &self.begun {
            begun.store(true, Ordering::Release);
        }
    }

    /// Its cost in bytes while it waits.
    pub fn bytes(&self) -> usize {
        let names = |names: &[String]| -> usize {
            names
                .iter()
                .map(|name| size_of::<String>() + name.len())
                .sum()
        };
        let of = &self.of;
        let lists = [&of.rooms, &of.users, &of.sockets, &of.except];
        let target = of.namespace.len() + lists.map(|list| names(list)).iter().sum::<usize>();
        let what = match &self.what {
            Wanted::Emit(message) | Wanted::Ask(message, _) => {
                let attached: usize = message.attachments.iter().map(Vec::len).sum();
                message.event.len() + message.args.len() + attached
            }
            Wanted::Join(rooms) | Wanted::Leave(rooms) | Wanted::Forget(rooms) => names(rooms),
            Wanted::Disconnect { .. } | Wanted::Fetch(_) | Wanted::Present => 0,
        };
        size_of::<Self>() + target + what
    }
}

/// Tokens of errands have it, those of the desk do not.
const MARK: u64 = 1 << 63;

/// Errands of this shard that wait for answers of sockets.
#[derive(Default)]
pub(crate) struct Errands {
    open: HashMap<u64, Answer>,
    made: u64,
}

impl Errands {
    pub(crate) fn carry_out(&mut self, cx: &mut Context<'_>, errand: Errand) {
        let Errand {
            of, what, answer, ..
        } = errand;
        let reach = match what {
            Wanted::Present => {
                let room = of.rooms.first().map_or("", String::as_str);
                return answer(Outcome::Present(cx.watch(&of.namespace, room)));
            }
            Wanted::Ask(message, timeout) => {
                let token = self.wait(answer);
                return with(cx, &of, |group| {
                    group.collect(&as_emit(&message), timeout, token);
                });
            }
            Wanted::Fetch(timeout) => {
                let token = self.wait(answer);
                return with(cx, &of, |group| group.fetch(timeout, token));
            }
            Wanted::Emit(message) => with(cx, &of, |group| group.emit(&as_emit(&message))),
            Wanted::Join(names) => with(cx, &of, |group| group.join(&borrowed(&names))),
            Wanted::Leave(names) => with(cx, &of, |group| group.leave(&borrowed(&names))),
            Wanted::Forget(names) => with(cx, &of, |group| group.forget(&borrowed(&names))),
            Wanted::Disconnect { close } => with(cx, &of, |group| group.disconnect(close)),
        };
        answer(match reach {
            Reach::Nobody => Outcome::Unwritten,
            reach => Outcome::Done {
                everywhere: reach == Reach::Everyone,
            },
        });
    }

    fn wait(&mut self, answer: Answer) -> u64 {
        self.made += 1;
        let token = MARK | self.made;
        self.open.insert(token, answer);
        token
    }

    /// `Some`: it is no errand's.
    pub(crate) fn collected(&mut self, token: u64, collected: Collected) -> Option<Collected> {
        let Some(answer) = self.open.remove(&token) else {
            return Some(collected);
        };
        answer(Outcome::Collected(collected));
        None
    }

    /// `Some`: it is no errand's.
    pub(crate) fn found(&mut self, token: u64, found: Found) -> Option<Found> {
        let Some(answer) = self.open.remove(&token) else {
            return Some(found);
        };
        answer(Outcome::Found(found));
        None
    }
}

fn as_emit(message: &Message) -> Emit<'_> {
    Emit {
        attachments: &message.attachments,
        volatile: message.volatile,
        author: message.receipt.map_or(Author::Program, Author::Waiting),
        spot: message.spot.as_ref(),
        ..Emit::new(&message.event, &message.args)
    }
}
