//! Orders of programs outside about sockets: each errand is carried out once, and its sender gets an answer.

use hub::{Author, Collected, Context, Emit, Found, Presence, Reach, Spot, Unwatched};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// Something to be done, and the way back. [`hub::Handler::outside`] gets it in a box.
pub struct Errand {
    /// The sockets that are meant.
    pub of: Chosen,
    /// The deed.
    pub what: Wanted,
    /// Called once. An errand that is lost is dropped with it.
    pub answer: Answer,
}

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

/// Sockets: the union of rooms and users, or the whole namespace when there are none, without the members of `except`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "a field says what it is")]
pub struct Chosen {
    pub namespace: String,
    pub rooms: Vec<String>,
    pub users: Vec<String>,
    pub except: Vec<String>,
    /// Only those of this node.
    pub local: bool,
}

/// The deed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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
    /// Its cost in bytes while it waits.
    pub fn bytes(&self) -> usize {
        let names = |names: &[String]| -> usize {
            names
                .iter()
                .map(|name| size_of::<String>() + name.len())
                .sum()
        };
        let of = &self.of;
        let chosen = names(&of.rooms) + names(&of.users) + names(&of.except) + of.namespace.len();
        let what = match &self.what {
            Wanted::Emit(message) | Wanted::Ask(message, _) => {
                let attached: usize = message.attachments.iter().map(Vec::len).sum();
                message.event.len() + message.args.len() + attached
            }
            Wanted::Join(rooms) | Wanted::Leave(rooms) | Wanted::Forget(rooms) => names(rooms),
            Wanted::Disconnect { .. } | Wanted::Fetch(_) | Wanted::Present => 0,
        };
        size_of::<Self>() + chosen + what
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
        let Errand { of, what, answer } = errand;
        let [rooms, users, except] =
            [&of.rooms, &of.users, &of.except].map(|names| borrowed(names));
        if what == Wanted::Present {
            let room = rooms.first().copied().unwrap_or_default();
            return answer(Outcome::Present(cx.watch(&of.namespace, room)));
        }
        let mut group = cx.of(&of.namespace).to(&rooms).to_users(&users);
        group = group.except(&except);
        if of.local {
            group = group.local();
        }
        let reach = match what {
            Wanted::Ask(message, timeout) => {
                let token = self.wait(answer);
                return group.collect(&as_emit(&message), timeout, token);
            }
            Wanted::Fetch(timeout) => {
                let token = self.wait(answer);
                return group.fetch(timeout, token);
            }
            Wanted::Emit(message) => group.emit(&as_emit(&message)),
            Wanted::Join(names) => group.join(&borrowed(&names)),
            Wanted::Leave(names) => group.leave(&borrowed(&names)),
            Wanted::Forget(names) => group.forget(&borrowed(&names)),
            Wanted::Disconnect { close } => group.disconnect(close),
            // It is answered above.
            Wanted::Present => return,
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

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
