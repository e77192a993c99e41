//! The record of a backend for the process that comes next: fields of later builds are skipped, and torn or altered records end in a refusal, or in a
//! backend that works.

use backend::{Backend, Event, Link, Name, Said, Settings, Up, proto};
use handoff::backend as record;
use prost::Message;
use std::collections::HashSet;

fn hello(instance: &str, received: u64) -> proto::Hello {
    proto::Hello {
        backend: "kitchen".to_owned(),
        instance: instance.to_owned(),
        received,
        resumes: received > 0,
        ..proto::Hello::default()
    }
}

fn connect(socket: &str) -> Up {
    Up::Connect {
        number: 1,
        connect: Box::new(proto::Connect {
            socket: socket.to_owned(),
            namespace: "/".to_owned(),
            ..proto::Connect::default()
        }),
    }
}

fn speak(backend: &mut Backend, socket: &str, ack: u64) {
    let name = Name::parse(socket).expect("a name");
    let said = Said {
        event: "n",
        args: "1",
        ack,
        ..Said::default()
    };
    backend.up(1_000, Up::Event(Event::new(name, &said)));
}

/// One socket is in and has events with its worker and behind the window, one waits for its decision, one has no worker.
fn busy() -> Backend {
    let mut backend = Backend::new(Settings {
        window_bytes: 1_000,
        ..Settings::default()
    });
    let [ann, ben] = ["a".repeat(20), "b".repeat(20)];
    backend
        .attach(1_000, Link(1), &hello("w", 0))
        .expect("welcome");
    backend.up(1_000, connect(&ann));
    while backend.poll(1_000, Link(1)).is_some() {}
    let admits = proto::FromWorker {
        handled: 1,
        first: 1,
        commands: vec![proto::Command {
            what: Some(proto::command::What::Decision(proto::Decision {
                socket: ann.clone(),
                admit: true,
                ..proto::Decision::default()
            })),
            ..proto::Command::default()
        }],
        ..proto::FromWorker::default()
    };
    backend.received(1_000, Link(1), admits).expect("in order");
    (1..=9).for_each(|ack| speak(&mut backend, &ann, ack));
    backend.up(1_000, connect(&ben));
    while backend.poll(1_000, Link(1)).is_some() {}
    let some = proto::FromWorker {
        handled: 2,
        begun: 4,
        beside: vec![4, 4],
        ..proto::FromWorker::default()
    };
    backend.received(1_000, Link(1), some).expect("in order");
    while backend.poll(1_000, Link(1)).is_some() {}
    backend.take_out();
    backend
}

fn heir(record: &[u8]) -> Result<Backend, String> {
    let mut heir = Backend::new(Settings::default());
    heir.arrive(5_000, record, &HashSet::new()).map(|()| heir)
}

/// It is used a little: whatever it holds, nothing panics.
fn try_out(mut backend: Backend) {
    let _ = backend.attach(5_001, Link(9), &hello("w", 3));
    while backend.poll(5_001, Link(9)).is_some() {}
    for now_ms in [5_100, 8_000, 70_000, 4_000_000] {
        backend.tick(now_ms);
        backend.take_out();
    }
}

#[test]
fn a_worker_goes_on_with_its_numbers() {
    let mut old = busy();
    let record = old.record(1_010);
    let mut new = heir(&record).expect("a good record");
    assert_eq!((new.sockets(), new.bytes()), (old.sockets(), old.bytes()));
    let welcome = new.attach(5_001, Link(1), &hello("w", 4)).expect("welcome");
    assert!(welcome.resumed);
    assert_eq!((welcome.commands, welcome.taken), (1, None));
    let same = old.record(1_020);
    assert_eq!(
        record::Backend::read(&same).map(|record| record.waits.len()),
        Some(9),
        "nothing changed by that"
    );
}

/// A worker that does not come back is lost, but not before it had time to dial.
#[test]
fn a_worker_that_does_not_come_is_given_up_later_than_one_that_was_cut_off() {
    let mut new = heir(&busy().record(1_000)).expect("a good record");
    new.attach(5_001, Link(2), &hello("other", 0))
        .expect("welcome");
    new.tick(5_000 + Settings::default().rehome_after_ms + 1);
    assert_eq!(new.counts().lost_away, 0);
    // A gateway that does not look for a second stood still, and forgives.
    (12..=15).for_each(|half| new.tick(half * 500));
    assert_eq!(new.counts().lost_away, 1);
}

#[test]
fn a_field_of_a_later_build_is_skipped() {
    let mut record = busy().record(1_000);
    let own = record::Backend::read(&record);
    // Field 500, three bytes.
    record.extend_from_slice(&[0xa2, 0x1f, 3, 1, 2, 3]);
    assert_eq!(record::Backend::read(&record), own);
    heir(&record).expect("it is read");
}

#[test]
fn torn_and_altered_records_are_looked_at_like_any_other() {
    let whole = busy().record(1_000);
    for end in 0..whole.len() {
        heir(&whole[..end]).into_iter().for_each(try_out);
    }
    for at in 0..whole.len() {
        for change in [1, 0x80, 0xff] {
            let mut altered = whole.clone();
            altered[at] ^= change;
            heir(&altered).into_iter().for_each(try_out);
        }
    }
}

#[test]
fn what_is_not_as_it_must_be_is_named() {
    let refused = |alter: fn(&mut record::Backend)| {
        let mut record = record::Backend::read(&busy().record(1_000)).expect("a record");
        alter(&mut record);
        heir(&record.write()).expect_err("it is unfit")
    };
    let twin = refused(|record| record.homes.push(record.homes[0].clone()));
    assert!(twin.starts_with("homes.socket: "), "{twin}");
    let nobody = refused(|record| record.homes[0].worker = Some(77));
    assert!(nobody.starts_with("homes.worker: "), "{nobody}");
    let number = refused(|record| record.workers[0].first = u64::MAX);
    assert!(number.starts_with("worker \"w\": "), "{number}");
    let phase = refused(|record| record.homes[0].phase = 9);
    assert!(phase.starts_with("homes.phase: "), "{phase}");
    let hired = refused(|record| record.hired = 0);
    assert!(hired.starts_with("workers.id: "), "{hired}");
    let answer = refused(|record| {
        let failed = proto::Item {
            what: Some(proto::item::What::Failed(proto::Failed::default())),
            ..proto::Item::default()
        };
        let item = record::Item {
            item: failed.encode_to_vec(),
            ..record::Item::default()
        };
        record.asked = 1;
        record.questions = vec![record::Question {
            number: 1,
            worker: record.workers[0].id,
            item: Some(item),
            ..record::Question::default()
        }];
    });
    assert!(answer.starts_with("questions.item: "), "{answer}");
    assert_eq!(heir(b"nonsense").err().as_deref(), Some("it is no record"));
}

fn fetches(query: u64, first: u64) -> proto::FromWorker {
    let fetch = proto::Fetch {
        query,
        of: Some(proto::Target::all_of("/")),
        timeout_ms: 1_000,
    };
    proto::FromWorker {
        first,
        commands: vec![proto::Command {
            what: Some(proto::command::What::Fetch(fetch)),
            ..proto::Command::default()
        }],
        ..proto::FromWorker::default()
    }
}

/// The list had the sockets of the shards that had answered, and was said to be whole. One without any answer was answered with answers of
/// clients.
#[test]
fn a_list_that_one_shard_still_owed_was_whole_after_an_upgrade() {
    let mut old = Backend::new(Settings {
        shards: 2,
        ..Settings::default()
    });
    old.attach(1_000, Link(1), &hello("w", 0)).expect("welcome");
    for number in [1, 2] {
        let asks = fetches(6 + number, number);
        old.received(1_000, Link(1), asks).expect("in order");
    }
    let ann = proto::Member {
        socket: "a".repeat(20),
        ..proto::Member::default()
    };
    let half = proto::Found {
        query: 1,
        sockets: vec![ann],
        incomplete: false,
    };
    old.up(1_000, Up::Found(half));
    let mut new = heir(&old.record(1_000)).expect("a good record");
    let again = proto::Hello {
        resumes: true,
        ..hello("w", 0)
    };
    new.attach(5_001, Link(1), &again).expect("welcome");
    let sent = std::iter::from_fn(|| new.poll(5_001, Link(1)));
    let messages = sent.map(|message| proto::ToWorker::decode(message).expect("a message"));
    let items = messages.flat_map(|message| message.items);
    let found = items.map(|item| match item.what {
        Some(proto::item::What::Found(found)) => {
            (found.query, found.sockets.len(), found.incomplete)
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(found.collect::<Vec<_>>(), [(7, 1, true), (8, 0, true)]);
}
