//! Seeded histories of members that come and go on nodes in trouble.

use super::{comes, world};
use crate::rig::net::Client;
use crate::rig::nodes::Nodes;
use std::collections::BTreeSet;

/// Numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

/// A client in the room, its user and its place.
struct One {
    place: (usize, usize),
    client: Client,
    user: String,
    inside: bool,
}

fn disturb(nodes: &mut Nodes, dice: &mut Dice, away: &mut Option<usize>) {
    match away.take() {
        Some(node) => {
            if dice.below(2) == 0 {
                nodes.loses(node);
            }
            nodes.comes_back(node);
            // It missed what the others said, too.
            for other in (0..3).filter(|other| *other != node) {
                nodes.missed(node, other);
            }
        }
        None => {
            let node = dice.below(3);
            match dice.below(2) {
                0 => nodes.dies(node),
                _ => nodes.cut_off(node, true),
            }
            *away = Some(node);
        }
    }
}

fn act(nodes: &mut Nodes, dice: &mut Dice, people: &mut Vec<One>, asks: bool) {
    let (at, all) = (dice.below(people.len().max(1)), people.len());
    match (dice.below(6 + usize::from(asks)), people.get_mut(at)) {
        (0..2, _) | (_, None) if all < 24 => {
            let place = (dice.below(3), dice.below(2));
            let user = format!("user {}", dice.below(6));
            let client = comes(nodes, place, &user);
            people.push(One {
                place,
                client,
                user,
                inside: true,
            });
        }
        (2, Some(one)) => {
            let word = if one.inside { "leave" } else { "join" };
            one.inside = !one.inside;
            nodes.say(one.place.0, one.client, &format!("42[\"{word}\",\"den\"]"));
        }
        (3, Some(_)) => {
            let one = people.swap_remove(at);
            nodes.say(one.place.0, one.client, "41");
        }
        (4, Some(_)) => {
            let one = people.swap_remove(at);
            nodes.net(one.place.0).break_off(one.client);
            nodes.settle();
        }
        (5, Some(one)) => {
            one.user = format!("user {}", dice.below(6));
            let word = format!("42[\"be\",\"{}\"]", one.user);
            nodes.say(one.place.0, one.client, &word);
        }
        (6, Some(one)) if one.inside => nodes.say(one.place.0, one.client, "42[\"ask\"]"),
        _ => {}
    }
}

/// Whatever is done in whatever order, and whatever is lost on the way between nodes: when all is quiet, every shard with a member
/// knows all members, and so does a client that asked once. `PRESENCE_SEEDS` is how many histories are tried.
#[test]
fn every_shard_knows_all_members_when_all_is_quiet() {
    let seeds = std::env::var("PRESENCE_SEEDS").ok();
    let seeds = seeds.map_or(100, |seeds| seeds.parse().expect("a number"));
    (1..=seeds).for_each(one_history);
}

fn one_history(seed: u64) {
    let mut dice = Dice(seed);
    let (members_max, asks) = ([4, 100][dice.below(2)], dice.below(2) == 0);
    let (views, mut nodes) = world(3, members_max);
    let (mut people, mut away) = (Vec::new(), None);
    for _ in 0..60 {
        act(&mut nodes, &mut dice, &mut people, asks);
        if dice.below(12) == 0 {
            disturb(&mut nodes, &mut dice, &mut away);
        }
        if dice.below(3) == 0 {
            nodes.pass([10, 300, 2_000][dice.below(3)]);
        }
    }
    if away.is_some() {
        disturb(&mut nodes, &mut dice, &mut away);
    }
    (0..100).for_each(|_| nodes.pass(300));
    people.retain(|one| one.inside);
    let truth: BTreeSet<String> = people.iter().map(|one| one.user.clone()).collect();
    let seats: BTreeSet<_> = people.iter().map(|one| (one.place, &one.user)).collect();
    for one in &people {
        let view = views.of(one.place.0, one.place.1);
        // Where nobody has names each user counts once for each shard.
        assert!(
            !view.nameless || members_max == 4 && seats.len() > 3,
            "seed {seed} at {:?}: {view:?} of {seats:?}",
            one.place
        );
        if view.nameless {
            assert_eq!(view.count, seats.len() as u64, "seed {seed}");
            continue;
        }
        assert_eq!(view.names, truth, "seed {seed} at {:?}", one.place);
        assert_eq!(view.count, truth.len() as u64, "seed {seed}");
        assert!(view.asked.is_none_or(|asked| asked == truth), "seed {seed}");
        assert!(asks || view.wrong == 0, "seed {seed}");
    }
}
