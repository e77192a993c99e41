//! History and the live stream of a room are one stream: a client that joins gets each message once, in the room's order,
//! whatever order the letters between the shards arrive in.

use crate::identity::{claims, config, frame, joined, received, websocket};
use crate::rig::net::{Client, Net};
use crate::rig::{Rig, handler, rule};
use fastrand::Rng;
use hub::claims::Claims;
use hub::config::{AuthStyle, Config};
use rules::{Action, EventRule, NamespaceRules, Rules};

const ROOM: &str = "room";

fn rules() -> Rules {
    let kept = |room: Option<&str>| EventRule {
        history: true,
        ..rule(Action::Rooms {
            room: room.map(str::to_owned),
            echo: true,
        })
    };
    let main = NamespaceRules {
        client_joins: true,
        events: [
            ("say".to_owned(), kept(Some(ROOM))),
            ("tell".to_owned(), kept(None)),
        ]
        .into(),
        ..NamespaceRules::new(rule(Action::Drop))
    };
    Rules {
        namespaces: [("/".to_owned(), main)].into(),
    }
}

/// A client in the room, what it was told of it, and how many messages had been sent when its join was acknowledged.
struct Listener {
    client: Client,
    heard: Vec<u64>,
    joined_after: Option<u64>,
}

impl Listener {
    fn join(net: &mut Net, at: usize) -> Listener {
        let client = net.client(at);
        net.say(client, &format!("420[\"join\",\"{ROOM}\"]"));
        Listener {
            client,
            heard: Vec::new(),
            joined_after: None,
        }
    }

    fn hear(&mut self, net: &mut Net, sent: u64) {
        for text in net.texts(self.client) {
            if text.starts_with("430[") {
                self.joined_after = Some(sent);
            } else {
                // `42["say",7]`, or `42["history",{…"args":[5]},{…"args":[6]}…]`: the only numbers are the messages'.
                let numbers = text[2..].split(|c: char| !c.is_ascii_digit());
                self.heard
                    .extend(numbers.filter_map(|number| number.parse::<u64>().ok()));
            }
        }
    }
}

/// One run: publishers on all shards, clients that join meanwhile, letters that arrive in an order of the seed's choosing.
fn play(seed: u64) {
    let mut dice = Rng::with_seed(seed);
    let mut net = Net::new(3, &Config::default(), |_| handler(&rules()));
    let publishers: Vec<Client> = (0..3).map(|at| net.client(at)).collect();
    let mut listeners = vec![Listener::join(&mut net, dice.usize(..3))];
    net.settle();
    let mut sent = 0;
    for _ in 0..120 {
        match dice.u8(..10) {
            0..2 if sent < 40 => {
                sent += 1;
                net.say(publishers[dice.usize(..3)], &format!("42[\"say\",{sent}]"));
            }
            2 if listeners.len() < 8 => listeners.push(Listener::join(&mut net, dice.usize(..3))),
            _ => {
                let routes = net.routes();
                if !routes.is_empty() {
                    net.carry_one(routes[dice.usize(..routes.len())]);
                }
            }
        }
        listeners
            .iter_mut()
            .for_each(|listener| listener.hear(&mut net, sent));
    }
    net.settle();
    listeners
        .iter_mut()
        .for_each(|listener| listener.hear(&mut net, sent));
    let order = listeners[0].heard.clone();
    assert_eq!(
        order.len() as u64,
        sent,
        "seed {seed}: the first member got {order:?}"
    );
    for (n, listener) in listeners.iter().enumerate() {
        let (heard, from) = (
            &listener.heard,
            order.len() - listener.heard.len().min(order.len()),
        );
        assert_eq!(
            *heard,
            order[from..],
            "seed {seed}: listener {n}, the room's order is {order:?}"
        );
        let joined_after = listener.joined_after.expect("joins are acknowledged");
        let missed = (joined_after + 1..=sent).find(|number| !heard.contains(number));
        assert_eq!(missed, None, "seed {seed}: listener {n} had joined");
    }
}

/// An event and its record were two letters to two shards: a client that joined between them missed the event, got it twice,
/// or saw another order than the members did.
#[test]
fn a_joiner_gets_each_message_once_and_in_the_rooms_order() {
    seeds::seeds(300).for_each(play);
}

/// Each room has its own home: an event for several rooms goes several ways.
#[test]
fn a_member_of_several_rooms_gets_an_event_once() {
    let mut net = Net::new(3, &Config::default(), |_| handler(&rules()));
    let clients = [0, 1, 2].map(|at| net.client(at));
    for room in ["a", "b", "c", "d"] {
        for client in clients {
            net.say(client, &format!("42[\"join\",\"{room}\"]"));
        }
    }
    net.settle();
    let late = net.client(1);
    net.say(clients[0], "42[\"tell\",1]");
    net.settle();
    for client in clients {
        assert_eq!(net.texts(client), ["42[\"tell\",1]"]);
    }
    for room in ["a", "d"] {
        net.say(late, &format!("42[\"join\",\"{room}\"]"));
        net.settle();
        let texts = net.texts(late);
        assert_eq!(texts.len(), 1, "room {room} kept it: {texts:?}");
    }
}

/// Joining again is joining once, and brings no second history.
#[test]
fn a_member_gets_no_history_of_what_it_has_had() {
    let mut net = Net::new(2, &Config::default(), |_| handler(&rules()));
    let client = net.client(0);
    for _ in 0..3 {
        net.say(client, &format!("42[\"join\",\"{ROOM}\"]"));
        net.settle();
        net.say(client, "42[\"say\",1]");
        net.settle();
    }
    assert_eq!(net.texts(client), ["42[\"say\",1]"; 3]);
}

/// The token's rooms and the configured ones told their histories one after the other: twice, where a room was both.
#[test]
fn a_room_of_the_token_that_is_joined_by_configuration_too_tells_its_history_once() {
    let mut rules = rules();
    let main = rules.namespaces.get_mut("/").expect("the namespace");
    main.auto_join = vec![ROOM.to_owned()];
    let mut rig = Rig::new(config(AuthStyle::Strict, true), handler(&rules), 1);
    let claims = |uid: &str| Claims {
        rooms: vec![ROOM.to_owned()],
        ..claims(uid)
    };
    let first = joined(&mut rig, claims("ann"));
    rig.send(first, &frame("42[\"say\",7]"));
    let second = websocket(&mut rig, "/socket.io/?EIO=4&transport=websocket", "");
    rig.send(second, &frame("40{\"token\":\"t\"}"));
    rig.answer(Ok(claims("bob")));
    let told = received(&mut rig, second).concat();
    assert_eq!(told.matches("\"history\"").count(), 1, "{told}");
}

/// A listener that may be cut, and shows what it has when it comes back.
struct Returner {
    listener: Listener,
    pid: String,
    offset: Option<String>,
    /// Sockets that it had, and had again.
    sockets: u32,
}

fn text_after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark)?.1.split('"').next()
}

impl Returner {
    fn join(net: &mut Net, at: usize) -> Returner {
        let client = net.websocket(at, "");
        net.say(client, "40");
        net.settle();
        let answer = net.texts(client).concat();
        net.say(client, &format!("420[\"join\",\"{ROOM}\"]"));
        Returner {
            listener: Listener {
                client,
                heard: Vec::new(),
                joined_after: None,
            },
            pid: text_after(&answer, "\"pid\":\"").expect("a pid").to_owned(),
            offset: None,
            sockets: 1,
        }
    }

    fn hear(&mut self, net: &mut Net) {
        for text in net.texts(self.listener.client) {
            if text.starts_with("430[") {
                continue;
            }
            // The offset is the last argument of each event.
            let (event, rest) = text.rsplit_once(",\"").expect("an offset");
            self.offset = rest.split('"').next().map(str::to_owned);
            let numbers = event[2..].split(|c: char| !c.is_ascii_digit());
            let numbers = numbers.filter_map(|number| number.parse::<u64>().ok());
            self.listener.heard.extend(numbers);
        }
    }

    /// What is on its way to it is lost. It comes back to any shard; if its socket is gone, it is somebody new.
    fn is_cut(&mut self, net: &mut Net, at: usize) {
        net.raw(self.listener.client);
        net.break_off(self.listener.client);
        let client = net.websocket(at, "");
        let offset = self.offset.as_ref();
        let offset = offset.map_or_else(String::new, |at| format!(",\"offset\":\"{at}\""));
        net.say(client, &format!("40{{\"pid\":\"{}\"{offset}}}", self.pid));
        self.listener.client = client;
    }
}

fn play_with_cuts(seed: u64) -> u32 {
    let mut dice = Rng::with_seed(seed);
    let recover = hub::config::Recover {
        window: std::time::Duration::from_secs(60),
        offsets: hub::config::Offsets::All,
        goes_abroad: false,
        chronicle: false,
        replicas: 0,
    };
    let config = Config {
        recovery: hub::config::Recovery {
            namespaces: [("/".to_owned(), Some(recover))].into(),
        },
        ..Config::default()
    };
    let mut rules = rules();
    if let Some(main) = rules.namespaces.get_mut("/") {
        main.recovers = true;
    }
    let mut net = Net::new(3, &config, |_| handler(&rules));
    let publishers: Vec<Client> = (0..3).map(|at| net.client(at)).collect();
    let mut returner = Returner::join(&mut net, dice.usize(..3));
    let (mut sent, mut cuts) = (0, dice.u32(1..4));
    for _ in 0..80 {
        match dice.u8(..10) {
            0..3 => {
                sent += 1;
                net.say(publishers[dice.usize(..3)], &format!("42[\"say\",{sent}]"));
            }
            3 if cuts > 0 => {
                cuts -= 1;
                returner.is_cut(&mut net, dice.usize(..3));
                net.settle();
                let texts = net.raw(returner.listener.client);
                let texts = String::from_utf8_lossy(&texts).into_owned();
                if !texts.contains(&returner.pid) {
                    // It is told that it is somebody new, and begins anew.
                    returner = Returner::join(&mut net, dice.usize(..3));
                    continue;
                }
                returner.sockets += 1;
                // What it missed came behind the answer: it is read as if it came now.
                let behind = texts.split("42[").skip(1);
                for event in behind {
                    let numbers = event.rsplit_once(",\"").expect("an offset");
                    let offset = numbers.1.split('"').next();
                    returner.offset = offset.map(str::to_owned);
                    let numbers = numbers.0.split(|c: char| !c.is_ascii_digit());
                    let numbers = numbers.filter_map(|number| number.parse::<u64>().ok());
                    returner.listener.heard.extend(numbers);
                }
            }
            _ => {
                let routes = net.routes();
                if !routes.is_empty() {
                    net.carry_one(routes[dice.usize(..routes.len())]);
                }
            }
        }
        if dice.bool() {
            returner.hear(&mut net);
        }
    }
    net.settle();
    returner.hear(&mut net);
    let heard = &returner.listener.heard;
    let mut sorted = heard.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), heard.len(), "seed {seed}: twice: {heard:?}");
    // The room keeps all: who is in it has all.
    let missed = (1..=sent).find(|number| !heard.contains(number));
    assert_eq!(missed, None, "seed {seed}: {heard:?}");
    returner.sockets
}

/// A member that waited for the history when it was cut missed what was kept; one that was cut before it had the history got what was said
/// meanwhile once by itself and once within it.
#[test]
fn a_member_that_is_cut_before_it_has_the_history_gets_each_message_once() {
    let seeds = seeds::seeds(600);
    let least = seeds.end - seeds.start;
    let sockets: u32 = seeds.map(play_with_cuts).sum();
    assert!(least < 600 || sockets > 700, "nobody came back");
}
