//! Many seeds of whole clusters.

use sim::whole::{Plan, Report, play};

/// Seeds of every test run.
const SEEDS: u64 = 1_000;

#[test]
fn clusters_keep_their_promises() {
    let steps = Plan::of_seed(0).steps;
    let all = seeds::play("clusters", SEEDS, steps, |script| {
        play(Plan::of_seed(script.seed()), script)
    });
    let sum = |what: fn(&Report) -> usize| all.iter().map(what).sum::<usize>();
    let histories = all.len();
    let said = [
        ("messages were due", sum(|report| report.due), 200),
        ("acks of joins", sum(|report| report.joins), 20),
        ("connections moved", sum(|report| report.moves), 10),
        (
            "rooms told what they keep",
            sum(|report| report.histories),
            5,
        ),
        ("answers of workers", sum(|report| report.answered), 5),
        (
            "messages to the server of Node",
            sum(|report| report.crossed),
            20,
        ),
        ("news of workers", sum(|report| report.news), 20),
        ("words of workers to rooms", sum(|report| report.told), 5),
        ("lists of sockets", sum(|report| report.lists), 1),
        ("troubles", sum(|report| report.troubles), 2),
    ];
    println!("{histories} histories: {said:?}");
    for (name, longest) in [
        ("mailbox", all.iter().map(|report| report.mailbox_max).max()),
        ("deaths", Some(sum(|report| report.deaths))),
        ("superseded", Some(sum(|report| report.superseded))),
        ("stayed on a node", Some(sum(|report| report.only_here))),
        ("excused", Some(sum(|report| report.excused))),
        ("redelivered", Some(sum(|report| report.redelivered))),
        ("refused", Some(sum(|report| report.refused))),
        ("successions", Some(sum(|report| report.successions))),
        ("relays", Some(sum(|report| report.relays))),
        ("unknown sessions", Some(sum(|report| report.unknown))),
        ("came back as the same", Some(sum(|report| report.returns))),
        ("as another", Some(sum(|report| report.strangers))),
        (
            "with their socket of the workers",
            Some(sum(|report| report.guests)),
        ),
        (
            "words of workers to one client",
            Some(sum(|report| report.notes)),
        ),
        (
            "times that nobody was read",
            Some(sum(|report| report.congested)),
        ),
        ("gaps", Some(sum(|report| report.gaps))),
    ] {
        println!("{name}: {longest:?}");
    }
    if (histories as u64) < SEEDS {
        return;
    }
    // A simulation in which nothing happens proves nothing.
    for (name, count, least) in said {
        assert!(count > least * histories, "{count} {name}");
    }
    let rare = [
        sum(|report| report.deaths),
        sum(|report| report.successions),
        sum(|report| report.redelivered),
        sum(|report| report.relays) / histories,
        sum(|report| report.returns) / histories,
        sum(|report| report.strangers),
        sum(|report| report.guests),
        sum(|report| report.notes),
        sum(|report| report.congested),
        sum(|report| report.only_here),
    ];
    assert!(
        rare.iter().all(|count| *count > 0),
        "{rare:?} deaths, successions, events that came again, relays, clients that came back, some that were not known any more, some with their socket of the workers, words for one of those, \
        mailboxes that were overfull, and messages that stayed on a node"
    );
}

/// The same seed is the same history.
#[test]
fn a_seed_can_be_played_again() {
    let [first, second] = [(); 2].map(|()| play(Plan::of_seed(5), &seeds::Script::whole(5)));
    assert_eq!(first, second);
}
