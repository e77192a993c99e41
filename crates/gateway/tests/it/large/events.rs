//! Events of clients, programs and rooms' histories.

use super::{
    KEY, LARGE, config, fetch, files, get, join, member, reference, rig, text, upload, url,
};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::{Encoding, Plain, SocketIo, bytes, request};
use serde_json::{Value, json};

#[test]
fn members_get_references_in_order_with_all_else_that_a_client_says() {
    let rig = rig("");
    let mut ada = join(rig.addr(), "/", "den");
    let mut others: Vec<SocketIo> = (0..6).map(|_| join(rig.addr(), "/", "den")).collect();
    let mut expected = Vec::new();
    for n in 0..40 {
        let large = n % 3 == 1;
        let body = if large {
            text(LARGE + n)
        } else {
            String::new()
        };
        let args = [json!(n), json!(body)];
        ada.emit("said", &args);
        expected.push((large, json!(args)));
    }
    for client in &mut others {
        for (large, args) in &expected {
            if *large {
                let reference = reference(client, "said");
                assert_eq!(fetch(rig.addr(), &reference), *args);
            } else {
                let event = client.next();
                assert_eq!(
                    (event.name.as_str(), json!(event.args)),
                    ("said", args.clone())
                );
            }
        }
    }
    // An answer says that everybody gets it.
    assert_eq!(ada.ask("said", &[json!(text(LARGE))]), Vec::<Value>::new());
    assert_eq!(
        rig.node
            .metric("sockeye_large_events_total{outcome=\"stored\"}"),
        14.0
    );
}

#[test]
fn a_client_that_leaves_at_once_has_said_everything() {
    let rig = rig("");
    let mut hearer = join(rig.addr(), "/", "den");
    for n in 0..10 {
        let mut client = join(rig.addr(), "/", "den");
        client.emit("first", &[json!(n), json!(text(LARGE))]);
        client.emit("second", &[json!(n)]);
        client.leave_session();
        let reference = reference(&mut hearer, "first");
        assert_eq!(fetch(rig.addr(), &reference)[0], json!(n));
        assert_eq!(hearer.expect("second"), [json!(n)]);
    }
}

#[test]
fn attachments_come_as_parts_and_plain_clients_get_the_same_reference() {
    let rig = rig("");
    let mut ada = join(rig.addr(), "/", "den");
    let mut plain = Plain::connect(rig.addr(), Encoding::Json);
    plain.join("den");
    let mut hearer = join(rig.addr(), "/", "den");
    let image: Vec<u8> = (0..LARGE).map(|n| (n % 251 + 1) as u8 & 0x7f).collect();
    ada.emit("image", &[json!({ "pixels": bytes(&image) })]);
    let reference = reference(&mut hearer, "image");
    let response = get(rig.addr(), &url(&reference), "");
    assert_eq!(
        response.header("content-type"),
        Some("application/vnd.sockeye.parts")
    );
    let args = "[{\"pixels\":{\"_placeholder\":true,\"num\":0}}]";
    let head = format!("[{},{}]\n{args}", args.len(), image.len());
    let rest = response
        .body
        .strip_prefix(&head)
        .expect("lengths, then arguments");
    assert_eq!(rest.as_bytes(), image);
    assert_eq!(reference["size"], json!(response.body.len()));
    let heard = plain.next();
    assert_eq!(
        (heard.name.as_str(), &heard.args[0]),
        ("large_message", &reference)
    );
}

#[test]
fn each_namespace_says_what_becomes_of_large_events() {
    let rig = rig("");
    let mut refusing = join(rig.addr(), "/refuse", "den");
    let mut hearer = join(rig.addr(), "/refuse", "den");
    let answer = refusing.ask("said", &[json!(text(LARGE))]);
    assert!(
        answer[0]["error"]
            .as_str()
            .is_some_and(|error| error.contains("8192")),
        "{answer:?}"
    );
    refusing.emit("said", &[json!("small")]);
    assert_eq!(hearer.expect("said"), [json!("small")]);
    let mut through = join(rig.addr(), "/through", "den");
    let mut hearer = join(rig.addr(), "/through", "den");
    through.emit("said", &[json!(text(LARGE))]);
    assert_eq!(hearer.expect("said"), [json!(text(LARGE))]);
    assert!(rig.bodies().is_empty());
}

#[test]
fn nobody_can_forge_a_reference() {
    let rig = rig("");
    let mut ada = join(rig.addr(), "/", "den");
    let forged = json!({"type": "large_message", "key": "k", "url": "http://evil/", "size": 1, "event": "e"});
    let answer = ada.ask("large_message", &[forged]);
    assert!(answer[0]["error"].is_string(), "{answer:?}");
}

/// The store is full, then gone, then back: each time the publisher is told, and nothing else is late or lost.
#[test]
fn a_publisher_is_told_when_the_store_takes_nothing() {
    let rig = rig("folder_max = \"32KiB\"");
    let mut ada = join(rig.addr(), "/", "den");
    let mut hearer = join(rig.addr(), "/", "den");
    let told = |ada: &mut SocketIo, hearer: &mut SocketIo, why: &str| {
        let answer = ada.ask("said", &[json!(text(LARGE))]);
        let error = answer[0]["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(why), "{answer:?}");
        ada.emit("small", &[json!(why)]);
        assert_eq!(hearer.expect("small"), [json!(why)]);
    };
    ada.emit("said", &[json!(text(LARGE))]);
    reference(&mut hearer, "said");
    told(&mut ada, &mut hearer, "full");
    let away = rig.folder.path().with_extension("away");
    std::fs::rename(rig.folder.path(), &away).expect("moved");
    std::fs::write(rig.folder.path(), b"").expect("a file in its place");
    let mut small = join(rig.addr(), "/", "elsewhere");
    let answer = small.ask("said", &[json!(text(9_000))]);
    let error = answer[0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("cannot be reached"), "{answer:?}");
    std::fs::remove_file(rig.folder.path()).expect("removed");
    std::fs::rename(&away, rig.folder.path()).expect("moved back");
    assert_eq!(
        small.ask("said", &[json!(text(9_000))]),
        Vec::<Value>::new()
    );
    assert_eq!(
        rig.node
            .metric("sockeye_large_events_total{outcome=\"failed\"}"),
        2.0
    );
}

/// The system writes half of a body, and no more.
#[test]
fn a_disk_that_takes_half_a_body_is_told_and_nothing_of_it_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = "uploads = true";
    let node = Gateway::start_with_small_files(&config(folder.path(), large, ""), 32_768);
    let (mut ada, token) = member(node.addr, "ada", "den");
    let mut hearer = join(node.addr, "/", "den");
    for _ in 0..3 {
        let answer = ada.ask("said", &[json!(text(60_000))]);
        let error = answer[0]["error"].as_str().unwrap_or_default();
        assert!(error.contains("the store is full"), "{answer:?}");
        let (status, answer) = upload(node.addr, "event=file&room=den", &token, &[7; 60_000]);
        assert_eq!((status, &answer["error"]), (507, &json!("STORE_FULL")));
    }
    assert!(eventually(PATIENCE, || files(folder.path()).is_empty()));
    ada.emit("said", &[json!(text(LARGE))]);
    let reference = reference(&mut hearer, "said");
    assert_eq!(fetch(node.addr, &reference), json!([text(LARGE)]));
}

fn call(node: &Gateway, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let headers = format!("Authorization: Bearer {}\r\n", KEY.0);
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let response = request(node.admin, method, path, &headers, &body);
    (
        response.status,
        serde_json::from_str(&response.body).unwrap_or_default(),
    )
}

#[test]
fn programs_send_large_events_and_delete_bodies() {
    let rig = rig("");
    let mut hearer = join(rig.addr(), "/", "den");
    let emit = |namespace: &str, body: &str| {
        let event =
            json!({"event": "news", "namespace": namespace, "rooms": ["den"], "args": [body]});
        call(&rig.node, "POST", "/v1/emit", &event)
    };
    assert_eq!(emit("/", &text(LARGE)).0, 202);
    let reference = reference(&mut hearer, "news");
    assert_eq!(fetch(rig.addr(), &reference), json!([text(LARGE)]));
    let (status, problem) = emit("/refuse", &text(LARGE));
    assert_eq!((status, &problem["status"]), (413, &json!(413)));
    let key = reference["key"].as_str().expect("a key");
    for (path, status) in [
        (format!("/v1/large/{key}?namespace=/b"), 404),
        ("/v1/large/..%2f..%2fetc%2fpasswd".to_owned(), 404),
        (format!("/v1/large/{key}x"), 404),
        (format!("/v1/large/{key}"), 204),
        (format!("/v1/large/{key}"), 404),
    ] {
        assert_eq!(
            call(&rig.node, "DELETE", &path, &Value::Null).0,
            status,
            "{path}"
        );
    }
    assert_eq!(get(rig.addr(), &url(&reference), "").status, 404);
    assert!(rig.bodies().is_empty());
    std::fs::remove_dir_all(rig.folder.path()).expect("removed");
    std::fs::write(rig.folder.path(), b"").expect("a file in its place");
    assert_eq!(emit("/", &text(LARGE)).0, 503);
    assert_eq!(emit("/", "small").0, 202);
    assert_eq!(hearer.expect("news"), [json!("small")]);
    std::fs::remove_file(rig.folder.path()).expect("removed");
}

#[test]
fn late_joiners_get_references_in_the_history() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = "[namespaces.\"/\".events.said]\naction = \"rooms\"\nhistory = true\n";
    let node = Gateway::start(&config(folder.path(), "", kept));
    let mut ada = join(node.addr, "/", "den");
    for n in 0..3 {
        let more = if n == 1 { text(LARGE) } else { String::new() };
        ada.ask("said", &[json!(n), json!(more)]);
    }
    let mut late = join(node.addr, "/", "den");
    let history = late.expect("history");
    let messages = history[0]["messages"].as_array().expect("messages");
    let names: Vec<&str> = messages
        .iter()
        .filter_map(|one| one["event"].as_str())
        .collect();
    assert_eq!(names, ["said", "large_message", "said"]);
    assert_eq!(fetch(node.addr, &messages[1]["args"][0])[0], json!(1));
}

#[test]
fn old_bodies_are_removed() {
    let rig = rig("url_lifetime = \"1s\"\nkeep = \"1s\"");
    let mut ada = join(rig.addr(), "/", "den");
    ada.ask("said", &[json!(text(LARGE))]);
    assert!(
        eventually(PATIENCE, || rig.bodies().is_empty()),
        "{:?}",
        rig.bodies()
    );
    assert!(rig.node.reaches("sockeye_large_removed_total", 1.0) >= 1.0);
}
