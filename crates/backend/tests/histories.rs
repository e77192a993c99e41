//! Seeded histories: clients come, speak, wait for answers and go; workers handle, stand still, lose their links, die and leave.
//! `SIM_SEED=17 cargo test -p backend` repeats one.

mod play;

use backend::proto::item::What;
use backend::{Backend, Link, Settings, Up, proto};
use play::{Play, Trouble};
use prost::Message;

fn poll(backend: &mut Backend, now_ms: u64, link: Link) -> Option<proto::ToWorker> {
    let message = backend.poll(now_ms, link)?;
    Some(proto::ToWorker::decode(message).expect("a message"))
}

fn seeds(trouble: Trouble) {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().expect("a number"))
    };
    let many = number("SIM_SEEDS").unwrap_or(60);
    let seeds = number("SIM_SEED").map_or(0..many, |seed| seed..seed + 1);
    for seed in seeds {
        let mut play = Play::new(seed, trouble);
        play.run();
        play.check();
    }
}

#[test]
fn without_trouble_each_event_is_handled_once_and_in_order() {
    seeds(Trouble::default());
}

#[test]
fn a_cut_link_loses_nothing_and_repeats_nothing() {
    seeds(Trouble {
        cuts: true,
        ..Trouble::default()
    });
}

#[test]
fn a_dead_workers_events_are_handled_elsewhere_and_marked() {
    seeds(Trouble {
        deaths: true,
        ..Trouble::default()
    });
}

#[test]
fn a_worker_that_stands_still_is_left_behind() {
    seeds(Trouble {
        stalls: true,
        ..Trouble::default()
    });
}

#[test]
fn workers_leave_and_no_event_is_handled_twice() {
    seeds(Trouble {
        leaves: true,
        ..Trouble::default()
    });
}

#[test]
fn all_troubles_at_once() {
    seeds(Trouble {
        cuts: true,
        deaths: true,
        stalls: true,
        leaves: true,
        poison: false,
        upgrades: true,
    });
}

#[test]
fn the_next_process_goes_on_with_the_same_numbers() {
    seeds(Trouble {
        upgrades: true,
        ..Trouble::default()
    });
}

#[test]
fn a_worker_that_is_cut_off_or_dies_at_an_upgrade_is_one_like_others() {
    seeds(Trouble {
        cuts: true,
        deaths: true,
        leaves: true,
        upgrades: true,
        ..Trouble::default()
    });
}

/// An end was counted against all that the worker had been sent: innocent events were refused with the one that ended it.
#[test]
fn a_poison_event_took_innocent_ones_with_it() {
    seeds(Trouble {
        poison: true,
        ..Trouble::default()
    });
}

/// A worker had said that it handled the CONNECT, asked somebody whether to let the client in, and died: nobody decided any more.
#[test]
fn a_newcomer_whose_worker_died_before_it_decided_was_refused() {
    let mut backend = Backend::new(Settings::default());
    let hello = |instance: &str| proto::Hello {
        instance: instance.to_owned(),
        ..proto::Hello::default()
    };
    backend.attach(1, Link(1), &hello("a")).expect("welcome");
    let connect = proto::Connect {
        socket: "0".repeat(20),
        namespace: "/".to_owned(),
        ..proto::Connect::default()
    };
    backend.up(1, Up::Connect(Box::new(connect)));
    assert_eq!(
        poll(&mut backend, 1, Link(1)).map(|sent| sent.items.len()),
        Some(1)
    );
    let handled = proto::FromWorker {
        handled: 1,
        ..proto::FromWorker::default()
    };
    backend.received(2, Link(1), handled).expect("in order");
    backend.attach(3, Link(2), &hello("b")).expect("welcome");
    backend.detached(4, Link(1));
    backend.tick(4 + Settings::default().rehome_after_ms);
    let sent = poll(&mut backend, 600, Link(2)).expect("the CONNECT comes again");
    assert!(sent.items[0].redelivered);
    assert!(matches!(sent.items[0].what, Some(What::Connect(_))));
}
