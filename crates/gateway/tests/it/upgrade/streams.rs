//! Event streams go over: nobody who listens sees a cut, and nothing is lost, comes twice or in another order.

use super::chain::Chain;
use super::later;
use crate::e2e::sse::Stream;
use crate::harness::client::{Plain, SocketIo};
use crate::harness::{Alone, PATIENCE, RawConn, Stop};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// `say` is kept for those who join later, so that its events have ids.
const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 2\n[namespaces.\"/\"]\nclient_joins = true\n\
                      [namespaces.\"/\".events.say]\naction = \"rooms\"\nhistory = true\n";
const ROOMS: usize = 4;
const STREAMS: usize = 40;
const UPGRADES: usize = 5;
const PACE: Duration = Duration::from_millis(10);

fn say(speaker: &mut Plain, room: &str, what: impl Into<Value>) {
    speaker.send(&json!({"type": "say", "room": room, "payload": what.into()}));
}

fn room(number: usize) -> String {
    format!("room-{}", number % ROOMS)
}

/// Speaks until it is told to stop; how often it did.
fn speak(mut speaker: Plain, room: &str, stop: &AtomicBool) -> u64 {
    let mut said = 0;
    while !stop.load(Ordering::Relaxed) {
        say(&mut speaker, room, said);
        said += 1;
        sleep(PACE);
    }
    say(&mut speaker, room, "last");
    // Its connection lives until all have heard that.
    speaker.expect_type("heard");
    said
}

/// The numbers that a stream hears in a room, up to the last word; and its last id.
fn listen(mut stream: Stream, room: &str) -> (Vec<u64>, String) {
    let mut heard = Vec::new();
    loop {
        let message = stream.next().expect("the stream is not cut off");
        assert_eq!(message["room"], room, "{message}");
        match &message["payload"] {
            Value::String(_) => return (heard, stream.last_id),
            number => heard.extend(number.as_u64()),
        }
    }
}

#[test]
fn streams_hear_everything_through_upgrades() {
    let mut chain = Chain::start(CONFIG);
    let (addr, stop) = (chain.first.addr, AtomicBool::new(false));
    let speakers: Vec<Plain> = (0..ROOMS).map(|n| Plain::join(addr, &room(n))).collect();
    let streams: Vec<Stream> = (0..STREAMS)
        .map(|n| Stream::to(addr, &format!("/sse?room={}", room(n)), ""))
        .collect();
    let mut closer = SocketIo::connect(addr);
    (1..).zip(0..ROOMS).for_each(|(id, n)| {
        closer.ask(id, &json!(["join", room(n)]));
    });
    scope(|scope| {
        let _stop = Stop(&stop);
        let stop = &stop;
        let speakers: Vec<_> = (0..)
            .zip(speakers)
            .map(|(n, speaker): (usize, Plain)| {
                (n, scope.spawn(move || speak(speaker, &room(n), stop)))
            })
            .collect();
        let streams: Vec<_> = (0..)
            .zip(streams)
            .map(|(n, stream)| (n, scope.spawn(move || listen(stream, &room(n)))))
            .collect();
        for _ in 0..UPGRADES {
            sleep(Duration::from_millis(200));
            let (text, _) = chain.upgrade();
            let over = format!("{} sessions go over", STREAMS + ROOMS + 1);
            assert!(text.contains(&over), "{text}");
            let among = format!("among them are {STREAMS} event streams and 0 sessions");
            assert!(text.contains(&among), "{text}");
            println!("{}", text.lines().last().unwrap_or_default());
        }
        sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        let heard: Vec<_> = streams
            .into_iter()
            .map(|(n, stream)| (n, stream.join().expect("it hears the end")))
            .collect();
        closer.emit(&json!(["heard"]));
        let said: Vec<u64> = speakers
            .into_iter()
            .map(|(_, speaker)| speaker.join().expect("a speaker"))
            .collect();
        for (n, (numbers, last_id)) in heard {
            let all: Vec<u64> = (0..said[n % ROOMS]).collect();
            assert_eq!(numbers, all, "stream {n}");
            assert!(!last_id.is_empty(), "stream {n} has a place");
        }
        println!("{} events said", said.iter().sum::<u64>());
    });
    chain.first_ends();
}

/// The id of its last event is a place in the process that serves: it comes back for just what it missed.
#[test]
fn a_stream_that_went_over_comes_back_to_its_place() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let mut speaker = Plain::join(addr, "a");
    let target = "/sse?room=a&room=b";
    let mut stream = Stream::to(addr, target, "");
    say(&mut speaker, "a", 1);
    assert_eq!(stream.message()["payload"], 1);
    chain.upgrade();
    chain.upgrade();
    say(&mut speaker, "a", 2);
    assert_eq!(stream.message()["payload"], 2);
    let last = std::mem::take(&mut stream.last_id);
    drop(stream);
    say(&mut speaker, "a", 3);
    say(&mut speaker, "a", 4);
    speaker.send(&json!({"type": "join", "room": "b", "id": 5}));
    speaker.expect_type("ack");
    let mut again = Stream::to(addr, target, &format!("Last-Event-ID: {last}\r\n"));
    let told = loop {
        let message = again.message();
        if message["type"] == "history" && message["payload"]["room"] == "a" {
            break message;
        }
    };
    assert_eq!(told["payload"]["resumed"], true, "{told}");
    let text = told["payload"]["messages"].to_string();
    assert!(text.contains('3') && text.contains('4'), "{text}");
    assert!(!text.contains('2'), "{text}");
    // And it is told of a room that said nothing before it went.
    say(&mut speaker, "b", 6);
    let heard = std::iter::repeat_with(|| again.message()).find(|one| one["type"] == "say");
    assert_eq!(heard.expect("a word")["payload"], 6);
}

/// Its output stands in the kernel and in the gateway, cut off anywhere.
#[test]
fn a_stream_that_reads_slowly_gets_every_byte_once() {
    let mut chain = Chain::start("profile = \"socket.io\"\n[server]\nshards = 2\n");
    let addr = chain.first.addr;
    let mut slow = RawConn::connect(addr);
    slow.shrink_receive_buffer(65_536);
    slow.send("GET /sse?room=lobby HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(chain.first.reaches("sockeye_sockets", 1.0) >= 1.0);
    let mut speaker = SocketIo::connect(addr);
    speaker.ask(1, &json!(["join", "lobby"]));
    let filler = "x".repeat(20_000);
    let (mut said, mut waits) = (0, false);
    while !waits && said < 400 {
        speaker.emit(&json!(["bulk", said, filler]));
        said += 1;
        if said % 4 == 0 {
            speaker.ask(2, &json!(["join", "lobby"]));
            waits = chain.first.metric("sockeye_waiting_bytes") > 20_000.0;
        }
    }
    assert!(waits, "the kernel took everything");
    chain.upgrade();
    chain.upgrade();
    speaker.emit(&json!(["last", 0, ""]));
    let mut text = String::new();
    let deadline = Instant::now() + PATIENCE;
    while !text.contains("\"last\"") && Instant::now() < deadline {
        text = slow.rest(Duration::from_millis(300));
    }
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.map(|data| serde_json::from_str::<Value>(data).expect("whole events"));
    let bulk: Vec<Value> = events.filter(|event| event["type"] == "bulk").collect();
    let numbers: Vec<_> = bulk.iter().map(|event| &event["payload"][0]).collect();
    assert_eq!(
        numbers,
        (0..said)
            .map(Value::from)
            .collect::<Vec<_>>()
            .iter()
            .collect::<Vec<_>>()
    );
    assert!(
        bulk.iter()
            .all(|event| event["payload"][1].as_str().map(str::len) == Some(filler.len()))
    );
}

/// A stream that nobody speaks to shows that it lives, at the same pace.
#[test]
fn the_heartbeat_of_a_stream_goes_on() {
    let _alone = Alone::wait();
    let mut chain = Chain::start(&format!("{CONFIG}[plain]\nping_interval = \"2s\"\n"));
    let mut stream = Stream::to(chain.first.addr, "/sse?room=lobby", "");
    let began = Instant::now();
    let beats = scope(|scope| {
        let beats = scope.spawn(move || {
            let lines = std::iter::from_fn(|| stream.line());
            let beats = lines.filter(|line| line == ":").map(|_| began.elapsed());
            beats.take(5).collect::<Vec<_>>()
        });
        for wait in [1_000, 2_900, 1_500].map(Duration::from_millis) {
            sleep(wait);
            chain.upgrade();
        }
        beats.join().expect("it is not cut off")
    });
    assert_eq!(beats.len(), 5, "{beats:?}");
    let mut last = Duration::ZERO;
    for beat in &beats {
        let pause = *beat - last;
        assert!(pause < Duration::from_millis(3_000), "{beats:?}");
        last = *beat;
    }
    assert!(last > Duration::from_secs(6), "{beats:?}");
}

/// A successor of an earlier build: its streams are told to come back, and who is on its way up and was not answered goes on polling.
#[test]
fn an_earlier_build_gets_what_it_knows() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let mut stays = Plain::join(addr, "lobby");
    let mut stream = Stream::to(addr, "/sse?room=lobby", "");
    let mut risers = [super::rising::Phase::Opened, super::rising::Phase::Answered]
        .map(|phase| super::rising::Riser::begin(addr, phase));
    later::takes_over_as_of_old(&mut chain);
    let told = std::iter::from_fn(|| stream.next()).find(|one| one["type"] == "SERVER_SHUTDOWN");
    assert!(told.is_some(), "it is told to come back");
    let mut again = Stream::to(addr, "/sse?room=lobby", "");
    say(&mut stays, "lobby", 1);
    let heard = std::iter::repeat_with(|| again.message()).find(|one| one["type"] == "say");
    assert_eq!(heard.expect("a word")["payload"], 1);
    assert!(risers[0].is_closed() && risers[0].polls());
    assert!(risers[1].is_closed() && !risers[1].polls());
    // From that build to this one nobody is lost.
    chain.upgrade();
    say(&mut stays, "lobby", 2);
    assert_eq!(again.message()["payload"], 2);
}
