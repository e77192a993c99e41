//! Decisions that come later: a handler that asks outside whether a client may join, and what the client sends meanwhile.

use crate::identity::{frame, received, websocket};
use crate::rig::Rig;
use client::OpCode;
use client::conn::masked;
use hub::claims::{Claims, Denied};
use hub::config::Config;
use hub::{
    ConnectRequest, Context, Crossing, Decision, Event, Handler, Refusal, SocketKey, Stays, Ticket,
};
use std::collections::HashMap;
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";
const PATIENCE: Duration = Duration::from_secs(5);
/// Token of a question for a client that is in.
const OWN: u64 = 1 << 32;

/// Lets everybody into `/` at once, and asks outside about `/late`.
#[derive(Default)]
struct Late {
    tickets: HashMap<u64, Ticket>,
    asked: u64,
    last: Option<SocketKey>,
}

impl Handler for Late {
    fn connecting(&mut self, cx: &mut Context<'_>, request: &ConnectRequest<'_>) -> Decision {
        if request.namespace != "/late" {
            return Decision::Admit;
        }
        let Some(ticket) = cx.postpone(request, PATIENCE) else {
            return Decision::Refuse(Refusal::unavailable());
        };
        if request.auth.contains("bye") {
            cx.socket(self.last.expect("a socket")).disconnect(true);
            return Decision::Later;
        }
        self.asked += 1;
        let question = request.auth.as_bytes().into();
        assert!(cx.ask_outside(question, PATIENCE, self.asked));
        self.tickets.insert(self.asked, ticket);
        Decision::Later
    }

    fn connected(&mut self, _: &mut Context<'_>, socket: SocketKey, _: &str) {
        self.last = Some(socket);
    }

    fn answered(&mut self, cx: &mut Context<'_>, token: u64, answer: Option<&[u8]>) {
        if token == OWN {
            return;
        }
        let ticket = self.tickets.remove(&token).expect("a ticket");
        let decision = match answer {
            Some(b"yes") => Ok(()),
            _ => Err(Refusal {
                message: "no".to_owned(),
                data: None,
            }),
        };
        let _ = cx.decide(ticket, decision);
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        if event.name == "ask" {
            let question = event.args.as_bytes().into();
            assert!(cx.socket(socket).ask_outside(question, PATIENCE, OWN));
        } else if let Some(ack) = event.ack {
            cx.ack(ack, event.args, event.attachments);
        }
    }
}

fn rig(config: Config) -> Rig {
    Rig::new(config, Box::new(Late::default()), 7)
}

fn send(rig: &mut Rig, client: usize, packets: &[&str]) {
    let bytes: Vec<u8> = packets.iter().flat_map(|packet| frame(packet)).collect();
    rig.send(client, &bytes);
}

/// A client in `/` that asked to join `/late`.
fn waiting(rig: &mut Rig) -> usize {
    let client = websocket(rig, SIO, "");
    send(rig, client, &["40"]);
    assert!(answers(rig, client)[0].starts_with("40{"));
    send(rig, client, &["40/late,{\"n\":1}"]);
    client
}

/// What a client received, without the handshake and pings.
fn answers(rig: &mut Rig, client: usize) -> Vec<String> {
    let mut texts = received(rig, client);
    texts.retain(|text| !text.starts_with("0{") && text != "2");
    texts
}

#[test]
fn what_a_client_sends_before_the_decision_waits_in_order() {
    let mut rig = rig(Config::default());
    let (client, other) = (waiting(&mut rig), websocket(&mut rig, SIO, ""));
    let bursts = [
        "42/late,1[\"a\",1]",
        "451-/late,2[\"b\",{\"_placeholder\":true,\"num\":0}]",
    ];
    send(&mut rig, client, &bursts);
    let attachment = masked(true, OpCode::Binary, b"xyz");
    rig.send(client, &attachment);
    send(&mut rig, client, &["42/late,3[\"c\",3]"]);
    assert_eq!(answers(&mut rig, client), [""; 0]);
    // Its other namespace passes, and so does everybody else.
    send(&mut rig, client, &["427[\"now\",0]"]);
    assert_eq!(answers(&mut rig, client), ["437[0]"]);
    send(&mut rig, other, &["40", "428[\"now\",1]"]);
    assert_eq!(answers(&mut rig, other)[1..], ["438[1]"]);
    assert_eq!(rig.answer_handler("yes"), "{\"n\":1}");
    let got = answers(&mut rig, client);
    assert!(got[0].starts_with("40/late,{\"sid\""), "{got:?}");
    assert_eq!(got[1], "43/late,1[1]");
    assert!(got[2].starts_with("461-/late,2["), "{got:?}");
    assert_eq!(got.last().map(String::as_str), Some("43/late,3[3]"));
}

/// It went to the next process, and the answer to nobody.
#[test]
fn a_client_for_whom_somebody_is_asked_stays_until_the_answer() {
    let mut rig = rig(Config::default());
    let client = websocket(&mut rig, SIO, "");
    send(&mut rig, client, &["40", "42[\"ask\",1]"]);
    let fits = |rig: &Rig| {
        let mut all = Vec::new();
        rig.hub.count_handed(0, |_| false, |fits| all.push(fits));
        all
    };
    assert_eq!(fits(&rig), [Err(Stays::Question)]);
    assert_eq!(rig.answer_handler("1"), "1");
    assert_eq!(fits(&rig), [Ok(Crossing::Plainly)]);
}

#[test]
fn a_refused_client_may_have_asked_again_meanwhile() {
    let mut rig = rig(Config::default());
    let client = waiting(&mut rig);
    let more = [
        "42/late,1[\"lost\"]",
        "40/late,{\"n\":2}",
        "42/late,2[\"kept\",2]",
    ];
    send(&mut rig, client, &more);
    rig.answer_handler("no");
    assert_eq!(answers(&mut rig, client), ["44/late,{\"message\":\"no\"}"]);
    assert_eq!(rig.answer_handler("yes"), "{\"n\":2}");
    let got = answers(&mut rig, client);
    assert!(got[0].starts_with("40/late,{\"sid\""), "{got:?}");
    assert_eq!(got[1..], ["43/late,2[2]"]);
}

/// Stock clients say nothing when they give up before the answer. One that came again lost its session, all namespaces.
#[test]
fn a_client_that_asks_twice_before_the_answer_is_in_once() {
    let mut rig = rig(Config::default());
    let client = waiting(&mut rig);
    send(
        &mut rig,
        client,
        &["40/late,{\"n\":2}", "42/late,1[\"a\",1]"],
    );
    assert_eq!(rig.answer_handler("yes"), "{\"n\":1}");
    let got = answers(&mut rig, client);
    assert!(got[0].starts_with("40/late,{\"sid\""), "{got:?}");
    assert_eq!(got[1..], ["43/late,1[1]"]);
    send(&mut rig, client, &["427[\"now\",0]"]);
    assert_eq!(answers(&mut rig, client), ["437[0]"]);
}

#[test]
fn a_client_that_gave_up_is_not_let_in() {
    let mut rig = rig(Config::default());
    let client = waiting(&mut rig);
    send(&mut rig, client, &["42/late,1[\"x\"]", "41/late,"]);
    rig.answer_handler("yes");
    // What was still on its way is forgiven; the session goes on, and may come again.
    send(
        &mut rig,
        client,
        &["42/late,[\"behind\"]", "427[\"now\",0]"],
    );
    assert_eq!(answers(&mut rig, client), ["437[0]"]);
    send(&mut rig, client, &["40/late,"]);
    rig.answer_handler("yes");
    assert!(answers(&mut rig, client)[0].starts_with("40/late,{\"sid\""));
}

#[test]
fn nobody_waits_longer_than_the_ticket_holds() {
    let mut rig = rig(Config::default());
    let client = waiting(&mut rig);
    rig.pass(PATIENCE + Duration::from_millis(1));
    let refused =
        "44/late,{\"message\":\"service unavailable\",\"data\":{\"retry_after_ms\":1000}}";
    assert!(answers(&mut rig, client).contains(&refused.to_owned()));
    // The answer comes too late, and does nothing.
    rig.answer_handler("yes");
    assert_eq!(answers(&mut rig, client), [""; 0]);
}

/// Bytes of the part that questions belong to.
fn users_bytes(rig: &Rig) -> usize {
    let memory = rig.hub.memory();
    let part = memory.iter().find(|(part, _)| *part == "users");
    part.expect("a part").1
}

#[test]
fn a_gate_is_bounded_in_bytes() {
    let mut config = Config::default();
    config.limits.gate_bytes_max = 10_000;
    let mut rig = rig(config);
    let before = {
        let client = waiting(&mut rig);
        rig.break_off(client);
        rig.answer_handler("yes");
        users_bytes(&rig)
    };
    for packet in [
        format!("42/late,[\"{}\"]", "x".repeat(500)),
        "42/late,[\"x\"]".to_owned(),
    ] {
        let client = waiting(&mut rig);
        let burst: Vec<&str> = (0..1_000).map(|_| packet.as_str()).collect();
        send(&mut rig, client, &burst);
        let got = answers(&mut rig, client);
        assert!(
            got.last()
                .is_some_and(|last| last.starts_with("close 1008")),
            "{got:?}"
        );
        rig.answer_handler("yes");
    }
    assert_eq!(users_bytes(&rig), before);
}

/// Ten thousand questions kept twenty gigabytes: each CONNECT payload twice, and nobody counted bytes.
#[test]
fn questions_are_bounded_in_bytes() {
    let mut config = Config::default();
    config.auth.enabled = true;
    config.limits.ask_bytes_max = 100_000;
    let mut rig = rig(config);
    let mut refused = 0;
    for _ in 0..20 {
        let client = websocket(&mut rig, SIO, "");
        let auth = format!("{{\"token\":\"t\",\"more\":\"{}\"}}", "x".repeat(9_000));
        send(&mut rig, client, &[&format!("40{auth}")]);
        let told = "44{\"message\":\"Authentication unavailable\"}".to_owned();
        refused += usize::from(answers(&mut rig, client).contains(&told));
    }
    assert_eq!((rig.asked.len(), refused), (11, 9));
    for _ in 0..11 {
        assert_eq!(rig.answer(Err(Denied::Invalid)), "t");
    }
    let client = websocket(&mut rig, SIO, "");
    send(&mut rig, client, &["40{\"token\":\"t\"}"]);
    assert_eq!(rig.asked.len(), 1, "what was answered makes room");
}

#[test]
fn a_token_longer_than_tokens_are_is_asked_about_by_nobody() {
    let mut config = Config::default();
    config.auth.enabled = true;
    let mut rig = rig(config);
    let client = websocket(&mut rig, SIO, "");
    let auth = format!("40{{\"token\":\"{}\"}}", "t".repeat(500_000));
    send(&mut rig, client, &[&auth]);
    assert_eq!(
        answers(&mut rig, client),
        ["44{\"message\":\"Invalid token\"}"]
    );
    assert_eq!(rig.asked.len(), 0);
}

#[test]
fn a_session_that_ends_takes_its_questions_along() {
    let mut config = Config::default();
    config.limits.asks_outstanding_max = 4;
    let mut rig = rig(config);
    for _ in 0..10 {
        let client = waiting(&mut rig);
        assert_eq!(answers(&mut rig, client), [""; 0]);
        rig.break_off(client);
        // The handler's own question is answered; the ticket went with the session.
        rig.answer_handler("yes");
    }
}

/// Their questions stayed open until their time was up: clients that came and went shut out all others.
#[test]
fn questions_about_plain_clients_that_left_kept_others_out() {
    let mut config = Config {
        plain_namespace: "/late".to_owned(),
        ..Config::default()
    };
    // The handler's own question stays open for each, and one ticket beside them.
    config.limits.asks_outstanding_max = 11;
    let mut rig = rig(config);
    for n in 1..=10 {
        let client = websocket(&mut rig, "/ws", "");
        assert_eq!(rig.asked.len(), n, "{:?}", answers(&mut rig, client));
        rig.break_off(client);
    }
    // A token, which nobody has looked at yet.
    let mut config = Config::default();
    config.auth.enabled = true;
    config.limits.asks_outstanding_max = 1;
    let mut rig = self::rig(config);
    for n in 1..=3 {
        let client = websocket(&mut rig, "/ws?token=t", "");
        assert_eq!(rig.asked.len(), n, "{:?}", answers(&mut rig, client));
        rig.break_off(client);
    }
    // These answers are about nobody.
    (0..3).for_each(|_| drop(rig.answer(Ok(Claims::default()))));
}

/// The ticket lay about until the next client took one, and was then nobody's until its time was up.
#[test]
fn a_handler_that_postpones_and_ends_the_session_at_once_leaves_no_question() {
    let mut config = Config::default();
    config.limits.asks_outstanding_max = 2;
    let mut rig = rig(config);
    let client = websocket(&mut rig, SIO, "");
    send(&mut rig, client, &["40"]);
    answers(&mut rig, client);
    let guest = websocket(&mut rig, SIO, "");
    send(&mut rig, guest, &["40", "40/late,{\"bye\":1}"]);
    send(&mut rig, client, &["40/late,"]);
    rig.answer_handler("yes");
    assert!(answers(&mut rig, client)[0].starts_with("40/late,{\"sid\""));
}

/// A token first, then the handler: the client waits for both before one gate.
#[test]
fn a_verified_client_may_be_decided_about_later() {
    let mut config = Config::default();
    config.auth.enabled = true;
    let mut rig = rig(config);
    let client = websocket(&mut rig, SIO, "");
    send(
        &mut rig,
        client,
        &["40/late,{\"token\":\"t\"}", "42/late,1[\"a\",1]"],
    );
    let claims = Claims {
        uid: "ann".to_owned(),
        ..Claims::default()
    };
    assert_eq!(rig.answer(Ok(claims)), "t");
    send(&mut rig, client, &["42/late,2[\"b\",2]"]);
    assert_eq!(answers(&mut rig, client), [""; 0]);
    assert_eq!(rig.answer_handler("yes"), "{\"token\":\"t\"}");
    let got = answers(&mut rig, client);
    assert!(got[0].starts_with("40/late,{\"sid\""), "{got:?}");
    assert_eq!(got[1..], ["43/late,1[1]", "43/late,2[2]"]);
}

#[test]
fn a_plain_client_waits_for_the_decision_too() {
    let config = || Config {
        plain_namespace: "/late".to_owned(),
        ..Config::default()
    };
    for (answer, expected) in [
        ("yes", "{\"type\":\"ack\",\"id\":1,\"payload\":\"x\"}"),
        ("no", "close 1008 no"),
    ] {
        let mut rig = rig(config());
        let client = websocket(&mut rig, "/ws", "");
        let asked = "{\"type\":\"echo\",\"payload\":\"x\",\"id\":1}";
        send(&mut rig, client, &[asked]);
        assert_eq!(answers(&mut rig, client), [""; 0]);
        assert_eq!(rig.answer_handler(answer), "{}");
        assert_eq!(answers(&mut rig, client), [expected]);
    }
}
