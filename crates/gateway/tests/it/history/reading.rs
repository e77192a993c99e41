//! Pages, rights, deletion, and what is refused.

use super::{KEY, all, call, config, is_stored, join, numbers, page, publish, say, soon};
use super::{SECRET, SocketIo};
use crate::harness::token::token;
use crate::harness::{Gateway, RawConn};
use serde_json::{Value, json};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const MEMORY: &str = "store = \"memory\"";

fn gateway() -> Gateway {
    Gateway::start(&config(MEMORY, "", ""))
}

/// What clients and programs say has one order, and pages show all of it at every size, both ways.
#[test]
fn pages_of_every_size_show_everything_once_and_in_order() {
    let node = gateway();
    let mut client = join(&node, "on-a");
    for n in 0..10 {
        say(&mut client, "on-a", 2 * n);
        assert_eq!(publish(&node, "on-a", 2 * n + 1), is_stored());
        client.next_named("say");
    }
    // Neither another event nor another room is in it.
    client.emit("hint", &[json!({"room": "on-a", "n": 99})]);
    assert_eq!(publish(&node, "on-b", 77), is_stored());
    let expected: Vec<u64> = (0..20).collect();
    for limit in 1..=21 {
        for (way, first) in [("after", Some("0".to_owned())), ("before", None)] {
            let (mut read, mut place) = (Vec::new(), first);
            loop {
                let place_of = |at: String| format!("&{way}={at}");
                let from = place.map(place_of).unwrap_or_default();
                let page = page(&node, &format!("room=on-a&limit={limit}{from}"));
                let own = numbers(&page);
                assert!(own.len() <= limit);
                read.extend(own);
                place = page["next"].as_str().map(str::to_owned);
                if place.is_none() {
                    break;
                }
            }
            if way == "before" {
                read.reverse();
            }
            assert_eq!(read, expected, "{limit} {way}");
        }
    }
    let newest = page(&node, "room=on-a&limit=3");
    assert_eq!(numbers(&newest), [19, 18, 17]);
    let time = newest["events"][1]["time"].as_u64().expect("a time");
    let since = page(&node, &format!("room=on-a&since={time}"));
    assert!(numbers(&since).len() >= 2, "{since}");
    assert_eq!(all(&node, "on-b"), [77]);
}

/// A room that is not stored and a namespace that is not are told apart from an empty one; what cannot be used is named.
#[test]
fn what_cannot_be_read_is_said() {
    let node = gateway();
    assert_eq!(page(&node, "room=on-empty"), json!({"events": []}));
    for (query, status, words) in [
        ("room=off-a", 404, "history.rooms"),
        ("namespace=/x&room=a", 404, "history.stored"),
        ("", 400, "missing"),
        ("room=on-a&limit=0", 400, "limit"),
        ("room=on-a&limit=1001", 400, "limit"),
        ("room=on-a&before=no%20place", 400, "before"),
        ("room=on-a&room=on-b", 400, "twice"),
        ("room=on-a&since=yesterday", 400, "since"),
        ("room=on-a&bafore=1", 400, "known"),
    ] {
        let (got, body) = call(&node, "GET", &format!("/v1/history?{query}"), &Value::Null);
        assert_eq!(got, status, "{query}: {body}");
        assert!(
            body["detail"].to_string().contains(words),
            "{query}: {body}"
        );
    }
    let volatile =
        json!({"event": "say", "rooms": ["on-a"], "args": [1], "stored": true, "volatile": true});
    for (body, words) in [
        (volatile, "volatile"),
        (
            json!({"event": "say", "args": [1], "all": true, "stored": true}),
            "rooms",
        ),
        (
            json!({"event": "hint", "rooms": ["on-a"], "args": [1], "stored": true}),
            "not kept",
        ),
        (
            json!({"event": "say", "rooms": ["on-a", "off-a"], "args": [1], "stored": true}),
            "off-a",
        ),
        (
            json!({"event": "say", "rooms": ["on-a"], "args": [1], "stored": true, "ack": {"timeout_ms": 100}}),
            "answers",
        ),
    ] {
        let (status, answer) = call(&node, "POST", "/v1/emit", &body);
        assert_eq!(
            (status, &answer["field"]),
            (400, &json!("stored")),
            "{answer}"
        );
        assert!(answer["detail"].to_string().contains(words), "{answer}");
    }
    assert_eq!(
        page(&node, "room=on-a"),
        json!({"events": []}),
        "nothing was stored"
    );
}

/// Members read by the event `history`; others do not, and each request is answered.
#[test]
fn members_read_their_rooms_and_no_others() {
    let node = gateway();
    let mut member = join(&node, "on-a");
    for n in 0..5 {
        say(&mut member, "on-a", n);
    }
    soon("all is stored", || all(&node, "on-a").len() == 5);
    let first = member.ask("history", &[json!({"room": "on-a", "limit": 2})]);
    assert_eq!(numbers(&first[0]), [4, 3]);
    let event = &first[0]["events"][0];
    assert_eq!(
        (&event["event"], event["user"].is_null()),
        (&json!("say"), true)
    );
    let next = member.ask(
        "history",
        &[json!({"room": "on-a", "before": first[0]["next"]})],
    );
    assert_eq!(numbers(&next[0]), [2, 1, 0]);
    assert!(next[0]["next"].is_null());
    let forwards = member.ask(
        "history",
        &[json!({"room": "on-a", "after": "0", "limit": 1})],
    );
    assert_eq!(numbers(&forwards[0]), [0]);
    for (wanted, error_words) in [
        (json!({"room": "on-b"}), "Not in that room"),
        (json!({"limit": 3}), "Room must be a string"),
        (json!(null), "Room must be a string"),
        (
            json!({"room": "on-a", "limit": 0}),
            "limit: must be from 1 to 1000, not 0",
        ),
        (json!({"room": "on-a", "limit": "many"}), "invalid type"),
        (json!({"room": "on-a", "before": 7}), "invalid type"),
        (json!({"room": "on-a", "whole": true}), "unknown field"),
    ] {
        let answer = member.ask("history", std::slice::from_ref(&wanted));
        let error = answer[0]["error"].as_str().unwrap_or_default();
        assert!(error.contains(error_words), "{wanted}: {answer:?}");
    }
    // Nobody who left reads on.
    assert_eq!(member.ask("leave", &[json!("on-a")]), [json!(["on-a"])]);
    let answer = member.ask("history", &[json!({"room": "on-a"})]);
    assert_eq!(answer[0]["error"], "Not in that room");
}

/// A client that asks again and again is slowed down, answered each time, and holds nobody up.
#[test]
fn a_crowd_of_requests_is_answered_one_by_one() {
    let node = gateway();
    let mut conn = RawConn::websocket(node.addr, "/socket.io/?EIO=4&transport=websocket");
    conn.frame();
    conn.send_text("40");
    conn.frame();
    conn.send_text("420[\"join\",\"on-a\"]");
    assert_eq!(conn.frame().text(), "430[[\"on-a\"]]");
    for id in 1..=300 {
        conn.send_text(format!("42{id}[\"history\",{{\"room\":\"on-a\"}}]"));
    }
    let (mut pages, mut refused) = (0, 0);
    while pages + refused < 300 {
        let answer = conn.frame().text().to_owned();
        // An `error` event comes with a refusal.
        if !answer.starts_with("43") {
            continue;
        }
        match answer.contains("\"events\":[]") {
            true => pages += 1,
            false => {
                assert!(answer.contains("cannot be read now"), "{answer}");
                refused += 1;
            }
        }
    }
    assert!(pages >= 1 && refused >= 1, "{pages} {refused}");
}

/// A text without end, a room of 300 KB, a page that is larger than any client may get.
#[test]
fn pages_are_bounded_in_bytes() {
    let node = gateway();
    let text = "x".repeat(200_000);
    for n in 0..20 {
        let event = json!({"event": "say", "rooms": ["on-a"], "args": [{"n": n, "text": text}], "stored": true});
        assert_eq!(call(&node, "POST", "/v1/emit", &event), is_stored());
    }
    let whole = page(&node, "room=on-a&limit=1000");
    assert!(
        (1..=6).contains(&numbers(&whole).len()),
        "{:?}",
        numbers(&whole)
    );
    assert_eq!(all(&node, "on-a"), (0..20).collect::<Vec<_>>());
    let mut member = join(&node, "on-a");
    let own = member.ask("history", &[json!({"room": "on-a", "limit": 1000})]);
    assert_eq!(numbers(&own[0]), [19]);
}

/// One event, a room, a user: gone for all readers.
#[test]
fn what_is_deleted_is_gone() {
    let auth = format!("[auth]\nsecret = \"{SECRET}\"\n");
    let node = Gateway::start(&config(MEMORY, "", &auth));
    let mut speakers = ["ada", "bob"].map(|user| {
        let mut client = SocketIo::websocket(node.addr, "/", json!({"token": token(user)}));
        client.ask("join", &[json!("on-a")]);
        client
    });
    for n in 0..6 {
        let [ada, bob] = &mut speakers;
        let (speaker, other) = if n % 2 == 0 { (ada, bob) } else { (bob, ada) };
        say(speaker, "on-a", n);
        other.next_named("say");
    }
    soon("all is stored", || all(&node, "on-a").len() == 6);
    let stored = page(&node, "room=on-a");
    assert_eq!(stored["events"][0]["user"], "bob");
    let at = stored["events"][0]["at"].as_str().expect("a place");
    let delete = |query: &str| {
        call(
            &node,
            "DELETE",
            &format!("/v1/history?{query}"),
            &Value::Null,
        )
    };
    assert_eq!(
        delete(&format!("room=on-a&at={at}")),
        (200, json!({"deleted": 1, "everywhere": true}))
    );
    assert_eq!(all(&node, "on-a"), [0, 1, 2, 3, 4]);
    assert_eq!(
        delete("user=ada"),
        (200, json!({"deleted": 3, "everywhere": true}))
    );
    assert_eq!(all(&node, "on-a"), [1, 3]);
    assert_eq!(
        delete("room=on-a"),
        (200, json!({"deleted": 2, "everywhere": true}))
    );
    assert_eq!(all(&node, "on-a"), Vec::<u64>::new());
    for query in ["", "room=a&user=b", "user=b&at=0", "room=on-a&at=no!"] {
        assert_eq!(delete(query).0, 400, "{query}");
    }
    // A place is not given twice.
    assert_eq!(publish(&node, "on-a", 7), is_stored());
    let again = page(&node, "room=on-a");
    assert!(again["events"][0]["at"].as_str() > Some(at), "{again}");
}

/// A key for other things reads nothing.
#[test]
fn a_key_without_the_scope_reads_and_deletes_nothing() {
    let (key, entry) =
        identity::keys::generate("feed", &["emit".to_owned(), "read".to_owned()]).expect("a key");
    let config = config(MEMORY, "", "").replace(&format!("{:?}", KEY.1), &format!("{entry:?}"));
    let node = Gateway::start(&config);
    for method in ["GET", "DELETE"] {
        let headers = format!("Authorization: Bearer {key}\r\n");
        let path = "/v1/history?room=on-a";
        let response = ::client::full::request(node.admin, method, path, &headers, "");
        assert_eq!(response.status, 403, "{response:?}");
        let scope = if method == "GET" { "history" } else { "forget" };
        assert!(response.body.contains(scope), "{response:?}");
    }
}

/// Each bound of a room holds.
#[test]
fn a_room_keeps_what_it_may() {
    let node = Gateway::start(&config(MEMORY, "events = 3", ""));
    for n in 0..10 {
        assert_eq!(publish(&node, "on-a", n), is_stored());
    }
    assert_eq!(all(&node, "on-a"), [7, 8, 9]);
    assert_eq!(
        node.metric("sockeye_history_events_total{outcome=\"stored\"}"),
        10.0
    );
}

/// `sockeye history` asks the server API.
fn command(node: &Gateway, args: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command
        .arg("history")
        .args(args)
        .args(["--admin", &node.admin.to_string()]);
    let output = command
        .env("SOCKEYE_API_KEY", &KEY.0)
        .output()
        .expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn the_command_line_shows_exports_and_deletes() {
    let node = gateway();
    for n in 0..1_200 {
        assert_eq!(publish(&node, "on-a", n), is_stored());
    }
    let (ok, page) = command(&node, &["show", "on-a", "--limit", "2"]);
    assert!(
        ok && page.contains("\"n\":1199") && page.contains("there are more"),
        "{page}"
    );
    let (ok, lines) = command(&node, &["export", "on-a"]);
    assert!(ok, "{lines}");
    let events: Vec<u64> = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|event| event["args"][0]["n"].as_u64().expect("a number"))
        .collect();
    assert_eq!(events, (0..1_200).collect::<Vec<_>>());
    let (ok, said) = command(&node, &["forget"]);
    assert!(!ok && said.contains("--room"), "{said}");
    let (ok, said) = command(&node, &["forget", "--room", "on-a"]);
    assert!(ok && said.contains("1200 deleted"), "{said}");
    let (ok, said) = command(&node, &["show", "off-a"]);
    assert!(!ok && said.contains("not stored"), "{said}");
}

/// An import that broke off was begun again, and had half of the events twice.
#[test]
fn an_export_is_stored_once_however_often_and_what_is_torn_or_missing_is_named() {
    let node = gateway();
    for n in 0..1_200 {
        assert_eq!(publish(&node, "on-a", n), is_stored());
    }
    let (ok, said) = command(&node, &["export", "on-a"]);
    assert!(ok, "{said}");
    let lines = said.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<String> = lines.map(|line| format!("{line}\n")).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a name").to_owned()
    };
    let whole = file("whole", &lines.concat());
    let (ok, said) = command(&node, &["verify", "on-a", "--export", &whole]);
    assert!(ok && said.contains("events"), "{said}");

    // Half of it, then all of it, twice.
    let half = file("half", &lines[..700].concat());
    for (export, stored, known) in [(&half, 700, 0), (&whole, 500, 700), (&whole, 0, 1_200)] {
        let (ok, said) = command(&node, &["import", "on-b", export]);
        let expected = format!("{stored} stored, {known} were there");
        assert!(ok && said.contains(&expected), "{said}");
    }
    assert_eq!(all(&node, "on-b"), (0..1_200).collect::<Vec<_>>());
    let of = |room: &str| page(&node, &format!("room={room}&after=0&limit=1000"));
    let (here, there) = (of("on-a"), of("on-b"));
    for member in ["time", "event", "args", "user"] {
        assert_eq!(here["events"][7][member], there["events"][7][member]);
    }

    // One that is torn stores nothing.
    let text = lines.concat();
    let torn = file("torn", &text[..text.len() - 9]);
    let (ok, said) = command(&node, &["import", "on-c", &torn]);
    assert!(!ok && said.contains("line 1200: it is torn"), "{said}");
    assert!(all(&node, "on-c").is_empty());
    let (ok, said) = command(&node, &["verify", "--export", &torn]);
    assert!(!ok && said.contains("line 1200: it is torn"), "{said}");

    // What is missing on either side is named.
    let place = |n: usize| {
        let event: Value = serde_json::from_str(&lines[n]).expect("an event");
        event["at"].as_str().expect("a place").to_owned()
    };
    let path = format!("/v1/history?room=on-a&at={}", place(300));
    assert_eq!(call(&node, "DELETE", &path, &Value::Null).0, 200);
    let mut gap = lines.clone();
    gap.remove(500);
    let gap = file("gap", &gap.concat());
    let (ok, said) = command(&node, &["verify", "on-a", "--export", &gap]);
    let missing = [
        format!("missing in the store: {}", place(300)),
        format!("missing in the export: {}", place(500)),
        "2 entries are torn or missing".to_owned(),
    ];
    assert!(
        !ok && missing.iter().all(|line| said.contains(line)),
        "{said}"
    );
    let (ok, said) = command(&node, &["import", "on-a", &whole]);
    assert!(ok && said.contains("1 stored, 1199 were there"), "{said}");
}

#[test]
fn what_cannot_be_imported_is_refused_whole() {
    let node = gateway();
    let event = json!({"time": 1, "event": "say", "args": []});
    for (room, events, field) in [
        ("off-a", json!([event]), Value::Null),
        ("on-a", json!([]), json!("events")),
        (
            "on-a",
            json!([event, {"time": u64::MAX, "event": "say", "args": []}]),
            json!("events[1].time"),
        ),
        (
            "on-a",
            json!([{"time": 1, "event": "connect", "args": []}]),
            json!("events[0].event"),
        ),
        (
            "on-a",
            json!([{"time": 1, "event": "say"}]),
            json!("events[0]"),
        ),
        ("on-a", json!(vec![event.clone(); 1_001]), json!("events")),
    ] {
        let (status, told) = call(
            &node,
            "POST",
            "/v1/history",
            &json!({"room": room, "events": events}),
        );
        let expected = if room == "off-a" { 404 } else { 400 };
        assert_eq!((status, &told["field"]), (expected, &field), "{told}");
    }
    assert!(all(&node, "on-a").is_empty());
}

/// With `since_join` a member sees what was said since it joined, whatever it asks for; a program sees all.
#[test]
fn newcomers_see_nothing_of_before_they_joined() {
    let text = config(MEMORY, "", "").replace("\"members\"", "\"since_join\"");
    let node = Gateway::start(&text);
    let mut first = join(&node, "on-a");
    for n in 0..3 {
        say(&mut first, "on-a", n);
    }
    soon("all is stored", || all(&node, "on-a").len() == 3);
    let sees = |client: &mut SocketIo, more: &str| {
        let mut wanted = json!({"room": "on-a"});
        if !more.is_empty() {
            wanted[more] = json!("0");
        }
        let mut read = numbers(&client.ask("history", &[wanted])[0]);
        read.sort_unstable();
        read
    };
    assert_eq!(sees(&mut first, ""), [0, 1, 2]);
    // Events and joins have times in milliseconds: one of the same as the join counts as said after it.
    let a_moment = || sleep(Duration::from_millis(2));
    a_moment();
    let mut late = join(&node, "on-a");
    assert_eq!(sees(&mut late, ""), [] as [u64; 0]);
    say(&mut first, "on-a", 3);
    // Nothing that is kept for those who join came before it.
    assert!(late.until("say").is_empty());
    soon("it is stored", || all(&node, "on-a").len() == 4);
    for more in ["", "after"] {
        assert_eq!(sees(&mut late, more), [3], "{more}");
        assert_eq!(sees(&mut first, more), [0, 1, 2, 3], "{more}");
    }
    // Joining twice is joining once; whoever leaves joins anew.
    for client in [&mut first, &mut late] {
        assert_eq!(client.ask("join", &[json!("on-a")]), [json!(["on-a"])]);
    }
    assert_eq!(sees(&mut first, ""), [0, 1, 2, 3]);
    assert_eq!(first.ask("leave", &[json!("on-a")]), [json!(["on-a"])]);
    a_moment();
    assert_eq!(first.ask("join", &[json!("on-a")]), [json!(["on-a"])]);
    assert_eq!(sees(&mut first, "after"), [] as [u64; 0]);
    assert_eq!(sees(&mut late, ""), [3]);
    // One whom a program puts into the room joined then.
    let mut guest = SocketIo::websocket(node.addr, "/", json!({}));
    let order = json!({"sockets": [guest.id], "join": ["on-a"]});
    let (status, answer) = call(&node, "POST", "/v1/join", &order);
    assert_eq!(status, 202, "{answer}");
    let mut asked = json!(null);
    soon("it is a member", || {
        asked = guest.ask("history", &[json!({"room": "on-a"})]).remove(0);
        asked["code"] != "NOT_IN_ROOM"
    });
    assert_eq!(asked, json!({"events": []}));
    assert_eq!(all(&node, "on-a"), [0, 1, 2, 3]);
}
