//! Workers and clients that say wrong things, and what they are told.

use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, Command, FromWorker, Hello, ToWorker};
use backend::{Backend, Denied, Down, Event, Link, Name, Said, Settings, Stray, Up};
use prost::Message;

mod answers;

const LINK: Link = Link(1);

fn attached() -> Backend {
    let mut backend = Backend::new(Settings::default());
    let hello = Hello {
        instance: "a".to_owned(),
        version: 1,
        ..Hello::default()
    };
    backend.attach(1, LINK, &hello).expect("welcome");
    backend
}

fn says(first: u64, commands: Vec<Option<Order>>) -> FromWorker {
    let commands = commands.into_iter().map(|what| Command {
        what,
        ..proto::Command::default()
    });
    FromWorker {
        first,
        commands: commands.collect(),
        ..FromWorker::default()
    }
}

fn event(socket: &str, event: &str, ack: u64) -> Up {
    let said = Said {
        event,
        ack,
        ..Said::default()
    };
    let socket = Name::parse(socket).expect("a name");
    Up::Event(Event::new(socket, &said))
}

fn emit(event: &str) -> Box<proto::Emit> {
    Box::new(proto::Emit {
        to: Some(proto::Target::all_of("/")),
        event: event.to_owned(),
        ..proto::Emit::default()
    })
}

fn poll(backend: &mut Backend, link: Link) -> Option<ToWorker> {
    let message = backend.poll(1, link)?;
    Some(ToWorker::decode(message).expect("a message"))
}

fn items(backend: &mut Backend) -> Vec<What> {
    let sent = std::iter::from_fn(|| poll(backend, LINK));
    let items = sent.flat_map(|message| message.items);
    items.filter_map(|item| item.what).collect()
}

fn failures(backend: &mut Backend) -> Vec<(u64, String)> {
    let failed = items(backend).into_iter().map(|item| match item {
        What::Failed(failed) => (failed.command, failed.message),
        other => panic!("{other:?}"),
    });
    failed.collect()
}

/// A client comes; the command that lets it in.
fn comes(backend: &mut Backend, name: &str) -> Order {
    let connect = proto::Connect {
        socket: name.to_owned(),
        namespace: "/".to_owned(),
        ..proto::Connect::default()
    };
    let up = Up::Connect {
        number: 1,
        connect: connect.into(),
    };
    backend.up(1, up);
    Order::Decision(proto::Decision {
        socket: name.to_owned(),
        admit: true,
        ..proto::Decision::default()
    })
}

/// The first of them was taken for one that the gateway had already.
#[test]
fn commands_without_a_number_were_dropped_in_silence() {
    let mut backend = attached();
    let said = backend.received(1, LINK, says(0, vec![Some(Order::Emit(emit("a")))]));
    assert_eq!(said, Err(Stray::Number));
}

/// Nothing came of it: no welcome, and no word of the fault.
#[test]
fn a_second_introduction_on_one_link_was_ignored() {
    let mut backend = attached();
    let again = FromWorker {
        hello: Some(Hello {
            instance: "b".to_owned(),
            ..Hello::default()
        }),
        ..says(1, vec![Some(Order::Emit(emit("a")))])
    };
    let said = backend.received(1, LINK, again);
    assert_eq!(said, Err(Stray::Hello));
    assert!(
        backend.take_out().is_empty(),
        "and nothing else of it counts"
    );
}

#[test]
fn a_command_with_the_highest_number_ended_the_driver() {
    let mut backend = attached();
    let both = vec![Some(Order::Emit(emit("a"))), Some(Order::Emit(emit("b")))];
    let said = backend.received(1, LINK, says(u64::MAX, both));
    assert_eq!(said, Err(Stray::Gap));
    assert!(backend.take_out().is_empty());
}

#[test]
fn a_command_of_an_unknown_kind_was_dropped_in_silence() {
    let mut backend = attached();
    let both = vec![None, Some(Order::Emit(emit("a")))];
    backend.received(1, LINK, says(1, both)).expect("in order");
    let failed = failures(&mut backend);
    assert_eq!(failed[0].0, 1);
    assert!(failed[0].1.contains("does not know"), "{failed:?}");
    assert_eq!(failed.len(), 1);
    assert_eq!(backend.take_out().len(), 1, "the other one is carried out");
}

#[test]
fn a_room_whose_transports_were_to_be_dropped_was_passed_over_in_silence() {
    let mut backend = attached();
    let end = proto::Disconnect {
        of: Some(proto::Target::room("/", "kitchen")),
        drop: true,
        ..proto::Disconnect::default()
    };
    let said = says(1, vec![Some(Order::Disconnect(end))]);
    backend.received(1, LINK, said).expect("in order");
    let failed = failures(&mut backend);
    assert!(failed[0].1.contains("one socket"), "{failed:?}");
    assert!(backend.take_out().is_empty());
}

/// The shard that it names may have it, for another backend.
#[test]
fn a_worker_changed_the_data_of_another_backends_socket() {
    let mut backend = attached();
    let set = proto::SetData {
        socket: "00000000000000000000".to_owned(),
        data: "{}".to_owned(),
    };
    let said = says(1, vec![Some(Order::SetData(set))]);
    backend.received(1, LINK, said).expect("in order");
    assert!(backend.take_out().is_empty());
    assert!(failures(&mut backend).is_empty(), "it may just have left");
}

#[test]
fn an_event_that_no_client_may_get_was_dropped_in_silence() {
    let mut backend = attached();
    let said = says(1, vec![Some(Order::Emit(emit("disconnect")))]);
    backend.received(1, LINK, said).expect("in order");
    let failed = failures(&mut backend);
    assert!(failed[0].1.contains("`disconnect`"), "{failed:?}");
}

/// A message of 16 MiB has room for millions of empty commands.
#[test]
fn news_of_failed_commands_were_kept_without_bound() {
    let mut backend = attached();
    let said = backend.received(1, LINK, says(1, vec![None; 100_000]));
    assert_eq!(said, Err(Stray::Failures));
    assert_eq!(backend.bytes(), 0, "nothing is kept of it");
    assert_eq!(backend.workers(), 0);
}

/// Of each worker it was bounded, and of all it was not.
#[test]
fn news_of_failed_commands_of_many_workers_were_kept_without_bound() {
    const QUEUE: usize = 4 << 20;
    let mut backend = Backend::new(Settings {
        queue_bytes_max: QUEUE,
        ..Settings::default()
    });
    for n in 1..=100 {
        let hello = Hello {
            instance: n.to_string(),
            ..Hello::default()
        };
        backend.attach(1, Link(n), &hello).expect("welcome");
        // The last ones are sent away.
        let _ = backend.received(1, Link(n), says(1, vec![None; 16_000]));
    }
    assert!(backend.bytes() < 2 * QUEUE, "{}", backend.bytes());
}

#[test]
fn failed_commands_that_are_handled_count_no_more() {
    let mut backend = attached();
    for round in 0..6 {
        let first = 1 + round * 4_000;
        let said = backend.received(1, LINK, says(first, vec![None; 4_000]));
        said.expect("in order");
        let got = items(&mut backend).len() as u64;
        let handled = FromWorker {
            handled: first - 1 + got,
            ..FromWorker::default()
        };
        assert_eq!(got, 4_000);
        backend.received(1, LINK, handled).expect("in order");
    }
}

/// Sockets that were let in, and that the worker knows.
fn crowd(backend: &mut Backend, names: &[String]) {
    let admit = |name: &String| Some(comes(backend, name));
    let decisions = names.iter().map(admit).collect();
    let handled = items(backend).len() as u64;
    let all = FromWorker {
        handled,
        ..says(1, decisions)
    };
    backend.received(1, LINK, all).expect("in order");
    backend.take_out();
}

/// The shards describe all sockets that are to move.
fn describe(backend: &mut Backend) -> u64 {
    let mut described = 0;
    for out in backend.take_out() {
        let Down::Describe { socket } = out.down else {
            continue;
        };
        backend.up(
            1,
            Up::Described {
                socket,
                rooms: Vec::new(),
                data: "{}".to_owned(),
            },
        );
        described += 1;
    }
    described
}

/// None of its sockets was served until all of them had moved, which takes a worker seconds where they are many.
#[test]
fn clients_of_a_worker_that_left_waited_for_each_other() {
    let mut backend = attached();
    let names: Vec<String> = (0..1_000).map(|number| format!("{number:020}")).collect();
    crowd(&mut backend, &names);
    let heir = Hello {
        instance: "b".to_owned(),
        ..Hello::default()
    };
    backend.attach(1, Link(2), &heir).expect("welcome");
    let handled = |handled, leaving| FromWorker {
        handled,
        leaving,
        ..FromWorker::default()
    };
    let leaves = backend.received(1, LINK, handled(1_000, true));
    leaves.expect("in order");
    let told = items(&mut backend).len() as u64;
    assert!((1..200).contains(&told), "{told}");
    backend.up(1, event(&names[999], "still", 0));
    assert_eq!(items(&mut backend).len(), 1, "its worker still serves it");
    // As fast as the heir takes them.
    let (mut had, mut moved) = (1_000 + told + 1, 0);
    while moved < 1_000 {
        let parts = backend.received(1, LINK, handled(had, true));
        parts.expect("in order");
        let more = describe(&mut backend);
        assert!(more > 0, "{moved} have moved");
        moved += more;
        while backend.poll(1, Link(2)).is_some() {}
        let takes = backend.received(1, Link(2), handled(moved, false));
        takes.expect("in order");
        had += items(&mut backend).len() as u64;
    }
    assert_eq!(backend.take_farewells(), [LINK]);
}

/// It had asked the clients on behalf of an event, and was to answer that event with what they say.
#[test]
fn a_worker_that_leaves_never_got_the_answers_that_it_waited_for() {
    let mut backend = attached();
    let name = "0".repeat(20);
    let admit = comes(&mut backend, &name);
    backend
        .received(1, LINK, says(1, vec![Some(admit)]))
        .expect("in order");
    let event = |ack| event(&name, "survey", ack);
    backend.up(1, event(1));
    assert_eq!(items(&mut backend).len(), 2);
    let ask = Order::Ask(Box::new(proto::Ask {
        query: 7,
        emit: Some(*emit("question")),
        timeout_ms: 1_000,
    }));
    let leaves = FromWorker {
        handled: 2,
        leaving: true,
        ..says(2, vec![Some(ask)])
    };
    backend.take_out();
    backend.received(1, LINK, leaves).expect("in order");
    let asked = backend
        .take_out()
        .into_iter()
        .find_map(|out| match out.down {
            Down::Do(Order::Ask(ask)) => Some(ask.query),
            _ => None,
        });
    backend.up(2, event(2));
    backend.up(
        2,
        Up::Answers(proto::Answers {
            query: asked.expect("asked"),
            ..proto::Answers::default()
        }),
    );
    let got = items(&mut backend);
    assert!(
        matches!(got.as_slice(), [What::Answers(answers)] if answers.query == 7),
        "the answers, and no new event: {got:?}"
    );
    let answer = Order::Ack(proto::Ack {
        socket: name.clone(),
        ack: 1,
        ..proto::Ack::default()
    });
    let ends = FromWorker {
        handled: 3,
        ..says(3, vec![Some(answer)])
    };
    backend.received(3, LINK, ends).expect("in order");
    let got = items(&mut backend);
    assert!(matches!(got.as_slice(), [What::Part(_)]), "{got:?}");
    let parts = FromWorker {
        handled: 4,
        ..FromWorker::default()
    };
    backend.received(3, LINK, parts).expect("in order");
    assert_eq!(backend.take_farewells(), [LINK]);
}

/// The payload of a CONNECT was kept for as long as the client stayed, up to the size of a message, and counted nowhere.
#[test]
fn large_connects_were_kept_without_bound() {
    let mut backend = attached();
    let bytes_max = 64 << 10;
    let connect = |auth: usize| Up::Connect {
        number: 1,
        connect: Box::new(proto::Connect {
            socket: "0".repeat(20),
            namespace: "/".to_owned(),
            auth: vec![b'1'; auth].into(),
            ..proto::Connect::default()
        }),
    };
    backend.up(1, connect(bytes_max + 1));
    assert_eq!(backend.sockets(), 0);
    let told = backend.take_out().pop().map(|out| out.down);
    let Some(Down::Decide {
        decision: Err(refusal),
        ..
    }) = told
    else {
        panic!("{told:?}");
    };
    assert_eq!(refusal.message, "payload too large");
    assert_eq!(refusal.data.as_deref(), Some(r#"{"max_bytes":65536}"#));
    backend.up(1, connect(bytes_max));
    assert_eq!(backend.sockets(), 1);
}

/// The process was stopped, or did not come to read: it took all its workers for silent.
#[test]
fn a_gateway_that_stood_still_gave_up_its_workers() {
    let mut backend = attached();
    (0..100).for_each(|step| backend.tick(1 + step * 20));
    backend.tick(60_000);
    assert_eq!(backend.workers(), 1);
    // It had said nothing for two seconds before.
    (3_000..3_400).for_each(|step| backend.tick(step * 20));
    assert_eq!(backend.workers(), 1);
    backend.tick(68_040);
    assert_eq!(backend.workers(), 0, "it is silent now");
}

/// It was refused until the gateway had given up the run before it, although it said that it had got nothing.
#[test]
fn a_worker_that_restarted_under_its_name_was_refused() {
    let mut backend = attached();
    backend
        .received(1, LINK, says(1, vec![None]))
        .expect("in order");
    assert_eq!(items(&mut backend).len(), 1);
    let handled = FromWorker {
        handled: 1,
        ..FromWorker::default()
    };
    backend.received(1, LINK, handled).expect("in order");
    let hello = |received| Hello {
        instance: "a".to_owned(),
        received,
        ..Hello::default()
    };
    let strange = backend.attach(2, Link(2), &hello(7));
    assert_eq!(strange.err(), Some(Denied::Received));
    let welcome = backend.attach(2, Link(2), &hello(0)).expect("welcome");
    assert_eq!((welcome.resumed, welcome.commands), (false, 0));
    assert_eq!(backend.take_ended(), [(LINK, Stray::Replaced)]);
    assert_eq!(backend.workers(), 1);
}

/// It was welcomed as if it went on, under the numbers of the run before it: what it said first was taken for said already.
#[test]
fn a_worker_that_restarted_before_it_had_handled_anything_was_taken_for_the_one_before() {
    let mut backend = attached();
    backend
        .received(1, LINK, says(1, vec![None]))
        .expect("in order");
    let hello = |resumes| Hello {
        instance: "a".to_owned(),
        resumes,
        ..Hello::default()
    };
    // The link was cut before it got anything.
    let welcome = backend.attach(2, Link(2), &hello(true)).expect("welcome");
    assert_eq!((welcome.resumed, welcome.commands), (true, 1));
    let welcome = backend.attach(3, Link(3), &hello(false)).expect("welcome");
    assert_eq!((welcome.resumed, welcome.commands), (false, 0));
    assert_eq!(backend.workers(), 1);
}

fn join(backend: &mut Backend, link: Link, instance: &str) {
    let hello = Hello {
        instance: instance.to_owned(),
        ..Hello::default()
    };
    backend.attach(1, link, &hello).expect("welcome");
}

/// It went to the next worker, and the next, and ended them all.
#[test]
fn an_event_that_ends_workers_was_given_to_all_of_them() {
    let mut backend = attached();
    let name = "0".repeat(20);
    let admit = comes(&mut backend, &name);
    items(&mut backend);
    let decided = FromWorker {
        handled: 1,
        ..says(1, vec![Some(admit)])
    };
    backend.received(1, LINK, decided).expect("in order");
    backend.up(1, event(&name, "deadly", 9));
    for round in 0..4_u64 {
        let link = Link(round + 1);
        let has = |item: &What| matches!(item, What::Event(event) if event.ack == 9);
        let mut messages: Vec<ToWorker> = std::iter::from_fn(|| poll(&mut backend, link)).collect();
        if round > 1 {
            // It comes alone, when the socket is there.
            let resumed = FromWorker {
                handled: 1,
                ..FromWorker::default()
            };
            backend.received(1, link, resumed).expect("in order");
            messages = std::iter::from_fn(|| poll(&mut backend, link)).collect();
            assert!(messages.iter().all(|message| message.items[0].alone));
        }
        let got: Vec<What> = messages
            .into_iter()
            .flat_map(|message| message.items)
            .filter_map(|item| item.what)
            .collect();
        assert!(got.iter().any(has), "round {round}: {got:?}");
        // The worker ends, and does not come back.
        backend.detached(1, link);
        backend.take_out();
        let now_ms = 1_000 * (round + 1);
        backend.tick(now_ms);
        join(&mut backend, Link(round + 2), &format!("next {round}"));
        if round == 3 {
            break;
        }
        let socket = backend::Name::parse(&name).expect("a name");
        backend.up(
            now_ms,
            Up::Described {
                socket,
                rooms: Vec::new(),
                data: "{}".to_owned(),
            },
        );
    }
    let refused = backend.take_out().into_iter().any(|out| {
        matches!(
            out.down,
            Down::Refuse {
                ack: 9,
                why: backend::Why::Deadly,
                ..
            }
        )
    });
    assert!(refused, "its client is told");
    assert_eq!(backend.counts().refused_deadly, 1);
}

#[test]
fn a_worker_spoke_to_namespaces_of_others() {
    let mut backend = Backend::new(Settings {
        scope: backend::Scope::Only(vec!["/orders".to_owned()]),
        ..Settings::default()
    });
    join(&mut backend, LINK, "a");
    let said = says(1, vec![Some(Order::Emit(emit("news")))]);
    backend.received(1, LINK, said).expect("in order");
    let failed = failures(&mut backend);
    assert!(failed[0].1.contains("not of this backend"), "{failed:?}");
    assert!(backend.take_out().is_empty());
}

/// A worker that had been given up could not know which of its last commands were carried out: it said them twice, or not at all.
#[test]
fn a_worker_that_was_given_up_did_not_know_what_it_had_said() {
    let mut backend = attached();
    let both = vec![Some(Order::Emit(emit("a"))), Some(Order::Emit(emit("b")))];
    backend.received(1, LINK, says(1, both)).expect("taken");
    backend.detached(1, LINK);
    let settings = Settings::default();
    for now_ms in (1..2 * settings.rehome_after_ms).step_by(20) {
        backend.tick(now_ms);
    }
    let attach = |backend: &mut Backend, link, instance: &str| {
        let hello = Hello {
            instance: instance.to_owned(),
            resumes: true,
            ..Hello::default()
        };
        backend.attach(2_000, Link(link), &hello).expect("welcome")
    };
    let other = attach(&mut backend, 2, "b");
    assert_eq!(other.taken, None, "another worker");
    let welcome = attach(&mut backend, 3, "a");
    assert_eq!((welcome.resumed, welcome.commands), (false, 0));
    assert_eq!(welcome.taken, Some(2));
    assert_eq!(welcome.kept_ms, settings.rehome_after_ms);
    backend
        .received(2_000, Link(3), FromWorker::default())
        .expect("alive");
    let welcome = attach(&mut backend, 4, "a");
    assert_eq!((welcome.resumed, welcome.taken), (true, None), "it knows");
}

/// It went on from the numbers of the life before: it was refused for ever, or never got the items that had these numbers.
#[test]
fn a_worker_whose_welcome_was_lost_after_it_was_given_up_went_on_from_old_numbers() {
    for received in [0, 2, 5, 9] {
        let mut backend = attached();
        let fails = |first, count| says(first, vec![None; count]);
        backend.received(1, LINK, fails(1, 9)).expect("taken");
        assert_eq!(items(&mut backend).len(), 9);
        backend.detached(1, LINK);
        backend.tick(60_000);
        assert_eq!(backend.counts().lost_away, 1);
        for node in 0..5 {
            backend.up(60_000, Up::NodeGone(proto::NodeGone { node, life: 1 }));
        }
        let hello = Hello {
            instance: "a".to_owned(),
            resumes: true,
            received,
            ..Hello::default()
        };
        // The third time, it was given up once more in between.
        for number in 2..5 {
            let link = Link(number);
            let now_ms = 60_000 * number;
            if number == 4 {
                backend.detached(now_ms - 50_000, Link(3));
                backend.tick(now_ms);
            }
            let welcome = backend.attach(now_ms, link, &hello).expect("welcome");
            let told = (welcome.resumed, welcome.commands, welcome.taken);
            assert_eq!(told, (false, 0, Some(9)), "{received}, link {number}");
            let sent = poll(&mut backend, link).expect("items");
            assert_eq!((sent.first, sent.items.len()), (1, 5), "{received}");
        }
        // This time it reads the welcome, and what it says fits.
        let said = FromWorker {
            handled: 5,
            ..fails(1, 1)
        };
        backend.received(240_001, Link(4), said).expect("in order");
        let hello = Hello {
            received: 5,
            ..hello
        };
        let welcome = backend.attach(240_002, Link(5), &hello).expect("welcome");
        assert_eq!((welcome.resumed, welcome.commands), (true, 1));
    }
}
