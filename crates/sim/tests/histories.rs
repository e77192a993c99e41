//! Many seeds.

use fastrand::Rng;
use sim::{Plan, run};
use std::panic::catch_unwind;

/// Seeds of every test run.
const SEEDS: u64 = 64;

/// Each setting has a die of its own, so that all meet.
fn plan(seed: u64) -> Plan {
    let mut dice = Rng::with_seed(seed);
    let mut one_of = |sides: u8| dice.u8(..sides) == 0;
    Plan {
        hubs: if one_of(8) { 1 } else { 2 + seed as usize % 3 },
        clients: 14,
        rooms: 3,
        steps: 800,
        polling: if one_of(4) { 80 } else { 30 },
        padding: if one_of(8) { 700 } else { 0 },
        kept: one_of(2),
        tokens: one_of(3),
        upgrades: one_of(3),
        loss: 0,
    }
}

#[test]
fn histories_keep_their_promises() {
    let steps = plan(0).steps;
    let all = seeds::play("hubs", SEEDS, steps, |script| {
        let report = sim::play(plan(script.seed()), script);
        [
            report.due,
            report.moves,
            report.relays,
            report.rounds,
            report.returns,
            report.upgrades,
            report.histories,
            report.successions,
            report.carried,
        ]
    });
    let histories = all.len();
    let sum = |what: usize| all.iter().map(|one| one[what]).sum::<usize>();
    let [
        due,
        moves,
        relays,
        rounds,
        returns,
        upgrades,
        kept,
        successions,
        carried,
    ] = std::array::from_fn(sum);
    if (histories as u64) < SEEDS {
        return;
    }
    // A simulation in which nothing happens proves nothing.
    assert!(due > 50 * histories, "{due} messages were due");
    assert!(moves > 5 * histories, "{moves} connections moved");
    assert!(relays > 50 * histories, "{relays} messages between hubs");
    assert!(rounds > 5 * histories, "{rounds} rounds of acks");
    assert!(returns > 5 * histories, "{returns} sockets left");
    assert!(upgrades > histories, "{upgrades} upgrades");
    assert!(kept > histories, "{kept} rooms told what they keep");
    // A quarter of the histories has them.
    assert!(
        successions > histories / 4,
        "{successions} processes took over"
    );
    assert!(carried > 2 * successions, "{carried} sessions went");
    println!(
        "{histories} histories: {successions} processes took over {carried} sessions, {due} messages due, {relays} letters, {moves} moves, {rounds} rounds, {returns} departures, \
        {upgrades} upgrades, {kept} histories of rooms"
    );
}

/// The same seed is the same history.
#[test]
fn a_seed_can_be_played_again() {
    let [first, second] = [(); 2].map(|()| run(plan(5), 5));
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
}

/// The checks can fail: when one message between hubs in ten is lost, no history passes.
#[test]
fn losses_are_noticed() {
    for seed in 0..8 {
        let lossy = Plan {
            loss: 10,
            // Clients that a process sends away miss what they may miss.
            upgrades: false,
            ..plan(seed)
        };
        assert!(
            catch_unwind(|| run(lossy, seed)).is_err(),
            "seed {seed} passed with losses"
        );
    }
}
