//! Seeded histories: clients come, speak, wait for answers and go; workers handle, stand still, lose their links, die and leave.

mod play;

use backend::proto::item::What;
use backend::{Backend, Link, Settings, Up, proto};
use play::{Play, STEPS, Trouble};
use prost::Message;

fn poll(backend: &mut Backend, now_ms: u64, link: Link) -> Option<proto::ToWorker> {
    let message = backend.poll(now_ms, link)?;
    Some(proto::ToWorker::decode(message).expect("a message"))
}

fn histories(trouble: Trouble) {
    seeds::play(&format!("{trouble:?}"), 60, STEPS, |script| {
        let mut play = Play::new(script, trouble);
        play.run();
        play.check();
    });
}

#[test]
fn without_trouble_each_event_is_handled_once_and_in_order() {
    histories(Trouble::default());
}

#[test]
fn a_cut_link_loses_nothing_and_repeats_nothing() {
    histories(Trouble {
        cuts: true,
        ..Trouble::default()
    });
}

#[test]
fn a_dead_workers_events_are_handled_elsewhere_and_marked() {
    histories(Trouble {
        deaths: true,
        ..Trouble::default()
    });
}

#[test]
fn a_worker_that_stands_still_is_left_behind() {
    histories(Trouble {
        stalls: true,
        ..Trouble::default()
    });
}

#[test]
fn workers_leave_and_no_event_is_handled_twice() {
    histories(Trouble {
        leaves: true,
        ..Trouble::default()
    });
}

#[test]
fn all_troubles_at_once() {
    histories(Trouble {
        cuts: true,
        deaths: true,
        stalls: true,
        leaves: true,
        poison: false,
        upgrades: true,
        returns: true,
    });
}

/// The entries of the connection before, which its worker had not handled when it died, were taken for those of the next one.
#[test]
fn what_a_client_did_before_it_came_back_was_taken_for_what_it_did_then() {
    histories(Trouble {
        returns: true,
        deaths: true,
        ..Trouble::default()
    });
    histories(Trouble {
        returns: true,
        leaves: true,
        cuts: true,
        ..Trouble::default()
    });
}

#[test]
fn the_next_process_goes_on_with_the_same_numbers() {
    histories(Trouble {
        upgrades: true,
        ..Trouble::default()
    });
}

#[test]
fn a_worker_that_is_cut_off_or_dies_at_an_upgrade_is_one_like_others() {
    histories(Trouble {
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
    histories(Trouble {
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
    let up = Up::Connect {
        number: 1,
        connect: connect.into(),
    };
    backend.up(1, up);
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
