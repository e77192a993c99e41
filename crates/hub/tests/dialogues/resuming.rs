//! Clients of the plain protocol that come back: what they say first, what they are told, and what they missed.

use crate::compression::upgrade;
use crate::rig::net::{Client, Net};
use crate::rig::{Rig, frames, masked};
use hub::config::{Config, Offsets, Recover, Recovery, SlowConsumer, SlowEvents};
use hub::{
    ConnectRequest, Context, Decision, Emit, Event, Handler, Keeping, Keeps, SocketKey, Written,
};
use std::sync::Arc;
use std::time::Duration;

/// Says what clients say to the room `den`.
struct Hall;

impl Handler for Hall {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn keeping(&self) -> Arc<Keeping> {
        Arc::new(Keeping::new([("/".to_owned(), Some(Keeps::default()))]))
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        match event.name {
            "join" => cx.socket(socket).join("den").expect("a good name"),
            name => drop(cx.of("/").to(&["den"]).emit(&Emit::new(name, event.args))),
        }
    }
}

fn config(recovers: bool) -> Config {
    let recover = Recover {
        window: Duration::from_secs(60),
        offsets: Offsets::Asked,
        goes_abroad: false,
        chronicle: false,
        replicas: 0,
    };
    Config {
        recovery: match recovers {
            true => Recovery {
                namespaces: [("/".to_owned(), Some(recover))].into(),
            },
            false => Recovery::default(),
        },
        ..Config::default()
    }
}

struct World {
    net: Net,
    speaker: Client,
}

impl World {
    fn new(recovers: bool) -> Self {
        let mut net = Net::new(2, &config(recovers), |_| Box::new(Hall));
        let speaker = net.client(0);
        Self { net, speaker }
    }

    fn says(&mut self, numbers: std::ops::Range<u64>) {
        for n in numbers {
            self.net.say(self.speaker, &format!("42[\"shout\",{n}]"));
            self.net.settle();
        }
    }

    fn joins(&mut self, client: Client) {
        let join = "{\"type\":\"join\",\"room\":\"den\"}";
        self.net.say(client, join);
        self.net.settle();
    }

    /// A client on a shard, and the answer to its first word.
    fn resumes(&mut self, at: usize, first: &str) -> (Client, Vec<String>) {
        let client = self.net.plain(at, "recovery=1");
        self.net.say(client, first);
        self.net.settle();
        let texts = self.net.texts(client);
        (client, texts)
    }
}

fn member(text: &str, name: &str) -> String {
    let (_, rest) = text.split_once(&format!("\"{name}\":")).expect("a member");
    let end = rest.find([',', '}']).unwrap_or(rest.len());
    rest[..end].trim_matches('"').to_owned()
}

fn numbers(texts: &[String]) -> Vec<u64> {
    let said = texts.iter().filter(|text| text.contains("\"shout\""));
    said.map(|text| member(text, "payload").parse().expect("a number"))
        .collect()
}

#[test]
fn a_plain_client_comes_back_to_what_it_missed() {
    let mut world = World::new(true);
    let (client, told) = world.resumes(0, "{\"type\":\"resume\"}");
    assert_eq!(member(&told[0], "recovered"), "false", "{told:?}");
    let pid = member(&told[0], "pid");
    world.joins(client);
    world.says(0..2);
    let texts = world.net.texts(client);
    assert_eq!(numbers(&texts), [0, 1]);
    let offset = member(texts.last().expect("a word"), "offset");
    world.net.break_off(client);
    world.says(2..6);
    // On the other shard, too, and as often as it likes.
    let mut known = offset;
    for (at, missed) in [(1, vec![2, 3, 4, 5]), (0, vec![]), (0, vec![])] {
        let first = format!("{{\"type\":\"resume\",\"pid\":\"{pid}\",\"offset\":\"{known}\"}}");
        let (client, told) = world.resumes(at, &first);
        assert_eq!(member(&told[0], "recovered"), "true", "{told:?}");
        assert_eq!(member(&told[0], "pid"), pid);
        assert_eq!(numbers(&told), missed);
        let rooms = told[1..]
            .iter()
            .filter(|text| member(text, "room") == "den");
        assert_eq!(rooms.count(), missed.len(), "{told:?}");
        if let Some(last) = told.iter().rfind(|text| text.contains("\"offset\"")) {
            known = member(last, "offset");
        }
        world.net.break_off(client);
    }
}

#[test]
fn one_that_comes_too_late_is_told_that_it_is_new() {
    let mut world = World::new(true);
    let (client, told) = world.resumes(0, "{\"type\":\"resume\"}");
    let pid = member(&told[0], "pid");
    world.net.break_off(client);
    world.net.pass(61_000);
    let first = format!("{{\"type\":\"resume\",\"pid\":\"{pid}\"}}");
    for (first, why) in [
        (&*first, "its window is over"),
        ("{\"type\":\"resume\",\"pid\":\"mine\"}", "no pid of ours"),
    ] {
        let (_, told) = world.resumes(1, first);
        assert_eq!(member(&told[0], "recovered"), "false", "{why}");
        assert_ne!(member(&told[0], "pid"), pid, "{why}");
    }
}

#[test]
fn where_nobody_comes_back_one_that_asks_is_told_so() {
    let mut world = World::new(false);
    let (client, told) = world.resumes(0, "{\"type\":\"resume\"}");
    assert_eq!(member(&told[0], "pid"), "null");
    world.joins(client);
    world.says(0..1);
    let texts = world.net.texts(client);
    assert_eq!(numbers(&texts), [0]);
    assert!(!texts[0].contains("offset"), "{texts:?}");
}

#[test]
fn who_asks_for_recovery_says_so_first() {
    let mut world = World::new(true);
    let hasty = world.net.plain(0, "recovery=1");
    world.joins(hasty);
    let told = world.net.raw(hasty);
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("INVALID_MESSAGE_FORMAT"), "{told}");
    assert!(world.net.has_ended(hasty));
    // And one that says nothing does not stay for ever.
    let silent = world.net.plain(0, "recovery=1");
    let timeout = Config::default().connect_timeout;
    world.net.pass(timeout.as_millis() as u64 + 1_000);
    assert!(world.net.has_ended(silent));
    // To others the word means nothing.
    let other = world.net.plain(0, "");
    world.net.say(other, "{\"type\":\"resume\"}");
    let texts = world.net.texts(other);
    assert!(texts[0].contains("INVALID_MESSAGE_FORMAT"), "{texts:?}");
    assert!(!world.net.has_ended(other));
}

/// A client that does not read, in its room; one that speaks; and what the first was told when it read again.
fn stalls(policy: SlowConsumer, path: &str, words: &[&str]) -> Vec<String> {
    let mut config = config(true);
    config.limits.outbox_bytes_max = 64 * 1024;
    let slow = SlowEvents { policy, key: None };
    config.slow_consumers.insert("/".to_owned(), slow);
    let mut rig = Rig::new(config, Box::new(Hall), 3);
    let client = upgrade(&mut rig, path, "").0;
    words
        .iter()
        .for_each(|word| rig.send(client, &masked(word.as_bytes())));
    let speaker = upgrade(&mut rig, "/socket.io/?EIO=4&transport=websocket", "").0;
    rig.send(speaker, &masked(b"40"));
    rig.take(client);
    rig.wires.kernel = Box::new(move |name, n| match name == client {
        true => Written::WouldBlock,
        false => Written::Bytes(n),
    });
    let text = "x".repeat(3_000);
    for n in 0..60 {
        let said = format!("42[\"shout\",\"{n} {text}\"]");
        rig.send(speaker, &masked(said.as_bytes()));
    }
    rig.wires.kernel = Box::new(|_, n| Written::Bytes(n));
    rig.writable(client);
    rig.end_turn();
    let frames = frames(&rig.take(client), false);
    frames.iter().map(|frame| frame.text().to_owned()).collect()
}

/// A slow client lost events, and stayed as if it had all.
#[test]
fn a_client_that_stayed_was_not_told_of_what_it_lost() {
    let plain: (&str, &[&str]) = (
        "/ws?recovery=1",
        &[
            "{\"type\":\"resume\"}",
            "{\"type\":\"join\",\"room\":\"den\"}",
        ],
    );
    let stock: (&str, &[&str]) = (
        "/socket.io/?EIO=4&transport=websocket&recovery=1",
        &["40", "42[\"join\",\"den\"]"],
    );
    for (path, words) in [plain, stock] {
        for policy in [SlowConsumer::DropNewest, SlowConsumer::DropOldest] {
            let told = stalls(policy, path, words);
            let gaps = told.iter().filter(|text| text.contains("sockeye:gap"));
            let gaps: Vec<&String> = gaps.collect();
            assert!((1..=2).contains(&gaps.len()), "{policy:?} {path}: {gaps:?}");
            let named = gaps
                .iter()
                .all(|text| text.contains("{\"rooms\":[\"den\"]}"));
            assert!(named, "{policy:?} {path}: {gaps:?}");
        }
        let told = stalls(SlowConsumer::Conflate, path, words);
        let gaps = told.iter().filter(|text| text.contains("sockeye:gap"));
        assert_eq!(gaps.count(), 0, "the newest is there");
    }
    let (_, words) = stock;
    let asks_nothing = "/socket.io/?EIO=4&transport=websocket";
    let told = stalls(SlowConsumer::DropNewest, asks_nothing, words);
    assert!(!told.iter().any(|text| text.contains("sockeye:gap")));
}
