//! Tokens: who gets in, in which words the others are refused, and what happens when a token ends.

use crate::rig::{Rig, chat_rules, handler, lab_rules, masked};
use hub::claims::{Claims, Denied, Grants};
use hub::config::{Auth, AuthStyle, Config};
use hub::{ConnectRequest, Context, Decision, Emit, Event, Handler, Refusal, SocketKey};
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";

pub fn config(style: AuthStyle, required: bool) -> Config {
    Config {
        auth: Auth {
            enabled: true,
            required,
            style,
            ..Auth::default()
        },
        ..Config::default()
    }
}

fn strict() -> Rig {
    Rig::lab(config(AuthStyle::Strict, true), 1)
}

/// A WebSocket at that target; what came with the handshake is thrown away.
pub fn websocket(rig: &mut Rig, target: &str, headers: &str) -> usize {
    let name = rig.open();
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{headers}\r\n"
    );
    rig.send(name, head.as_bytes());
    name
}

pub fn frame(text: &str) -> Vec<u8> {
    masked(text.as_bytes())
}

/// What a client received: texts as they are, a close frame as `close CODE TEXT`. A response head is skipped.
pub fn received(rig: &mut Rig, name: usize) -> Vec<String> {
    let mut bytes = rig.take(name);
    if bytes.starts_with(b"HTTP/1.1 101") {
        let end = bytes
            .windows(4)
            .position(|w| w == b"\r\n\r\n")
            .expect("a head")
            + 4;
        bytes.drain(..end);
    }
    let (mut at, mut texts) = (0, Vec::new());
    while at < bytes.len() {
        let (len, head) = match bytes[at + 1] {
            126 => (
                usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]])),
                4,
            ),
            len => (usize::from(len), 2),
        };
        let data = &bytes[at + head..at + head + len];
        texts.push(match bytes[at] {
            0x88 if len >= 2 => {
                let code = u16::from_be_bytes([data[0], data[1]]);
                format!("close {code} {}", String::from_utf8_lossy(&data[2..]))
            }
            0x88 => "close".to_owned(),
            _ => String::from_utf8_lossy(data).into_owned(),
        });
        at += head + len;
    }
    texts
}

pub fn claims(uid: &str) -> Claims {
    Claims {
        uid: uid.into(),
        ..Claims::default()
    }
}

/// A client whose token is good.
pub fn joined(rig: &mut Rig, claims: Claims) -> usize {
    let client = websocket(rig, SIO, "");
    rig.send(client, &frame("40{\"token\":\"t\"}"));
    assert_eq!(rig.answer(Ok(claims)), "t");
    let texts = received(rig, client);
    assert!(texts[1].starts_with("40{\"sid\":"), "{texts:?}");
    client
}

#[test]
fn a_good_token_lets_in_and_the_turn_does_not_wait_for_it() {
    let mut rig = strict();
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40{\"token\":\"secret\"}"));
    assert_eq!(received(&mut rig, client).len(), 1, "the open packet only");
    assert_eq!(rig.answer(Ok(claims("ann"))), "secret");
    assert!(received(&mut rig, client)[0].starts_with("40{\"sid\":"));
    rig.send(client, &frame("421[\"echo\",7]"));
    assert_eq!(received(&mut rig, client), ["431[7]"]);
}

#[test]
fn tokens_come_by_header_and_query_too() {
    for (target, header) in [
        (SIO.to_owned(), "Authorization: Bearer a.b.c\r\n"),
        (format!("{SIO}&token=a.b.c"), ""),
        (
            format!("{SIO}&token=other"),
            "authorization: bearer  a.b.c\r\n",
        ),
    ] {
        let mut rig = strict();
        let client = websocket(&mut rig, &target, header);
        rig.send(client, &frame("40"));
        assert_eq!(rig.answer(Ok(claims("ann"))), "a.b.c");
        // Its other namespaces are joined on the same word.
        rig.send(client, &frame("40/lab,"));
        assert!(rig.asked.is_empty());
        let texts = received(&mut rig, client);
        assert!(texts[2].starts_with("40/lab,{\"sid\""), "{texts:?}");
    }
}

#[test]
fn strict_refusals_are_connect_errors() {
    let mut rig = strict();
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40"));
    rig.send(client, &frame("40{\"token\":\"x\"}"));
    rig.answer(Err(Denied::Invalid));
    rig.send(client, &frame("40{\"token\":\"y\"}"));
    rig.answer(Err(Denied::Expired));
    let texts = received(&mut rig, client);
    assert_eq!(texts[1], "44{\"message\":\"Authentication required\"}");
    assert_eq!(texts[2], "44{\"message\":\"Invalid token\"}");
    assert_eq!(
        texts[3],
        "44{\"message\":\"Token expired\",\"data\":{\"code\":\"TOKEN_EXPIRED\"}}"
    );
    let told = [
        ("missing", "unauthorized"),
        ("invalid", "unauthorized"),
        ("expired", "token_expired"),
    ]
    .map(|(why, reason)| [format!("token refused {why}"), format!("refused {reason}")]);
    assert_eq!(rig.log, told.concat());
}

#[test]
fn chat_refusals_are_an_error_event_and_a_disconnect() {
    let mut rig = Rig::new(config(AuthStyle::Chat, true), handler(&chat_rules()), 1);
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40{}"));
    let texts = received(&mut rig, client);
    assert!(texts[1].starts_with("40{\"sid\":"), "{texts:?}");
    assert_eq!(
        texts[2],
        "42[\"error\",{\"message\":\"Authentication required\"}]"
    );
    assert_eq!(texts[3..], ["41", "close 4501 unauthorized"]);
    assert_eq!(rig.log, ["token refused missing", "refused unauthorized"]);
}

/// 4501 means that it should not come back; it should, with another token.
#[test]
fn a_client_with_an_expired_token_was_told_to_stay_away() {
    let mut rig = Rig::new(config(AuthStyle::Chat, true), handler(&chat_rules()), 1);
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40{\"token\":\"old\"}"));
    rig.answer(Err(Denied::Expired));
    let texts = received(&mut rig, client);
    assert_eq!(texts[2], "42[\"error\",{\"message\":\"Token expired\"}]");
    assert_eq!(texts[3..], ["41", "close 4004 token expired"]);
}

#[test]
fn who_cannot_be_checked_is_sent_off_so_that_it_comes_back_by_itself() {
    let mut rig = Rig::new(config(AuthStyle::Chat, true), handler(&chat_rules()), 1);
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40{\"token\":\"t\"}"));
    rig.answer(Err(Denied::Unavailable));
    let texts = received(&mut rig, client);
    assert_eq!(
        texts[2..],
        [
            "42[\"error\",{\"message\":\"Authentication unavailable\"}]",
            "close 1013 authentication unavailable"
        ]
    );
    let plain = websocket(&mut rig, "/ws?token=t", "");
    rig.answer(Err(Denied::Unavailable));
    let texts = received(&mut rig, plain);
    assert!(texts[0].contains("AUTHENTICATION_UNAVAILABLE"), "{texts:?}");
    assert_eq!(texts[1], "close 1013 authentication unavailable");
    let told = ["token refused unavailable", "refused auth_unavailable"];
    assert_eq!(rig.log, [told, told].concat());
}

#[test]
fn without_an_answer_the_client_is_refused_in_time() {
    let mut rig = strict();
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40{\"token\":\"t\"}"));
    rig.pass(Duration::from_secs(6));
    let texts = received(&mut rig, client);
    assert_eq!(texts[1], "44{\"message\":\"Authentication unavailable\"}");
    assert_eq!(
        rig.log,
        ["token refused unavailable", "refused auth_unavailable"]
    );
    // A late answer is nobody's.
    rig.answer(Ok(claims("ann")));
    assert!(received(&mut rig, client).is_empty());
}

#[test]
fn who_leaves_while_being_asked_about_is_forgotten() {
    let mut rig = strict();
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40{\"token\":\"t\"}"));
    rig.break_off(client);
    let other = websocket(&mut rig, SIO, "");
    rig.answer(Ok(claims("ann")));
    assert_eq!(received(&mut rig, other).len(), 1, "the open packet only");
}

#[test]
fn questions_are_bounded() {
    let mut config = config(AuthStyle::Strict, true);
    config.limits.asks_outstanding_max = 2;
    let mut rig = Rig::lab(config, 1);
    let clients: Vec<_> = (0..3).map(|_| websocket(&mut rig, SIO, "")).collect();
    for client in &clients {
        rig.send(*client, &frame("40{\"token\":\"t\"}"));
    }
    assert_eq!(rig.asked.len(), 2);
    let texts = received(&mut rig, clients[2]);
    assert_eq!(texts[1], "44{\"message\":\"Authentication unavailable\"}");
}

#[test]
fn plain_clients_wait_with_what_they_said() {
    let mut rig = strict();
    let client = websocket(&mut rig, "/ws?token=t", "");
    rig.send(client, &frame("{\"type\":\"echo\",\"payload\":1,\"id\":5}"));
    assert!(received(&mut rig, client).is_empty());
    rig.answer(Ok(claims("ann")));
    assert_eq!(
        received(&mut rig, client),
        ["{\"type\":\"ack\",\"id\":5,\"payload\":1}"]
    );
    let flood = websocket(&mut rig, "/ws?token=t", "");
    rig.send(flood, &[b'x'; 70_000]);
    assert!(rig.conn(flood).is_none(), "more than a message may hold");
    rig.asked.clear();
    let stranger = websocket(&mut rig, "/ws", "");
    let texts = received(&mut rig, stranger);
    assert!(
        texts[0].starts_with("{\"type\":\"error\",\"error\":\"AUTHENTICATION_REQUIRED\""),
        "{texts:?}"
    );
    assert_eq!(texts[1], "close 4501 unauthorized");
}

#[test]
fn rooms_and_rights_come_from_the_token() {
    let mut rig = strict();
    let granted = Claims {
        rooms: vec!["team".into()],
        grants: Some(Grants {
            join: vec!["a*".into()],
            publish: vec!["team".into()],
        }),
        ..claims("ann")
    };
    let ann = joined(&mut rig, granted);
    let bob = joined(
        &mut rig,
        Claims {
            rooms: vec!["team".into()],
            ..claims("bob")
        },
    );
    rig.send(ann, &frame("421[\"join\",\"abc\"]"));
    let texts = received(&mut rig, ann);
    assert_eq!(
        texts[0],
        "42[\"error\",{\"message\":\"Not allowed to join that room\"}]"
    );
    rig.send(ann, &frame("422[\"join\",\"a*\"]"));
    // `tell` goes to all rooms of the sender: two of which it may not publish to.
    rig.send(ann, &frame("423[\"tell\",1]"));
    let texts = received(&mut rig, ann);
    let refused = "{\"message\":\"Not allowed to publish to that room\"}";
    assert_eq!(texts[1], format!("42[\"error\",{refused}]"), "{texts:?}");
    assert!(received(&mut rig, bob).is_empty());
    rig.send(bob, &frame("42[\"tell\",2]"));
    assert_eq!(received(&mut rig, ann), ["42[\"tell\",2]"]);
}

fn ends_in(rig: &Rig, seconds: u64) -> Option<u64> {
    Some(rig.now.wall_ms / 1000 + seconds)
}

#[test]
fn an_ending_token_is_warned_of_and_ends() {
    let mut rig = strict();
    let expires_s = ends_in(&rig, 100);
    let client = joined(
        &mut rig,
        Claims {
            expires_s,
            ..claims("ann")
        },
    );
    for _ in 0..2 {
        rig.pass(Duration::from_secs(19));
        rig.send(client, &frame("3"));
    }
    assert!(
        !received(&mut rig, client)
            .join(" ")
            .contains("token-expiring")
    );
    rig.pass(Duration::from_secs(3));
    let texts = received(&mut rig, client).join(" ");
    assert!(
        texts.contains("42[\"token-expiring\",{\"expiresAt\":"),
        "{texts}"
    );
    for _ in 0..3 {
        rig.send(client, &frame("3"));
        rig.pass(Duration::from_secs(20));
    }
    let texts = received(&mut rig, client);
    let end = &texts[texts.len() - 3..];
    assert_eq!(end[0], "42[\"error\",{\"message\":\"Token expired\"}]");
    assert_eq!(end[1..], ["41", "close 4004 token expired"]);
    assert_eq!(
        rig.log,
        ["connected socket.io", "disconnected token_expired"]
    );
}

/// What a client is told besides pings, and how many seconds before the end of its token.
fn told_until(
    rig: &mut Rig,
    client: usize,
    ends: u64,
    mut live: impl FnMut(&mut Rig, bool),
) -> Vec<(i64, String)> {
    let mut told = Vec::new();
    while rig.now.wall_ms / 1000 <= ends {
        rig.pass(Duration::from_secs(1));
        let mut pinged = false;
        for text in received(rig, client) {
            if text == "2" {
                pinged = true;
            } else {
                let left = ends as i64 - (rig.now.wall_ms / 1000) as i64;
                let text = text.split(['{', ',']).next().unwrap_or_default();
                told.push((left, text.to_owned()));
            }
        }
        live(rig, pinged);
    }
    told
}

fn warned_and_ended(close: [(i64, &str); 3]) -> Vec<(i64, String)> {
    let all = std::iter::once((60, "42[\"token-expiring\"")).chain(close);
    all.map(|(left, text)| (left, text.to_owned())).collect()
}

const ENDED: [(i64, &str); 3] = [
    (0, "42[\"error\""),
    (0, "41"),
    (0, "close 4004 token expired"),
];

/// Heartbeats find those whose end is near: the warning comes in its second however long the token was good for, also when
/// pongs take as long as they may.
#[test]
fn a_token_of_long_life_ends_to_the_second() {
    for pong_after in [0, 19, 38] {
        let mut rig = strict();
        let ends = ends_in(&rig, 1_000).expect("set");
        let expires_s = Some(ends);
        let ann = claims("ann");
        let client = joined(&mut rig, Claims { expires_s, ..ann });
        let mut waited = None;
        let told = told_until(&mut rig, client, ends, |rig, pinged| {
            waited = waited.map(|seconds| seconds + 1).or(pinged.then_some(0));
            // A sign of life is what a late pong is waited for.
            if waited.is_some_and(|seconds| seconds == 10) && pong_after > 20 {
                rig.send(client, &frame("421[\"x\"]"));
            }
            if waited == Some(pong_after) {
                rig.send(client, &frame("3"));
                waited = None;
            }
        });
        let told: Vec<_> = told
            .into_iter()
            .filter(|(_, text)| !text.starts_with("431"))
            .collect();
        assert_eq!(told, warned_and_ended(ENDED), "pongs after {pong_after} s");
    }
}

/// Plain clients that talk are not pinged, and looked at all the same.
#[test]
fn a_plain_clients_token_ends_to_the_second() {
    let mut rig = strict();
    let ends = ends_in(&rig, 1_000).expect("set");
    let client = websocket(&mut rig, "/ws?token=t", "");
    rig.answer(Ok(Claims {
        expires_s: Some(ends),
        ..claims("ann")
    }));
    let told = told_until(&mut rig, client, ends, |rig, _| {
        rig.send(client, &frame("{\"type\":\"nobody listens\"}"));
    });
    let last = &told[told.len() - 2..];
    assert_eq!(last[1], (0, "close 4004 token expired".to_owned()));
    assert_eq!(last[0].0, 0, "an error says why: {told:?}");
    assert!(told.iter().any(|(left, _)| *left == 60), "{told:?}");
    assert_eq!(
        rig.log,
        ["connected plain.json", "disconnected token_expired"]
    );
}

/// The wall clock is what tokens mean, also when it is set.
#[test]
fn a_leap_of_the_clock_ends_tokens_at_the_next_turn() {
    let mut rig = strict();
    let expires_s = ends_in(&rig, 1_000);
    let ann = claims("ann");
    let client = joined(&mut rig, Claims { expires_s, ..ann });
    rig.now.wall_ms += 2_000_000;
    rig.pass(Duration::from_millis(1));
    let texts = received(&mut rig, client);
    assert_eq!(texts.last().expect("some"), "close 4004 token expired");
}

#[test]
fn a_refreshed_token_keeps_the_client() {
    let mut rig = strict();
    let expires_s = ends_in(&rig, 30);
    let client = joined(
        &mut rig,
        Claims {
            expires_s,
            ..claims("ann")
        },
    );
    rig.send(client, &frame("427[\"token-refresh\",{\"token\":\"new\"}]"));
    let later = ends_in(&rig, 300);
    assert_eq!(
        rig.answer(Ok(Claims {
            expires_s: later,
            ..claims("ann")
        })),
        "new"
    );
    let texts = received(&mut rig, client);
    let told = format!("437[{{\"expiresAt\":{}}}]", later.expect("set") * 1000);
    assert_eq!(texts.last(), Some(&told), "{texts:?}");
    // Somebody else's token, one that ends sooner, and a bad one change nothing.
    for verdict in [
        Ok(Claims {
            expires_s: later,
            ..claims("eve")
        }),
        Ok(Claims {
            expires_s,
            ..claims("ann")
        }),
        Err(Denied::Invalid),
    ] {
        rig.send(client, &frame("428[\"token-refresh\",\"other\"]"));
        rig.answer(verdict);
        assert_eq!(
            received(&mut rig, client),
            ["438[{\"error\":\"Invalid token\"}]"]
        );
    }
    for _ in 0..9 {
        rig.pass(Duration::from_secs(20));
        rig.send(client, &frame("3"));
    }
    assert!(
        rig.conn(client).is_some(),
        "180 s: long after the first token's end"
    );
    for _ in 0..8 {
        rig.pass(Duration::from_secs(20));
        rig.send(client, &frame("3"));
    }
    let texts = received(&mut rig, client);
    assert_eq!(
        texts.last().map(String::as_str),
        Some("close 4004 token expired")
    );
}

#[test]
fn a_user_hears_what_is_sent_to_it_on_all_its_sockets() {
    use rules::{Errand, Wanted};
    use types::Target;
    let mut rig = strict();
    let clients: Vec<_> = ["ann", "bob", "ann", "ann"]
        .iter()
        .map(|uid| joined(&mut rig, claims(uid)))
        .collect();
    rig.break_off(clients[2]);
    let errand = Errand {
        of: Target {
            namespace: "/".to_owned(),
            users: vec!["ann".to_owned()],
            ..Target::default()
        },
        what: Wanted::Disconnect { close: true },
        answer: Box::new(|_| {}),
        begun: None,
    };
    rig.turn(|turn| turn.outside(Box::new(errand)));
    rig.finish_turn();
    let left: Vec<bool> = clients
        .iter()
        .map(|name| rig.wires.links[*name].ended)
        .collect();
    assert_eq!(left, [true, false, true, true]);
}

#[test]
fn anonymous_clients_may_be_welcome() {
    let mut rig = Rig::new(config(AuthStyle::Strict, false), handler(&lab_rules()), 1);
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40"));
    assert!(received(&mut rig, client)[1].starts_with("40{\"sid\":"));
    let liar = websocket(&mut rig, SIO, "");
    rig.send(liar, &frame("40{\"token\":\"x\"}"));
    rig.answer(Err(Denied::Invalid));
    assert_eq!(
        received(&mut rig, liar)[1],
        "44{\"message\":\"Invalid token\"}"
    );
}

/// One session may ask about as many namespaces as it may join: the questions are there for everybody.
#[test]
fn no_session_takes_all_questions() {
    let mut config = config(AuthStyle::Strict, true);
    config.limits.asks_outstanding_max = 40;
    let mut rig = Rig::lab(config, 1);
    let (greedy, modest) = (websocket(&mut rig, SIO, ""), websocket(&mut rig, SIO, ""));
    let flood = (0..100).flat_map(|n| frame(&format!("40/n{n},{{\"token\":\"t\"}}")));
    rig.send(greedy, &flood.collect::<Vec<u8>>());
    assert!(rig.asked.len() <= 32, "{} questions", rig.asked.len());
    let texts = received(&mut rig, greedy);
    assert_eq!(
        texts.last().map(String::as_str),
        Some("close 1008 limit exceeded")
    );
    rig.asked.clear();
    rig.send(modest, &frame("40{\"token\":\"good\"}"));
    assert_eq!(rig.answer(Ok(claims("ann"))), "good");
    assert!(received(&mut rig, modest)[1].starts_with("40{\"sid\":"));
}

/// Tells who its sockets are.
struct WhoAmI;

impl Handler for WhoAmI {
    fn connecting(&mut self, _: &mut Context<'_>, request: &ConnectRequest<'_>) -> Decision {
        match request.namespace {
            "/none" => Decision::Refuse(Refusal {
                message: "Invalid namespace".to_owned(),
                data: None,
            }),
            _ => Decision::Admit,
        }
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: &str) {
        let mut socket = cx.socket(socket);
        let user = format!("\"{}\"", socket.user().unwrap_or("nobody"));
        socket.emit(&Emit::new("you", &user));
    }

    fn event(&mut self, _: &mut Context<'_>, _: SocketKey, _: Event<'_>) {}
}

/// Who joined `namespace` just now, as it was told.
fn joins(rig: &mut Rig, client: usize, packet: &str) -> String {
    rig.send(client, &frame(packet));
    received(rig, client).pop().expect("an answer")
}

#[test]
fn the_token_of_the_request_holds_as_long_as_the_session() {
    let mut rig = Rig::new(config(AuthStyle::Strict, true), Box::new(WhoAmI), 1);
    let client = websocket(&mut rig, &format!("{SIO}&token=anns"), "");
    // A namespace that does not exist costs nothing.
    rig.send(client, &frame("40/none,"));
    rig.answer(Ok(Claims {
        expires_s: Some(rig.now.wall_ms / 1000 + 100),
        ..claims("ann")
    }));
    assert_eq!(joins(&mut rig, client, "40/a,"), "42/a,[\"you\",\"ann\"]");
    // Another's token is another's, and only where it was shown.
    rig.send(client, &frame("40/b,{\"token\":\"bobs\"}"));
    rig.answer(Ok(claims("bob")));
    assert_eq!(
        received(&mut rig, client).pop().unwrap(),
        "42/b,[\"you\",\"bob\"]"
    );
    rig.send(client, &frame("41/a,"));
    assert_eq!(joins(&mut rig, client, "40/c,"), "42/c,[\"you\",\"ann\"]");
    rig.send(client, &frame("41/c,"));
    assert_eq!(joins(&mut rig, client, "40/a,"), "42/a,[\"you\",\"ann\"]");
    // What is shown anew holds for what is joined later; when it has ended, nothing is joined on it.
    rig.send(client, &frame("42/a,1[\"token-refresh\",\"new\"]"));
    let later = rig.now.wall_ms / 1000 + 500;
    rig.answer(Ok(Claims {
        expires_s: Some(later),
        ..claims("ann")
    }));
    rig.send(client, &frame("41/a,"));
    received(&mut rig, client);
    for _ in 0..20 {
        rig.pass(Duration::from_secs(10));
        rig.send(client, &frame("3"));
    }
    received(&mut rig, client);
    assert_eq!(joins(&mut rig, client, "40/c,"), "42/c,[\"you\",\"ann\"]");
    rig.send(client, &frame("41/c,"));
    for _ in 0..40 {
        rig.pass(Duration::from_secs(10));
        rig.send(client, &frame("3"));
    }
    received(&mut rig, client);
    assert_eq!(
        joins(&mut rig, client, "40/c,"),
        "44/c,{\"message\":\"Token expired\",\"data\":{\"code\":\"TOKEN_EXPIRED\"}}"
    );
}
