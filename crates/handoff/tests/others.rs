//! Version 1 of the other records, as bytes: connections without a session, backends, a node's place in its cluster, what rooms said, marks of
//! commands. As with sessions, a build reads what every earlier one wrote, and a line is never changed.

use handoff::bounds::STATES_OF_PAGE;
use handoff::{
    Called, Caller, Counter, Heart, Keepsakes, Ledger, Lifeline, Limiters, Marks, Onset, Polling,
    Rest, Session, Share, Socket, Visitor, backend, cluster, history, keepsakes,
};
use kept::{keepsakes, returns, socket};
use prost::Message;
use std::fmt::Write;

#[path = "others/kept.rs"]
mod kept;

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
            number: 0,
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

/// Of a client about which a worker decides.
fn undecided() -> backend::Backend {
    backend::Backend {
        homes: vec![backend::Home {
            number: 6000000,
            ..backend::Home::default()
        }],
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
        keeps("Undecided", &undecided()),
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
    type Alter = fn(&mut Called);
    let mut ledger = Ledger::default();
    assert_eq!(ledger.admit_call(&called()), Ok(()));
    let again = ledger.admit_call(&called()).expect_err("it is there");
    assert_eq!(again.field, "calls.key");
    assert_eq!(ledger.admit_caller(&caller()), Ok(()));
    assert!(ledger.admit_caller(&caller()).is_err());
    // A call has room for such a name, and its key ended every handoff.
    let far = Called {
        namespace: "x".repeat(1 << 20),
        ..called()
    };
    assert_eq!(ledger.admit_call(&far), Ok(()));
    let wrong: [(&str, Alter); 6] = [
        ("calls.caller", |call| call.caller = "x".repeat(65_537)),
        ("calls.namespace", |call| {
            call.namespace = "x".repeat((1 << 20) + 1);
        }),
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
