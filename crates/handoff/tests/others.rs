//! Version 1 of the other records, as bytes: connections without a session, backends, a node's place in its cluster, what rooms said, marks of
//! commands. As with sessions, a build reads what every earlier one wrote, and a line is never changed.

use handoff::bounds::STATES_OF_PAGE;
use handoff::{
    Called, Caller, Counter, Heart, Keepsakes, Ledger, Lifeline, Limiters, Marks, Onset, Polling,
    Rest, Session, Share, Socket, Visitor, backend, cluster, history, keepsakes,
};
use prost::Message;
use std::fmt::Write;

const GOLDEN: &str = include_str!("golden/others_v1.txt");

fn text(number: u32) -> String {
    format!("text {number}")
}

fn visitor() -> Visitor {
    Visitor {
        peer: vec![1, 255],
        unix: true,
        input: vec![2, 255],
        served: true,
        preface: true,
        proxy: vec![3, 255],
    }
}

fn backend() -> backend::Backend {
    backend::Backend {
        workers: vec![backend::Worker {
            id: 4,
            instance: text(5),
            weight: 6000000,
            away: true,
            announces: true,
            openings: Some(true),
            overdue: 7,
            leaving: true,
            parting: vec![text(8)],
            first: 9000000,
            begun_told: 10,
            sent: vec![backend::Item {
                item: vec![11, 255],
                about: text(12),
                age_ms: 13,
                met: 14,
                alone: 15000000,
                number: 16,
                life: 0,
            }],
            begun: vec![backend::Item {
                item: vec![17, 255],
                about: text(18),
                age_ms: 19,
                met: 20,
                alone: 21000000,
                number: 22,
                life: 0,
            }],
            waiting: vec![backend::Item {
                item: vec![23, 255],
                about: text(24),
                age_ms: 25,
                met: 26,
                alone: 27000000,
                number: 28,
                life: 0,
            }],
            sole: 29,
            taken: 30000000,
            in_doubt: true,
            before: Some(31),
        }],
        homes: vec![backend::Home {
            socket: text(32),
            introduction: vec![33, 255],
            phase: 34,
            admitted: true,
            worker: Some(35),
            closing: true,
            bond: 36000000,
            age_ms: 37,
            sequence: 38,
            held: vec![backend::Item {
                item: vec![39, 255],
                about: text(40),
                age_ms: 41,
                met: 42000000,
                alone: 43,
                number: 44,
                life: 0,
            }],
            owed: vec![backend::Item {
                item: vec![45, 255],
                about: text(46),
                age_ms: 47,
                met: 48000000,
                alone: 49,
                number: 50,
                life: 0,
            }],
            attempts: 51000000,
            pause_ms: 52,
            life: 0,
        }],
        waits: vec![backend::Wait {
            socket: text(53),
            ack: 54000000,
            age_ms: 55,
        }],
        decisions: vec![backend::Due {
            socket: text(56),
            left_ms: 57000000,
        }],
        past: vec![backend::Past {
            instance: text(58),
            commands: 59,
        }],
        nodes_gone: vec![backend::NodeGone {
            node: 60000000,
            life: 61,
        }],
        hired: 62,
        asked: 63000000,
        questions: vec![backend::Question {
            number: 64,
            worker: 65,
            query: 66000000,
            item: Some(backend::Item {
                item: vec![67, 255],
                about: text(68),
                age_ms: 69000000,
                met: 70,
                alone: 71,
                number: 72000000,
                life: 0,
            }),
        }],
        failures: 73,
        rests_ms: 74,
        later: Vec::new(),
        lives: 0,
    }
}

/// Of a client that came back, and waits for its own end.
fn lives() -> backend::Backend {
    backend::Backend {
        homes: vec![backend::Home {
            held: vec![backend::Item {
                life: 1,
                ..backend::Item::default()
            }],
            life: 2,
            ..backend::Home::default()
        }],
        later: vec![backend::Home {
            socket: text(3),
            life: 4000000,
            ..backend::Home::default()
        }],
        lives: 5,
        ..backend::Backend::default()
    }
}

fn stays() -> backend::Stays {
    backend::Stays {
        sockets: vec![backend::Stay {
            socket: text(75),
            rooms: vec![text(76)],
        }],
    }
}

fn membership() -> cluster::Membership {
    cluster::Membership {
        node: 77,
        epoch: 78000000,
        life: 79,
        started_s: 80,
        relay: text(81),
    }
}

fn place() -> cluster::Place {
    cluster::Place {
        now_us: 82,
        beats: 83,
        changes_at: 84000000,
        sent: Some(cluster::Sent {
            flood: Some(cluster::Lane {
                id: 85,
                node: 86,
                epoch: 87000000,
                base: 88,
                closed: 89,
                open: vec![90, 255],
                open_count: 91,
                opened_us: 92,
                kept: vec![cluster::Kept {
                    first: 93000000,
                    last: 94,
                    sent_us: 95,
                    frame: vec![96, 255],
                }],
                rest: 97,
                rests_us: 98,
            }),
            lanes: vec![cluster::Lane {
                id: 99000000,
                node: 100,
                epoch: 101,
                base: 102000000,
                closed: 103,
                open: vec![104, 255],
                open_count: 105000000,
                opened_us: 106,
                kept: vec![cluster::Kept {
                    first: 107,
                    last: 108000000,
                    sent_us: 109,
                    frame: vec![110, 255],
                }],
                rest: 111000000,
                rests_us: 112,
            }],
            last_lane: 113,
            resting: vec![114000000],
            queue: vec![cluster::Queued {
                node: Some(115),
                frame: vec![116, 255],
            }],
        }),
        peers: vec![cluster::Peer {
            node: 117000000,
            epoch: 118,
            up: true,
            leaving: true,
            beat: 119,
            past: vec![120000000],
            silent_us: 121,
            confirmed: 122,
            lane: Some(123000000),
            inbox: Some(cluster::Track {
                got: 124,
                top: 125,
                held: vec![cluster::Held {
                    first: 126000000,
                    other_before: 127,
                    letters: vec![vec![128], Vec::new()],
                }],
            }),
            flood: Some(cluster::Track {
                got: 129000000,
                top: 130,
                held: vec![cluster::Held {
                    first: 131,
                    other_before: 132000000,
                    letters: vec![vec![133], Vec::new()],
                }],
            }),
            expected_us: 134,
        }],
        announced: vec![135000000],
        expected: vec![cluster::Expected {
            node: 136,
            key: 137,
            until_us: 138000000,
        }],
    }
}

fn streams() -> cluster::Streams {
    cluster::Streams {
        streams: vec![cluster::Stream {
            namespace: text(139),
            number: 140,
            generation: text(141),
        }],
    }
}

fn events() -> history::Events {
    history::Events {
        events: vec![history::Event {
            at: 142,
            namespace: text(143),
            room: text(144),
            name: text(145),
            args: text(146),
            user: Some(text(147)),
            time_ms: 148,
        }],
    }
}

fn marks() -> Marks {
    Marks {
        source: text(149),
        page: 150000000,
        age_ms: 151,
        marks: vec![152],
    }
}

fn onset() -> Onset {
    Onset {
        clock_ms: 153000000,
        seed: vec![154, 155],
    }
}

fn limiters() -> Limiters {
    Limiters {
        terms: 156,
        page: 57,
        states_us: vec![158000000, 0],
    }
}

fn share() -> Share {
    Share {
        kind: 159,
        holder: 160,
        share: 161,
        state_us: 162000000,
    }
}

fn rest() -> Rest {
    Rest {
        kind: 169,
        share: 170,
    }
}

fn counter() -> Counter {
    Counter {
        name: "name_163_total".into(),
        label: text(164),
        value: 165.5,
        bounds: vec![0.5, 166.0],
        counts: vec![167, 0, 168000000],
    }
}

fn called() -> Called {
    Called {
        caller: text(203),
        namespace: text(204),
        key: text(205),
        digest: vec![206; 32],
        age_ms: 207,
        answer: text(208),
    }
}

fn caller() -> Caller {
    Caller {
        name: text(209),
        used: 210,
        left_ms: 211,
    }
}

fn member(kind: u32, number: u32) -> keepsakes::Member {
    keepsakes::Member {
        kind,
        name: text(number),
    }
}

fn entry(age_ms: u64) -> keepsakes::Entry {
    keepsakes::Entry {
        age_ms,
        stamp: Some(keepsakes::Stamp {
            node: 153,
            shard: 154,
            number: 155000000,
            life: 203,
        }),
        namespace: text(156),
        headings: vec![member(1, 157), member(2, 158)],
        ..keepsakes::Entry::default()
    }
}

fn entries() -> Vec<keepsakes::Entry> {
    vec![
        keepsakes::Entry {
            said: Some(keepsakes::Event {
                name: text(159),
                args: text(160),
                attachments: vec![vec![161, 255]],
                room: Some(text(162)),
                except: vec![text(163)],
                kept: true,
            }),
            ..entry(164)
        },
        keepsakes::Entry {
            told: Some(text(165)),
            ..entry(166)
        },
        keepsakes::Entry {
            changed: Some(keepsakes::Change {
                joined: true,
                member: Some(member(1, 167)),
            }),
            ..entry(168)
        },
    ]
}

fn returns() -> keepsakes::Return {
    keepsakes::Return {
        pid: "A".repeat(28),
        uid: Some(text(169)),
        life: Some(keepsakes::Life {
            begun: 170,
            first: true,
            confirmed: 171000000,
            formers: vec![keepsakes::Former {
                journal: 172,
                places: vec![173, 174],
            }],
        }),
        recovered: true,
        gap: true,
    }
}

fn socket(pid: &str) -> Socket {
    Socket {
        id: vec![2; 15],
        namespace: "/".into(),
        returns: Some(keepsakes::Return {
            pid: pid.into(),
            ..returns()
        }),
        ..Socket::default()
    }
}

fn keepsakes() -> Keepsakes {
    let stamp = |node| keepsakes::Stamp {
        node,
        shard: 175,
        number: 176,
        life: 204,
    };
    Keepsakes {
        log: Some(keepsakes::Log {
            name: 177,
            last: 178,
            floor: 17,
        }),
        rooms: vec![keepsakes::Room {
            namespace: text(180),
            name: text(181),
            floor: 182,
            events: vec![keepsakes::Kept {
                place: 183,
                text: text(184),
            }],
        }],
        first: 185,
        entries: entries(),
        journal: Some(keepsakes::Journal {
            name: 186,
            head: 187000000,
            floor: 188,
            gap: 189,
            seen: vec![stamp(190)],
            given: vec![stamp(191), stamp(192)],
            last: 193,
            claims: 194,
            apart: vec![keepsakes::Apart {
                namespace: text(195),
                age_ms: 196,
            }],
            life: 205,
        }),
        parked: vec![keepsakes::Parked {
            socket: vec![197; 15],
            namespace: text(198),
            by: Some(returns()),
            members: vec![member(1, 199), member(2, 200)],
            data: Some(text(201)),
            left_ms: 202,
        }],
    }
}

/// A field, and how it becomes wrong.
type Wrong = (&'static str, fn(&mut Keepsakes));

/// The bytes are as they were, and are read to the same record.
fn keeps<M: Message + Default + PartialEq>(name: &str, record: &M) -> String {
    let bytes = record.encode_to_vec();
    let mut line = format!("{name} ");
    bytes
        .iter()
        .for_each(|byte| write!(line, "{byte:02x}").expect("memory"));
    let read = M::decode(&*bytes).expect("readable");
    assert!(read == *record, "{name}");
    line
}

#[test]
fn records_of_version_one_are_read_and_written_as_they_were() {
    let lines = [
        keeps("Visitor", &visitor()),
        keeps("Backend", &backend()),
        keeps("Stays", &stays()),
        keeps("Membership", &membership()),
        keeps("Place", &place()),
        keeps("Streams", &streams()),
        keeps("Events", &events()),
        keeps("Marks", &marks()),
        keeps("Onset", &onset()),
        keeps("Limiters", &limiters()),
        keeps("Share", &share()),
        keeps("Counter", &counter()),
        keeps("Rest", &rest()),
        keeps("Keepsakes", &keepsakes()),
        keeps("Return", &returns()),
        keeps("Socket", &socket("A")),
        keeps("Called", &called()),
        keeps("Caller", &caller()),
        keeps("Lives", &lives()),
    ];
    for (line, golden) in lines.iter().zip(GOLDEN.lines()) {
        assert_eq!(line, golden, "the record changed within its version");
    }
    assert_eq!(lines.len(), GOLDEN.lines().count());
}

/// A peer that says the same twice, or says more than there can be.
#[test]
fn what_was_counted_comes_once() {
    let mut ledger = Ledger::default();
    let page = Limiters {
        states_us: vec![1; STATES_OF_PAGE],
        ..limiters()
    };
    assert_eq!(ledger.admit_limiters(&page), Ok(()));
    let again = ledger.admit_limiters(&page).expect_err("it is there");
    assert_eq!(again.field, "limiters.page = 57");
    assert_eq!(ledger.admit_share(&share()), Ok(()));
    assert!(ledger.admit_share(&share()).is_err());
    assert_eq!(ledger.admit_rest(&rest()), Ok(()));
    assert!(ledger.admit_rest(&rest()).is_err());
    assert_eq!(ledger.admit_counter(&counter()), Ok(()));
    assert!(ledger.admit_counter(&counter()).is_err());
    let mut admitted = 1;
    for n in 0..20_000 {
        let other = Counter {
            label: format!("{n}"),
            ..counter()
        };
        admitted += usize::from(ledger.admit_counter(&other).is_ok());
    }
    assert_eq!(admitted, handoff::bounds::COUNTERS_MAX);
}

#[test]
fn what_was_called_for_comes_once() {
    let mut ledger = Ledger::default();
    assert_eq!(ledger.admit_call(&called()), Ok(()));
    let again = ledger.admit_call(&called()).expect_err("it is there");
    assert_eq!(again.field, "calls.key");
    assert_eq!(ledger.admit_caller(&caller()), Ok(()));
    assert!(ledger.admit_caller(&caller()).is_err());
    let wrong: [(&str, fn(&mut Called)); 5] = [
        ("calls.caller", |call| call.caller = "x".repeat(65_537)),
        ("calls.key", |call| call.key.clear()),
        ("calls.digest", |call| call.digest.truncate(31)),
        ("calls.age_ms", |call| call.age_ms = u64::MAX),
        ("calls.answer", |call| call.answer.clear()),
    ];
    for (field, alter) in wrong {
        let mut call = Called {
            key: text(1),
            ..called()
        };
        alter(&mut call);
        let unfit = ledger.admit_call(&call).expect_err(field);
        assert!(unfit.field.starts_with(field), "{unfit}");
    }
    let endless = Caller {
        name: text(1),
        left_ms: u64::MAX,
        ..caller()
    };
    assert!(ledger.admit_caller(&endless).is_err());
}

/// Each beginning and each changed byte is refused or is a record: nothing panics.
#[test]
fn torn_and_altered_bytes_are_refused_or_read() {
    let whole = place().encode_to_vec();
    for at in 0..whole.len() {
        let _ = cluster::Place::read(&whole[..at]);
        let mut altered = whole.clone();
        altered[at] ^= 0x80;
        let _ = cluster::Place::read(&altered);
    }
    let whole = keepsakes().encode_to_vec();
    for at in 0..whole.len() {
        let look = |bytes: &[u8]| {
            if let Some(read) = Keepsakes::read(bytes) {
                let _ = Ledger::default().admit_keepsakes(&read);
            }
        };
        look(&whole[..at]);
        let mut altered = whole.clone();
        altered[at] ^= 0x80;
        look(&altered);
    }
    let whole = backend().encode_to_vec();
    for at in 0..whole.len() {
        let _ = backend::Backend::read(&whole[..at]);
        let mut altered = whole.clone();
        altered[at] ^= 0x80;
        let _ = backend::Backend::read(&altered);
    }
}

#[test]
fn what_a_shard_keeps_is_looked_at() {
    assert_eq!(Ledger::default().admit_keepsakes(&keepsakes()), Ok(()));
    let refused = |alter: fn(&mut Keepsakes)| {
        let mut keepsakes = keepsakes();
        alter(&mut keepsakes);
        let unfit = Ledger::default().admit_keepsakes(&keepsakes);
        unfit.expect_err("it is unfit").field
    };
    let alterations: [Wrong; 14] = [
        ("log.floor", |all| {
            all.log.iter_mut().for_each(|log| log.floor = 179);
        }),
        ("rooms.name", |all| all.rooms[0].name.clear()),
        ("rooms.events", |all| {
            all.rooms[0].events = vec![keepsakes::Kept::default(); 1_025];
        }),
        ("rooms.events.place", |all| {
            let again = all.rooms[0].events[0].clone();
            all.rooms[0].events.push(again);
        }),
        ("first = 0", |all| all.first = 0),
        ("entries", |all| all.entries[0].headings.clear()),
        ("entries", |all| {
            all.entries[0].told = Some("and something else".into());
        }),
        ("entries.headings.kind = 4", |all| {
            all.entries[0].headings[0].kind = 4;
        }),
        ("entries.stamp", |all| {
            let stamp = &mut all.entries[1].stamp;
            stamp.iter_mut().for_each(|stamp| stamp.node = 65_536);
        }),
        ("journal.head", |all| {
            let journal = all.journal.as_mut();
            journal.expect("a journal").gap = 187_000_001;
        }),
        ("pid", |all| {
            let by = all.parked[0].by.as_mut();
            by.expect("a way back").pid.clear();
        }),
        ("life.formers.places", |all| {
            let by = all.parked[0].by.as_mut().expect("a way back");
            let life = by.life.as_mut().expect("a life");
            life.formers[0].places = vec![2, 1];
        }),
        ("parked.members", |all| {
            let again = all.parked[0].members[0].clone();
            all.parked[0].members.push(again);
        }),
        ("parked.socket", |all| {
            let again = all.parked[0].clone();
            all.parked.push(again);
        }),
    ];
    for (field, alter) in alterations {
        assert_eq!(refused(alter), field);
    }
}

/// A client has one socket and one way back to it, whichever record has it.
#[test]
fn nobody_is_here_and_away() {
    let session = |pid: &str| Session {
        sid: vec![1; 15],
        protocol: 1,
        revision: 4,
        peer: vec![127, 0, 0, 1],
        heart: Some(Heart::default()),
        polling: Some(Polling::default()),
        sockets: vec![socket(pid)],
        ..Session::default()
    };
    let mut ledger = Ledger::default();
    ledger.admit_keepsakes(&keepsakes()).expect("it fits");
    let twin = ledger.admit(&session(&"A".repeat(28)));
    assert_eq!(twin.expect_err("it is away").field, "sockets.returns.pid");
    assert_eq!(ledger.admit(&session(&"B".repeat(28))), Ok(()));
    let mut again = keepsakes();
    again.parked[0].socket = vec![2; 15];
    let unfit = ledger.admit_keepsakes(&again).expect_err("it is here");
    assert_eq!(unfit.field, "parked.socket");
    let both = Session {
        sockets: vec![Socket {
            lifeline: Some(Lifeline::default()),
            ..session(&"C".repeat(28)).sockets[0].clone()
        }],
        ..session("")
    };
    let unfit = Ledger::default().admit(&both).expect_err("two ways");
    assert_eq!(unfit.field, "sockets.returns");
}
