//! Faults that clusters once had, put back one at a time: the first seeds find each of them. C1 to C19 are the names of the review that found them; ADR 76 says
//! what forbids the others.
#![cfg(feature = "faults")]

use cluster::faults as of_nodes;
use hub::faults as of_hubs;
use rules::faults as of_rules;
use seeds::Script;
use sim::whole::{Plan, play};
use std::panic::catch_unwind;

/// Seeds in which each is to be found.
const SEEDS: u64 = 1_000;
/// And one that takes several troubles at once.
const RARE: u64 = 3_000;

fn is_found(put_back: impl Fn(bool), plan: impl Fn(u64) -> Plan, words: &[&str]) {
    is_found_in(SEEDS, put_back, plan, words);
}

fn is_found_in(seeds: u64, put_back: impl Fn(bool), plan: impl Fn(u64) -> Plan, words: &[&str]) {
    let found = (0..seeds).find_map(|seed| {
        put_back(true);
        let (plan, script) = (plan(seed), Script::whole(seed));
        let played = catch_unwind(|| play(plan, &script));
        put_back(false);
        let panic = played.err()?;
        let text = panic.downcast_ref::<String>().cloned();
        Some((
            seed,
            text.unwrap_or_else(|| "a panic without words".to_owned()),
        ))
    });
    let (seed, found) = found.unwrap_or_else(|| panic!("not found in {seeds} seeds"));
    println!("{found}");
    // Without the fault, the same history passes.
    play(plan(seed), &Script::whole(seed));
    let is_named = words.iter().any(|words| found.contains(words));
    assert!(is_named, "it was found as something else: {found}");
}

fn plan(seed: u64) -> Plan {
    Plan {
        troubles: true,
        ..Plan::of_seed(seed)
    }
}

fn kept(seed: u64) -> Plan {
    Plan {
        kept: true,
        ..plan(seed)
    }
}

fn in_hubs(fault: of_hubs::Fault) -> impl Fn(bool) {
    move |is_back| of_hubs::put_back(is_back.then_some(fault))
}

fn in_rules(fault: of_rules::Fault) -> impl Fn(bool) {
    move |is_back| of_rules::put_back(is_back.then_some(fault))
}

fn in_nodes(fault: of_nodes::Fault) -> impl Fn(bool) {
    move |is_back| of_nodes::put_back(is_back.then_some(fault))
}

#[test]
fn c1_an_event_for_two_rooms_that_is_two_letters_is_found() {
    let fault = in_hubs(of_hubs::Fault::RoomByRoom);
    is_found(fault, kept, &["twice", "missed"]);
}

#[test]
fn c2_two_logs_of_one_name_are_found() {
    let fault = in_hubs(of_hubs::Fault::LogsAlike);
    is_found(fault, kept, &["was told that it resumes"]);
}

#[test]
fn c3_an_id_that_does_not_say_of_which_room_is_found() {
    let fault = in_hubs(of_hubs::Fault::PlaceOfAnyRoom);
    is_found(fault, kept, &["event stream"]);
}

#[test]
fn c4_a_turn_that_makes_any_number_of_lists_is_found() {
    let asking = |seed| Plan {
        nodes: 1,
        lists: 60,
        ..plan(seed)
    };
    let fault = in_hubs(of_hubs::Fault::ListsUncounted);
    is_found(fault, asking, &["bytes of lists of sockets in one turn"]);
}

#[test]
fn a_join_that_is_passed_on_and_not_expected_is_found() {
    let fault = in_rules(of_rules::Fault::JoinUnexpected);
    is_found(fault, kept, &["missed"]);
}

#[test]
fn c9_a_newcomer_that_is_slow_because_it_has_to_wait_is_found() {
    let squeezed = |seed| Plan {
        squeezed: true,
        ..kept(seed)
    };
    let fault = in_hubs(of_hubs::Fault::NewcomerSlow);
    is_found(
        fault,
        squeezed,
        &["was ended, and read all", "was closed, and did nothing"],
    );
}

#[test]
fn letters_that_leave_before_others_are_heard_are_found() {
    // With nothing beside troubles. Other things make it rarer still.
    let bare = |seed| Plan {
        nodes: 3,
        hubs: 2,
        polling: 25,
        kept: false,
        squeezed: false,
        recovers: false,
        relays: false,
        server: false,
        ring_bytes: 8 << 20,
        lists: 1,
        queue_bytes: usize::MAX,
        ..plan(seed)
    };
    let fault = in_nodes(of_nodes::Fault::SentBeforeHearing);
    is_found_in(
        RARE,
        fault,
        bare,
        &["missed", "waits for the answer", "joins wait"],
    );
}

#[test]
fn a_client_that_is_told_of_its_connect_before_other_nodes_know_of_it_is_found() {
    let fault = in_hubs(of_hubs::Fault::WelcomeEarly);
    is_found(fault, kept, &["missed"]);
}
