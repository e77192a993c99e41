//! Who is in a room: each shard of each node knows, whatever happened on the way.

use crate::rig::net::Client;
use crate::rig::nodes::Nodes;
use hub::config::{Config, PresenceOf};
use hub::{ConnectRequest, Context, Decision, Event, Handler, Presence, SocketKey, Who};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GRACE_MS: u64 = 15_000;

/// The members of one room as a shard was told of them; without names, their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct View {
    names: BTreeSet<String>,
    infos: BTreeMap<String, String>,
    count: u64,
    nameless: bool,
    /// Events that told of somebody who was known, or was not.
    wrong: usize,
    told: usize,
}

#[derive(Clone, Default)]
struct Views(Arc<Mutex<Vec<View>>>);

/// Does as clients say, and keeps its own view.
struct Witness {
    views: Views,
    own: usize,
}

impl Views {
    fn handler(&self) -> Box<dyn Handler> {
        let mut views = self.0.lock().expect("nobody panicked");
        views.push(View::default());
        Box::new(Witness {
            views: self.clone(),
            own: views.len() - 1,
        })
    }

    fn of(&self, node: usize, shard: usize) -> View {
        self.0.lock().expect("nobody panicked")[2 * node + shard].clone()
    }
}

fn name(who: &Who) -> String {
    match who {
        Who::User(name) => name.to_string(),
        Who::Socket(_) => "nobody".to_owned(),
    }
}

impl Handler for Witness {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        let word = event.args.trim_matches('"');
        let mut socket = cx.socket(socket);
        match event.name {
            "join" => socket.join(word).expect("a good name"),
            "leave" => socket.leave(word),
            "be" => socket.set_user(word).expect("it is here"),
            "data" => socket.set_data(word),
            other => panic!("{other}?"),
        }
    }

    fn room_count_changed(&mut self, cx: &mut Context<'_>, _: &str, room: &str, _: u64) {
        if cx.present("/", room).is_none() {
            let mut views = self.views.0.lock().expect("nobody panicked");
            views[self.own] = View::default();
        }
    }

    fn presence_changed(&mut self, cx: &mut Context<'_>, _: &str, room: &str, news: &Presence) {
        assert_eq!(room, "den");
        // Without members here there is nobody to be told.
        let Some(known) = cx.present("/", room) else {
            return;
        };
        let mut views = self.views.0.lock().expect("nobody panicked");
        let view = &mut views[self.own];
        view.told += 1;
        view.count = news.count;
        if news.nameless || view.nameless {
            view.names.clear();
        }
        view.nameless = news.nameless;
        for person in &news.joined {
            view.wrong += usize::from(!view.names.insert(name(&person.who)));
            let info = person.info.to_string();
            view.infos.insert(name(&person.who), info);
        }
        for who in &news.left {
            view.wrong += usize::from(!view.names.remove(&name(who)));
        }
        assert_eq!(known.count, news.count);
        if !news.nameless {
            let named: BTreeSet<String> = known.joined.iter().map(|one| name(&one.who)).collect();
            assert_eq!(named, view.names);
        }
    }
}

fn config(members_max: u32) -> Config {
    let rule = PresenceOf {
        rooms: vec!["d*".to_owned()],
        grace: Duration::from_millis(GRACE_MS),
        members_max,
        info: vec!["\"name\"".to_owned()],
    };
    Config {
        presence: [("/".to_owned(), Some(Arc::new(rule)))].into(),
        ..Config::default()
    }
}

fn world(nodes: u16, members_max: u32) -> (Views, Nodes) {
    let views = Views::default();
    let nodes = Nodes::new(nodes, &config(members_max), || views.handler());
    (views, nodes)
}

fn comes(nodes: &mut Nodes, (node, shard): (usize, usize), user: &str) -> Client {
    let client = nodes.client(node, shard);
    nodes.say(node, client, &format!("42[\"be\",\"{user}\"]"));
    nodes.say(node, client, "42[\"join\",\"den\"]");
    client
}

/// Long enough for all to be told, and too short for anybody's grace to end.
fn soon(nodes: &mut Nodes) {
    (0..8).for_each(|_| nodes.pass(300));
}

fn names(view: &View) -> Vec<&str> {
    view.names.iter().map(String::as_str).collect()
}

#[test]
fn many_sockets_of_a_user_are_one_member_on_all_nodes() {
    let (views, mut nodes) = world(2, 100);
    let places = [(0, 0), (0, 1), (1, 0), (1, 1)];
    let clients = places.map(|place| comes(&mut nodes, place, "ann"));
    comes(&mut nodes, (1, 0), "bob");
    soon(&mut nodes);
    for (node, shard) in places {
        let view = views.of(node, shard);
        assert_eq!((names(&view), view.count), (vec!["ann", "bob"], 2));
        assert_eq!(view.wrong, 0);
    }
    // The last of her sockets counts, wherever it is.
    for (at, (node, shard)) in places.into_iter().enumerate().skip(1) {
        nodes.say(node, clients[at], "42[\"leave\",\"den\"]");
        soon(&mut nodes);
        assert!(views.of(0, 0).names.contains("ann"), "{node} {shard}");
    }
    nodes.say(0, clients[0], "42[\"leave\",\"den\"]");
    comes(&mut nodes, (0, 1), "cid");
    soon(&mut nodes);
    assert_eq!(names(&views.of(1, 0)), ["bob", "cid"]);
    assert_eq!(names(&views.of(0, 1)), ["bob", "cid"]);
}

#[test]
fn a_member_that_comes_back_never_left() {
    let (views, mut nodes) = world(2, 100);
    comes(&mut nodes, (1, 0), "bob");
    let ann = comes(&mut nodes, (0, 0), "ann");
    soon(&mut nodes);
    let told = views.of(1, 0).told;
    nodes.net(0).break_off(ann);
    soon(&mut nodes);
    let ann = comes(&mut nodes, (1, 1), "ann");
    (0..80).for_each(|_| nodes.pass(300));
    let view = views.of(1, 0);
    assert_eq!((names(&view), view.told), (vec!["ann", "bob"], told));
    // One that means to leave is gone at once, one that does not come back after a while.
    nodes.net(1).break_off(ann);
    soon(&mut nodes);
    assert_eq!(names(&views.of(1, 0)), ["ann", "bob"]);
    (0..60).for_each(|_| nodes.pass(300));
    assert_eq!(names(&views.of(1, 0)), ["bob"]);
    let cid = comes(&mut nodes, (0, 0), "cid");
    soon(&mut nodes);
    nodes.say(0, cid, "41");
    soon(&mut nodes);
    assert_eq!(names(&views.of(1, 0)), ["bob"]);
}

#[test]
fn others_see_the_chosen_members_of_the_data_and_no_more() {
    let (views, mut nodes) = world(2, 100);
    comes(&mut nodes, (1, 0), "bob");
    let ann = nodes.client(0, 0);
    nodes.say(0, ann, "42[\"be\",\"ann\"]");
    nodes.say(0, ann, r#"42["data",{"secret":1,"name":"Ann"}]"#);
    nodes.say(0, ann, "42[\"join\",\"den\"]");
    soon(&mut nodes);
    for view in [views.of(1, 0), views.of(0, 0)] {
        assert_eq!(view.infos["ann"], r#"{"name":"Ann"}"#);
        assert_eq!(view.infos["bob"], "");
    }
}

/// Above the bound rooms are counted; below nine tenths of it they have names again.
#[test]
fn a_large_room_is_counted() {
    let (views, mut nodes) = world(2, 10);
    let mut clients = Vec::new();
    for n in 0..11 {
        let place = (n % 2, n / 2 % 2);
        let client = comes(&mut nodes, place, &format!("user {n}"));
        clients.push((place.0, client));
    }
    soon(&mut nodes);
    for (node, shard) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let view = views.of(node, shard);
        assert!(view.nameless && view.count == 11, "{view:?}");
    }
    for n in 0..2 {
        let (node, client) = clients.pop().expect("eleven");
        nodes.say(node, client, "42[\"leave\",\"den\"]");
        soon(&mut nodes);
        soon(&mut nodes);
        let view = views.of(0, 0);
        assert_eq!((view.nameless, view.count), (n < 1, 10 - n), "{view:?}");
    }
    for (node, shard) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let view = views.of(node, shard);
        assert_eq!((view.names.len(), view.wrong), (9, 0), "{node} {shard}");
    }
}

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

fn act(nodes: &mut Nodes, dice: &mut Dice, people: &mut Vec<One>) {
    let (at, all) = (dice.below(people.len().max(1)), people.len());
    match (dice.below(6), people.get_mut(at)) {
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
        _ => {}
    }
}

/// Whatever is done in whatever order, and whatever is lost on the way between nodes: when all is quiet, every shard with a member
/// knows all members.
#[test]
fn every_shard_knows_all_members_when_all_is_quiet() {
    for seed in 1..=100 {
        let mut dice = Dice(seed);
        let members_max = [4, 100][dice.below(2)];
        let (views, mut nodes) = world(3, members_max);
        let (mut people, mut away) = (Vec::new(), None);
        for _ in 0..60 {
            act(&mut nodes, &mut dice, &mut people);
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
        let inside = people.iter().filter(|one| one.inside);
        let truth: BTreeSet<String> = inside.clone().map(|one| one.user.clone()).collect();
        for one in inside {
            let view = views.of(one.place.0, one.place.1);
            match view.nameless {
                false => assert_eq!(view.names, truth, "seed {seed} at {:?}", one.place),
                true => assert!(view.count >= truth.len() as u64, "seed {seed}"),
            }
            assert!(
                view.nameless || view.count == truth.len() as u64,
                "seed {seed}"
            );
            assert!(!view.nameless || members_max == 4, "seed {seed}");
            assert_eq!(view.wrong, 0, "seed {seed}");
        }
    }
}
