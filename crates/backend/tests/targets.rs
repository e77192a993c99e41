//! For whom the commands of workers are.

use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, Command, FromWorker, Hello, Target, ToWorker};
use backend::{Backend, Link, Settings};
use prost::Message;

const LINK: Link = Link(1);

/// A worker that says so much of itself (`Hello.version`).
fn attached(version: u32) -> Backend {
    let mut backend = Backend::new(Settings::default());
    let hello = Hello {
        instance: "a".to_owned(),
        version,
        ..Hello::default()
    };
    let welcome = backend.attach(1, LINK, &hello).expect("welcome");
    assert_eq!(welcome.version, 1);
    backend
}

/// One command of each kind that has a target.
fn about(first: u64, of: &Target) -> FromWorker {
    let of = Some(of.clone());
    let emit = proto::Emit {
        to: of.clone(),
        event: "a".to_owned(),
        ..proto::Emit::default()
    };
    let change = proto::Membership {
        of: of.clone(),
        rooms: vec!["kitchen".to_owned()],
    };
    let ask = proto::Ask {
        query: first,
        emit: Some(emit.clone()),
        timeout_ms: 1,
    };
    let fetch = proto::Fetch {
        query: first + 1,
        of: of.clone(),
        timeout_ms: 1,
    };
    let end = proto::Disconnect {
        of,
        ..proto::Disconnect::default()
    };
    let all = [
        Order::Emit(emit.into()),
        Order::Join(change.clone()),
        Order::Leave(change),
        Order::Disconnect(end),
        Order::Ask(ask.into()),
        Order::Fetch(fetch),
    ];
    let commands = all.map(|what| Command {
        what: Some(what),
        ..Command::default()
    });
    FromWorker {
        first,
        commands: commands.to_vec(),
        ..FromWorker::default()
    }
}

fn failures(backend: &mut Backend) -> Vec<String> {
    let sent = std::iter::from_fn(|| backend.poll(1, LINK));
    let sent = sent.flat_map(|bytes| ToWorker::decode(bytes).expect("a message").items);
    let failed = sent.filter_map(|item| match item.what? {
        What::Failed(failed) => Some(failed.message),
        other => panic!("{other:?}"),
    });
    failed.collect()
}

/// The list of rooms had come out empty, and everybody was put out.
#[test]
fn a_target_that_names_nobody_was_everybody() {
    let mut of = Target {
        except: vec!["kitchen".to_owned()],
        ..Target::all_of("/")
    };
    of.all = false;
    let mut backend = attached(1);
    assert_eq!(backend.received(1, LINK, about(1, &of)), Ok(()));
    let failed = failures(&mut backend);
    assert_eq!(failed.len(), 6);
    for why in failed {
        assert!(why.starts_with("all: nobody is meant"), "{why}");
    }
    assert!(backend.take_out().is_empty());
    of.all = true;
    assert_eq!(backend.received(1, LINK, about(7, &of)), Ok(()));
    assert_eq!(failures(&mut backend), [""; 0]);
    assert_eq!(backend.take_out().len(), 6);
}

/// A worker of before `Hello.version` cannot say `all`. It goes on as it did.
#[test]
fn an_older_worker_means_everybody_by_a_target_that_names_nobody() {
    let mut backend = attached(0);
    let everybody = Target {
        namespace: "/".to_owned(),
        ..Target::default()
    };
    for (first, of) in [(1, everybody), (7, Target::room("/", "kitchen"))] {
        assert_eq!(backend.received(1, LINK, about(first, &of)), Ok(()));
        assert_eq!(failures(&mut backend), [""; 0]);
        assert_eq!(backend.take_out().len(), 6);
    }
}
