//! Events of a namespace whose rooms keep some: each reaches each member once, in one order, whoever speaks.

use crate::rig::net::{Client, Net};
use crate::rig::{handler, rule};
use hub::Process;
use hub::config::Config;
use hub::mailbox::{Weigh, mailbox, waker};
use rules::{Action, Errand, EventRule, Message, NamespaceRules, Rules, Wanted};
use std::sync::Arc;

const SHARDS: usize = 3;

/// `tell` goes to all rooms of who tells, `say` to room `a`; both are kept.
pub(crate) fn rules() -> Rules {
    let kept = |room: Option<&str>| EventRule {
        history: true,
        ..rule(Action::Rooms {
            room: room.map(str::to_owned),
            echo: true,
        })
    };
    let events = [("say", Some("a")), ("tell", None)];
    let events = events.map(|(event, room)| (event.to_owned(), kept(room)));
    let main = NamespaceRules {
        client_joins: true,
        events: events.into(),
        ..NamespaceRules::new(rule(Action::Drop))
    };
    Rules {
        namespaces: [("/".to_owned(), main)].into(),
    }
}

fn net() -> Net {
    Net::new(SHARDS, &Config::default(), |_| handler(&rules()))
}

fn join(net: &mut Net, client: Client, rooms: &[&str]) {
    for room in rooms {
        net.say(client, &format!("42[\"join\",\"{room}\"]"));
        net.settle();
    }
    net.texts(client);
}

/// So many letters arrive, one of each way in turn.
fn carry(net: &mut Net, count: usize) {
    for n in 0..count {
        let routes = net.routes();
        if let Some(route) = routes.get(n % routes.len().max(1)) {
            net.carry_one(*route);
        }
    }
}

/// What came of an event for rooms `a` and `b`, if a member that has joined `joined` does these two things meanwhile.
fn told_meanwhile(joined: &[&str], acts: [(usize, &str); 2], at: (usize, usize)) -> Vec<String> {
    let mut net = net();
    let (publisher, member) = (net.client(at.0), net.client(at.1));
    join(&mut net, publisher, &["a", "b"]);
    join(&mut net, member, joined);
    net.say(publisher, "42[\"tell\",7]");
    for (letters, act) in acts {
        carry(&mut net, letters);
        net.say(member, act);
    }
    net.settle();
    net.texts(member)
}

/// It was a letter for each room, and each shard read anew who was a member: one that left the first room between them got the
/// event twice; one that joined it, or followed it and left, never.
#[test]
fn an_event_for_two_rooms_arrives_once_whatever_its_receiver_does_meanwhile() {
    let (join, leave) = ("42[\"join\",\"a\"]", "42[\"leave\",\"a\"]");
    for at in (0..SHARDS).flat_map(|publisher| (0..SHARDS).map(move |member| (publisher, member))) {
        for (first, second) in (0..4).flat_map(|first| (0..4).map(move |second| (first, second))) {
            for (joined, acts) in [
                (&["a", "b"][..], [(first, leave), (second, join)]),
                (&["b"][..], [(first, join), (second, leave)]),
            ] {
                let told = told_meanwhile(joined, acts, at);
                let live = told.iter().filter(|text| *text == "42[\"tell\",7]");
                assert_eq!(live.count(), 1, "{at:?} {joined:?} {acts:?}: {told:?}");
            }
        }
    }
}

fn errand(event: &str, args: &str) -> Box<Errand> {
    Box::new(Errand {
        of: types::Target::room("/", "a"),
        what: Wanted::Emit(Message {
            event: event.to_owned(),
            args: args.to_owned(),
            ..Message::default()
        }),
        answer: Box::new(|_| {}),
        begun: None,
    })
}

/// Only clients' events went by the home: what a program said was in no order with them, and was not kept.
#[test]
fn members_have_one_order_whoever_speaks_and_late_ones_get_it_too() {
    for seed in seeds::seeds(60) {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut net = net();
        let members = [0, 1, 2].map(|at| net.client(at));
        members
            .iter()
            .for_each(|member| join(&mut net, *member, &["a"]));
        for n in 0..8 {
            let at = dice.usize(..SHARDS);
            match dice.bool() {
                true => net.say(members[at], &format!("42[\"say\",{n}]")),
                false => net.outside(at, errand("say", &n.to_string())),
            }
            carry(&mut net, dice.usize(..3));
        }
        net.settle();
        let [first, second, third] = members.map(|member| net.texts(member));
        assert_eq!(first.len(), 8, "seed {seed}: {first:?}");
        assert!(first == second && second == third, "seed {seed}");
        let late = net.client(1);
        net.say(late, "42[\"join\",\"a\"]");
        net.settle();
        let kept = first.iter().map(|text| {
            let args = text
                .strip_prefix("42[\"say\",")
                .and_then(|args| args.strip_suffix(']'));
            format!(
                "{{\"event\":\"say\",\"args\":[{}]}}",
                args.expect("a number")
            )
        });
        let kept: Vec<String> = kept.collect();
        let history = format!(
            "42[\"history\",{{\"room\":\"a\",\"messages\":[{}]}}]",
            kept.join(",")
        );
        assert_eq!(net.texts(late), [history], "seed {seed}");
    }
}

#[derive(Debug)]
struct Weight;

impl Weigh for Weight {
    fn bytes(&self) -> usize {
        1
    }
}

/// The home's letters held nobody: they made the mailbox of a slow shard grow until all shards stopped reading from everybody.
#[test]
fn a_slow_shard_stops_those_who_speak_to_its_clients_and_nobody_else() {
    let mut config = Config::default();
    config.limits.mailbox_messages_max = 2;
    let process = Process::new(&config.rates);
    let mut net = Net::in_cluster(SHARDS, &config, 1, &process, |_| handler(&rules()));
    // Whichever shard is the home: two of the others, one of them slow.
    let home = home(&mut net);
    let (fast, slow) = ((home + 1) % SHARDS, (home + 2) % SHARDS);
    let (here, there) = (net.client(fast), net.client(fast));
    let (near, far) = (net.client(home), net.client(slow));
    join(&mut net, here, &["near"]);
    join(&mut net, near, &["near"]);
    join(&mut net, there, &["far"]);
    join(&mut net, far, &["far"]);
    let (sender, _receiver) = mailbox(waker(|| {}), Arc::clone(&process.loads), slow as u16);
    (0..3).for_each(|_| sender.send(Weight));
    net.say(here, "42[\"tell\",1]");
    assert_eq!(net.hub(fast).held_back(), 0, "none of its members is there");
    net.say_all(there, (0..2).map(|n| format!("42[\"tell\",{n}]")));
    assert_eq!(net.hub(fast).held_back(), 1, "it waits for the slow shard");
    net.settle();
    assert_eq!(net.texts(near), ["42[\"tell\",1]"]);
    assert_eq!(net.texts(far), ["42[\"tell\",0]"], "the second waits");
}

/// The shard that all events of the namespace go to.
fn home(net: &mut Net) -> usize {
    let probes = [0, 1, 2].map(|at| net.client(at));
    for probe in probes {
        join(net, probe, &["probe"]);
        net.say(probe, "42[\"tell\",0]");
        let to = net.routes().first().map(|(_, to)| *to);
        let many = net.routes().len() > 1;
        net.settle();
        net.say(probe, "42[\"leave\",\"probe\"]");
        net.settle();
        if let (Some(to), false) = (to, many) {
            return to;
        }
    }
    panic!("one of two shards is not the home");
}
