//! Seeded histories of members that come and go on nodes in trouble.

use super::{comes, world};
use crate::rig::net::Client;
use crate::rig::nodes::Nodes;
use fastrand::Rng;
use seeds::Script;
use std::collections::BTreeSet;

const STEPS: usize = 60;

/// A client in the room, its user and its place.
struct One {
    place: (usize, usize),
    client: Client,
    user: String,
    inside: bool,
}

fn disturb(nodes: &mut Nodes, dice: &mut Rng, away: &mut Option<usize>) {
    match away.take() {
        Some(node) => {
            if dice.usize(..2) == 0 {
                nodes.loses(node);
            }
            nodes.comes_back(node);
            // It missed what the others said, too.
            for other in (0..3).filter(|other| *other != node) {
                nodes.missed(node, other);
            }
        }
        None => {
            let node = dice.usize(..3);
            match dice.usize(..2) {
                0 => nodes.dies(node),
                _ => nodes.cut_off(node, true),
            }
            *away = Some(node);
        }
    }
}

fn act(nodes: &mut Nodes, dice: &mut Rng, people: &mut Vec<One>, asks: bool) {
    let (at, all) = (dice.usize(..people.len().max(1)), people.len());
    match (dice.usize(..6 + usize::from(asks)), people.get_mut(at)) {
        (0..2, _) | (_, None) if all < 24 => {
            let place = (dice.usize(..3), dice.usize(..2));
            let user = format!("user {}", dice.usize(..6));
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
            one.user = format!("user {}", dice.usize(..6));
            let word = format!("42[\"be\",\"{}\"]", one.user);
            nodes.say(one.place.0, one.client, &word);
        }
        (6, Some(one)) if one.inside => nodes.say(one.place.0, one.client, "42[\"ask\"]"),
        _ => {}
    }
}

/// Whatever is done in whatever order, and whatever is lost on the way between nodes: when all is quiet, every shard with a member
/// knows all members, and so does a client that asked once.
#[test]
fn every_shard_knows_all_members_when_all_is_quiet() {
    seeds::play("presence", 100, STEPS, one_history);
}

fn one_history(script: &Script) {
    let (seed, mut dice) = (script.seed(), script.opening());
    let (members_max, asks) = ([4, 100][dice.usize(..2)], dice.usize(..2) == 0);
    let (views, mut nodes) = world(3, members_max);
    let (mut people, mut away) = (Vec::new(), None);
    for step in 0..STEPS {
        let Some(mut dice) = script.dice(step) else {
            continue;
        };
        act(&mut nodes, &mut dice, &mut people, asks);
        if dice.usize(..12) == 0 {
            disturb(&mut nodes, &mut dice, &mut away);
        }
        if dice.usize(..3) == 0 {
            nodes.pass([10, 300, 2_000][dice.usize(..3)]);
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
