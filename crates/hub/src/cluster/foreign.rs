//! Servers of another kind in the same cluster. The control plane speaks their languages; to hubs they are one more node.

use crate::bounds::PAGE_SOCKETS;
use crate::cluster::inbox::{Inbox, Read};
use crate::cluster::letter::{
    Address, Answer, Broadcast, Found, Order, OwnedAuthor, Page, Reply, Response, RoundId,
};
use crate::cluster::wire::{self, Post, Unreadable};
use crate::tables::id::Place;

/// The number of that node: real nodes have smaller ones.
pub const ELSEWHERE: u16 = u16::MAX;

/// What is to be done with the sockets of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Deed {
    /// The namespace in which it is done.
    pub namespace: String,
    /// The rooms whose members it is about; with no users either, it is about the whole namespace.
    pub rooms: Vec<String>,
    /// The users whose sockets it is about.
    pub users: Vec<String>,
    /// Rooms whose members it is not about.
    pub except: Vec<String>,
    /// The deed.
    pub what: What,
}

/// What is done. A question has the number of its round, and the time for which its asker waits.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum What {
    Event(Event),
    Ask {
        event: Event,
        round: u64,
        timeout_ms: u64,
    },
    Join(Vec<String>),
    Leave(Vec<String>),
    Disconnect {
        close: bool,
    },
    Fetch {
        round: u64,
        timeout_ms: u64,
    },
    /// A word for handlers, not for sockets; `round`: the round and its timeout in milliseconds, if an answer is waited for.
    Server {
        event: Event,
        round: Option<(u64, u64)>,
    },
}

/// An event with all that it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Its arguments and what their placeholders stand for.
    pub content: Answer,
    /// Dropped, not queued, for clients that cannot take it this instant.
    pub volatile: bool,
}

/// A letter of one of our hubs, as other servers may hear it.
#[derive(Debug)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum Overheard {
    Deed(Deed),
    /// It is between nodes.
    Ours,
    /// A shard of ours, one of so many, answers a question of theirs.
    Response {
        round: u64,
        parts: u16,
        response: Response,
    },
}

/// Reads a letter that a hub of ours wrote for other nodes.
///
/// # Errors
/// It was not written by a hub of this version.
pub fn overhear(letter: &[u8]) -> Result<Overheard, Unreadable> {
    let order = match wire::read(letter, ELSEWHERE)? {
        Post::Order(order) => order,
        Post::Count { .. }
        | Post::Present { .. }
        | Post::Forget { .. }
        | Post::More { .. }
        | Post::Return { .. } => return Ok(Overheard::Ours),
        Post::Response {
            round,
            parts,
            response,
            ..
        } => {
            return Ok(Overheard::Response {
                round,
                parts,
                response,
            });
        }
    };
    Ok(Overheard::Deed(deed(order)))
}

/// The namespace of a letter that other servers may hear; nothing else of it is read.
pub fn namespace_of(letter: &[u8]) -> Option<&str> {
    wire::namespace_of(letter)
}

fn deed(order: Order) -> Deed {
    let (of, what) = match order {
        Order::Server(broadcast, round) => {
            let (to, event) = event_of(broadcast);
            let round = round.map(|round| (round.number, round.timeout_ms));
            (to, What::Server { event, round })
        }
        Order::Broadcast(broadcast, round) => {
            let (to, event) = event_of(broadcast);
            match round {
                None => (to, What::Event(event)),
                Some(RoundId {
                    number: round,
                    timeout_ms,
                    ..
                }) => {
                    let ask = What::Ask {
                        event,
                        round,
                        timeout_ms,
                    };
                    (to, ask)
                }
            }
        }
        Order::Join { of, rooms, .. } => (of, What::Join(rooms)),
        Order::Leave { of, rooms } => (of, What::Leave(rooms)),
        Order::Disconnect { of, close } => (of, What::Disconnect { close }),
        Order::Fetch { of, round } => {
            let RoundId {
                number: round,
                timeout_ms,
                ..
            } = round;
            (of, What::Fetch { round, timeout_ms })
        }
    };
    let (namespace, [rooms, users, except]) = of.into_parts();
    Deed {
        namespace,
        rooms,
        users,
        except,
        what,
    }
}

fn event_of(broadcast: Broadcast) -> (Address, Event) {
    let Broadcast {
        to,
        name,
        args,
        attachments,
        volatile,
        ..
    } = broadcast;
    let content = Answer { args, attachments };
    let event = Event {
        name,
        content,
        volatile,
    };
    (to, event)
}

impl Inbox {
    /// A letter for the shards of this process, from other servers.
    pub fn deed(&self, deed: Deed) -> Read {
        self.order(order(deed))
    }

    /// What one of `parts` other servers says to a round of one of our shards. A long list is pages, which come by themselves.
    pub fn response(&self, shard: u16, round: u64, parts: u16, response: Response) -> Vec<Read> {
        let reply = |response| {
            let reply = Reply {
                number: round,
                node: ELSEWHERE,
                parts,
                response,
            };
            self.reply(shard, reply)
        };
        in_pages(response).into_iter().map(reply).collect()
    }
}

/// The pages of a long list, and the rest of it; any other answer as it is.
fn in_pages(response: Response) -> Vec<Response> {
    let Response::Sockets(Found {
        mut sockets,
        complete,
    }) = response
    else {
        return vec![response];
    };
    let mut all = Vec::new();
    while sockets.len() > PAGE_SOCKETS {
        // Pages are cut from the end, where nothing has to move: sockets of a list are in no order.
        let sockets = sockets.split_off(sockets.len() - PAGE_SOCKETS);
        let next = None;
        all.push(Response::Page(Page { sockets, next }));
    }
    all.push(Response::Sockets(Found { sockets, complete }));
    all
}

fn order(deed: Deed) -> Order {
    let of = Address::new(deed.namespace, deed.rooms, deed.users, deed.except);
    let id = |number, timeout_ms| RoundId {
        asker: Place {
            node: ELSEWHERE,
            shard: 0,
        },
        number,
        ack: 0,
        timeout_ms,
        parts: 0,
        pages: false,
    };
    match deed.what {
        What::Event(event) => Order::Broadcast(broadcast(of, event), None),
        What::Ask {
            event,
            round,
            timeout_ms,
        } => Order::Broadcast(broadcast(of, event), Some(id(round, timeout_ms))),
        What::Join(rooms) => Order::Join {
            of,
            rooms,
            // `Inbox::expect` fills it in when the order is for shards.
            expected: Vec::new(),
        },
        What::Leave(rooms) => Order::Leave { of, rooms },
        What::Disconnect { close } => Order::Disconnect { of, close },
        What::Fetch { round, timeout_ms } => {
            let round = id(round, timeout_ms);
            Order::Fetch { of, round }
        }
        What::Server { event, round } => {
            let round = round.map(|(number, timeout_ms)| id(number, timeout_ms));
            Order::Server(broadcast(of, event), round)
        }
    }
}

fn broadcast(to: Address, event: Event) -> Broadcast {
    let Event {
        name,
        content: Answer { args, attachments },
        volatile,
    } = event;
    Broadcast {
        to,
        name,
        args,
        attachments,
        author: OwnedAuthor::Elsewhere,
        volatile,
        at: None,
        stamp: None,
        spot: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::letter::borrowed;
    use crate::cluster::wire::Ask;

    fn deeds() -> Vec<Deed> {
        let event = || Event {
            name: "ev".to_owned(),
            content: Answer {
                args: "1,\"té\"".to_owned(),
                attachments: vec![vec![1, 2]],
            },
            volatile: true,
        };
        let (round, timeout_ms) = (1 << 40, 3_000);
        let rooms = || vec!["a".to_owned(), "b".to_owned()];
        let all = [
            What::Event(event()),
            What::Ask {
                event: event(),
                round,
                timeout_ms,
            },
            What::Join(rooms()),
            What::Leave(rooms()),
            What::Disconnect { close: true },
            What::Fetch { round, timeout_ms },
            What::Server {
                event: event(),
                round: Some((round, timeout_ms)),
            },
        ];
        let deed = |what| Deed {
            namespace: "/lab".to_owned(),
            rooms: rooms(),
            users: vec!["ann".to_owned()],
            except: vec!["c".to_owned()],
            what,
        };
        all.into_iter().map(deed).collect()
    }

    /// What a hub of ours writes for other nodes.
    fn written(order: &Order) -> Vec<u8> {
        let mut out = Vec::new();
        order.of().with(|to| match order {
            Order::Broadcast(broadcast, None) => {
                wire::write(&mut out, to, Ask::Event(&broadcast.event()));
            }
            Order::Broadcast(broadcast, Some(round)) => {
                wire::write(&mut out, to, Ask::Question(&broadcast.event(), *round));
            }
            Order::Join { rooms, .. } => wire::write(&mut out, to, Ask::Join(&borrowed(rooms))),
            Order::Leave { rooms, .. } => wire::write(&mut out, to, Ask::Leave(&borrowed(rooms))),
            Order::Disconnect { close, .. } => {
                wire::write(&mut out, to, Ask::Disconnect { close: *close });
            }
            Order::Fetch { round, .. } => wire::write(&mut out, to, Ask::Fetch(*round)),
            Order::Server(what, round) => {
                wire::write(&mut out, to, Ask::Server(&what.event(), *round));
            }
        });
        out
    }

    #[test]
    fn what_hubs_say_is_overheard_and_said_to_them_in_the_same_words() {
        for expected in deeds() {
            let letter = written(&order(expected.clone()));
            let heard = overhear(&letter).expect("a letter");
            let Overheard::Deed(deed) = heard else {
                panic!("{heard:?}")
            };
            assert_eq!(deed, expected);
        }
    }
}
