//! Handlers that look at opening requests: they refuse them, hold them, and add header lines to answers.

use crate::rig::Rig;
use hub::config::Config;
use hub::{
    AnswerHeaders, ConnectRequest, Context, Decision, Event, Handler, Opening, OpeningKey,
    OwnAnswer, Refusal, Request, SocketKey,
};
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=polling";
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

/// `X-Wish` of an opening request says what becomes of it; the event `decide` accepts all that wait, or refuses them.
#[derive(Default)]
struct Porter {
    waiting: Vec<OpeningKey>,
}

impl Handler for Porter {
    fn reads_requests(&self) -> bool {
        true
    }

    fn opening(&mut self, _: &mut Context<'_>, request: &Request<'_>) -> Opening {
        match request.header("x-wish") {
            Some(b"refuse") => Opening::Refuse("not you".to_owned()),
            Some(b"answer") => {
                let mut headers = AnswerHeaders::default();
                headers.add("Location", b"/caf\xe9").expect("a line");
                let answer = OwnAnswer::new(302, headers, b"gone".to_vec());
                Opening::Answer(Box::new(answer.expect("an answer")))
            }
            Some(b"fail") => std::panic::panic_any("a failure"),
            Some(b"wait") => {
                self.waiting.push(request.key());
                Opening::Later
            }
            _ => Opening::Accept,
        }
    }

    fn answering(&mut self, request: &Request<'_>, opens: Option<&str>, out: &mut AnswerHeaders) {
        if let Some(sid) = opens {
            let cookie = format!("io={sid}; Path=/; HttpOnly; SameSite=Lax");
            out.add("Set-Cookie", &cookie).expect("a cookie");
        }
        assert!(out.add("X-Bad", "a\r\nSet-Cookie: b=c").is_err());
        let target = request.target().len().to_string();
        out.add("X-Target-Length", &target).expect("a number");
    }

    fn connecting(&mut self, _: &mut Context<'_>, request: &ConnectRequest<'_>) -> Decision {
        let header = request.headers.get("X-Wish").unwrap_or_default();
        match request.namespace {
            "/wish" => Decision::Refuse(Refusal {
                message: String::from_utf8_lossy(header).into_owned(),
                data: None,
            }),
            _ => Decision::Admit,
        }
    }

    fn event(&mut self, cx: &mut Context<'_>, _: SocketKey, event: Event<'_>) {
        let decision = match event.args {
            "true" => Opening::Accept,
            _ => Opening::Refuse("not you".to_owned()),
        };
        for key in self.waiting.drain(..) {
            let waited = cx.decide_opening(key, decision.clone());
            assert!(
                !cx.decide_opening(key, decision.clone()),
                "decided twice ({waited})"
            );
        }
    }
}

fn rig() -> Rig {
    Rig::new(Config::default(), Box::new(Porter::default()), 1)
}

fn text(rig: &mut Rig, client: usize) -> String {
    String::from_utf8_lossy(&rig.take(client)).into_owned()
}

fn get(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n")
}

/// A client in the main namespace, by polling; what it posts.
fn member(rig: &mut Rig) -> (usize, impl Fn(&mut Rig, &str) + use<>) {
    let client = rig.open();
    rig.send(client, get(SIO, "X-Wish: none\r\n").as_bytes());
    let open = text(rig, client);
    let (_, sid) = open.split_once("\"sid\":\"").expect("an open packet");
    let target = format!("{SIO}&sid={}", &sid[..20]);
    let post = move |rig: &mut Rig, body: &str| {
        let len = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n");
        rig.send(client, (head + body).as_bytes());
        assert!(text(rig, client).ends_with("\r\n\r\nok"));
        if body.starts_with("40") {
            rig.send(client, get(&target, "").as_bytes());
        }
    };
    post(rig, "40");
    assert!(text(rig, client).contains("40{\"sid\""));
    (client, post)
}

#[test]
fn an_answer_of_the_handlers_own_is_framed_by_the_gateway() {
    let mut rig = rig();
    let [polling, websocket] = [rig.open(), rig.open()];
    rig.send(polling, get(SIO, "X-Wish: answer\r\n").as_bytes());
    let answer = rig.take(polling);
    let lines = b"Content-Length: 4\r\nLocation: /caf\xe9\r\nConnection: keep-alive\r\n\r\ngone";
    assert!(answer.starts_with(b"HTTP/1.1 302 "));
    assert!(answer.ends_with(lines), "{}", answer.escape_ascii());
    let target = "/socket.io/?EIO=4&transport=websocket";
    let request = get(target, &format!("X-Wish: answer\r\n{UPGRADE}"));
    rig.send(websocket, request.as_bytes());
    let answer = text(&mut rig, websocket);
    assert!(answer.starts_with("HTTP/1.1 302 "), "{answer}");
    assert!(
        answer.ends_with("Connection: close\r\n\r\ngone"),
        "{answer}"
    );
    for (status, len, good) in [
        (199, 0, false),
        (204, 1, false),
        (204, 0, true),
        (600, 0, false),
    ] {
        let made = OwnAnswer::new(status, AnswerHeaders::default(), vec![b'x'; len]);
        assert_eq!(made.is_some(), good, "{status}");
    }
}

#[test]
fn a_refused_opening_request_is_told_so_in_the_handlers_words() {
    let mut rig = rig();
    let [polling, websocket, plain] = [rig.open(), rig.open(), rig.open()];
    rig.send(polling, get(SIO, "X-Wish: refuse\r\n").as_bytes());
    let answer = text(&mut rig, polling);
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(
        answer.ends_with(r#"{"code":4,"message":"not you"}"#),
        "{answer}"
    );
    for (client, target) in [
        (websocket, "/socket.io/?EIO=4&transport=websocket"),
        (plain, "/ws"),
    ] {
        rig.send(
            client,
            get(target, &format!("{UPGRADE}X-Wish: refuse\r\n")).as_bytes(),
        );
        let answer = text(&mut rig, client);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\nnot you"), "{answer}");
    }
    // The first may try again on its connection.
    rig.send(polling, get(SIO, "").as_bytes());
    assert!(text(&mut rig, polling).starts_with("HTTP/1.1 200 "));
    // One that made its handler fail does not get in.
    rig.send(polling, get(SIO, "X-Wish: fail\r\n").as_bytes());
    assert!(text(&mut rig, polling).starts_with("HTTP/1.1 403 "));
}

#[test]
fn handlers_add_header_lines_to_the_answers_of_a_session() {
    let mut rig = rig();
    let client = rig.open();
    rig.send(client, get(SIO, "").as_bytes());
    let first = text(&mut rig, client);
    let (_, sid) = first.split_once("\"sid\":\"").expect("an open packet");
    let (sid, cookie) = (
        &sid[..20],
        format!("\r\nSet-Cookie: io={}; Path=/", &sid[..20]),
    );
    assert!(first.contains(&cookie), "{first}");
    assert!(!first.contains("X-Bad"), "{first}");
    let target = format!("{SIO}&sid={sid}");
    let post = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n40");
    rig.send(client, post.as_bytes());
    rig.send(client, get(&target, "").as_bytes());
    let later = text(&mut rig, client);
    let line = format!("\r\nX-Target-Length: {}\r\n", target.len());
    assert_eq!(later.matches(&line).count(), 2, "{later}");
    assert!(!later.contains("Set-Cookie"), "{later}");
    let websocket = rig.open();
    rig.send(
        websocket,
        get("/socket.io/?EIO=4&transport=websocket", UPGRADE).as_bytes(),
    );
    let answer = text(&mut rig, websocket);
    assert!(
        answer.starts_with("HTTP/1.1 101 ") && answer.contains("Set-Cookie: io="),
        "{answer}"
    );
}

#[test]
fn handlers_see_the_headers_of_the_opening_request_when_a_namespace_is_joined() {
    let mut rig = rig();
    let (client, post) = member(&mut rig);
    post(&mut rig, "40/wish,");
    let answer = text(&mut rig, client);
    assert!(
        answer.ends_with(r#"44/wish,{"message":"none"}"#),
        "{answer}"
    );
}

#[test]
fn a_held_opening_request_waits_for_its_decision() {
    let mut rig = rig();
    let (_, post) = member(&mut rig);
    for (decision, status) in [("true", "HTTP/1.1 101 "), ("false", "HTTP/1.1 403 ")] {
        let [whole, torn] = [rig.open(), rig.open()];
        let request = get("/ws", &format!("{UPGRADE}X-Wish: wait\r\n"));
        rig.send(whole, request.as_bytes());
        let (first, second) = request.as_bytes().split_at(40);
        rig.send(torn, first);
        rig.send(torn, second);
        rig.pass(Duration::from_secs(9));
        assert_eq!([whole, torn].map(|client| rig.take(client).len()), [0, 0]);
        post(&mut rig, &format!("42[\"decide\",{decision}]"));
        rig.finish_turn();
        for client in [whole, torn] {
            let answer = text(&mut rig, client);
            assert!(answer.starts_with(status), "{answer}");
        }
    }
}

#[test]
fn a_held_opening_request_is_not_held_for_ever() {
    let mut rig = rig();
    let (_, post) = member(&mut rig);
    let [patient, gone] = [rig.open(), rig.open()];
    for client in [patient, gone] {
        rig.pass(Duration::from_secs(3));
        rig.send(client, get(SIO, "X-Wish: wait\r\n").as_bytes());
    }
    rig.end(gone);
    rig.pass(Duration::from_millis(6_900));
    assert_eq!(text(&mut rig, patient), "");
    rig.pass(Duration::from_secs(2));
    assert!(text(&mut rig, patient).starts_with("HTTP/1.1 503 "));
    // The decision comes when nobody waits, and concerns nobody who came since.
    let next = rig.open();
    rig.send(next, get(SIO, "X-Wish: refuse").as_bytes());
    post(&mut rig, "42[\"decide\",true]");
    assert_eq!(text(&mut rig, next), "");
}
