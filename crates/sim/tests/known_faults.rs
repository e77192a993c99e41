//! Faults that hubs once had, put back one at a time: the first seeds find each of them.
#![cfg(feature = "faults")]

use hub::faults::{Fault, put_back};
use sim::{Plan, run};
use std::panic::catch_unwind;

const SEEDS: u64 = 16;

/// Messages so long that a few of them are a turn's share of output.
fn plan(seed: u64) -> Plan {
    Plan {
        hubs: 2 + seed as usize % 3,
        clients: 20,
        rooms: 3,
        steps: 800,
        polling: 70,
        padding: 1_000,
        kept: seed.is_multiple_of(2),
        tokens: false,
        upgrades: false,
        loss: 0,
    }
}

fn what_is_found(fault: Option<Fault>, seed: u64) -> Option<String> {
    put_back(fault);
    let played = catch_unwind(|| run(plan(seed), seed));
    put_back(None);
    let panic = played.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.unwrap_or_else(|| "a panic without words".to_owned()))
}

#[test]
fn without_a_fault_nothing_is_found() {
    for seed in 0..SEEDS {
        assert_eq!(what_is_found(None, seed), None, "seed {seed}");
    }
}

fn is_found(fault: Fault, words: &[&str]) {
    let found = (0..SEEDS).find_map(|seed| what_is_found(Some(fault), seed));
    let found = found.unwrap_or_else(|| panic!("{fault:?} was not found"));
    println!("{fault:?}: {found}");
    let named = words.iter().any(|words| found.contains(words));
    assert!(named, "{fault:?} was found as something else: {found}");
}

#[test]
fn a_turn_that_does_not_count_its_messages_to_other_hubs_is_found() {
    is_found(
        Fault::LettersUncounted,
        &["messages to other hubs in one turn"],
    );
}

#[test]
fn a_flush_that_answers_any_number_of_polls_is_found() {
    is_found(
        Fault::PollsUnbounded,
        &["bytes of answers to polls in one flush"],
    );
}

#[test]
fn a_kept_event_that_parts_with_its_record_is_found() {
    is_found(Fault::RecordApart, &["in kept room", "missed", "twice"]);
}

#[test]
fn an_event_for_two_rooms_that_is_two_letters_is_found() {
    is_found(Fault::RoomByRoom, &["in kept room", "in room"]);
}
