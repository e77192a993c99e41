//! Event streams that come back: what they are told, and what the ids of their events say.

use crate::publication::rules;
use crate::rig::net::{Client, Net};
use crate::rig::nodes::Nodes;
use crate::rig::{Rig, handler, masked};
use hub::Written;
use hub::config::{Config, SlowConsumer, SlowEvents};

fn get(query: &str, last: &str) -> String {
    let header = match last {
        "" => String::new(),
        last => format!("Last-Event-ID: {last}\r\n"),
    };
    format!("GET /sse?{query} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n{header}\r\n")
}

/// The data of the events, and the last id.
fn heard(bytes: &[u8]) -> (Vec<String>, String) {
    let text = String::from_utf8_lossy(bytes);
    let of = |field: &str| -> Vec<String> {
        let lines = text.lines();
        lines
            .filter_map(|line| line.strip_prefix(field).map(str::to_owned))
            .collect()
    };
    let last = of("id: ").pop().unwrap_or_default();
    (of("data: "), last)
}

/// The numbers in the histories of a stream, and what it was told of them.
fn histories(data: &[String]) -> Vec<(String, Option<bool>, Vec<u64>)> {
    let histories = data.iter().filter(|text| text.contains("\"history\""));
    histories
        .map(|text| {
            let room = text.split("\"room\":\"").last().expect("a room");
            let room = room.split('"').next().expect("a name").to_owned();
            let told = text.contains("\"resumed\":");
            let messages = text.split("\"messages\":").nth(1).expect("a list");
            let numbers = messages.split(|c: char| !c.is_ascii_digit());
            let numbers = numbers.filter_map(|number| number.parse().ok());
            let resumed = told.then(|| text.contains("\"resumed\":true"));
            (room, resumed, numbers.collect())
        })
        .collect()
}

struct World {
    net: Net,
    speakers: Vec<Client>,
}

impl World {
    /// A speaker in each of the rooms, on one shard after the other.
    fn new(rooms: &[&str], auto_join: &[&str]) -> Self {
        let mut rules = rules();
        let main = rules.namespaces.get_mut("/").expect("the namespace");
        main.auto_join = auto_join.iter().map(|room| (*room).to_owned()).collect();
        let mut net = Net::new(3, &Config::default(), |_| handler(&rules));
        let speakers = rooms.iter().enumerate().map(|(n, room)| {
            let client = net.client(n % 3);
            auto_join
                .iter()
                .for_each(|other| net.say(client, &format!("42[\"leave\",\"{other}\"]")));
            net.say(client, &format!("42[\"join\",\"{room}\"]"));
            net.settle();
            client
        });
        let speakers = speakers.collect();
        Self { net, speakers }
    }

    fn tell(&mut self, speaker: usize, number: u64) {
        self.net
            .say(self.speakers[speaker], &format!("42[\"tell\",{number}]"));
        self.net.settle();
    }

    fn stream(&mut self, at: usize, query: &str, last: &str) -> Client {
        let stream = self.net.request(at, &get(query, last));
        self.net.settle();
        stream
    }

    fn heard(&mut self, stream: Client) -> (Vec<String>, String) {
        heard(&self.net.raw(stream))
    }
}

/// The way in was booked as a history of its own, which other clients have for nothing.
#[test]
fn a_stream_gets_as_many_histories_in_a_second_as_others() {
    let rooms: Vec<String> = (0..21).map(|n| format!("r{n}")).collect();
    let names: Vec<&str> = rooms.iter().map(String::as_str).collect();
    let mut world = World::new(&names, &[]);
    (0..rooms.len()).for_each(|n| world.tell(n, 1));
    let query: Vec<String> = rooms.iter().map(|room| format!("room={room}")).collect();
    let stream = world.stream(0, &query.join("&"), "");
    let (data, _) = world.heard(stream);
    assert_eq!(histories(&data).len(), 20, "{data:?}");
    let client = world.net.client(0);
    for room in &rooms {
        world.net.say(client, &format!("42[\"join\",\"{room}\"]"));
    }
    world.net.settle();
    let texts = world.net.texts(client);
    let told = texts.iter().filter(|text| text.contains("\"history\""));
    assert_eq!(told.count(), 20, "{texts:?}");
}

/// Each event overwrote the id, also one of a room that the stream had not asked for: it came back with a place in that one.
#[test]
fn events_of_rooms_that_a_stream_did_not_ask_for_do_not_move_its_place() {
    let mut world = World::new(&["den", "lobby"], &["lobby"]);
    world.tell(0, 1);
    let stream = world.stream(1, "room=den", "");
    world.tell(0, 2);
    world.tell(1, 70);
    let (data, last) = world.heard(stream);
    assert!(
        data.last().is_some_and(|text| text.contains("70")),
        "{data:?}"
    );
    world.net.break_off(stream);
    world.tell(0, 3);
    let again = world.stream(2, "room=den", &last);
    let (data, _) = world.heard(again);
    let den: Vec<_> = histories(&data)
        .into_iter()
        .filter(|(room, ..)| room == "den")
        .collect();
    assert_eq!(den, [("den".to_owned(), Some(true), vec![3])], "{data:?}");
}

#[test]
fn a_stream_of_several_rooms_comes_back_to_its_place_in_each() {
    let mut world = World::new(&["a", "b", "c"], &[]);
    world.tell(0, 1);
    let stream = world.stream(0, "room=a&room=b", "");
    world.tell(1, 2);
    world.tell(0, 3);
    let (_, last) = world.heard(stream);
    world.net.break_off(stream);
    world.tell(1, 4);
    world.tell(0, 5);
    world.tell(2, 6);
    // In another order, on another shard, and with a room more.
    let again = world.stream(1, "room=b&room=c&room=a", &last);
    let (data, last) = world.heard(again);
    let mut told = histories(&data);
    told.sort();
    let expected = [
        ("a".to_owned(), Some(true), vec![5]),
        ("b".to_owned(), Some(true), vec![4]),
        ("c".to_owned(), Some(false), vec![6]),
    ];
    assert_eq!(told, expected, "{data:?}");
    world.net.break_off(again);
    let third = world.stream(2, "room=a&room=b&room=c", &last);
    let told = histories(&world.heard(third).0);
    assert_eq!(told.len(), 3);
    assert!(
        told.iter()
            .all(|(_, resumed, missed)| *resumed == Some(true) && missed.is_empty())
    );
}

/// One that breaks off before all its histories are there does not skip the others.
#[test]
fn a_stream_that_breaks_off_between_two_histories_misses_none() {
    for cut in 0..6 {
        let mut world = World::new(&["a", "b"], &[]);
        let stream = world.stream(0, "room=a&room=b", "");
        let last = world.heard(stream).1;
        world.net.break_off(stream);
        world.tell(0, 1);
        world.tell(1, 2);
        let again = world.net.request(1, &get("room=a&room=b", &last));
        for _ in 0..cut {
            if let Some(route) = world.net.routes().first().copied() {
                world.net.carry_one(route);
            }
        }
        let (data, told) = world.heard(again);
        world.net.break_off(again);
        world.net.settle();
        let last = if told.is_empty() { last } else { told };
        let third = world.stream(2, "room=a&room=b", &last);
        let mut all = histories(&data);
        all.extend(histories(&world.heard(third).0));
        let missed = all.iter().flat_map(|(.., numbers)| numbers);
        let mut missed: Vec<u64> = missed.copied().collect();
        missed.sort_unstable();
        assert_eq!(missed, [1, 2], "cut after {cut} letters: {all:?}");
        assert!(all.iter().all(|(_, resumed, _)| *resumed == Some(true)));
    }
}

/// Both logs had the millisecond of their first event for a name, and each an order of its own.
#[test]
fn an_id_of_another_node_is_not_taken_for_ones_own() {
    let mut nodes = Nodes::new(2, &Config::default(), || handler(&rules()));
    let speakers = [0, 1].map(|node| {
        let client = nodes.client(node, 0);
        nodes.say(node, client, "42[\"join\",\"a\"]");
        client
    });
    let stream = nodes.request(0, 1, &get("room=a", ""));
    // Two letters cross: each node has its own first.
    for (node, speaker) in speakers.into_iter().enumerate() {
        nodes
            .net(node)
            .say(speaker, &format!("42[\"tell\",{}]", node + 1));
        nodes.net(node).settle();
    }
    let (_, had_first) = heard(&nodes.net(0).raw(stream));
    nodes.settle();
    let again = nodes.request(1, 1, &get("room=a", &had_first));
    let told = histories(&heard(&nodes.net(1).raw(again)).0);
    assert_eq!(told, [("a".to_owned(), Some(false), vec![2, 1])]);
}

/// A slow stream lost events, and the ids of later ones hid that.
#[test]
fn a_slow_stream_is_ended_and_comes_back_for_what_it_missed() {
    for policy in [
        SlowConsumer::DropOldest,
        SlowConsumer::DropNewest,
        SlowConsumer::Conflate,
    ] {
        let mut config = Config::default();
        config.limits.outbox_bytes_max = 4_096;
        let events = SlowEvents { policy, key: None };
        config.slow_consumers.insert("/".to_owned(), events);
        let mut rig = Rig::new(config, handler(&rules()), 1);
        let stream = rig.open();
        rig.send(stream, get("room=a", "").as_bytes());
        let (_, first) = heard(&rig.take(stream));
        let speaker = rig.open();
        rig.send(
            speaker,
            b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
              Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        );
        rig.send(speaker, &masked(b"40"));
        rig.send(speaker, &masked(b"42[\"join\",\"a\"]"));
        rig.wires.kernel = Box::new(move |name, n| match name == stream {
            true => Written::WouldBlock,
            false => Written::Bytes(n),
        });
        let pad = "x".repeat(300);
        (1..=30).for_each(|n| {
            rig.send(
                speaker,
                &masked(format!("42[\"say\",{n},\"{pad}\"]").as_bytes()),
            )
        });
        rig.wires.kernel = Box::new(|_, n| Written::Bytes(n));
        if rig.conn(stream).is_some() {
            rig.writable(stream);
        }
        let (data, last) = heard(&rig.take(stream));
        let had: Vec<u64> = (1..=30)
            .filter(|n| data.iter().any(|text| text.contains(&format!("[{n},"))))
            .collect();
        let last = if last.is_empty() { first } else { last };
        let again = rig.open();
        rig.send(again, get("room=a", &last).as_bytes());
        let told = histories(&heard(&rig.take(again)).0);
        let [(_, resumed, missed)] = &told[..] else {
            panic!("{policy:?}: {told:?}")
        };
        assert_eq!(*resumed, Some(true), "{policy:?}");
        let all: Vec<u64> = had.iter().chain(missed).copied().collect();
        assert_eq!(all, (1..=30).collect::<Vec<_>>(), "{policy:?}: had {had:?}");
    }
}
