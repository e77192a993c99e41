//! Letters between nodes as bytes: `kind u8 | body`. Events keep their raw JSON: none is parsed on the way. A kind that this version does
//! not know is told apart from bytes that were damaged.

use crate::bounds::SHARDS_MAX;
use crate::cluster::letter::{
    Address, Answer, Broadcast, Fetched, Found, More, Next, Order, OwnedAuthor, Page, Response,
    Return, RoundId, Target, borrowed,
};
use crate::dialect::speech::Emit;
use crate::recovery::bytes as steps;
use crate::recovery::circle::Door;
use crate::recovery::stamp::{ShardLife, Stamp};
use crate::rooms::presence::{Person, Who, Word};
use crate::tables::bytes::{Reader, attachments, bytes, names, number};
use crate::tables::id::Place;
use crate::tables::repeats::Spot;
use std::sync::Arc;

const EVENT: u8 = 1;
const QUESTION: u8 = 2;
/// Nodes before this version write it in place of `EVENT`, with what they keep of the event.
const KEPT: u8 = 3;
const JOIN: u8 = 4;
const LEAVE: u8 = 5;
const DISCONNECT: u8 = 6;
const FETCH: u8 = 7;
const RESPONSE: u8 = 8;
const SERVER: u8 = 9;
const COUNT: u8 = 10;
const FORGET: u8 = 11;
const PRESENT: u8 = 12;
/// An event with its number in the order of the shard that published it.
const STAMPED: u8 = 13;
const RETURN: u8 = 14;
/// An event that stands at a place of a bus, with or without its number.
const SPOTTED: u8 = 15;
/// Only nodes that answered with a page get it.
const MORE: u8 = 16;

/// Set in the number of the asker's shard: it asks for the pages of long lists. Nodes that know no pages send it back as it is.
const PAGES: u16 = 1 << 15;
const _: () = assert!(SHARDS_MAX <= PAGES as usize);

/// Why bytes are no letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A kind that only newer nodes know.
    Unknown(u8),
    /// The body does not hold what its kind says.
    Malformed,
}

/// A letter of another node, read.
#[derive(Debug)]
pub(crate) enum Post {
    Order(Order),
    /// A room's members on a shard of that node.
    Count {
        to: Address,
        shard: u16,
        members: u32,
        asks: bool,
    },
    /// The members of a room on a shard of that node.
    Present {
        to: Address,
        shard: u16,
        word: Word,
    },
    /// What these rooms keep is to be forgotten; without any, what the whole namespace keeps.
    Forget {
        of: Address,
        rooms: Vec<String>,
    },
    Response {
        shard: u16,
        round: u64,
        parts: u16,
        response: Response,
    },
    /// For this shard.
    More {
        shard: u16,
        more: More,
    },
    /// A step by which a shard of that node, or of this one, takes a socket from another.
    Return {
        door: Door,
        step: Return,
    },
}

/// What is to be done with the sockets of a target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    Event(&'a Emit<'a>),
    /// The same where clients come back, on whichever node.
    Stamped(&'a Emit<'a>, Stamp),
    Question(&'a Emit<'a>, RoundId),
    Join(&'a [&'a str]),
    Leave(&'a [&'a str]),
    Disconnect {
        close: bool,
    },
    Fetch(RoundId),
    Server(&'a Emit<'a>, Option<RoundId>),
    /// The room has so many members on that shard; `asks`: how many has it there?
    Count {
        shard: u16,
        members: u32,
        asks: bool,
    },
    /// The members of the room on that shard.
    Present {
        shard: u16,
        word: &'a Word,
    },
    /// An order to forget what these rooms keep; without any, what the whole namespace keeps.
    Forget(&'a [&'a str]),
}

// ---- writing ------------------------------------------------------------------------------------------------------------------

fn event(out: &mut Vec<u8>, emit: &Emit<'_>) {
    out.push(u8::from(emit.volatile));
    bytes(out, emit.name.as_bytes());
    bytes(out, emit.args.as_bytes());
    attachments(out, emit.attachments);
}

fn spot(out: &mut Vec<u8>, spot: &Spot) {
    bytes(out, spot.source.as_bytes());
    number(out, spot.number);
    number(out, spot.time_ms);
}

fn round(out: &mut Vec<u8>, round: RoundId) {
    let pages = if round.pages { PAGES } else { 0 };
    number(out, u64::from(round.asker.shard | pages));
    number(out, round.number);
    number(out, round.timeout_ms);
}

/// Appends what the sockets of a target are asked for.
pub(crate) fn write(out: &mut Vec<u8>, to: &Target<'_>, ask: Ask<'_>) {
    out.push(match ask {
        Ask::Event(emit) | Ask::Stamped(emit, _) if emit.spot.is_some() => SPOTTED,
        Ask::Event(_) => EVENT,
        Ask::Stamped(..) => STAMPED,
        Ask::Question(..) => QUESTION,
        Ask::Join(_) => JOIN,
        Ask::Leave(_) => LEAVE,
        Ask::Disconnect { .. } => DISCONNECT,
        Ask::Fetch(_) => FETCH,
        Ask::Server(..) => SERVER,
        Ask::Count { .. } => COUNT,
        Ask::Present { .. } => PRESENT,
        Ask::Forget(_) => FORGET,
    });
    bytes(out, to.namespace.as_bytes());
    [to.rooms, to.users, to.except]
        .into_iter()
        .for_each(|list| names(out, list));
    match ask {
        Ask::Event(emit) => {
            if let Some(stands) = emit.spot {
                spot(out, stands);
                out.push(0);
            }
            event(out, emit);
        }
        Ask::Stamped(emit, stamp) => {
            if let Some(stands) = emit.spot {
                spot(out, stands);
                out.push(1);
            }
            number(out, u64::from(stamp.from.shard));
            number(out, stamp.life.0);
            number(out, stamp.number);
            event(out, emit);
        }
        Ask::Question(emit, of) => {
            round(out, of);
            event(out, emit);
        }
        Ask::Join(rooms) | Ask::Leave(rooms) | Ask::Forget(rooms) => names(out, rooms),
        Ask::Disconnect { close } => out.push(u8::from(close)),
        Ask::Fetch(of) => round(out, of),
        Ask::Server(emit, of) => {
            out.push(u8::from(of.is_some()));
            of.into_iter().for_each(|of| round(out, of));
            event(out, emit);
        }
        Ask::Count {
            shard,
            members,
            asks,
        } => {
            number(out, u64::from(shard));
            number(out, u64::from(members));
            out.push(u8::from(asks));
        }
        Ask::Present { shard, word } => {
            number(out, u64::from(shard));
            people(out, word);
        }
    }
}

fn people(out: &mut Vec<u8>, word: &Word) {
    number(out, word.since);
    number(out, word.version);
    number(out, u64::from(word.count));
    out.push(u8::from(word.nameless));
    out.push(u8::from(word.asks));
    number(out, word.joined.len() as u64);
    for person in &word.joined {
        who(out, &person.who);
        bytes(out, person.info.as_bytes());
    }
    number(out, word.left.len() as u64);
    word.left.iter().for_each(|one| who(out, one));
}

fn who(out: &mut Vec<u8>, one: &Who) {
    let (is_user, name) = match one {
        Who::User(name) => (true, name),
        Who::Socket(name) => (false, name),
    };
    out.push(u8::from(is_user));
    bytes(out, name.as_bytes());
}

/// Appends what the asker of a round is told.
pub(crate) fn write_response(out: &mut Vec<u8>, of: RoundId, response: &Response) {
    out.push(RESPONSE);
    number(out, u64::from(of.asker.shard));
    number(out, of.number);
    number(out, u64::from(of.parts));
    match response {
        Response::Delivered { asked, undelivered } => {
            out.push(0);
            number(out, *asked);
            number(out, *undelivered);
        }
        Response::Ack(answer) => {
            out.push(1);
            bytes(out, answer.args.as_bytes());
            attachments(out, &answer.attachments);
        }
        Response::Gone => out.push(2),
        Response::Sockets(found) => {
            out.push(3);
            out.push(u8::from(found.complete));
            sockets(out, &found.sockets);
        }
        Response::Page(page) => {
            out.push(4);
            out.push(u8::from(page.next.is_some()));
            if let Some(next) = page.next {
                number(out, u64::from(next.shard));
                number(out, next.list);
            }
            sockets(out, &page.sockets);
        }
    }
}

fn sockets(out: &mut Vec<u8>, all: &[Fetched]) {
    number(out, all.len() as u64);
    for socket in all {
        bytes(out, socket.id.as_bytes());
        names(out, &borrowed(&socket.rooms));
        bytes(out, socket.data.as_bytes());
    }
}

/// Appends what the asker of a list of this shard of another node wants of it.
pub(crate) fn write_more(out: &mut Vec<u8>, shard: u16, more: &More) {
    out.push(MORE);
    number(out, u64::from(shard));
    number(out, u64::from(more.asker.shard));
    number(out, more.round);
    number(out, more.list);
    out.push(u8::from(more.ends));
}

/// Appends a step by which a shard takes a socket from another.
pub(crate) fn write_return(out: &mut Vec<u8>, door: Door, step: &Return) {
    out.push(RETURN);
    let (kind, shard) = match door {
        Door::All => (0, 0),
        Door::Home => (1, 0),
        Door::Shard(shard) => (2, shard),
        Door::ByHome(shard) => (3, shard),
    };
    out.push(kind);
    number(out, u64::from(shard));
    bytes(
        out,
        step.namespace.as_deref().unwrap_or_default().as_bytes(),
    );
    number(out, u64::from(step.from.shard));
    number(out, u64::from(step.parts));
    steps::write(out, &step.message);
}

// ---- reading ------------------------------------------------------------------------------------------------------------------

/// Reads a letter of a node.
///
/// # Errors
/// See [`Unreadable`]. Nothing of such a letter is used.
pub(crate) fn read(letter: &[u8], node: u16) -> Result<Post, Unreadable> {
    let (kind, body) = letter.split_first().ok_or(Unreadable::Malformed)?;
    if !(EVENT..=MORE).contains(kind) {
        return Err(Unreadable::Unknown(*kind));
    }
    let mut body = Reader(body);
    let post = body.post(*kind, node).ok_or(Unreadable::Malformed)?;
    if body.is_empty() {
        Ok(post)
    } else {
        Err(Unreadable::Malformed)
    }
}

/// The namespace of an order, without the rest.
pub(crate) fn namespace_of(letter: &[u8]) -> Option<&str> {
    let (kind, body) = letter.split_first()?;
    let is_order =
        (EVENT..COUNT).contains(kind) && *kind != RESPONSE || matches!(*kind, STAMPED | SPOTTED);
    let namespace = is_order.then(|| Reader(body).bytes())??;
    std::str::from_utf8(namespace).ok()
}

impl Reader<'_> {
    fn address(&mut self) -> Option<Address> {
        let namespace = self.text()?;
        let (rooms, users) = (self.names()?, self.names()?);
        Some(Address::new(namespace, rooms, users, self.names()?))
    }

    fn event(&mut self, to: Address) -> Option<Broadcast> {
        Some(Broadcast {
            to,
            author: OwnedAuthor::Elsewhere,
            volatile: self.flag()?,
            name: self.text()?,
            args: self.text()?,
            attachments: self.attachments()?,
            at: None,
            stamp: None,
            spot: None,
        })
    }

    fn spotted(&mut self, to: Address, node: u16) -> Option<Broadcast> {
        let spot = Spot {
            source: self.text()?.into(),
            number: self.number()?,
            time_ms: self.number()?,
        };
        let event = match self.flag()? {
            true => self.stamped(to, node)?,
            false => self.event(to)?,
        };
        let spot = Some(spot);
        Some(Broadcast { spot, ..event })
    }

    fn stamped(&mut self, to: Address, node: u16) -> Option<Broadcast> {
        let shard = self.small()?;
        let stamp = Stamp {
            // A letter has a stamp of its own node only, so it does not name the node.
            from: Place { node, shard },
            life: ShardLife(self.number()?),
            number: self.number()?,
        };
        let event = self.event(to)?;
        let stamp = Some(stamp);
        Some(Broadcast { stamp, ..event })
    }

    fn round(&mut self, node: u16) -> Option<RoundId> {
        let shard = self.small()?;
        let pages = shard & PAGES != 0;
        let shard = shard & !PAGES;
        Some(RoundId {
            asker: Place { node, shard },
            number: self.number()?,
            ack: 0,
            timeout_ms: self.number()?,
            parts: 0,
            pages,
        })
    }

    fn post(&mut self, kind: u8, node: u16) -> Option<Post> {
        if kind == RESPONSE {
            return self.response();
        }
        if kind == RETURN {
            return self.step(node);
        }
        if kind == MORE {
            return self.more(node);
        }
        let of = self.address()?;
        Some(Post::Order(match kind {
            EVENT => Order::Broadcast(self.event(of)?, None),
            STAMPED => Order::Broadcast(self.stamped(of, node)?, None),
            SPOTTED => Order::Broadcast(self.spotted(of, node)?, None),
            QUESTION => {
                let round = self.round(node)?;
                Order::Broadcast(self.event(of)?, Some(round))
            }
            KEPT => {
                // What such a node keeps of it is not needed: the home of this node keeps it for itself.
                self.flag()?;
                self.bytes()?;
                Order::Broadcast(self.event(of)?, None)
            }
            JOIN => Order::Join {
                of,
                rooms: self.names()?,
                expected: Vec::new(),
            },
            LEAVE => Order::Leave {
                of,
                rooms: self.names()?,
            },
            DISCONNECT => Order::Disconnect {
                of,
                close: self.flag()?,
            },
            COUNT => {
                return Some(Post::Count {
                    to: of,
                    shard: self.small()?,
                    members: self.number()?.try_into().ok()?,
                    asks: self.flag()?,
                });
            }
            PRESENT => {
                return Some(Post::Present {
                    to: of,
                    shard: self.small()?,
                    word: self.people()?,
                });
            }
            FORGET => {
                let rooms = self.names()?;
                return Some(Post::Forget { of, rooms });
            }
            FETCH => Order::Fetch {
                of,
                round: self.round(node)?,
            },
            _ => {
                let round = match self.flag()? {
                    true => Some(self.round(node)?),
                    false => None,
                };
                Order::Server(self.event(of)?, round)
            }
        }))
    }

    fn step(&mut self, node: u16) -> Option<Post> {
        let (kind, shard) = (self.byte()?, self.small()?);
        let door = match kind {
            0 => Door::All,
            1 => Door::Home,
            2 => Door::Shard(shard),
            3 => Door::ByHome(shard),
            _ => return None,
        };
        let namespace = Some(self.text()?.into());
        let shard = self.small()?;
        let step = Return {
            from: Place { node, shard },
            parts: self.small()?,
            namespace,
            message: steps::read(self)?,
        };
        Some(Post::Return { door, step })
    }

    fn response(&mut self) -> Option<Post> {
        // Nodes without pages send the bit back with the number.
        let shard = self.small()? & !PAGES;
        let (round, parts) = (self.number()?, self.small()?);
        let response = match self.byte()? {
            0 => Response::Delivered {
                asked: self.number()?,
                undelivered: self.number()?,
            },
            1 => Response::Ack(Answer {
                args: self.text()?,
                attachments: self.attachments()?,
            }),
            2 => Response::Gone,
            3 => Response::Sockets(Found {
                complete: self.flag()?,
                sockets: self.list(Self::fetched)?,
            }),
            4 => {
                let next = match self.flag()? {
                    true => Some(Next {
                        shard: self.small()?,
                        list: self.number()?,
                    }),
                    false => None,
                };
                let sockets = self.list(Self::fetched)?;
                Response::Page(Page { sockets, next })
            }
            _ => return None,
        };
        Some(Post::Response {
            shard,
            round,
            parts,
            response,
        })
    }

    fn more(&mut self, node: u16) -> Option<Post> {
        let (shard, asker) = (self.small()?, self.small()?);
        let asker = Place { node, shard: asker };
        let more = More {
            asker,
            round: self.number()?,
            list: self.number()?,
            ends: self.flag()?,
        };
        Some(Post::More { shard, more })
    }

    fn people(&mut self) -> Option<Word> {
        Some(Word {
            since: self.number()?,
            version: self.number()?,
            count: self.number()?.try_into().ok()?,
            nameless: self.flag()?,
            asks: self.flag()?,
            joined: self.list(|one| {
                Some(Person {
                    who: one.who()?,
                    info: one.text()?.into(),
                })
            })?,
            left: self.list(Self::who)?,
        })
    }

    fn who(&mut self) -> Option<Who> {
        let is_user = self.flag()?;
        let name: Arc<str> = self.text()?.into();
        Some(match is_user {
            true => Who::User(name),
            false => Who::Socket(name),
        })
    }

    fn fetched(&mut self) -> Option<Fetched> {
        Some(Fetched {
            id: self.text()?,
            rooms: self.names()?,
            data: self.text()?,
        })
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
