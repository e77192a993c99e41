//! Letters between nodes as bytes: `kind u8 | body`. Numbers are LEB128, texts and lists stand behind their length. Events keep
//! their raw JSON: none is parsed on the way. A kind that this version does not know is told apart from bytes that were damaged.

use crate::cluster::letter::{
    Address, Answer, Broadcast, Fetched, Found, Order, OwnedAuthor, Response, RoundId, Target,
    borrowed,
};
use crate::dialect::speech::Emit;
use crate::rooms::presence::{Person, Who, Word};
use crate::tables::id::Place;
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
    /// What these rooms keep is to be forgotten; without any, what the whole namespace does.
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
}

/// What is asked for with the sockets of a target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    Event(&'a Emit<'a>),
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
    /// To forget what these rooms keep; without any, what the whole namespace does.
    Forget(&'a [&'a str]),
}

// ---- writing ------------------------------------------------------------------------------------------------------------------

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn names(out: &mut Vec<u8>, names: &[&str]) {
    number(out, names.len() as u64);
    names.iter().for_each(|name| bytes(out, name.as_bytes()));
}

fn event(out: &mut Vec<u8>, emit: &Emit<'_>) {
    out.push(u8::from(emit.volatile));
    bytes(out, emit.name.as_bytes());
    bytes(out, emit.args.as_bytes());
    attachments(out, emit.attachments);
}

fn attachments(out: &mut Vec<u8>, attachments: &[Vec<u8>]) {
    number(out, attachments.len() as u64);
    attachments.iter().for_each(|one| bytes(out, one));
}

fn round(out: &mut Vec<u8>, round: RoundId) {
    number(out, u64::from(round.asker.shard));
    number(out, round.number);
    number(out, round.timeout_ms);
}

/// Appends what the sockets of a target are asked for.
pub(crate) fn write(out: &mut Vec<u8>, to: &Target<'_>, ask: Ask<'_>) {
    out.push(match ask {
        Ask::Event(_) => EVENT,
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
        Ask::Event(emit) => event(out, emit),
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
            number(out, found.sockets.len() as u64);
            for socket in &found.sockets {
                bytes(out, socket.id.as_bytes());
                names(out, &borrowed(&socket.rooms));
                bytes(out, socket.data.as_bytes());
            }
        }
    }
}

// ---- reading ------------------------------------------------------------------------------------------------------------------

/// Reads a letter of a node.
///
/// # Errors
/// See [`Unreadable`]. Nothing of such a letter is used.
pub(crate) fn read(letter: &[u8], node: u16) -> Result<Post, Unreadable> {
    let (kind, body) = letter.split_first().ok_or(Unreadable::Malformed)?;
    if !(EVENT..=PRESENT).contains(kind) {
        return Err(Unreadable::Unknown(*kind));
    }
    let mut body = Reader(body);
    let post = body.post(*kind, node).ok_or(Unreadable::Malformed)?;
    if body.0.is_empty() {
        Ok(post)
    } else {
        Err(Unreadable::Malformed)
    }
}

/// The namespace of an order, without the rest.
pub(crate) fn namespace_of(letter: &[u8]) -> Option<&str> {
    let (kind, body) = letter.split_first()?;
    let is_order = (EVENT..COUNT).contains(kind) && *kind != RESPONSE;
    let namespace = is_order.then(|| Reader(body).bytes())??;
    std::str::from_utf8(namespace).ok()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn flag(&mut self) -> Option<bool> {
        self.byte().map(|byte| byte != 0)
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u16> {
        self.number()?.try_into().ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn text(&mut self) -> Option<String> {
        let text = std::str::from_utf8(self.bytes()?).ok()?;
        Some(text.to_owned())
    }

    /// A count that lies about what follows allocates nothing: every item is one byte at least.
    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = usize::try_from(self.number()?).ok()?;
        if len > self.0.len() {
            return None;
        }
        (0..len).map(|_| item(self)).collect()
    }

    fn names(&mut self) -> Option<Vec<String>> {
        self.list(Self::text)
    }

    fn attachments(&mut self) -> Option<Vec<Vec<u8>>> {
        self.list(|one| one.bytes().map(<[u8]>::to_vec))
    }

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
        })
    }

    fn round(&mut self, node: u16) -> Option<RoundId> {
        let shard = self.small()?;
        Some(RoundId {
            asker: Place { node, shard },
            number: self.number()?,
            ack: 0,
            timeout_ms: self.number()?,
            parts: 0,
        })
    }

    fn post(&mut self, kind: u8, node: u16) -> Option<Post> {
        if kind == RESPONSE {
            return self.response();
        }
        let of = self.address()?;
        Some(Post::Order(match kind {
            EVENT => Order::Broadcast(self.event(of)?, None),
            QUESTION => {
                let round = self.round(node)?;
                Order::Broadcast(self.event(of)?, Some(round))
            }
            KEPT => {
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

    fn response(&mut self) -> Option<Post> {
        let (shard, round, parts) = (self.small()?, self.number()?, self.small()?);
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
            _ => return None,
        };
        Some(Post::Response {
            shard,
            round,
            parts,
            response,
        })
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
mod tests {
    use super::*;

    const ROUND: RoundId = RoundId {
        asker: Place { node: 9, shard: 3 },
        number: 1 << 40,
        ack: 0,
        timeout_ms: 1_000,
        parts: 2,
    };

    fn samples() -> Vec<Vec<u8>> {
        let attachments = [vec![1, 2], vec![]];
        let emit = Emit {
            attachments: &attachments,
            volatile: true,
            ..Emit::new("grüße", "1,{\"a\":2}")
        };
        let to = Target {
            namespace: "/chat",
            rooms: &["a", ""],
            users: &["ann"],
            except: &["x"],
            ..Target::default()
        };
        let word = Word {
            since: 300,
            version: 301,
            count: 7,
            nameless: false,
            asks: true,
            joined: vec![Person {
                who: Who::User("ann".into()),
                info: "{\"name\":\"Ann\"}".into(),
            }],
            left: vec![Who::Socket("id".into())],
        };
        let asks = [
            Ask::Event(&emit),
            Ask::Question(&emit, ROUND),
            Ask::Join(&["b", "c"]),
            Ask::Leave(&[]),
            Ask::Disconnect { close: true },
            Ask::Fetch(ROUND),
            Ask::Server(&emit, Some(ROUND)),
            Ask::Server(&emit, None),
            Ask::Count {
                shard: 2,
                members: 300,
                asks: true,
            },
            Ask::Present {
                shard: 2,
                word: &word,
            },
            Ask::Forget(&["a", ""]),
        ];
        let socket = Fetched {
            id: "id".to_owned(),
            rooms: vec!["id".to_owned(), "r".to_owned()],
            data: "{}".to_owned(),
        };
        let responses = [
            Response::Delivered {
                asked: 300,
                undelivered: 1,
            },
            Response::Ack(Answer {
                args: "\"yes\"".to_owned(),
                attachments: attachments.to_vec(),
            }),
            Response::Gone,
            Response::Sockets(Found {
                sockets: vec![socket],
                complete: true,
            }),
        ];
        let mut samples: Vec<Vec<u8>> = Vec::new();
        let mut add = |fill: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            fill(&mut out);
            samples.push(out);
        };
        asks.iter()
            .for_each(|ask| add(&|out| write(out, &to, *ask)));
        responses
            .iter()
            .for_each(|response| add(&|out| write_response(out, ROUND, response)));
        samples
    }

    /// Writes what was read.
    fn again(post: &Post) -> Vec<u8> {
        let mut out = Vec::new();
        match post {
            Post::Order(order) => order.of().with(|to| match order {
                Order::Broadcast(broadcast, None) => {
                    write(&mut out, to, Ask::Event(&broadcast.event()));
                }
                Order::Broadcast(broadcast, Some(round)) => {
                    write(&mut out, to, Ask::Question(&broadcast.event(), *round));
                }
                Order::Join { rooms, .. } => write(&mut out, to, Ask::Join(&borrowed(rooms))),
                Order::Leave { rooms, .. } => write(&mut out, to, Ask::Leave(&borrowed(rooms))),
                Order::Disconnect { close, .. } => {
                    write(&mut out, to, Ask::Disconnect { close: *close });
                }
                Order::Fetch { round, .. } => write(&mut out, to, Ask::Fetch(*round)),
                Order::Server(what, round) => {
                    write(&mut out, to, Ask::Server(&what.event(), *round));
                }
            }),
            Post::Count {
                to,
                shard,
                members,
                asks,
            } => to.with(|to| {
                let (shard, members, asks) = (*shard, *members, *asks);
                let ask = Ask::Count {
                    shard,
                    members,
                    asks,
                };
                write(&mut out, to, ask);
            }),
            Post::Present { to, shard, word } => {
                let shard = *shard;
                to.with(|to| write(&mut out, to, Ask::Present { shard, word }));
            }
            Post::Forget { of, rooms } => {
                of.with(|to| write(&mut out, to, Ask::Forget(&borrowed(rooms))));
            }
            Post::Response {
                shard,
                round,
                parts,
                response,
            } => {
                let (shard, number, parts) = (*shard, *round, *parts);
                let asker = Place { node: 9, shard };
                let of = RoundId {
                    asker,
                    number,
                    parts,
                    ..ROUND
                };
                write_response(&mut out, of, response);
            }
        }
        out
    }

    #[test]
    fn letters_survive() {
        for sample in samples() {
            let post = read(&sample, 9).expect("a letter");
            assert_eq!(again(&post), sample, "{post:?}");
        }
    }

    /// Nodes are updated one after the other.
    #[test]
    fn an_event_of_the_version_before_is_read() {
        let event = samples().swap_remove(0);
        let mut to = Vec::new();
        bytes(&mut to, b"/chat");
        let lists: [&[&str]; 3] = [&["a", ""], &["ann"], &["x"]];
        lists.into_iter().for_each(|list| names(&mut to, list));
        let head = 1 + to.len();
        assert_eq!(event[1..head], to);
        let mut older = vec![KEPT];
        older.extend(to);
        older.push(1);
        bytes(&mut older, b"{}");
        older.extend(&event[head..]);
        assert_eq!(again(&read(&older, 9).expect("a letter")), event);
    }

    /// What was cut off or changed is refused or read as another letter: never a panic, never memory that the bytes do not pay for.
    #[test]
    fn damaged_letters_do_no_harm() {
        let mut seed = 7u64;
        let mut dice = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        let mut refused = 0;
        for sample in samples() {
            for len in 0..sample.len() {
                assert!(read(&sample[..len], 9).is_err(), "{len} of {sample:?}");
            }
            for _ in 0..2_000 {
                let mut changed = sample.clone();
                let at = dice(changed.len());
                changed[at] = dice(256) as u8;
                refused += usize::from(read(&changed, 9).is_err());
            }
        }
        assert!(refused > 1_000, "{refused}");
    }

    #[test]
    fn a_kind_of_a_newer_node_is_told_apart() {
        assert_eq!(read(&[200, 1, 2], 9).err(), Some(Unreadable::Unknown(200)));
        assert_eq!(read(&[], 9).err(), Some(Unreadable::Malformed));
        let longer = [samples()[0].as_slice(), &[0]].concat();
        assert_eq!(read(&longer, 9).err(), Some(Unreadable::Malformed));
    }
}
