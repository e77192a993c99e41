//! Questions with many answers: acks of a broadcast, lists of sockets. The result tells of sockets that were not reached, did not answer or were not asked.

use crate::heard::{Heard, Notes};
use crate::rig::net::{Client, Net};
use crate::rig::nodes::Nodes;
use hub::config::{Config, Rate};
use hub::{
    Collected, ConnectRequest, Context, Decision, DisconnectReason, Emit, Event, Found, Handler,
    SocketKey,
};
use std::time::Duration;

/// Puts every socket into `room`, and asks when it is told to.
#[derive(Clone, Default)]
struct Asker(Notes);

impl Handler for Asker {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: &str) {
        cx.socket(socket).join("room").expect("a good name");
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        let question = Emit::new("question", "");
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        match event.name {
            "collect" => cx.of("/").to(&["room"]).collect(&question, second, 7),
            "hurry" => {
                let question = Emit {
                    volatile: true,
                    ..question
                };
                cx.of("/").to(&["room"]).collect(&question, second, 7);
            }
            "fetch" => cx.of("/").to(&["room"]).fetch(second, 8),
            _ => {
                let asked = cx.socket(socket).ask(&question, minute, 9);
                self.0.note(Heard::Asked(asked));
            }
        }
    }

    fn acked(&mut self, _: &mut Context<'_>, _: SocketKey, _: u64, _: &str, _: &[Vec<u8>]) {
        self.0.note(Heard::Acked);
    }

    fn ack_timed_out(&mut self, _: &mut Context<'_>, _: SocketKey, _: u64) {
        self.0.note(Heard::AckTimedOut);
    }

    fn collected(&mut self, _: &mut Context<'_>, _: u64, collected: Collected) {
        self.0.note(Heard::Collected(collected));
    }

    fn found(&mut self, _: &mut Context<'_>, _: u64, found: Found) {
        self.0.note(Heard::Found(found));
    }

    fn disconnected(&mut self, _: &mut Context<'_>, _: SocketKey, _: DisconnectReason) {
        self.0.note(Heard::Disconnected);
    }
}

fn world(hubs: usize, acks_max: usize) -> (Asker, Net) {
    let asker = Asker::default();
    let mut config = Config::default();
    config.limits.acks_outstanding_max = acks_max;
    let net = Net::new(hubs, &config, |_| Box::new(asker.clone()));
    (asker, net)
}

/// The id of the ack that the client was asked for.
fn question(net: &mut Net, client: Client) -> String {
    let texts = net.texts(client);
    let [text] = &texts[..] else {
        panic!("one question, not {texts:?}")
    };
    let id = text
        .strip_prefix("42")
        .and_then(|text| text.strip_suffix("[\"question\"]"));
    id.unwrap_or_else(|| panic!("a question, not {text}"))
        .to_owned()
}

fn answer(net: &mut Net, client: Client, args: &str) {
    let id = question(net, client);
    net.say(client, &format!("43{id}[{args}]"));
}

#[test]
fn answers_and_silence_are_counted() {
    let (asker, mut net) = world(2, 100);
    let clients = [0, 0, 1, 1].map(|at| net.client(at));
    net.settle();
    net.say(clients[0], "42[\"collect\"]");
    net.settle();
    for client in [clients[0], clients[2]] {
        answer(&mut net, client, "1");
    }
    net.settle();
    assert_eq!(asker.0.heard(), []);
    net.pass(1_000);
    let collected = asker.0.collected();
    assert_eq!(
        (
            collected.acked,
            collected.timed_out,
            collected.answers.len()
        ),
        (2, 2, 2)
    );
    assert!(!collected.complete);
}

#[test]
fn a_round_is_over_when_the_last_answer_is_there() {
    let (asker, mut net) = world(3, 100);
    let clients = [0, 1, 2].map(|at| net.client(at));
    net.settle();
    net.say(clients[1], "42[\"collect\"]");
    net.settle();
    clients
        .iter()
        .for_each(|client| answer(&mut net, *client, "\"yes\""));
    net.settle();
    let collected = asker.0.collected();
    assert!(collected.complete, "{collected:?}");
    assert!(
        collected
            .answers
            .iter()
            .all(|answer| answer.args == "\"yes\"")
    );
}

/// It was dropped, and whoever had asked waited until the time was up.
#[test]
fn an_answer_above_a_rate_is_a_refusal_for_whoever_asked() {
    let asker = Asker::default();
    let mut config = Config::default();
    // A client may join, and say one thing more.
    config.rates.session = Some(Rate::new(2, Duration::from_secs(60)));
    let mut net = Net::new(2, &config, |_| Box::new(asker.clone()));
    let clients = [0, 1].map(|at| net.client(at));
    net.settle();
    net.say(clients[0], "42[\"collect\"]");
    net.settle();
    clients
        .iter()
        .for_each(|client| answer(&mut net, *client, "1"));
    net.settle();
    let collected = asker.0.collected();
    let answers = collected.answers.iter().map(|answer| &*answer.args);
    let mut answers: Vec<&str> = answers.collect();
    answers.sort_unstable();
    let refusal = r#"{"error":"The client's answer was refused: it was over a rate"}"#;
    assert_eq!(answers, ["1", refusal]);
    let client = net.client(0);
    net.say(client, "42[\"ask\"]");
    answer(&mut net, client, "1");
    assert_eq!(asker.0.heard(), [Heard::Asked(true), Heard::Acked]);
}

/// The client of the plain protocol stays connected, so its question stood open.
#[test]
fn an_answer_that_is_nested_too_deep_ends_the_wait_for_it() {
    let (asker, mut net) = world(1, 100);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let plain = net.plain(0, "");
    net.texts(plain);
    net.say(plain, r#"{"type":"ask","payload":1}"#);
    let texts = net.texts(plain);
    let id = texts
        .iter()
        .find_map(|text| text.strip_prefix(r#"{"type":"question","id":"#))
        .and_then(|rest| rest.split(',').next())
        .unwrap_or_else(|| panic!("a question, not {texts:?}"));
    for payload in [&*deep, "1"] {
        let answer = format!(r#"{{"type":"ack","id":{id},"payload":{payload}}}"#);
        net.say(plain, &answer);
    }
    // The second one answers nothing any more.
    assert_eq!(asker.0.heard(), [Heard::Asked(true), Heard::Acked]);
    let told = net.texts(plain);
    assert!(told[0].contains("INVALID_MESSAGE_FORMAT"), "{told:?}");
    assert_eq!(told.len(), 1, "{told:?}");
    // A client of Socket.IO is sent away.
    let client = net.client(0);
    net.say(client, "42[\"ask\"]");
    answer(&mut net, client, &deep);
    assert_eq!(
        asker.0.heard(),
        [Heard::Asked(true), Heard::AckTimedOut, Heard::Disconnected]
    );
}

/// Each shard gave its receivers another ack id, which a client may have been waiting under already.
#[test]
fn a_broadcast_was_asked_under_one_id_per_shard() {
    let (_, mut net) = world(3, 100);
    let clients = [0, 1, 2].map(|at| net.client(at));
    net.settle();
    let pending = clients.map(|client| {
        net.say(client, "42[\"ask\"]");
        question(&mut net, client)
    });
    net.say(clients[1], "42[\"collect\"]");
    net.settle();
    let ids = clients.map(|client| question(&mut net, client));
    assert_eq!([&ids[1], &ids[2]], [&ids[0], &ids[0]]);
    assert!(!pending.contains(&ids[0]), "{pending:?} {ids:?}");
}

/// With the table of acks full a broadcast was dropped, and its round called complete.
#[test]
fn a_broadcast_that_was_not_delivered_is_not_complete() {
    let (asker, mut net) = world(1, 3);
    let clients = [0, 0, 0].map(|at| net.client(at));
    net.say(clients[0], "42[\"collect\"]");
    let collected = asker.0.collected();
    assert!(!collected.complete, "{collected:?}");
    assert_eq!((collected.undelivered, collected.acked), (3, 0));
    assert!(clients.iter().all(|client| net.texts(*client).is_empty()));
}

/// The same on the shard of the receivers, when the asker's own has room.
#[test]
fn a_broadcast_that_another_shard_did_not_deliver_is_not_complete() {
    let (asker, mut net) = world(2, 3);
    let (here, there) = (net.client(0), net.client(1));
    net.settle();
    (0..3).for_each(|_| net.say(there, "42[\"ask\"]"));
    assert_eq!(asker.0.heard(), [(); 3].map(|()| Heard::Asked(true)));
    net.texts(there);
    net.say(here, "42[\"collect\"]");
    net.settle();
    answer(&mut net, here, "1");
    let collected = asker.0.collected();
    assert!(!collected.complete, "{collected:?}");
    assert_eq!((collected.acked, collected.undelivered), (1, 1));
}

/// A client in the room that polls, and has no poll there: it cannot take anything at once.
fn polls(net: &mut Net, at: usize) {
    let query = "/socket.io/?EIO=4&transport=polling";
    let opened = net.request(at, &format!("GET {query} HTTP/1.1\r\nHost: x\r\n\r\n"));
    let opened = String::from_utf8(net.raw(opened)).expect("text");
    let (_, rest) = opened.split_once("\"sid\":\"").expect("a sid");
    let sid = rest.split('"').next().expect("its end");
    let length = "Host: x\r\nContent-Length: 2";
    let post = format!("POST {query}&sid={sid} HTTP/1.1\r\n{length}\r\n\r\n40");
    net.request(at, &post);
}

/// It waited in the queues of clients of other shards and nodes, and the asker waited for them.
#[test]
fn a_volatile_question_was_one_for_sockets_of_the_same_shard_only() {
    let (asker, mut net) = world(2, 100);
    let speaker = net.client(0);
    (0..2).for_each(|at| polls(&mut net, at));
    net.settle();
    net.say(speaker, "42[\"hurry\"]");
    net.settle();
    answer(&mut net, speaker, "1");
    let collected = asker.0.collected();
    assert_eq!((collected.acked, collected.undelivered), (1, 2));
    let asker = Asker::default();
    let mut nodes = Nodes::new(2, &Config::default(), || Box::new(asker.clone()));
    let speaker = nodes.client(0, 0);
    polls(nodes.net(1), 0);
    nodes.settle();
    nodes.say(0, speaker, "42[\"hurry\"]");
    answer(nodes.net(0), speaker, "1");
    nodes.settle();
    let collected = asker.0.collected();
    assert_eq!((collected.acked, collected.undelivered), (1, 1));
}

/// One broadcast to a hundred thousand was one entry of the table that is bounded.
#[test]
fn each_receiver_of_a_broadcast_counts() {
    let (asker, mut net) = world(1, 5);
    let clients = [0, 0, 0].map(|at| net.client(at));
    net.say(clients[0], "42[\"collect\"]");
    assert_eq!(asker.0.heard(), []);
    net.say(clients[1], "42[\"collect\"]");
    let second = asker.0.collected();
    assert_eq!(second.undelivered, 3);
    clients
        .iter()
        .for_each(|client| answer(&mut net, *client, "1"));
    assert!(asker.0.collected().complete);
    net.say(clients[1], "42[\"collect\"]");
    clients
        .iter()
        .for_each(|client| answer(&mut net, *client, "1"));
    assert!(
        asker.0.collected().complete,
        "the first round's places are free again"
    );
}

/// Every answer was kept, however large: ten thousand times the largest payload.
#[test]
fn kept_answers_are_bounded_in_bytes() {
    let (asker, mut net) = world(1, 1_000);
    let clients: Vec<_> = (0..20).map(|_| net.client(0)).collect();
    net.say(clients[0], "42[\"collect\"]");
    let large = format!("\"{}\"", "x".repeat(900_000));
    clients
        .iter()
        .for_each(|client| answer(&mut net, *client, &large));
    let collected = asker.0.collected();
    let kept: usize = collected
        .answers
        .iter()
        .map(|answer| answer.args.len())
        .sum();
    assert!(
        kept <= hub::bounds::ROUND_BYTES_MAX && kept > 1_000_000,
        "{kept}"
    );
    assert_eq!(collected.acked, 20);
    assert!(!collected.complete, "some answers are missing");
    net.say(clients[0], "42[\"collect\"]");
    clients
        .iter()
        .for_each(|client| answer(&mut net, *client, "1"));
    assert!(asker.0.collected().complete, "the bytes were given back");
}

/// A socket that is gone will not answer: who asked newcomers was shut out of asking until the timeout of those that left.
#[test]
fn a_socket_that_goes_gives_its_place_back() {
    let (asker, mut net) = world(1, 3);
    for _ in 0..10 {
        let client = net.client(0);
        net.say(client, "42[\"ask\"]");
        net.break_off(client);
        assert_eq!(
            asker.0.heard(),
            [Heard::Asked(true), Heard::AckTimedOut, Heard::Disconnected]
        );
    }
}

#[test]
fn a_round_does_not_wait_for_sockets_that_are_gone() {
    let (asker, mut net) = world(2, 100);
    let clients = [0, 0, 1, 1].map(|at| net.client(at));
    net.settle();
    net.say(clients[0], "42[\"collect\"]");
    net.settle();
    net.break_off(clients[1]);
    net.break_off(clients[3]);
    for client in [clients[0], clients[2]] {
        answer(&mut net, client, "1");
    }
    net.settle();
    let heard = asker.0.heard();
    let Some(Heard::Collected(collected)) = heard.last() else {
        panic!("{heard:?}")
    };
    assert_eq!(
        (collected.acked, collected.gone, collected.timed_out),
        (2, 2, 0)
    );
    assert!(!collected.complete);
}

/// A list without the sockets of a shard that did not answer looked like any other.
#[test]
fn a_fetch_that_misses_a_shard_says_so() {
    let (asker, mut net) = world(2, 100);
    let clients = [0, 1].map(|at| net.client(at));
    net.settle();
    net.say(clients[0], "42[\"fetch\"]");
    net.settle();
    let [Heard::Found(whole)] = &asker.0.heard()[..] else {
        panic!("one list")
    };
    assert_eq!((whole.sockets.len(), whole.complete), (2, true));
    net.say(clients[0], "42[\"fetch\"]");
    net.pass(1_000);
    let [Heard::Found(half)] = &asker.0.heard()[..] else {
        panic!("one list")
    };
    assert_eq!((half.sockets.len(), half.complete), (1, false));
}

/// Lists for the shard's own handler were in no book: a turn made thousands of them.
#[test]
fn a_turn_made_any_number_of_lists() {
    let (asker, mut net) = world(1, 100);
    let clients: Vec<Client> = (0..1_000).map(|_| net.client(0)).collect();
    net.settle();
    let fetches = (0..100).map(|_| "42[\"fetch\"]".to_owned());
    net.say_all(clients[0], fetches);
    let first = asker.0.heard().len();
    assert!((1..100).contains(&first), "{first} lists of a turn");
    let later = (0..100).map(|_| {
        net.resume(0);
        asker.0.heard().len()
    });
    assert_eq!(first + later.sum::<usize>(), 100);
}

/// A list was counted where its parts came, and not where the last one ended it: small answers of another shard ended any number of lists
/// in one turn.
#[test]
fn a_turn_ended_any_number_of_lists() {
    const LISTS: usize = 60;
    let (asker, mut net) = world(2, 100);
    let clients: Vec<Client> = (0..200).map(|_| net.client(0)).collect();
    net.client(1);
    net.settle();
    (0..LISTS).for_each(|_| net.say(clients[0], "42[\"fetch\"]"));
    while net.routes().contains(&(0, 1)) {
        net.carry_one((0, 1));
    }
    assert_eq!(asker.0.heard().len(), 0, "the other shard was not heard");
    let mut ended = Vec::new();
    while net.routes().contains(&(1, 0)) {
        net.carry_share((1, 0));
        ended.push(asker.0.heard().len());
    }
    assert_eq!(ended.iter().sum::<usize>(), LISTS);
    assert!(ended.iter().all(|lists| *lists < LISTS / 2), "{ended:?}");
}

/// With the table full `fetch` said that there is nobody.
#[test]
fn a_fetch_that_could_not_ask_says_so() {
    let (asker, mut net) = world(2, 1);
    let clients = [0, 1].map(|at| net.client(at));
    net.settle();
    net.say(clients[0], "42[\"ask\"]");
    net.say(clients[0], "42[\"fetch\"]");
    let heard = asker.0.heard();
    let [Heard::Asked(true), Heard::Found(found)] = &heard[..] else {
        panic!("{heard:?}")
    };
    assert_eq!((found.sockets.len(), found.complete), (1, false));
}
