//! Seeded histories: clients come, speak, wait for answers and go; workers handle, stand still, lose their links, die and leave.
//! `SEED=17 cargo test -p backend` repeats one.

mod play;

use play::{Play, Trouble};

fn seeds(trouble: Trouble) {
    let one = std::env::var("SEED").ok();
    let one = one.map(|seed| seed.parse::<u64>().expect("SEED is a number"));
    let seeds = one.map_or(0..60, |seed| seed..seed + 1);
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
    });
}
