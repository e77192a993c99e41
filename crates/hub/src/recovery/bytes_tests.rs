//! What one node writes another reads, and nothing else.

use super::*;
use crate::dialect::speech::Emit;
use crate::tables::id::{Identity, Ids};

fn record() -> Record {
    let me = Identity {
        node: 1023,
        shard: 255,
        shards: 256,
    };
    let mut ids = Ids::new(me, Box::new(|bytes| bytes.fill(0xa5)));
    let members = [
        (Kind::Everyone, ""),
        (Kind::Room, "grüße"),
        (Kind::User, "ann"),
    ];
    let members = members.map(|(kind, name)| Membership::new(kind, name));
    let formers = vec![(7, vec![1, 3]), (OFFSET_LIMIT - 1, vec![])];
    Record {
        pid: Pid::draw(&mut ids),
        socket: ids.socket(1_800_000_000_000),
        namespace: "/chat".into(),
        members: members.into_iter().collect(),
        uid: Some("ann".into()),
        data: Some("{\"a\":1}".into()),
        life: Life::from_parts(5, 9, formers).expect("a life"),
    }
}

fn messages() -> Vec<Message> {
    let record = record();
    let pid = record.pid;
    let place = Place {
        node: 1023,
        shard: 255,
    };
    let claim = Claim {
        by: place,
        number: 1 << 40,
    };
    let stamp = |node, life, number| Stamp {
        from: Place { node, shard: 3 },
        life: ShardLife(life),
        number,
    };
    let seen = [
        stamp(1, 9, 1 << 62),
        stamp(1, 2, 5),
        stamp(2, (1 << 56) - 1, 7),
    ];
    let seen: Vector = seen.into_iter().collect();
    let attachments = vec![vec![1, 2], vec![]];
    let event = Emit {
        attachments: &attachments,
        ..Emit::new("ev", "1,\"té\"")
    };
    let missed = vec![(6, Arc::new(Said::new(&event)))];
    let position = Position { log: 3, offset: 4 };
    vec![
        Message::Claim {
            pid,
            claim,
            shown: Some(position),
            uid: Some("ann".into()),
            nodes: Some([1, 2, 1023].into()),
        },
        Message::Refused {
            claim,
            why: NotRecovered::TooMuch,
        },
        Message::Offer {
            claim,
            round: 2,
            record: Box::new(record.clone()),
        },
        Message::Fence {
            pid,
            claim,
            round: 1,
            owner: place,
            last: Vector::default(),
        },
        Message::Fenced {
            pid,
            claim,
            round: 1,
            last: seen.clone(),
        },
        Message::Handed {
            claim,
            handover: Box::new(Handover {
                record,
                missed,
                log: 8,
                seen,
            }),
        },
        Message::Flush { claim },
        Message::Flushed { claim },
        Message::Confirmed { pid, claim },
        Message::Released { pid, claim },
    ]
}

fn written(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, message);
    out
}

fn whole(body: &[u8]) -> Option<Message> {
    let mut reader = Reader(body);
    let message = read(&mut reader)?;
    reader.is_empty().then_some(message)
}

#[test]
fn what_one_node_writes_another_reads() {
    for message in messages() {
        let read = whole(&written(&message)).expect("a message");
        assert_eq!(format!("{read:?}"), format!("{message:?}"));
        assert_eq!(written(&read), written(&message), "its secret, too");
    }
}

#[test]
fn what_is_cut_off_is_no_message_and_what_is_damaged_ends_nothing() {
    let mut dice = fastrand::Rng::with_seed(5);
    for message in messages() {
        let bytes = written(&message);
        for len in 0..bytes.len() {
            assert!(whole(&bytes[..len]).is_none(), "{len} of {message:?}");
        }
        for _ in 0..2_000 {
            let mut bytes = bytes.clone();
            let at = dice.usize(0..bytes.len());
            bytes[at] = dice.u8(..);
            drop(whole(&bytes));
        }
    }
}

/// A length or a place that lies.
#[test]
fn numbers_of_a_stranger_are_within_bounds() {
    let claim = [FLUSH, 1, 1, 1];
    assert!(whole(&claim).is_some());
    assert!(Life::from_parts(OFFSET_LIMIT, 0, Vec::new()).is_none());
    let many = (0..9).map(|log| (log, vec![1])).collect();
    assert!(Life::from_parts(0, 0, many).is_none());
    assert!(
        Life::from_parts(0, 0, vec![(1, vec![3, 2])]).is_none(),
        "no order"
    );
}
