//! Answers that somebody waits for.

use super::*;
use backend::Frame;

/// A worker asks the others, here and on other nodes; the answer of other nodes, where nobody is.
fn asks(backend: &mut Backend) -> Up {
    let tell = Order::Tell(Box::new(proto::Tell {
        query: 5,
        namespace: "/".to_owned(),
        event: "ping".to_owned(),
        timeout_ms: 300,
        ..proto::Tell::default()
    }));
    backend
        .received(1, LINK, says(1, vec![Some(tell)]))
        .expect("in order");
    let out = backend.take_out().into_iter();
    let mut queries = out.filter_map(|out| match out.down {
        Down::Do(Order::Tell(tell)) => Some(tell.query),
        _ => None,
    });
    Up::Answers(proto::Answers {
        query: queries.next().expect("other nodes are asked"),
        ..proto::Answers::default()
    })
}

/// One answers, one is lost, one says nothing: the asker hears what there is, in time.
#[test]
fn workers_that_are_asked_answer_or_are_missing() {
    let mut backend = attached();
    for (link, instance) in [(2, "b"), (3, "c"), (4, "d")] {
        join(&mut backend, Link(link), instance);
    }
    let away = asks(&mut backend);
    let told = |backend: &mut Backend, link| {
        let sent = std::iter::from_fn(|| poll(backend, Link(link)));
        let items = sent.flat_map(|message| message.items);
        items
            .filter_map(|item| match item.what {
                Some(What::Told(told)) => Some(told.told),
                _ => None,
            })
            .next()
    };
    let number = told(&mut backend, 2).expect("it is asked");
    assert_eq!(told(&mut backend, 3), Some(number));
    assert_eq!(told(&mut backend, 1), None, "who asks is not asked");
    let reply = Order::Reply(proto::Reply {
        told: number,
        args: "1".into(),
        ..proto::Reply::default()
    });
    backend
        .received(1, Link(2), says(1, vec![Some(reply)]))
        .expect("in order");
    backend.up(1, away);
    assert!(items(&mut backend).is_empty(), "two still owe an answer");
    backend.tick(301);
    let got = items(&mut backend);
    let [What::Answers(answers)] = got.as_slice() else {
        panic!("{got:?}");
    };
    assert_eq!(
        (answers.query, answers.answers.len(), answers.missing),
        (5, 1, 2)
    );
}

/// The worker heard of it, and its client waited until the time for an answer was up.
#[test]
fn an_answer_that_is_refused_ends_the_wait_of_its_client() {
    let name = "0".repeat(20);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let answer = |args: &str| {
        Some(Order::Ack(proto::Ack {
            socket: name.clone(),
            ack: 9,
            args: args.to_owned().into(),
            ..proto::Ack::default()
        }))
    };
    let said = says(2, vec![answer(&deep), answer("1")]);
    let as_bytes = Frame::decode(said.encode_to_vec().into()).expect("a frame");
    for frame in [Frame::from(said), as_bytes] {
        let mut backend = attached();
        let admit = comes(&mut backend, &name);
        backend
            .received(1, LINK, says(1, vec![Some(admit)]))
            .expect("in order");
        backend.up(1, event(&name, "sum", 9));
        items(&mut backend);
        backend.take_out();
        backend.received(2, LINK, frame).expect("in order");
        let failed = failures(&mut backend);
        assert!(failed[0].1.contains("ack.args"), "{failed:?}");
        assert_eq!((failed.len(), failed[0].0), (1, 2), "{failed:?}");
        let out = backend.take_out();
        let told: Vec<&Down> = out.iter().map(|out| &out.down).collect();
        let refused = matches!(
            told.as_slice(),
            [Down::Refuse {
                ack: 9,
                why: backend::Why::Failed,
                ..
            }]
        );
        assert!(refused, "{told:?}");
        assert_eq!(backend.counts().late, 1, "nobody waits for the second one");
    }
}

/// Nothing was made of it, so nobody knew whose answer it was.
#[test]
fn an_answer_with_too_many_attachments_ends_the_wait_of_its_client() {
    let name = "0".repeat(20);
    let answer = |socket: &str| {
        Some(Order::Ack(proto::Ack {
            socket: socket.to_owned(),
            ack: 9,
            args: "1".into(),
            attachments: vec![Default::default(); 1_001],
        }))
    };
    let mut backend = attached();
    let admit = comes(&mut backend, &name);
    backend
        .received(1, LINK, says(1, vec![Some(admit)]))
        .expect("in order");
    backend.up(1, event(&name, "sum", 9));
    items(&mut backend);
    backend.take_out();
    let said = says(2, vec![answer("nobody"), answer(&name), answer(&name)]);
    let frame = Frame::decode(said.encode_to_vec().into()).expect("a frame");
    backend.received(2, LINK, frame).expect("in order");
    let failed = failures(&mut backend);
    let numbers: Vec<u64> = failed.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [2, 3, 4], "{failed:?}");
    let crowded = |(_, why): &(u64, String)| why.contains("more than 1000 members");
    assert!(failed.iter().all(crowded), "{failed:?}");
    let out = backend.take_out();
    let told: Vec<&Down> = out.iter().map(|out| &out.down).collect();
    let refused = matches!(
        told.as_slice(),
        [Down::Refuse {
            ack: 9,
            why: backend::Why::Failed,
            ..
        }]
    );
    assert!(refused, "{told:?}");
}

/// So it was between servers, too.
#[test]
fn a_reply_that_is_refused_is_waited_for_no_longer() {
    for (args, attachments) in [("]", 0), ("1", 1_001)] {
        let mut backend = attached();
        join(&mut backend, Link(2), "b");
        let away = asks(&mut backend);
        let sent = poll(&mut backend, Link(2)).expect("it is asked");
        let Some(What::Told(told)) = &sent.items[0].what else {
            panic!("{sent:?}");
        };
        let reply = Order::Reply(proto::Reply {
            told: told.told,
            args: args.to_owned().into(),
            attachments: vec![Default::default(); attachments],
        });
        let said = says(1, vec![Some(reply)]).encode_to_vec();
        let frame = Frame::decode(said.into()).expect("a frame");
        backend.received(1, Link(2), frame).expect("in order");
        backend.up(1, away);
        let got = items(&mut backend);
        assert!(
            matches!(got.as_slice(), [What::Answers(answers)] if (answers.query, answers.missing) == (5, 1)),
            "{args} {attachments}: {got:?}"
        );
    }
}

/// A newcomer waited until the time for a decision was up.
#[test]
fn a_decision_that_is_refused_ends_the_wait_of_its_newcomer() {
    let name = "0".repeat(20);
    let mut backend = attached();
    comes(&mut backend, &name);
    backend.take_out();
    let refuse = || {
        Some(Order::Decision(proto::Decision {
            socket: name.clone(),
            data: "{".to_owned(),
            ..proto::Decision::default()
        }))
    };
    let said = says(1, vec![refuse(), refuse()]);
    backend.received(1, LINK, said).expect("in order");
    let failed = failures(&mut backend);
    assert!(failed[0].1.contains("decision.data"), "{failed:?}");
    let out = backend.take_out();
    let decided = out.iter().filter_map(|out| match &out.down {
        Down::Decide { decision, .. } => Some(decision.is_err()),
        _ => None,
    });
    assert_eq!(decided.collect::<Vec<_>>(), [true]);
}
