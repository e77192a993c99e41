//! Faults that level `cluster` once had, put back one at a time: the first seeds find each of them.

use super::{STEPS, Trouble, World};
use hub::faults::{Fault, put_back};
use seeds::Script;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SEEDS: u64 = 200;

fn trouble() -> Trouble {
    Trouble {
        deaths: true,
        outages: true,
        failovers: true,
        ..Trouble::default()
    }
}

fn what_is_found(fault: Option<Fault>, seed: u64) -> Option<String> {
    put_back(fault);
    let played = catch_unwind(AssertUnwindSafe(|| {
        let script = Script::whole(seed);
        let mut world = World::new(&script, trouble());
        (0..STEPS).for_each(|step| world.step(step));
        world.finish();
    }));
    put_back(None);
    let panic = played.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.unwrap_or_else(|| "a panic without words".to_owned()))
}

fn is_found(fault: Fault, words: &[&str]) {
    let found = (0..SEEDS).find_map(|seed| Some((seed, what_is_found(Some(fault), seed)?)));
    let (seed, found) = found.unwrap_or_else(|| panic!("{fault:?} was not found"));
    println!("{fault:?}: seed {seed}: {found}");
    let named = words.iter().any(|words| found.contains(words));
    assert!(named, "{fault:?} was found as something else: {found}");
}

#[test]
fn an_ack_that_leaves_before_its_event_is_stored_is_found() {
    is_found(Fault::AckEarly, &["is told that"]);
}

#[test]
fn a_record_that_does_not_know_of_a_loss_is_found() {
    is_found(Fault::LossUnknown, &["is told that it missed nothing"]);
}

#[test]
fn what_a_client_got_elsewhere_and_gets_again_is_found() {
    is_found(Fault::NumberUnheeded, &["twice"]);
}

#[test]
fn a_socket_that_is_in_two_places_is_found() {
    is_found(Fault::TakenTwice, &["missed", "twice", "for ever", "late"]);
}
