//! The members of a room: each shard of each node knows them, whatever happened on the way.

mod histories;

use crate::rig::net::Client;
use crate::rig::nodes::Nodes;
use hub::config::{Config, Offsets, PresenceOf, Recover, Recovery};
use hub::{
    ConnectRequest, Context, Decision, Emit, Event, Handler, Presence, SocketKey, Unwatched, Who,
};
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
    /// What somebody knows who asked once, and heard the events since.
    asked: Option<BTreeSet<String>>,
    /// Events that told of somebody who was known, or was not.
    wrong: usize,
    told: usize,
    /// The counts that were told, and how many of them without names.
    counts: Vec<u64>,
    unnamed: usize,
    /// What a program was answered last: how many there are, and whether these are all.
    answer: Option<Result<(u64, bool), Unwatched>>,
    /// Other rooms whose members were told of each other.
    elsewhere: BTreeSet<String>,
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

impl Witness {
    /// A member asks for the list.
    fn asks(&mut self, cx: &mut Context<'_>, event: Event<'_>) {
        let found = cx.present("/", "den");
        let names = found.map(|found| found.joined.iter().map(|one| name(&one.who)).collect());
        self.views.0.lock().expect("nobody panicked")[self.own].asked = names;
        if let Some(ack) = event.ack {
            cx.ack_now(ack, "", &[]);
        }
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
            "data" => socket.set_data(event.args),
            "say" => drop(cx.of("/").to(&[word]).emit(&Emit::new("said", "1"))),
            "ask" => self.asks(cx, event),
            "watch" => {
                let found = cx.watch("/", word);
                let mut views = self.views.0.lock().expect("nobody panicked");
                let answer = found.map(|found| (found.count, found.complete));
                views[self.own].answer = Some(answer);
            }
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
        if room != "den" {
            let mut views = self.views.0.lock().expect("nobody panicked");
            views[self.own].elsewhere.insert(room.to_owned());
            return;
        }
        // Without members here there is nobody to be told.
        let Some(known) = cx.present("/", room) else {
            return;
        };
        let mut views = self.views.0.lock().expect("nobody panicked");
        let view = &mut views[self.own];
        view.told += 1;
        view.count = news.count;
        view.counts.push(news.count);
        view.unnamed += usize::from(news.nameless);
        if news.nameless || view.nameless {
            view.names.clear();
        }
        if let Some(asked) = &mut view.asked {
            if news.nameless {
                asked.clear();
            }
            asked.extend(news.joined.iter().map(|one| name(&one.who)));
            news.left
                .iter()
                .for_each(|one| _ = asked.remove(&name(&one.who)));
        }
        view.nameless = news.nameless;
        for person in &news.joined {
            view.wrong += usize::from(!view.names.insert(name(&person.who)));
            let info = person.info.to_string();
            view.infos.insert(name(&person.who), info);
        }
        for one in &news.left {
            view.wrong += usize::from(!view.names.remove(&name(&one.who)));
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

/// The same, in all rooms, with sockets that come back.
fn with_recovery() -> Config {
    let recover = Recover {
        window: Duration::from_secs(60),
        offsets: Offsets::All,
        goes_abroad: false,
        chronicle: false,
        replicas: 0,
    };
    let mut config = config(100);
    let rule = config.presence.values_mut().flatten().next();
    Arc::make_mut(rule.expect("one rule")).rooms = vec!["*".to_owned()];
    config.recovery = Recovery {
        namespaces: [("*".to_owned(), Some(recover))].into(),
    };
    config
}

fn world(nodes: u16, members_max: u32) -> (Views, Nodes) {
    world_of(nodes, &config(members_max))
}

fn world_of(nodes: u16, config: &Config) -> (Views, Nodes) {
    let views = Views::default();
    let nodes = Nodes::new(nodes, config, || views.handler());
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

/// It is also seen when the first of its sockets goes before the others were told.
#[test]
fn the_first_of_two_sockets_took_the_data_of_its_member_along() {
    let (views, mut nodes) = world(1, 100);
    comes(&mut nodes, (0, 1), "bob");
    soon(&mut nodes);
    let tabs = [(); 2].map(|()| {
        let tab = nodes.client(0, 0);
        nodes.say(0, tab, "42[\"be\",\"ann\"]");
        nodes.say(0, tab, r#"42["data",{"name":"Ann"}]"#);
        nodes.say(0, tab, "42[\"join\",\"den\"]");
        tab
    });
    nodes.say(0, tabs[0], "41");
    soon(&mut nodes);
    assert_eq!(views.of(0, 1).infos["ann"], r#"{"name":"Ann"}"#);
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

/// When names came back, shards told those that they knew already, as if these were all.
#[test]
fn a_part_of_the_names_was_told_as_all() {
    let (views, mut nodes) = world(1, 10);
    let mut clients = Vec::new();
    for n in 0..11 {
        clients.push(comes(&mut nodes, (0, n % 2), &format!("user {n}")));
    }
    soon(&mut nodes);
    for client in [clients[0], clients[2]] {
        nodes.say(0, client, "42[\"leave\",\"den\"]");
        soon(&mut nodes);
    }
    for shard in 0..2 {
        let view = views.of(0, shard);
        let large = view.counts.iter().skip_while(|count| **count < 11);
        assert_eq!(
            (view.names.len(), large.min()),
            (9, Some(&9)),
            "{:?}",
            view.counts
        );
    }
}

/// A room at a small bound sent all names to all shards for each member that came or went.
#[test]
fn a_room_at_its_bound_does_not_change_to_and_fro() {
    let (views, mut nodes) = world(1, 5);
    for n in 0..5 {
        comes(&mut nodes, (0, n % 2), &format!("user {n}"));
    }
    soon(&mut nodes);
    for _ in 0..3 {
        let last = comes(&mut nodes, (0, 1), "last");
        soon(&mut nodes);
        nodes.say(0, last, "42[\"leave\",\"den\"]");
        soon(&mut nodes);
        assert!(views.of(0, 0).nameless && views.of(0, 0).count == 5);
    }
}

/// The last member of a shard left while the room was too large. All others counted for ever, however small the room became.
#[test]
fn a_shard_that_left_a_large_room_kept_the_others_from_names() {
    let (views, mut nodes) = world(1, 4);
    let crowd: Vec<Client> = (0..5)
        .map(|n| comes(&mut nodes, (0, 0), &format!("user {n}")))
        .collect();
    let other = comes(&mut nodes, (0, 1), "other");
    soon(&mut nodes);
    nodes.say(0, other, "42[\"leave\",\"den\"]");
    soon(&mut nodes);
    for client in &crowd[2..] {
        nodes.say(0, *client, "42[\"leave\",\"den\"]");
    }
    soon(&mut nodes);
    assert_eq!(names(&views.of(0, 0)), ["user 0", "user 1"]);
}

/// A balancer that resets all connections makes users come to other shards, while they are still believed to come back to theirs: they
/// were counted twice, and lost their names.
#[test]
fn users_that_changed_their_place_were_too_many() {
    let (views, mut nodes) = world(2, 10);
    comes(&mut nodes, (1, 0), "witness");
    let crowd: Vec<Client> = (0..8)
        .map(|n| comes(&mut nodes, (0, 0), &format!("user {n}")))
        .collect();
    soon(&mut nodes);
    crowd
        .into_iter()
        .for_each(|client| nodes.net(0).break_off(client));
    for n in 0..8 {
        comes(&mut nodes, (0, 1), &format!("user {n}"));
    }
    (0..80).for_each(|_| nodes.pass(300));
    let view = views.of(1, 0);
    assert_eq!((view.names.len(), view.unnamed, view.wrong), (9, 0, 0));
}

/// A client that asked while others came or went missed what happened between the answer and the next event: the event told how things
/// were other than in the event before, not other than in the answer.
#[test]
fn an_answer_between_two_events_is_mended_by_the_next_one() {
    let (views, mut nodes) = world(1, 100);
    let bob = comes(&mut nodes, (0, 0), "bob");
    soon(&mut nodes);
    let ann = comes(&mut nodes, (0, 0), "ann");
    nodes.say(0, bob, "42[\"ask\"]");
    nodes.say(0, ann, "42[\"leave\",\"den\"]");
    soon(&mut nodes);
    let asked = views.of(0, 0).asked.expect("he asked");
    assert!(!asked.contains("ann"), "a ghost");
    nodes.say(0, ann, "42[\"join\",\"den\"]");
    soon(&mut nodes);
    nodes.say(0, ann, "42[\"leave\",\"den\"]");
    nodes.say(0, bob, "42[\"ask\"]");
    nodes.say(0, ann, "42[\"join\",\"den\"]");
    soon(&mut nodes);
    let asked = views.of(0, 0).asked.expect("he asked");
    assert!(asked.contains("ann"), "she is missing");
}

/// The answer waited for the nodes that were to know of a join before it, and events overtook it.
#[test]
fn an_answer_does_not_wait_for_other_nodes() {
    let (_, mut nodes) = world(2, 100);
    let ann = nodes.client(0, 0);
    nodes.cut_off(0, true);
    nodes.say(0, ann, "42[\"join\",\"den\"]");
    nodes.say(0, ann, "427[\"ask\"]");
    assert_eq!(nodes.texts(0, ann), ["437[]"]);
}

/// The grace of the only member of a shard ended while the way to other nodes was full. The room was forgotten before they were told,
/// and they kept that member for ever.
#[test]
fn a_member_that_was_gone_while_the_way_was_full_stayed_for_ever() {
    let (views, mut nodes) = world(2, 100);
    comes(&mut nodes, (1, 0), "bob");
    let ann = comes(&mut nodes, (0, 0), "ann");
    let cid = nodes.client(0, 1);
    soon(&mut nodes);
    nodes.net(0).break_off(ann);
    soon(&mut nodes);
    assert_eq!(names(&views.of(1, 0)), ["ann", "bob"]);
    nodes.cut_off(0, true);
    (0..1_000).for_each(|_| nodes.say(0, cid, "42[\"say\",\"den\"]"));
    (0..20).for_each(|_| nodes.pass(1_000));
    nodes.cut_off(0, false);
    soon(&mut nodes);
    assert_eq!(names(&views.of(1, 0)), ["bob"]);
}

/// Rooms of which nobody was told are not kept until the way is free: those that come and go meanwhile make nothing grow.
#[test]
fn rooms_that_come_and_go_while_the_way_is_full_make_nothing_grow() {
    let (_, mut nodes) = world(2, 100);
    let cid = nodes.client(0, 0);
    nodes.cut_off(0, true);
    (0..1_000).for_each(|_| nodes.say(0, cid, "42[\"say\",\"den\"]"));
    let rooms = |nodes: &mut Nodes| {
        let memory = nodes.net(0).hub(0).memory();
        memory.into_iter().find(|(part, _)| *part == "rooms")
    };
    let mut after = Vec::new();
    for n in 0..400 {
        nodes.say(0, cid, &format!("42[\"join\",\"d{n}\"]"));
        (0..3).for_each(|_| nodes.pass(300));
        nodes.say(0, cid, &format!("42[\"leave\",\"d{n}\"]"));
        (0..2).for_each(|_| nodes.pass(300));
        after.push(rooms(&mut nodes).expect("rooms").1);
    }
    assert!(after[399] <= after[20] + 2_000, "{after:?}");
}

/// Two nodes got their first member at once, and the first word of neither found the other. Both had said all, and nobody missed anything.
#[test]
fn two_newcomers_whose_first_words_went_nowhere_never_met() {
    let (views, mut nodes) = world(2, 100);
    (0..2).for_each(|node| nodes.cut_off(node, true));
    comes(&mut nodes, (0, 0), "ann");
    comes(&mut nodes, (1, 0), "bob");
    nodes.pass(300);
    nodes.pass(300);
    (0..2).for_each(|node| nodes.loses(node));
    (0..2).for_each(|node| nodes.cut_off(node, false));
    soon(&mut nodes);
    for node in 0..2 {
        assert_eq!(names(&views.of(node, 0)), ["ann", "bob"], "node {node}");
    }
}

/// A socket that was kept for its client got presence in the room of its own id where it came back.
#[test]
fn a_socket_that_came_back_on_another_shard_heard_of_its_own_room() {
    let (views, mut nodes) = world_of(1, &with_recovery());
    let bob = comes(&mut nodes, (0, 0), "bob");
    let ann = nodes.comer(0, 0);
    let welcome = nodes.texts(0, ann).join("");
    let (_, pid) = welcome.split_once("\"pid\":\"").expect("a pid");
    let pid = pid.split('"').next().unwrap_or_default().to_owned();
    nodes.say(0, ann, "42[\"join\",\"den\"]");
    soon(&mut nodes);
    nodes.net(0).break_off(ann);
    soon(&mut nodes);
    // It has no user, and its id comes back.
    assert_eq!(names(&views.of(0, 0)), ["bob", "nobody"]);
    let ann = nodes.net(0).websocket(1, "");
    nodes.say(0, ann, &format!("40{{\"pid\":\"{pid}\"}}"));
    assert!(nodes.texts(0, ann).join("").contains(&pid), "it is back");
    soon(&mut nodes);
    let there = views.of(0, 1);
    assert_eq!(names(&there), ["bob", "nobody"]);
    assert_eq!(
        (views.of(0, 0).elsewhere, there.elsewhere),
        Default::default()
    );
    assert_eq!(views.of(0, 0).wrong, 0);
    nodes.say(0, bob, "42[\"leave\",\"den\"]");
    soon(&mut nodes);
    assert_eq!(names(&views.of(0, 1)), ["nobody"]);
}

/// A socket without a user never has its id again: each reload of such a page left a member for a while.
#[test]
fn a_socket_that_cannot_come_back_is_gone_at_once() {
    let (views, mut nodes) = world(1, 100);
    comes(&mut nodes, (0, 0), "bob");
    let passer = nodes.client(0, 1);
    nodes.say(0, passer, "42[\"join\",\"den\"]");
    soon(&mut nodes);
    assert_eq!(names(&views.of(0, 0)), ["bob", "nobody"]);
    nodes.net(0).break_off(passer);
    soon(&mut nodes);
    assert_eq!(names(&views.of(0, 0)), ["bob"]);
}

/// The other of two tabs left, and with it the one that had lost its connection: on two shards that one was waited for.
#[test]
fn a_lost_tab_is_waited_for_though_another_leaves() {
    let (views, mut nodes) = world(1, 100);
    comes(&mut nodes, (0, 1), "bob");
    let [lost, other] = [(); 2].map(|()| comes(&mut nodes, (0, 0), "ann"));
    soon(&mut nodes);
    nodes.net(0).break_off(lost);
    soon(&mut nodes);
    nodes.say(0, other, "42[\"leave\",\"den\"]");
    soon(&mut nodes);
    assert_eq!(names(&views.of(0, 1)), ["ann", "bob"]);
    (0..50).for_each(|_| nodes.pass(300));
    assert_eq!(names(&views.of(0, 1)), ["bob"]);
}

/// The only member of a shard came and went, and each time all other shards sent that shard their lists.
#[test]
fn a_room_that_was_left_is_heard_of_for_a_while() {
    let (views, mut nodes) = world(2, 100);
    comes(&mut nodes, (1, 0), "bob");
    let ann = comes(&mut nodes, (0, 0), "ann");
    soon(&mut nodes);
    nodes.say(0, ann, "42[\"leave\",\"den\"]");
    soon(&mut nodes);
    comes(&mut nodes, (1, 1), "cid");
    soon(&mut nodes);
    nodes.say(0, ann, "42[\"ask\"]");
    let both = ["bob", "cid"].map(str::to_owned).into();
    assert_eq!(views.of(0, 0).asked, Some(both));
    (0..40).for_each(|_| nodes.pass(300));
    nodes.say(0, ann, "42[\"ask\"]");
    assert_eq!(views.of(0, 0).asked, None);
}

/// A program that asked twice got a part of the members the second time, as if these were all.
#[test]
fn an_answer_says_whether_others_may_have_more() {
    let (views, mut nodes) = world(2, 100);
    comes(&mut nodes, (0, 0), "ann");
    let asker = nodes.client(1, 1);
    let ask = |nodes: &mut Nodes| {
        nodes.say(1, asker, "42[\"watch\",\"den\"]");
        views.of(1, 1).answer.expect("it asked")
    };
    assert_eq!(ask(&mut nodes), Ok((0, false)));
    nodes.mute(0, true);
    nodes.pass(300);
    nodes.pass(300);
    // The others were asked, and did not answer yet.
    assert_eq!(ask(&mut nodes), Ok((0, false)));
    nodes.mute(0, false);
    nodes.pass(300);
    assert_eq!(ask(&mut nodes), Ok((1, true)));
}

/// The number of rooms that programs may ask for kept them from rooms that are known anyway.
#[test]
fn rooms_that_are_known_anyway_were_refused() {
    let (views, mut nodes) = world(1, 100);
    comes(&mut nodes, (0, 0), "ann");
    let asker = nodes.client(0, 0);
    soon(&mut nodes);
    for n in 0..1_000 {
        nodes.say(0, asker, &format!("42[\"watch\",\"d{n}\"]"));
        nodes.pass(1);
    }
    soon(&mut nodes);
    let answers = [
        ("den", Ok((1, true))),
        ("d7", Ok((0, true))),
        ("d1000", Err(Unwatched::TooMany)),
        ("hall", Err(Unwatched::NoPresence)),
    ];
    for (room, answer) in answers {
        nodes.say(0, asker, &format!("42[\"watch\",\"{room}\"]"));
        assert_eq!(views.of(0, 0).answer, Some(answer), "{room}");
    }
    // They are heard of for a minute.
    (0..61).for_each(|_| nodes.pass(1_000));
    let asker = nodes.client(0, 0);
    nodes.say(0, asker, "42[\"watch\",\"d1000\"]");
    assert_eq!(views.of(0, 0).answer, Some(Ok((0, false))));
}

/// Something was missed, and all rooms said all they had in one step, however much that was.
#[test]
fn all_rooms_are_not_told_in_one_step() {
    let (_, mut nodes) = world(2, 100);
    let info = "x".repeat(1_000);
    for client in 0..8 {
        let one = nodes.client(0, 0);
        nodes.say(0, one, &format!("42[\"data\",{{\"name\":\"{info}\"}}]"));
        for room in 0..80 {
            nodes.say(0, one, &format!("42[\"join\",\"d{client} {room}\"]"));
        }
    }
    soon(&mut nodes);
    nodes.cut_off(0, true);
    nodes.missed(0, 1);
    nodes.pass(300);
    let waiting = nodes.waiting(0);
    assert!((200_000..400_000).contains(&waiting), "{waiting} bytes");
    // The rest follows when there is room.
    nodes.cut_off(0, false);
    soon(&mut nodes);
    assert_eq!(nodes.waiting(0), 0);
}
