//! Letters survive the way, and what is damaged is none.

use super::*;
use crate::recovery::messages::{Claim, Message};

const STAMP: Stamp = Stamp {
    from: Place { node: 9, shard: 3 },
    life: ShardLife(1 << 55),
    number: 1 << 60,
};

const ROUND: RoundId = RoundId {
    asker: Place { node: 9, shard: 3 },
    number: 1 << 40,
    ack: 0,
    timeout_ms: 1_000,
    parts: 2,
    pages: false,
};

const MORE_OF: More = More {
    asker: ROUND.asker,
    round: ROUND.number,
    list: 1 << 30,
    ends: true,
};

fn samples() -> Vec<Vec<u8>> {
    let attachments = [vec![1, 2], vec![]];
    let emit = Emit {
        attachments: &attachments,
        volatile: true,
        ..Emit::new("grüße", "1,{\"a\":2}")
    };
    let spot = Spot {
        source: "kafka:g:t/1".into(),
        number: 1 << 50,
        time_ms: 300,
    };
    let spotted = Emit {
        spot: Some(&spot),
        ..emit
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
        Ask::Stamped(&emit, STAMP),
        Ask::Event(&spotted),
        Ask::Stamped(&spotted, STAMP),
        Ask::Question(&emit, ROUND),
        Ask::Join(&["b", "c"]),
        Ask::Leave(&[]),
        Ask::Disconnect { close: true },
        Ask::Fetch(ROUND),
        Ask::Fetch(RoundId {
            pages: true,
            ..ROUND
        }),
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
            sockets: vec![socket.clone()],
            complete: true,
        }),
        Response::Page(Page {
            sockets: vec![socket.clone()],
            next: Some(Next {
                shard: 2,
                list: MORE_OF.list,
            }),
        }),
        Response::Page(Page {
            sockets: vec![socket],
            next: None,
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
    add(&|out| write_more(out, 2, &MORE_OF));
    for door in [Door::All, Door::Home, Door::Shard(3), Door::ByHome(2)] {
        let claim = Claim {
            by: STAMP.from,
            number: 7,
        };
        let step = Return {
            from: STAMP.from,
            parts: 4,
            namespace: Some("/chat".into()),
            message: Message::Flush { claim },
        };
        add(&|out| write_return(out, door, &step));
    }
    samples
}

/// Writes what was read.
fn again(post: &Post) -> Vec<u8> {
    let mut out = Vec::new();
    match post {
        Post::Order(order) => order.of().with(|to| match order {
            Order::Broadcast(broadcast, None) => {
                let event = broadcast.event();
                let ask = match broadcast.stamp {
                    Some(stamp) => Ask::Stamped(&event, stamp),
                    None => Ask::Event(&event),
                };
                write(&mut out, to, ask);
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
        Post::More { shard, more } => write_more(&mut out, *shard, more),
        Post::Return { door, step } => write_return(&mut out, *door, step),
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

/// A node before pages sends the number of the asker's shard back as it is, and answers in one piece.
#[test]
fn a_node_that_knows_no_pages_answers_the_shard_that_asked() {
    let pages = true;
    let mut letter = Vec::new();
    let to = Target::default();
    write(&mut letter, &to, Ask::Fetch(RoundId { pages, ..ROUND }));
    let Ok(Post::Order(Order::Fetch { round, .. })) = read(&letter, 9) else {
        panic!("a fetch")
    };
    assert_eq!((round.asker, round.pages), (ROUND.asker, true));
    let shard = ROUND.asker.shard | PAGES;
    let asker = Place { node: 9, shard };
    let mut answer = Vec::new();
    let found = Response::Sockets(Found::default());
    write_response(&mut answer, RoundId { asker, ..ROUND }, &found);
    let Ok(Post::Response { shard, round, .. }) = read(&answer, 9) else {
        panic!("an answer")
    };
    assert_eq!((shard, round), (ROUND.asker.shard, ROUND.number));
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
