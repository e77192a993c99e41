//! Version 1 of the record, as bytes: what a build writes today, every later build reads. A file is never changed: when the record gets a
//! field, today's bytes are a file more of earlier builds, named by the decision that ended it.

use handoff::{
    Asked, Attached, Claims, Conn, Dues, Grants, Heart, Ledger, Lifeline, OLDEST, Owed, Polling,
    Post, Probe, Reached, Reading, Round, Session, Socket, Spent, Unit, VERSION,
};
use prost::Message;

const GOLDEN: &str = include_str!("golden/session_v1.hex");
/// Bytes, and what they are.
type Other = (&'static str, fn() -> Session);
/// A field, and how it becomes wrong.
type Wrong = (&'static str, fn(&mut Session));

/// Of what a record has in the place of a connection that carries everything.
const OTHERS: [Other; 2] = [
    (include_str!("golden/stream_v1.hex"), stream),
    (include_str!("golden/rising_v1.hex"), rising),
];

/// Takes out what an earlier build had not.
type Without = fn(&mut Session);

/// What earlier builds wrote.
const EARLIER: [(&str, Without); 3] = [
    (include_str!("golden/session_v1_63.hex"), |session| {
        for socket in &mut session.sockets {
            (socket.numbers, socket.lifeline) = (Vec::new(), None);
        }
        session.dues = None;
    }),
    (include_str!("golden/session_v1_68.hex"), |session| {
        let sockets = session.sockets.iter_mut();
        let lifelines = sockets.filter_map(|socket| socket.lifeline.as_mut());
        lifelines.for_each(|lifeline| lifeline.gap = false);
        session.dues = None;
    }),
    (include_str!("golden/session_v1_83.hex"), |session| {
        session.dues = None;
    }),
];

fn socket(grants: Grants) -> Socket {
    Socket {
        id: vec![9; 15],
        namespace: "/chat".into(),
        rooms: vec!["lobby".into(), "news".into()],
        nameless: true,
        user: Some("ann".into()),
        data: Some("{\"a\":1}".into()),
        auth: Some("{}".into()),
        grants: Some(grants),
        label: Some("gold".into()),
        expires_s: 2_000_000_000,
        owed: 3,
        acks: vec![Owed { number: 7, id: 1 }],
        asked: vec![Asked {
            id: 5,
            query: 3,
            left_ms: 9,
        }],
        rounds: vec![Round {
            id: 6,
            node: 2,
            shard: 1,
            number: 8,
            timeout_ms: 500,
        }],
        numbers: vec![4, 0],
        lifeline: Some(Lifeline {
            pid: "p".into(),
            uid: Some("ann".into()),
            fence: 2,
            deed: vec![1],
            gap: true,
        }),
        returns: None,
    }
}

fn session() -> Session {
    let grants = Grants {
        join: vec!["*".into()],
        publish: vec!["news".into()],
    };
    Session {
        sid: vec![7; 15],
        protocol: 1,
        revision: 4,
        peer: vec![127, 0, 0, 1],
        base64: true,
        asks_offsets: true,
        heard_packet: true,
        msgpack: true,
        joined: true,
        heart: Some(Heart {
            silent_ms: 1_234,
            awaiting_pong: true,
            heard: true,
            extended: true,
            step: 3,
        }),
        sockets: vec![socket(grants.clone())],
        partial: Some(Attached {
            text: "51-[\"e\"]".into(),
            wanted: 2,
            attachments: vec![vec![1, 2]],
            waited_ms: 50,
        }),
        query: "EIO=4".into(),
        headers: b"host: a\r\n".to_vec(),
        parted: vec![u64::MAX],
        refusals: 2,
        token: Some("t".into()),
        claims: Some(Claims {
            uid: "ann".into(),
            expires_s: Some(2_000_000_000),
            rooms: vec!["lobby".into()],
            grants: Some(grants),
            label: Some("gold".into()),
            kinds: Some("sub: text".into()),
        }),
        conn: Some(Conn {
            unix: true,
            input: vec![0x81],
            output: vec![Unit {
                bytes: vec![1, 2, 3],
                fate: 2,
                ..Unit::default()
            }],
            sent: 2,
            deflate: 1,
            inflates: true,
        }),
        polling: None,
        agent: "curl/8".into(),
        claim_kinds: "sub: text".into(),
        reading: None,
        dues: Some(Dues {
            state_us: 90_000_000,
            rejections: 2,
            unbooked: 3,
            granted: 4,
            rates: vec![Spent {
                number: 5,
                state_us: 91_000_000,
            }],
        }),
    }
}

/// An event stream: it has no socket here, for those are above.
fn stream() -> Session {
    let reached = |room: &str, offset, told| Reached {
        room: room.into(),
        offset,
        told,
    };
    Session {
        protocol: 6,
        base64: false,
        sockets: Vec::new(),
        partial: None,
        claims: None,
        reading: Some(Reading {
            log: 0xfeed_0123_4567_89ab,
            rooms: vec![
                reached("lobby", Some(7), 2),
                reached("news", None, 1),
                reached("", None, 0),
            ],
            returns: true,
        }),
        dues: None,
        ..session()
    }
}

/// A session that polls, with a POST that is half there, on its way up.
fn rising() -> Session {
    let carried = session().conn;
    let way = |input: &[u8]| {
        let carried = carried.clone();
        carried.map(|carried| Conn {
            input: input.to_vec(),
            ..carried
        })
    };
    let unit = Unit {
        bytes: b"2".to_vec(),
        packets: 1,
        exempt: true,
        ..Unit::default()
    };
    Session {
        sockets: Vec::new(),
        claims: None,
        conn: None,
        polling: Some(Polling {
            queue: vec![unit],
            last: 7,
            probe: Some(Probe {
                conn: way(&[0x81]),
                peer: vec![127, 0, 0, 2],
                waited_ms: 1_500,
                base64: true,
                answered: true,
            }),
            post: Some(Post {
                conn: way(b"42[\"ha"),
                peer: vec![127, 0, 0, 3],
                left: 12,
                form: true,
                counted: true,
                cors: b"vary: origin\r\n".to_vec(),
                keep_alive: true,
            }),
        }),
        dues: None,
        ..session()
    }
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(32).map(|line| {
        let digits = line.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<String>() + "\n"
    });
    lines.collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|pair| {
        let text = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(text, 16).expect("digits")
    });
    pairs.collect()
}

#[test]
fn version_one_is_read_and_written_as_it_was() {
    assert_eq!((OLDEST, VERSION), (1, 1));
    let written = session().encode_to_vec();
    assert_eq!(
        hex(&written),
        GOLDEN,
        "the record changed within its version"
    );
    let read = Session::decode(&*bytes(GOLDEN)).expect("readable");
    assert_eq!(read, session());
    assert_eq!(Ledger::default().admit(&read), Ok(()));
}

#[test]
fn event_streams_and_those_on_their_way_up_are_read_and_written_as_they_were() {
    for (golden, made) in OTHERS {
        assert_eq!(hex(&made().encode_to_vec()), golden);
        let read = Session::decode(&*bytes(golden)).expect("readable");
        assert_eq!(read, made());
        assert_eq!(Ledger::default().admit(&read), Ok(()));
    }
    assert_eq!([stream(), rising()].map(|one| one.conns().count()), [1, 2]);
}

#[test]
fn what_earlier_builds_wrote_is_read() {
    for (golden, take_away) in EARLIER {
        let read = Session::decode(&*bytes(golden)).expect("readable");
        let mut expected = session();
        take_away(&mut expected);
        assert_eq!(read, expected);
        assert_eq!(Ledger::default().admit(&read), Ok(()));
    }
}

#[test]
fn a_field_of_a_later_build_is_skipped() {
    let mut bytes = bytes(GOLDEN);
    // Field 500, three bytes.
    bytes.extend_from_slice(&[0xa2, 0x1f, 3, 1, 2, 3]);
    assert_eq!(Session::decode(&*bytes).expect("readable"), session());
}

/// Each beginning of the record and each changed byte is refused, or is a record that can be looked at: nothing panics.
#[test]
fn torn_and_altered_records_are_looked_at_like_any_other() {
    for whole in [GOLDEN, OTHERS[0].0, OTHERS[1].0].map(bytes) {
        for end in 0..whole.len() {
            if let Ok(session) = Session::decode(&whole[..end]) {
                let _ = Ledger::default().admit(&session);
            }
        }
        for at in 0..whole.len() {
            for change in [1, 0x80, 0xff] {
                let mut altered = whole.clone();
                altered[at] ^= change;
                if let Ok(session) = Session::decode(&*altered) {
                    let _ = Ledger::default().admit(&session);
                }
            }
        }
    }
}

#[test]
fn what_is_not_as_it_must_be_is_named() {
    let refused = |alter: fn(&mut Session)| {
        let mut session = session();
        alter(&mut session);
        let unfit = Ledger::default().admit(&session).expect_err("it is unfit");
        unfit.to_string()
    };
    assert!(refused(|session| session.sid.truncate(3)).starts_with("sid: "));
    assert!(refused(|session| session.protocol = 99).starts_with("protocol = 99: "));
    assert!(refused(|session| session.revision = 0).starts_with("revision = 0: "));
    assert!(refused(|session| session.peer.clear()).starts_with("peer: "));
    assert!(refused(|session| session.heart = None).starts_with("heart: "));
    assert!(refused(|session| session.conn = None).starts_with("conn: "));
    let twin = refused(|session| {
        let mut twin = session.sockets[0].clone();
        twin.namespace = "/other".into();
        session.sockets.push(twin);
    });
    assert!(twin.starts_with("sockets.id: "), "{twin}");
    let sent = refused(|session| {
        session.conn.iter_mut().for_each(|conn| conn.sent = 3);
    });
    assert!(sent.starts_with("conn.sent = 3: "), "{sent}");
    let twice = refused(|session| {
        let rates = session.dues.iter_mut().map(|dues| &mut dues.rates);
        rates.for_each(|rates| rates.push(rates[0]));
    });
    assert!(twice.starts_with("dues.rates: "), "{twice}");
    let late = refused(|session| {
        session
            .dues
            .iter_mut()
            .for_each(|dues| dues.state_us = u64::MAX);
    });
    assert!(late.starts_with("dues.state_us = "), "{late}");
    let many = refused(|session| {
        session.dues.iter_mut().for_each(|dues| dues.granted = 256);
    });
    assert!(many.starts_with("dues: "), "{many}");
}

#[test]
fn what_is_wrong_with_streams_and_ways_up_is_named() {
    let refused = |mut session: Session, alter: fn(&mut Session)| {
        alter(&mut session);
        let unfit = Ledger::default().admit(&session).expect_err("it is unfit");
        unfit.field
    };
    let streams: [Wrong; 6] = [
        ("reading", |stream| stream.reading = None),
        ("reading", |stream| stream.protocol = 1),
        ("reading.rooms.told = 3", |stream| {
            let rooms = stream.reading.iter_mut().flat_map(|one| &mut one.rooms);
            rooms.for_each(|reached| reached.told = 3);
        }),
        ("reading.rooms", |stream| {
            let rooms = stream.reading.iter_mut().flat_map(|one| &mut one.rooms);
            rooms.for_each(|reached| reached.room = "a".into());
        }),
        ("reading.rooms", |stream| {
            let rooms = stream.reading.iter_mut().flat_map(|one| &mut one.rooms);
            rooms.for_each(|reached| reached.room = "a".repeat(65_537));
        }),
        ("polling of protocol 6", |stream| {
            stream.conn = None;
            stream.polling = Some(Polling::default());
        }),
    ];
    for (field, alter) in streams {
        assert_eq!(refused(stream(), alter), field);
    }
    fn probe(session: &mut Session) -> &mut Probe {
        let polling = session.polling.as_mut().expect("it polls");
        polling.probe.as_mut().expect("it rises")
    }
    fn post(session: &mut Session) -> &mut Post {
        let polling = session.polling.as_mut().expect("it polls");
        polling.post.as_mut().expect("it posts")
    }
    let rises: [Wrong; 7] = [
        ("probe.conn", |session| probe(session).conn = None),
        ("probe.peer", |session| probe(session).peer.clear()),
        ("probe.conn.sent = 9", |session| {
            let conn = probe(session).conn.iter_mut();
            conn.for_each(|conn| conn.sent = 9);
        }),
        ("post.conn", |session| post(session).conn = None),
        ("post.peer", |session| post(session).peer.clear()),
        ("post.left = 4294967295", |session| {
            post(session).left = u32::MAX;
        }),
        ("post.conn.deflate = 7", |session| {
            let conn = post(session).conn.iter_mut();
            conn.for_each(|conn| conn.deflate = 7);
        }),
    ];
    for (field, alter) in rises {
        assert_eq!(refused(rising(), alter), field);
    }
}

#[test]
fn nobody_comes_twice() {
    let mut ledger = Ledger::default();
    assert_eq!(ledger.admit(&session()), Ok(()));
    let again = ledger.admit(&session()).expect_err("it is there");
    assert_eq!(again.field, "sid");
    let mut other = session();
    other.sid = vec![8; 15];
    assert_eq!(
        ledger.admit(&other).expect_err("its socket").field,
        "sockets.id"
    );
    other.sockets[0].id = vec![10; 15];
    assert_eq!(ledger.admit(&other), Ok(()));
    assert_eq!(ledger.len(), 2);
}

/// It has a connection or polls, and not both.
#[test]
fn a_session_that_polls_has_no_connection() {
    let unit = Unit {
        bytes: b"2".to_vec(),
        packets: 1,
        ..Unit::default()
    };
    let mut session = session();
    session.polling = Some(Polling {
        queue: vec![unit],
        last: 7,
        ..Polling::default()
    });
    let both = Ledger::default().admit(&session).expect_err("both");
    assert_eq!(both.field, "conn");
    session.conn = None;
    assert_eq!(Ledger::default().admit(&session), Ok(()));
}
