//! What shards keep of sockets that are away, and of what was said.

use super::*;

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

pub(super) fn returns() -> keepsakes::Return {
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

pub(super) fn socket(pid: &str) -> Socket {
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

pub(super) fn keepsakes() -> Keepsakes {
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
            open: Vec::new(),
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

fn open(number: u64) -> keepsakes::Open {
    keepsakes::Open {
        pid: "A".repeat(28),
        number,
        namespace: "/".to_owned(),
        nodes: vec![1, 65_535],
    }
}

/// A field, and how it becomes wrong.
type Wrong = (&'static str, fn(&mut Keepsakes));

/// The bytes are as they were, and are read to the same record.
#[test]
fn what_a_shard_keeps_is_looked_at() {
    assert_eq!(Ledger::default().admit_keepsakes(&keepsakes()), Ok(()));
    let refused = |alter: fn(&mut Keepsakes)| {
        let mut keepsakes = keepsakes();
        alter(&mut keepsakes);
        let unfit = Ledger::default().admit_keepsakes(&keepsakes);
        unfit.expect_err("it is unfit").field
    };
    let alterations: [Wrong; 17] = [
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
        ("journal.open", |all| {
            all.journal.as_mut().expect("a journal").open = vec![open(194); 1_025];
        }),
        ("journal.open.number", |all| {
            all.journal.as_mut().expect("a journal").open = vec![open(195)];
        }),
        ("journal.open.nodes", |all| {
            let mut wrong = open(1);
            wrong.nodes.push(65_536);
            all.journal.as_mut().expect("a journal").open = vec![open(2), wrong];
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

/// The giver asks before it writes them down.
#[test]
fn what_no_record_may_have_is_known_before() {
    let long = "x".repeat(65_537);
    assert!(keepsakes::Room::may_be("/", "r"));
    for (namespace, name) in [("/", &*long), (&*long, "r"), ("/", "")] {
        assert!(!keepsakes::Room::may_be(namespace, name));
    }
    assert!(open(1).is_taken(1));
    assert!(!open(2).is_taken(1), "it was not made");
    let mut far = open(1);
    far.namespace = long;
    assert!(!far.is_taken(1));
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
