//! The same over NATS.

use super::fault::{Fault, Scene};
use super::newcomers::newcomers_miss_nothing_in;
use super::{losses_are_counted, nothing_is_lost_in};

fn nothing_is_lost(fault: Fault) {
    nothing_is_lost_in("Nats", Scene::set_over_nats, fault);
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_restart_of_nats_loses_nothing() {
    nothing_is_lost(Fault::Restart);
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_nats_that_is_dead_for_a_while_loses_nothing() {
    nothing_is_lost(Fault::Dead);
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_nats_that_stands_still_loses_nothing() {
    nothing_is_lost(Fault::Stand);
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_node_without_its_way_to_nats_misses_nothing() {
    nothing_is_lost(Fault::Cut);
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_node_that_was_given_up_over_nats_misses_nothing() {
    nothing_is_lost(Fault::LongCut);
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn what_nats_cannot_repair_is_counted() {
    losses_are_counted(Scene::set_over_nats(Fault::Cut, 0));
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn newcomers_hear_all_while_nats_stands_still() {
    newcomers_miss_nothing_in(Scene::set_over_nats(Fault::Stand, 0));
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn newcomers_hear_all_while_nats_is_dead() {
    newcomers_miss_nothing_in(Scene::set_over_nats(Fault::Dead, 0));
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn newcomers_hear_all_while_a_node_is_cut_off_from_nats() {
    newcomers_miss_nothing_in(Scene::set_over_nats(Fault::Cut, 0));
}
