//! Who is there.

use super::{call, config, gateway, get, ids, members};
use crate::harness::Gateway;
use ::client::full::SocketIo;
use serde_json::{Value, json};
use std::fs::File;
use std::process::{Command, Stdio};

fn names(list: &Value, of: &str, name: &str) -> Vec<String> {
    let items = list[of].as_array().into_iter().flatten();
    items
        .map(|item| item[name].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn sockets_and_rooms_come_in_pages() {
    let gateway = gateway();
    let mut clients = members(&gateway, "a", 5);
    clients.extend(members(&gateway, "b", 2));
    let all = ids(&clients);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(&gateway, &format!("/v1/sockets?all=true&limit=3{after}"));
        assert_eq!(page["complete"], true);
        seen.extend(names(&page, "sockets", "id"));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, all);
    let of_b = get(&gateway, "/v1/sockets?room=b&local=true");
    assert_eq!(names(&of_b, "sockets", "id"), ids(&clients[5..]));
    let both = get(
        &gateway,
        &format!("/v1/sockets?room=a&room=b&except={}", clients[0].id),
    );
    assert_eq!(both["sockets"].as_array().map(Vec::len), Some(6));
    let one = get(&gateway, &format!("/v1/sockets?socket={}", clients[6].id));
    let id = &clients[6].id;
    assert_eq!(
        one["sockets"],
        json!([{"id": id, "rooms": [id, "b"], "data": {}}])
    );

    let rooms = get(&gateway, "/v1/rooms?limit=1");
    assert_eq!(
        rooms,
        json!({"rooms": [{"room": "a", "sockets": 5}], "next": "a", "complete": true})
    );
    let rooms = get(&gateway, "/v1/rooms?limit=1&after=a");
    assert_eq!(
        rooms,
        json!({"rooms": [{"room": "b", "sockets": 2}], "complete": true})
    );
    assert_eq!(
        get(&gateway, "/v1/rooms?prefix=b")["rooms"],
        json!([{"room": "b", "sockets": 2}])
    );
    assert_eq!(
        get(&gateway, "/v1/rooms/a/count"),
        json!({"room": "a", "sockets": 5, "complete": true})
    );
    assert_eq!(get(&gateway, "/v1/rooms/none/count")["sockets"], 0);
    assert_eq!(
        get(&gateway, "/v1/rooms?namespace=/none")["rooms"],
        json!([])
    );
}

/// They were all the room U+FFFD.
#[test]
fn rooms_that_are_no_text_were_looked_for() {
    let gateway = gateway();
    let _members = members(&gateway, "\u{fffd}", 1);
    for (path, field) in [
        ("/v1/sockets?room=%ff", "room"),
        ("/v1/sockets?all=true&namespace=%ff", "namespace"),
        ("/v1/rooms?prefix=%c3", "prefix"),
        ("/v1/rooms/%ff/count", "room"),
        ("/v1/rooms/a/count?namespace=/%ff", "namespace"),
        ("/v1/node/rooms?contains=%ff", "contains"),
    ] {
        let (status, body) = call(&gateway, "GET", path, &Value::Null);
        assert_eq!(status, 400, "{path}: {body}");
        assert_eq!(body["field"], field, "{path}: {body}");
        let detail = body["detail"].as_str().unwrap_or_default();
        assert!(detail.contains("is no UTF-8"), "{path}: {body}");
    }
    let count = get(&gateway, "/v1/rooms/%ef%bf%bd/count");
    assert_eq!(count["sockets"], 1, "{count}");
}

/// The last value counted, so that a caller that gave two namespaces got a list of one of them without a word.
#[test]
fn a_list_with_a_parameter_that_was_given_twice_was_answered() {
    let gateway = gateway();
    for (query, field) in [
        ("sockets?all=true&limit=1&limit=2", "limit"),
        ("sockets?all=false&all=true", "all"),
        ("rooms?namespace=/none&namespace=/", "namespace"),
        ("rooms?prefix=a&%70refix=b", "prefix"),
        ("rooms/a/count?local=true&local=false", "local"),
    ] {
        let (status, problem) = call(&gateway, "GET", &format!("/v1/{query}"), &Value::Null);
        assert_eq!(
            (status, &problem["field"], &problem["detail"]),
            (400, &json!(field), &json!("it is given twice")),
            "{query}"
        );
    }
    let twice = get(&gateway, "/v1/sockets?room=a&room=a&except=b&except=b");
    assert_eq!(twice["sockets"], json!([]), "lists take each name");
}

/// `sockeye rooms | head -1` ended by a panic, and a disk that was full did, too.
#[test]
fn a_reader_that_stopped_ended_a_command_by_a_panic() {
    let gateway = Gateway::start(&config(""));
    let admin = gateway.admin.to_string();
    let run = |args: &[&str], out: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        command.env("SOCKEYE_API_KEY", &super::KEY.0);
        command.args(["--admin", &admin]).args(args).stdout(out);
        let run = command.output().expect("run sockeye");
        let error = String::from_utf8_lossy(&run.stderr).into_owned();
        (run.status.code(), error)
    };
    let full = || File::options().write(true).open("/dev/full");
    for args in [
        &["rooms"][..],
        &["rooms", "--json"],
        &["sockets", "--all"],
        &["nodes"],
        &["sessions"],
        &["top", "--once"],
        &["emit", "news", "--all"],
        &["disconnect", "--room", "nobody"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(
            run(args, writer.into()),
            (Some(0), String::new()),
            "{args:?}"
        );
        let (code, error) = run(args, full().expect("a full disk").into());
        assert_eq!(code, Some(1), "{args:?}: {error}");
        assert!(error.starts_with("cannot write: "), "{args:?}: {error}");
    }
}

#[test]
fn the_command_line_shows_who_is_there_and_puts_them_out() {
    let gateway = Gateway::start(&config(""));
    let mut clients = members(&gateway, "a room", 3);
    let sockeye = |key: &str, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        command.env("SOCKEYE_API_KEY", key);
        // Before the command: it was an error that nobody understood.
        command
            .args(["--admin", &gateway.admin.to_string()])
            .args(args);
        let run = command.output().expect("run sockeye");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (run.status.code(), text(run.stdout), text(run.stderr))
    };
    let run = |args: &[&str]| {
        let (code, out, error) = sockeye(&super::KEY.0, args);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{args:?}");
        out
    };
    let table = run(&["sockets", "--room", "a room"]);
    assert!(ids(&clients).iter().all(|id| table.contains(id)), "{table}");
    assert_eq!(run(&["rooms"]), " SOCKETS  ROOM\n       3  a room\n");
    let json: Value = serde_json::from_str(&run(&["rooms", "a", "--json"])).expect("JSON");
    assert_eq!(json["rooms"], json!([{"room": "a room", "sockets": 3}]));

    let id = clients[0].id.clone();
    let asked = std::thread::scope(|scope| {
        let asked =
            scope.spawn(|| run(&["emit", "q", "1", "text", "--socket", &id, "--ack", "10s"]));
        let event = clients[0].next_named("q");
        assert_eq!(event.args, [json!(1), json!("text")]);
        clients[0].answer(event.ack.expect("an ack is wanted"), &[json!("yes")]);
        asked.join().expect("an answer")
    });
    assert_eq!(
        asked,
        "[\"yes\"]\n1 answered, 0 did not in time, 0 left, 0 did not get it\n"
    );
    assert_eq!(
        run(&["disconnect", "--room", "a room", "--close"]),
        "accepted\n"
    );
    clients
        .iter_mut()
        .for_each(|client| drop(client.until_closed()));

    let (code, _, error) = sockeye(&super::KEY.0, &["disconnect", "--close"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("answers 400: all: nobody is meant"),
        "{error}"
    );
    let (code, _, error) = sockeye("wrong", &["sockets"]);
    assert!(
        code == Some(1) && error.contains("answers 401: send a known API key"),
        "{error}"
    );
    let one = SocketIo::websocket(gateway.addr, "/", json!({}));
    assert_eq!(
        call(&gateway, "GET", "/v1/sockets?all=true", &Value::Null).1["sockets"][0]["id"],
        json!(one.id)
    );
}

#[test]
fn a_room_in_a_path_that_is_no_text_is_a_problem_like_others() {
    let (status, problem) = call(&gateway(), "GET", "/v1/rooms/%FF/count", &Value::Null);
    assert_eq!(
        (status, &problem["field"]),
        (400, &json!("room")),
        "{problem}"
    );
}
