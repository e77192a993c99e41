//! A handler of the conformance application that looks at opening requests, on the real data plane: Socket.IO's `allowRequest`,
//! `initial_headers` and `headers`.

use super::application::Application;
use crate::harness::RawConn;
use crate::harness::raw::{Response, upgrade_request};
use std::time::Instant;

const POLLING: &str = "/socket.io/?EIO=4&transport=polling";
const WEBSOCKET: &str = "/socket.io/?EIO=4&transport=websocket";

fn get(target: &str, wish: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{wish}\r\n")
}

/// Opens a session by polling, or tries to.
fn poll(application: &Application, wish: &str) -> Response {
    RawConn::exchange(application.addr, get(POLLING, wish))
}

/// The same by WebSocket.
fn upgrade(application: &Application, wish: &str) -> Response {
    RawConn::exchange(application.addr, upgrade_request(WEBSOCKET, wish))
}

fn sid(opened: &Response) -> String {
    let (_, sid) = opened
        .body
        .split_once("\"sid\":\"")
        .expect("an open packet");
    sid[..20].to_owned()
}

#[test]
fn a_handler_refuses_opening_requests_with_403() {
    let application = Application::start_with(&["--porter"]);
    let wish = "X-Opening: {\"refuse\":true}\r\n";
    let polling = poll(&application, wish);
    assert_eq!(polling.status, 403, "{}", polling.head);
    assert_eq!(polling.body, r#"{"code":4,"message":"not you"}"#);
    let websocket = upgrade(&application, wish);
    assert_eq!((websocket.status, &*websocket.body), (403, "not you"));
    assert_eq!(poll(&application, "").status, 200);
    assert_eq!(upgrade(&application, "").status, 101);
}

/// On the four shards requests are held side by side, and each gets its own decision.
#[test]
fn an_opening_request_is_held_until_its_handler_decides() {
    let application = Application::start_with(&["--porter"]);
    let began = Instant::now();
    let wishes = [(1_000, false), (1_500, true), (500, true), (2_000, false)];
    let mut held: Vec<_> = wishes
        .iter()
        .map(|(after, refuse)| {
            let wish = format!("X-Opening: {{\"after\":{after},\"refuse\":{refuse}}}\r\n");
            let (mut polling, mut websocket) = (
                RawConn::connect(application.addr),
                RawConn::connect(application.addr),
            );
            polling.send(get(POLLING, &wish));
            websocket.send(upgrade_request(WEBSOCKET, &wish));
            (polling, websocket)
        })
        .collect();
    // Others do not wait, and what is decided already does not, either.
    assert_eq!(poll(&application, "").status, 200);
    for ((after, refuse), (polling, websocket)) in wishes.iter().zip(&mut held) {
        let answers = [polling.response().status, websocket.response().status];
        let expected = if *refuse { [403, 403] } else { [200, 101] };
        assert_eq!(answers, expected, "after {after} ms");
        assert!(began.elapsed().as_millis() >= *after, "it was held");
    }
}

/// The session's requests may arrive at any of the four shards: the lines are there wherever they are answered.
#[test]
fn a_handler_adds_a_cookie_to_the_first_answer_and_lines_to_all() {
    let application = Application::start_with(&["--porter"]);
    let opened = poll(&application, "");
    let sid = sid(&opened);
    let cookie = format!("io={sid}; Path=/; HttpOnly; SameSite=Lax");
    assert_eq!(opened.header("Set-Cookie"), Some(&*cookie));
    assert_eq!(opened.header("X-Answer"), Some("yes"));
    let target = format!("{POLLING}&sid={sid}");
    let said = "42[\"message\",1]";
    for body in ["40", said, said, said, said, said] {
        let len = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}");
        let post = format!("{head}\r\n\r\n{body}");
        let posted = RawConn::exchange(application.addr, post);
        assert_eq!(
            (posted.status, posted.header("X-Answer")),
            (200, Some("yes"))
        );
        let polled = RawConn::exchange(application.addr, get(&target, ""));
        assert_eq!(
            (polled.status, polled.header("X-Answer")),
            (200, Some("yes"))
        );
        assert_eq!(polled.header("Set-Cookie"), None, "only with the first");
    }
    let websocket = upgrade(&application, "");
    let cookie = websocket.header("Set-Cookie").unwrap_or_default();
    assert!(cookie.starts_with("io="), "{}", websocket.head);
    assert_eq!(websocket.header("X-Answer"), Some("yes"));
}
