//! Server-Sent Events: what a client that only listens asks for, hears, and is told when it comes back.

use super::client::{Encoding, PATIENCE, Plain, SocketIo, WebSocket, request};
use crate::harness::Gateway;
use crate::harness::token::{SECRET, token_with};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

/// Four shards; `say` is kept for those who join later.
const KEPT: &str = "profile = \"socket.io\"\nserver.shards = 4\n[namespaces.\"/\"]\nclient_joins = true\n\
                    [namespaces.\"/\".events.say]\naction = \"rooms\"\nhistory = true\n";

/// An event stream as a browser reads it (WHATWG HTML §9.2.6).
pub struct Stream {
    lines: BufReader<TcpStream>,
    status: u16,
    head: String,
    pub last_id: String,
    retry_ms: u64,
    comments: Vec<String>,
}

impl Stream {
    fn open(addr: SocketAddr, target: &str, headers: &str) -> Self {
        let mut conn = TcpStream::connect(addr).expect("connect");
        conn.set_read_timeout(Some(PATIENCE)).expect("timeout");
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: {addr}\r\nAccept: text/event-stream\r\n{headers}\r\n"
        );
        conn.write_all(head.as_bytes()).expect("send");
        let mut stream = Self {
            lines: BufReader::new(conn),
            status: 0,
            head: String::new(),
            last_id: String::new(),
            retry_ms: 0,
            comments: Vec::new(),
        };
        while let Some(line) = stream.line().filter(|line| !line.is_empty()) {
            stream.head += &line.to_ascii_lowercase();
            stream.head.push('\n');
        }
        let status = stream.head.split(' ').nth(1).expect("a status");
        stream.status = status.parse().expect("a number");
        stream
    }

    /// Opened and let in.
    pub fn to(addr: SocketAddr, target: &str, headers: &str) -> Self {
        let stream = Self::open(addr, target, headers);
        assert_eq!(stream.status, 200, "{}", stream.head);
        stream
    }

    /// `None` at the end of the stream.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.lines.read_line(&mut line).expect("a line in time");
        (count > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// The next message; `None` when the server ended the stream.
    pub fn next(&mut self) -> Option<Value> {
        let mut data = None;
        loop {
            let line = self.line()?;
            match line.split_once(": ").unwrap_or((&line, "")) {
                ("", "") => {
                    if let Some(data) = data.take() {
                        return Some(serde_json::from_str(data).expect("JSON"));
                    }
                }
                ("", text) => self.comments.push(text.to_owned()),
                ("id", id) => id.clone_into(&mut self.last_id),
                ("retry", ms) => self.retry_ms = ms.parse().expect("a number"),
                ("data", text) => data = Some(&*text.to_owned().leak()),
                (":", _) => self.comments.push(String::new()),
                _ => panic!("no line of ours: {line}"),
            }
        }
    }

    pub fn message(&mut self) -> Value {
        self.next().expect("the stream goes on")
    }

    /// Everything up to the end.
    fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// A client that speaks in a room.
fn speaker(gateway: &Gateway, room: &str) -> Plain {
    let mut plain = Plain::connect(gateway.addr, Encoding::Json);
    plain.join(room);
    plain
}

fn say(speaker: &mut Plain, room: &str, text: &str) {
    speaker.ask(json!({ "type": "say", "room": room, "payload": text }));
}

#[test]
fn members_of_a_room_hear_the_same_by_stream_as_by_websocket() {
    let gateway = Gateway::start("profile = \"socket.io\"\nserver.shards = 4\n");
    let mut streams = [(); 5].map(|()| Stream::to(gateway.addr, "/sse?room=a%20b&room=other", ""));
    for line in ["content-type: text/event-stream", "cache-control: no-store"] {
        assert!(streams[0].head.contains(line), "{}", streams[0].head);
    }
    assert!(gateway.reaches("sockeye_sockets", 5.0) >= 5.0);
    let mut plain = speaker(&gateway, "a b");
    let mut speaker = SocketIo::websocket(gateway.addr, "/", json!({}));
    speaker.ask("join", &[json!("a b")]);
    speaker.emit("two", &[json!({ "line": "a\nb\r" }), json!("\u{fc}")]);
    speaker.ask("last", &[]);
    for _ in 0..2 {
        let heard = plain.receive();
        for stream in &mut streams {
            assert_eq!(stream.message(), heard);
        }
    }
    assert!((1000..=3000).contains(&streams[0].retry_ms));
    assert_eq!(streams[0].last_id, "", "nothing is kept");
    let label = "sockeye_protocol_deliveries_total{protocol=\"event_stream\"}";
    assert!(gateway.reaches(label, 10.0) >= 10.0);
    drop(streams);
    assert!(gateway.closes_reach("transport_close", 5.0) >= 5.0);
}

#[test]
fn line_ends_between_tokens_of_json_end_no_data() {
    let gateway = Gateway::start("profile = \"socket.io\"\nserver.shards = 1\n");
    let mut stream = Stream::to(gateway.addr, "/sse?room=r", "");
    let mut speaker = WebSocket::connect(gateway.addr, "/socket.io/?EIO=4&transport=websocket", "");
    for text in [
        "40",
        "42[\"join\",\"r\"]",
        "42[\"spaced\",{\"a\":\n\n1,\r\n\"data: b\":2}]",
    ] {
        speaker.text(text);
    }
    let payload = json!({ "a": 1, "data: b": 2 });
    assert_eq!(
        stream.message(),
        json!({ "type": "spaced", "room": "r", "payload": payload })
    );
}

#[test]
fn who_comes_back_gets_what_it_missed_or_is_told_that_nobody_knows() {
    let gateway = Gateway::start(KEPT);
    // Several rooms have their homes on several shards.
    for room in ["a", "b", "c", "d", "e"] {
        let target = format!("/sse?room={room}");
        let mut speaker = speaker(&gateway, room);
        say(&mut speaker, room, "one");
        let texts = |history: &Value| -> Vec<String> {
            assert_eq!(history["type"], "history");
            assert_eq!(history["payload"]["room"], room);
            let messages = history["payload"]["messages"].as_array().expect("a list");
            let text = |message: &Value| message["args"][0].as_str().expect("text").to_owned();
            messages.iter().map(text).collect()
        };
        let mut first = Stream::to(gateway.addr, &target, "");
        let history = first.message();
        assert_eq!(texts(&history), ["one"]);
        assert_eq!(history["payload"].get("resumed"), None);
        say(&mut speaker, room, "two");
        assert_eq!(first.message()["payload"], "two");
        let had = first.last_id.clone();
        drop(first);
        say(&mut speaker, room, "three");
        say(&mut speaker, room, "four");
        for by in ["header", "query"] {
            let mut again = match by {
                "header" => Stream::to(gateway.addr, &target, &format!("Last-Event-ID: {had}\r\n")),
                _ => Stream::to(gateway.addr, &format!("{target}&lastEventId={had}"), ""),
            };
            let missed = again.message();
            assert_eq!(texts(&missed)[..2], ["three", "four"], "{by}");
            assert_eq!(missed["payload"]["resumed"], true);
            say(&mut speaker, room, "five");
            assert_eq!(again.message()["payload"], "five");
            assert_ne!(again.last_id, had);
            // Back at once: nothing was missed, and that is said.
            let same = format!("Last-Event-ID: {}\r\n", again.last_id);
            let nothing = Stream::to(gateway.addr, &target, &same).message();
            assert_eq!(nothing["payload"]["resumed"], true);
            assert_eq!(texts(&nothing), Vec::<String>::new());
        }
        for strange in ["1-1", "yesterday"] {
            let header = format!("Last-Event-ID: {strange}\r\n");
            let all = Stream::to(gateway.addr, &target, &header).message();
            assert_eq!(all["payload"]["resumed"], false);
            assert_eq!(texts(&all)[..2], ["one", "two"]);
        }
        // Of a room that it was not in the id tells nothing.
        let header = format!("Last-Event-ID: {had}\r\n");
        let both = format!("{target}&room=silent");
        let mut both = Stream::to(gateway.addr, &both, &header);
        for _ in 0..2 {
            let told = both.message();
            let known = told["payload"]["room"] == room;
            assert_eq!(told["payload"]["resumed"], known, "{told}");
        }
    }
}

/// An id that is none of ours is not passed over in silence, in whatever room: its client would believe that it missed nothing.
#[test]
fn an_id_that_says_nothing_is_answered_in_rooms_that_keep_nothing_as_well() {
    let without = "profile = \"socket.io\"\nserver.shards = 2\n";
    let long = "x".repeat(4_000);
    for config in [KEPT, without] {
        let gateway = Gateway::start(config);
        for garbage in ["yesterday", "0", "7:", "7:1=1,2", "\u{e9}", "a b", &long] {
            let header = format!("Last-Event-ID: {garbage}\r\n");
            let told = Stream::to(gateway.addr, "/sse?room=plain", &header).message();
            let nobody_knows = json!({"room": "plain", "messages": [], "resumed": false});
            assert_eq!(told["type"], "history", "{garbage}: {told}");
            assert_eq!(told["payload"], nobody_knows, "{garbage}");
        }
        let target = "/sse?room=plain&room=other&lastEventId=never";
        let both = told(&mut Stream::to(gateway.addr, target, ""), 2);
        for room in ["plain", "other"] {
            assert_eq!(both[room].0, json!(false), "{room}");
        }
        // A room that has no name is refused, and the id is answered all the same.
        let mut nameless = Stream::to(gateway.addr, "/sse?room=", "Last-Event-ID: never\r\n");
        let refused = nameless.message();
        assert_eq!(refused["error"], "INVALID_ROOM", "{refused}");
        assert_eq!(nameless.message()["payload"]["resumed"], false);
        // Who shows none is told nothing.
        let mut fresh = Stream::to(gateway.addr, "/sse?room=plain", "Last-Event-ID: \r\n");
        let mut speaker = speaker(&gateway, "plain");
        say(&mut speaker, "plain", "first");
        assert_eq!(fresh.message()["payload"], "first");
    }
}

/// What a stream was told of its rooms as it came: their messages, and whether these are all that it missed.
fn told(stream: &mut Stream, rooms: usize) -> BTreeMap<String, (Value, Vec<String>)> {
    let one = |history: Value| {
        assert_eq!(history["type"], "history", "{history}");
        let payload = &history["payload"];
        let messages = payload["messages"].as_array().expect("a list").iter();
        let texts = messages.map(|message| message["args"][0].as_str().expect("text").to_owned());
        let room = payload["room"].as_str().expect("a name").to_owned();
        (room, (payload["resumed"].clone(), texts.collect()))
    };
    (0..rooms).map(|_| one(stream.message())).collect()
}

/// An id named one room only, and a number that another process could give as well.
#[test]
fn a_stream_of_several_rooms_gets_what_it_missed_in_each_and_another_process_knows_that_it_does_not()
 {
    let gateway = Gateway::start(KEPT);
    let rooms = ["a", "b", "c"];
    let mut speakers = rooms.map(|room| (speaker(&gateway, room), room));
    let mut all_say = |text: &str| {
        for (speaker, room) in &mut speakers {
            say(speaker, room, &format!("{text} in {room}"));
        }
    };
    let target = "/sse?room=a&room=b&room=c";
    let mut stream = Stream::to(gateway.addr, target, "");
    // Also one to which nothing was said yet knows where it is.
    while stream.last_id.matches('=').count() < 3 {
        let line = stream.line().expect("the stream goes on");
        if let Some(id) = line.strip_prefix("id: ") {
            id.clone_into(&mut stream.last_id);
        }
    }
    let first = format!("Last-Event-ID: {}\r\n", stream.last_id);
    all_say("one");
    (0..3).for_each(|_| drop(stream.message()));
    let second = format!("Last-Event-ID: {}\r\n", stream.last_id);
    drop(stream);
    all_say("two");
    for (header, missed) in [(&first, &["one", "two"][..]), (&second, &["two"])] {
        let told = told(&mut Stream::to(gateway.addr, target, header), 3);
        for room in rooms {
            let missed = missed.iter().map(|text| format!("{text} in {room}"));
            assert_eq!(told[room], (json!(true), missed.collect()), "{header}");
        }
    }
    drop(gateway);
    let other = Gateway::start(KEPT);
    for room in rooms {
        say(&mut speaker(&other, room), room, "new");
    }
    let told = told(&mut Stream::to(other.addr, target, &second), 3);
    for room in rooms {
        assert_eq!(told[room], (json!(false), vec!["new".to_owned()]));
    }
}

#[test]
fn requests_that_are_no_streams_are_refused_in_words() {
    let gateway = Gateway::start(
        "profile = \"socket.io\"\nserver.shards = 1\n[socketio]\ncors = [\"https://a.example\"]\n",
    );
    let ask = |method, headers| request(gateway.addr, method, "/sse?room=r", headers, "");
    let post = ask("POST", "");
    assert_eq!(
        (post.status, post.header("allow")),
        (405, Some("GET, HEAD, OPTIONS"))
    );
    let json = ask("GET", "Accept: application/json, text/html;q=0.9\r\n");
    assert_eq!(json.status, 406);
    assert!(json.body.contains("text/event-stream"), "{json:?}");
    let head = ask("HEAD", "Origin: https://a.example\r\n");
    let kind = head.header("content-type");
    assert_eq!((head.status, kind), (200, Some("text/event-stream")));
    for answer in [head, ask("OPTIONS", "Origin: https://a.example\r\n")] {
        let origin = answer.header("access-control-allow-origin");
        assert_eq!(origin, Some("https://a.example"), "{answer:?}");
        assert_eq!(
            answer.header("access-control-allow-credentials"),
            Some("true")
        );
    }
    for accept in [
        "",
        "Accept: */*\r\n",
        "Accept: text/html, TEXT/*; q=0.1\r\n",
    ] {
        let head = ask("HEAD", accept);
        assert_eq!(head.status, 200, "{accept}");
    }
    let stream = Stream::to(gateway.addr, "/sse?room=r", "Origin: https://a.example\r\n");
    assert!(
        stream
            .head
            .contains("access-control-allow-origin: https://a.example")
    );
}

/// Rooms whose names are no UTF-8 were all the room U+FFFD.
#[test]
fn two_rooms_that_are_no_text_were_one() {
    let gateway = Gateway::start("profile = \"socket.io\"\nserver.shards = 1\n");
    for (query, name) in [
        ("room=%ff", "room"),
        ("room=a&room=%C3", "room"),
        ("room=%ed%a0%80", "room"),
        ("room=a&lastEventId=%ff", "lastEventId"),
    ] {
        let answer = request(gateway.addr, "GET", &format!("/sse?{query}"), "", "");
        assert_eq!(answer.status, 400, "{query}");
        let told = format!("the parameter {name:?} is no UTF-8");
        assert!(answer.body.contains(&told), "{query}: {}", answer.body);
    }
    // It is a character like any other.
    let mut stream = Stream::to(gateway.addr, "/sse?room=%ef%bf%bd", "");
    let mut speaker = SocketIo::websocket(gateway.addr, "/", json!({}));
    assert_eq!(
        speaker.ask("join", &[json!("\u{fffd}")]),
        [json!(["\u{fffd}"])]
    );
    speaker.emit("one", &[json!(1)]);
    assert_eq!(stream.message()["payload"], json!(1));
}

#[test]
fn a_page_of_another_origin_gets_no_stream() {
    let gateway = Gateway::start(
        "profile = \"socket.io\"\nserver.shards = 1\n[socketio]\norigins = [\"https://a.example\"]\n",
    );
    let stream = |origin: &str| {
        let header = format!("Origin: {origin}\r\n");
        Stream::open(gateway.addr, "/sse?room=r", &header).status
    };
    assert_eq!(stream("https://evil.example"), 403);
    assert_eq!(stream("https://a.example"), 200);
}

#[test]
fn a_stream_joins_what_its_token_lets_it_join_and_ends_with_it() {
    let gateway = Gateway::start(&format!(
        "profile = \"socket.io\"\nserver.shards = 2\n[auth]\nrequired = true\nsecret = \"{SECRET}\"\nwarn_before = \"0s\"\n"
    ));
    for (target, words) in [
        ("/sse?room=r", "Authentication required"),
        ("/sse?room=r&token=wrong", "Invalid token"),
    ] {
        let answer = request(gateway.addr, "GET", target, "", "");
        assert_eq!((answer.status, answer.body.as_str()), (401, words));
    }
    let short = token_with(&[
        "--uid",
        "ada",
        "--permission",
        "join:mine",
        "--expires",
        "3s",
    ]);
    let header = format!("Authorization: Bearer {short}\r\n");
    let mut stream = Stream::to(gateway.addr, "/sse?room=mine&room=yours", &header);
    let refused = stream.message();
    assert_eq!(
        (&refused["type"], &refused["error"]),
        (&json!("error"), &json!("FORBIDDEN")),
        "{refused}"
    );
    let rest = stream.rest();
    let last = rest.last().expect("a reason");
    assert_eq!(last["error"], "TOKEN_EXPIRED", "{rest:?}");
    assert_eq!(stream.comments, ["token expired"]);
    let expired = format!("/sse?room=mine&token={short}");
    assert_eq!(request(gateway.addr, "GET", &expired, "", "").status, 401);
}

#[test]
fn a_quiet_stream_has_a_heartbeat() {
    let gateway = Gateway::start(
        "profile = \"socket.io\"\nserver.shards = 1\nplain.ping_interval = \"1s\"\n",
    );
    let mut stream = Stream::to(gateway.addr, "/sse?room=r", "");
    let beats = std::iter::from_fn(|| stream.line()).filter(|line| line == ":");
    assert_eq!(beats.take(2).count(), 2);
}

#[test]
fn a_shutdown_tells_streams_when_to_come_back() {
    let mut gateway = Gateway::start(
        "profile = \"socket.io\"\nserver.shards = 2\nserver.drain_window = \"1s\"\n",
    );
    let mut streams = [(); 4].map(|()| Stream::to(gateway.addr, "/sse?room=r", ""));
    assert!(gateway.reaches("sockeye_sockets", 4.0) >= 4.0);
    gateway.terminate();
    for stream in &mut streams {
        let told = stream.rest();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["type"], "SERVER_SHUTDOWN");
        assert_eq!(told[0]["retry_after_ms"], stream.retry_ms);
        assert_eq!(stream.comments, ["server shutting down"]);
    }
    assert!(
        gateway
            .exit_status(PATIENCE)
            .is_some_and(|status| status.success())
    );
}

#[test]
fn a_stream_that_nobody_reads_is_ended_as_a_slow_consumer() {
    let gateway = Gateway::start(
        "profile = \"socket.io\"\nserver.shards = 1\n[limits]\noutbox_bytes_max = \"256KiB\"\n\
         [socketio]\nmax_http_buffer_size = \"128KiB\"\n",
    );
    let mut stream = Stream::to(gateway.addr, "/sse?room=r", "");
    let mut speaker = SocketIo::websocket(gateway.addr, "/", json!({}));
    speaker.ask("join", &[json!("r")]);
    let long = "x".repeat(100_000);
    let mut said = 0;
    while gateway.closes("slow_consumer") < 1.0 {
        assert!(said < 1000, "100 MB fit nowhere");
        for _ in 0..10 {
            speaker.emit("long", &[json!(long)]);
        }
        speaker.ask("done", &[]);
        said += 11;
    }
    // What was begun is whole, and behind it stands why there is no more.
    let heard = stream.rest();
    assert!(
        heard
            .iter()
            .all(|message| message["payload"].is_null() || message["payload"] == long)
    );
    assert!(heard.len() < said);
    assert_eq!(stream.comments, ["slow consumer"]);
    assert!(gateway.hits("outbox_bytes") >= 1.0);
}

#[test]
fn addresses_may_have_as_many_streams_as_connections() {
    let gateway = Gateway::start(
        "profile = \"socket.io\"\nserver.shards = 2\n[limits]\nconns_per_address_max = 3\n",
    );
    let streams = [(); 3].map(|()| Stream::to(gateway.addr, "/sse", ""));
    let fourth = Stream::open(gateway.addr, "/sse", "");
    assert_eq!(fourth.status, 429, "{}", fourth.head);
    drop(streams);
}
