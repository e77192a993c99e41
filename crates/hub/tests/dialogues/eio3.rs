//! Bounds of clients of protocol 3 that no transcript shows: sizes, counts, origins, recovery, time.

use crate::identity::{frame, received, websocket};
use crate::rig::{Rig, handler, lab_rules};
use hub::config::{Config, Offsets, Recover, Recovery};
use std::time::Duration;

const POLLING: &str = "/socket.io/?EIO=3&transport=polling";
const WEBSOCKET: &str = "/socket.io/?EIO=3&transport=websocket";

fn lab(config: Config) -> Rig {
    let config = Config {
        allow_eio3: true,
        ..config
    };
    Rig::new(config, handler(&lab_rules()), 1)
}

fn ask(rig: &mut Rig, name: usize, request: &[u8]) -> String {
    rig.send(name, request);
    String::from_utf8_lossy(&rig.take(name)).into_owned()
}

fn get(rig: &mut Rig, name: usize, target: &str, headers: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
    ask(rig, name, request.as_bytes())
}

fn post(rig: &mut Rig, name: usize, target: &str, body: &[u8]) -> String {
    let length = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
    ask(rig, name, &[head.as_bytes(), body].concat())
}

/// A session by polling; the target of its requests.
fn opened(rig: &mut Rig, name: usize, more: &str) -> String {
    let answer = get(rig, name, &format!("{POLLING}{more}"), "");
    let at = answer.find("sid").expect("an open packet");
    let sid = answer[at..]
        .split(['"', '\\', ':'])
        .find(|part| part.len() == 20);
    format!("{POLLING}{more}&sid={}", sid.expect("a sid"))
}

/// The bound of a body is that of the payload in it, however long its form is written.
#[test]
fn a_form_is_as_large_as_what_is_in_it() {
    let mut rig = lab(Config {
        max_payload: 100,
        ..Config::default()
    });
    let client = rig.open();
    let target = opened(&mut rig, client, "&b64=1&j=0");
    let escaped = |payload: &str| {
        let bytes = payload.bytes().map(|byte| format!("%{byte:02x}"));
        format!("d={}", bytes.collect::<String>()).into_bytes()
    };
    let packet = |text: usize| {
        let packet = format!("42[\"echo\",\"{}\"]", "x".repeat(text));
        format!("{}:{packet}", packet.len())
    };
    let fits = packet(84);
    assert_eq!(fits.len(), 100);
    let answer = post(&mut rig, client, &target, &escaped(&fits));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Each of its characters is written as one: the form is short, and what is in it is too long.
    let answer = post(
        &mut rig,
        client,
        &target,
        format!("d={}", packet(85)).as_bytes(),
    );
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let client = rig.open();
    let answer = post(&mut rig, client, &target, &escaped(&packet(85)));
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let client = rig.open();
    let answer = get(&mut rig, client, &target, "");
    assert!(answer.contains("xxx"), "the session lives on: {answer}");
}

/// Each packet costs three bytes, so a body of the usual size could hold a third of a million of them.
#[test]
fn a_body_of_countless_packets_is_refused_unread() {
    let mut rig = lab(Config::default());
    let bound = Config::default().limits.post_packets_max;
    let client = rig.open();
    let target = opened(&mut rig, client, "&b64=1");
    let answer = post(&mut rig, client, &target, &b"1:2".repeat(bound));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = post(&mut rig, client, &target, &b"1:2".repeat(bound + 1));
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(rig.hub.census().sessions, 0);
    let client = rig.open();
    let target = opened(&mut rig, client, "&b64=1");
    let answer = post(&mut rig, client, &target, &b"0:".repeat(bound + 1));
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

/// A script names no origin: where only some pages may connect, any page could have it.
#[test]
fn no_script_passes_by_a_list_of_origins() {
    let mut rig = lab(Config {
        origins: vec!["https://app.example".to_owned()],
        ..Config::default()
    });
    let client = rig.open();
    let answer = get(&mut rig, client, &format!("{POLLING}&j=0"), "");
    assert!(
        answer.ends_with("{\"code\":0,\"message\":\"Transport unknown\"}"),
        "{answer}"
    );
    let listed = "Origin: https://app.example\r\n";
    let answer = get(&mut rig, client, POLLING, listed);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(!answer.contains("___eio"), "{answer}");
}

#[test]
fn no_name_to_come_back_by_is_told_or_taken() {
    let recover = Recover {
        window: Duration::from_secs(60),
        offsets: Offsets::All,
        goes_abroad: false,
        chronicle: false,
        replicas: 0,
    };
    let mut rig = lab(Config {
        recovery: Recovery {
            namespaces: [("*".to_owned(), Some(recover))].into_iter().collect(),
        },
        ..Config::default()
    });
    let client = websocket(&mut rig, WEBSOCKET, "");
    let pid = "A".repeat(20);
    rig.send(client, &frame(&format!("40/lab?pid={pid}&offset=x,")));
    rig.send(client, &frame("42/lab,1[\"echo\",\"a\"]"));
    let said = received(&mut rig, client);
    assert_eq!(
        said.last().map(String::as_str),
        Some("43/lab,1[\"a\"]"),
        "{said:?}"
    );
    assert!(said.contains(&"40".to_owned()) && said.contains(&"40/lab,".to_owned()));
    rig.break_off(client);
    assert_eq!(rig.hub.census().sessions, 0);
}

/// A ping may be stuck behind a large upload: once, other packets count for it.
#[test]
fn a_client_that_talks_and_does_not_ping_gets_one_more_timeout() {
    let config = Config {
        ping_interval: Duration::from_secs(10),
        ping_timeout: Duration::from_secs(4),
        ..Config::default()
    };
    for (talks, lives_s) in [(false, 14), (true, 18)] {
        let mut rig = lab(config.clone());
        let client = websocket(&mut rig, WEBSOCKET, "");
        for second in 0..lives_s {
            assert_eq!(rig.hub.census().sessions, 1, "{talks} {second}");
            if talks {
                rig.send(client, &frame("42[\"void\"]"));
            }
            rig.pass(Duration::from_secs(1));
        }
        assert_eq!(rig.hub.census().sessions, 0, "{talks}");
    }
}
