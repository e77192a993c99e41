//! Many seeds of whole clusters.

use sim::whole::{Plan, play};

/// Seeds of every test run.
const SEEDS: u64 = 40;

#[test]
fn clusters_keep_their_promises() {
    let steps = Plan::of_seed(0).steps;
    let all = seeds::play("cluster of hubs", SEEDS, steps, |script| {
        play(Plan::of_seed(script.seed()), script)
    });
    println!("{:#?}", all.last());
}
