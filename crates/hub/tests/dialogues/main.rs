//! Every transcript against a hub in memory: the clock is the test's, so nothing waits, and nothing may come that the
//! transcript does not mention. Then the same dialogues again, torn to pieces: `properties`.

mod abroad;
mod answers;
mod chronicle;
mod compression;
mod counts;
mod deciding;
mod departures;
mod directory;
mod eio3;
mod heard;
mod heartbeats;
mod heirs;
mod history;
mod identity;
mod late;
mod lists;
mod marks;
mod memory;
mod newcomers;
mod nodes;
mod opening;
mod pages;
#[path = "../../../../transcripts/player/mod.rs"]
mod player;
mod polling;
mod presence;
mod properties;
mod publication;
mod rates;
mod raw;
mod regressions;
mod repeats;
mod resuming;
mod returning;
#[path = "../rig/mod.rs"]
mod rig;
mod rounds;
mod shares;
mod slow;
mod streams;
mod traffic;
mod turns;
mod unfit;

use memory::Memory;
use player::play;

#[test]
fn every_transcript_holds_for_a_hub_in_memory() {
    let mut problems = Vec::new();
    for script in player::all() {
        let mut world = Memory::new(&script.settings);
        match play(&script, &mut world) {
            Ok(()) => world.leave(),
            Err(problem) => problems.push(problem),
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// The comparison itself: a transcript that says something else than the hub must not pass.
#[test]
fn a_wrong_transcript_is_refused() {
    let scripts = player::all();
    let hello = scripts
        .iter()
        .find(|script| script.name == "websocket-event");
    let mut wrong = hello.expect("websocket-event.txt").clone();
    let line = wrong
        .lines
        .iter_mut()
        .rev()
        .find_map(|line| line.expected_mut());
    line.expect("it expects something").push('!');
    let mut world = Memory::new(&wrong.settings);
    assert!(play(&wrong, &mut world).is_err());
    let silent = wrong.lines.iter().rposition(|line| line.is_expectation());
    wrong.lines.remove(silent.expect("it expects something"));
    let mut world = Memory::new(&wrong.settings);
    let problem = play(&wrong, &mut world).expect_err("something came that it does not mention");
    assert!(problem.contains("nobody expects"), "{problem}");
}
