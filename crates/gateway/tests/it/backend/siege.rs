//! Endpoints and strangers that mean harm: answers without end, streams that are reset as fast as they are opened, keys at the wrong door.

use super::intake::{connect, strangers_request};
use super::worker::{introduced, open, runtime};
use super::{KEY, Kitchen};
use crate::harness::{Gateway, PATIENCE, SocketIo, eventually};
use client::full::request;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Answers a request: at once, or by what never ends.
fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut input = BufReader::new(stream.try_clone()?);
    let mut len = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            len = value.trim().parse().expect("a number");
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; len];
    input.read_exact(&mut body)?;
    let body = String::from_utf8(body).expect("JSON");
    let (head, part, pause) = match body.as_str() {
        body if body.contains("\"drip\"") => ("Content-Length: 9999\r\n\r\n", " ".to_owned(), 20),
        body if body.contains("\"flood\"") => (
            "Content-Type: application/json\r\n\r\n",
            " ".repeat(1 << 16),
            0,
        ),
        body if body.contains("\"lines\"") => ("", format!("X: {}\r\n", "x".repeat(1 << 10)), 0),
        _ => {
            let empty = "HTTP/1.1 204 X\r\nConnection: close\r\n\r\n";
            return stream.write_all(empty.as_bytes());
        }
    };
    stream.write_all(format!("HTTP/1.1 200 X\r\n{head}").as_bytes())?;
    loop {
        stream.write_all(part.as_bytes())?;
        std::thread::sleep(Duration::from_millis(pause));
    }
}

#[test]
fn an_answer_of_an_endpoint_that_never_ends_costs_its_call_and_no_more() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    let config = format!(
        "[server]\nshards = 1\n[namespaces.\"/\"]\nbackend = \"shop\"\n[backends.shop]\nurl = \"http://{addr}/\"\n\
         private_addresses = true\ncall_timeout = \"500ms\"\nanswer_timeout = \"2s\"\nretry_min = \"100ms\"\n"
    );
    let gateway = Gateway::start_with(&config, &["--profile", "socket.io"]);
    let mut client = SocketIo::connect(gateway.addr);
    let before = gateway.own_memory();
    for (at, event) in ["flood", "lines", "drip"].into_iter().enumerate() {
        let told = client.ask(at as u64, &json!([event]));
        assert!(told[0]["error"].is_string(), "{event}: {told}");
        // What it did wrong is its own fault only. On a busy machine a call may take longer than it may.
        let is_fine = || client.ask(10 + at as u64, &json!(["fine"])) == json!([]);
        assert!(eventually(PATIENCE, is_fine), "{event}");
    }
    let grown = gateway.own_memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown}");
}

/// CVE-2023-44487.
#[test]
fn streams_that_are_reset_as_fast_as_they_are_opened_hold_up_nobody() {
    let kitchen = Kitchen::open("");
    let _worker = kitchen.worker("a");
    let mut client = kitchen.client();
    let before = kitchen.gateway.own_memory();
    let cut_off = runtime().block_on(async {
        let mut cut_off = 0;
        for _ in 0..20 {
            let Ok(mut attacker) = connect(kitchen.workers).await.ready().await else {
                continue;
            };
            for _ in 0..1_000 {
                let Ok((_, mut stream)) = attacker.send_request(strangers_request(), false) else {
                    break;
                };
                stream.send_reset(h2::Reason::CANCEL);
                match attacker.ready().await {
                    Ok(ready) => attacker = ready,
                    Err(_) => {
                        cut_off += 1;
                        break;
                    }
                }
                tokio::task::yield_now().await;
            }
        }
        cut_off
    });
    assert_eq!(client.ask(1, &json!(["echo", 7])), json!([7]));
    let grown = kitchen.gateway.own_memory().saturating_sub(before);
    assert!(
        grown < 16 << 20,
        "{grown} after {cut_off} connections were cut off"
    );
    let line = |line: &String| line.contains("worker refused");
    let calm = || kitchen.gateway.log().into_iter().filter(line).count() < 2_000;
    assert!(eventually(PATIENCE, calm));
}

#[test]
fn a_key_opens_its_own_door_and_no_other() {
    let admin = identity::keys::generate("ops", &[]).expect("a key");
    let limits = format!("[admin]\napi_keys = [{:?}]", admin.1);
    let kitchen = Kitchen::open_with(&limits, "");
    let hello = introduced("kitchen", "a");
    let opened = runtime().block_on(open(kitchen.workers, &admin.0, hello));
    let code = opened.err().map(|status| status.code());
    assert_eq!(
        code,
        Some(tonic::Code::Unauthenticated),
        "an operator is no worker"
    );
    let (mut answers, paths) = (Vec::new(), ["/v1/rooms", "/v1/nodes", "/debug/memory"]);
    for path in paths {
        for key in [&KEY.0, &admin.0] {
            let header = format!("Authorization: Bearer {key}\r\n");
            answers.push(request(kitchen.gateway.admin, "GET", path, &header, "").status);
        }
    }
    assert_eq!(answers, [401, 200].repeat(3), "a worker is no operator");
    let client = crate::api::grpc::Client::of(&kitchen.gateway, &KEY.0);
    let rooms: Result<control::api::proto::Rooms, _> = client.call(
        "ListRooms",
        control::api::proto::ListRoomsRequest::default(),
    );
    let code = rooms.err().map(|status| status.code());
    assert_eq!(code, Some(tonic::Code::Unauthenticated));
}
