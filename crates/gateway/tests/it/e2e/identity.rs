//! Tokens on the real binary: made by `sockeye token`, shown in each way, refused in each style, refreshed and ended.

use super::client::PATIENCE;
use crate::harness::token::{SECRET, token_with};
use crate::harness::{Gateway, RawConn, eventually};
use client::OpCode;
use serde_json::{Value, json};
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";

fn start(more: &str) -> Gateway {
    Gateway::start(&format!(
        "profile = \"socket.io\"\nserver.shards = 2\n[auth]\nrequired = true\nsecret = \"{SECRET}\"\n{more}\n\
         [namespaces.\"/\".events.echo]\naction = \"reply\"\n[namespaces.\"/second\"]\ndefault.action = \"reply\"\n"
    ))
}

/// Texts until one begins so, that one included; the close frame as `close CODE`.
fn until(conn: &mut RawConn, prefix: &str) -> Vec<String> {
    let mut texts = Vec::new();
    loop {
        let frame = conn.frame_within(PATIENCE).unwrap_or_else(|ended| {
            panic!("nothing begins with {prefix:?}: {texts:?}, then {ended:?}")
        });
        if frame.opcode == OpCode::Close {
            texts.push(format!("close {}", frame.close_code().unwrap_or(0)));
        } else if frame.text() == "2" {
            conn.send_text("3");
            continue;
        } else {
            texts.push(frame.text().to_owned());
        }
        if texts.last().is_some_and(|text| text.starts_with(prefix)) {
            return texts;
        }
    }
}

/// The reasons of all lines with this message.
fn logged(gateway: &Gateway, message: &str) -> Vec<String> {
    let log = gateway.log().into_iter();
    let lines = log.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    lines
        .filter(|line| line["message"] == message)
        .filter_map(|line| Some(line["reason"].as_str()?.to_owned()))
        .collect()
}

fn connect(gateway: &Gateway, token: &str) -> RawConn {
    let mut conn = RawConn::websocket(gateway.addr, SIO);
    conn.send_text(format!("40{}", json!({ "token": token })));
    until(&mut conn, "40");
    conn
}

#[test]
fn a_token_is_shown_by_auth_header_or_query() {
    let gateway = start("");
    let token = token_with(&["--uid", "ann", "--rooms", "team"]);
    let mut by_auth = connect(&gateway, &token);
    by_auth.send_text("421[\"echo\",1]");
    until(&mut by_auth, "431[1]");
    let header = format!("Authorization: Bearer {token}\r\n");
    let query = format!("{SIO}&token={token}");
    for mut conn in [
        RawConn::websocket_with(gateway.addr, SIO, &header),
        RawConn::websocket(gateway.addr, &query),
    ] {
        conn.send_text("40");
        until(&mut conn, "40{\"sid\"");
        conn.send_text("40/second,");
        until(&mut conn, "40/second,{\"sid\"");
    }
    let mut plain = RawConn::websocket(gateway.addr, &format!("/ws?token={token}"));
    plain.send_text(r#"{"type":"echo","payload":1,"id":1}"#);
    until(&mut plain, r#"{"type":"ack""#);
    assert!(gateway.reaches("sockeye_tokens_accepted_total", 4.0) >= 4.0);
}

#[test]
fn strict_refusals_are_connect_errors_and_chat_says_it_by_an_event() {
    let strict = start("");
    let mut conn = RawConn::websocket(strict.addr, SIO);
    conn.send_text("40");
    let texts = until(&mut conn, "44");
    assert_eq!(texts[1], r#"44{"message":"Authentication required"}"#);
    conn.send_text(r#"40{"token":"a.b.c"}"#);
    assert_eq!(until(&mut conn, "44"), [r#"44{"message":"Invalid token"}"#]);
    assert!(eventually(PATIENCE, || logged(&strict, "refused")
        == ["unauthorized"; 2]));
    let chat = start("style = \"chat\"");
    let mut conn = RawConn::websocket(chat.addr, SIO);
    conn.send_text("40");
    let texts = until(&mut conn, "close");
    let told = r#"42["error",{"message":"Authentication required"}]"#;
    assert_eq!(texts[2..], [told, "41", "close 4501"], "{texts:?}");
    let mut plain = RawConn::websocket(chat.addr, "/ws?token=nonsense");
    let texts = until(&mut plain, "close");
    assert!(
        texts[0]
            .starts_with(r#"{"type":"error","error":"INVALID_TOKEN","message":"Invalid token","#),
        "{texts:?}"
    );
    assert_eq!(texts[1], "close 4501");
    assert_eq!(chat.closes_reach("unauthorized", 2.0), 2.0);
    assert!(eventually(PATIENCE, || logged(&chat, "refused") == ["unauthorized"; 2]));
}

#[test]
fn a_token_ends_on_a_live_connection_unless_it_is_refreshed() {
    let gateway = start("warn_before = \"4s\"");
    let short = token_with(&["--uid", "ann", "--expires", "5s"]);
    let long = token_with(&["--uid", "ann", "--expires", "1h"]);
    let [mut ends, mut stays] = [connect(&gateway, &short), connect(&gateway, &short)];
    let warning = until(&mut stays, "42[\"token-expiring\"")
        .pop()
        .expect("a warning");
    let warning: Value = serde_json::from_str(&warning[2..]).expect("JSON");
    assert!(
        warning[1]["expiresIn"].as_u64().is_some_and(|s| s <= 4),
        "{warning}"
    );
    stays.send_text(format!(
        "427{}",
        json!(["token-refresh", { "token": long }])
    ));
    let answer = until(&mut stays, "437").pop().expect("an ack");
    assert!(answer.starts_with("437[{\"expiresAt\":"), "{answer}");
    let texts = until(&mut ends, "close");
    let end = &texts[texts.len() - 3..];
    assert_eq!(
        end,
        [
            r#"42["error",{"message":"Token expired"}]"#,
            "41",
            "close 4004"
        ]
    );
    std::thread::sleep(Duration::from_secs(2));
    stays.send_text("428[\"echo\",2]");
    until(&mut stays, "438[2]");
    assert_eq!(logged(&gateway, "disconnected"), ["token_expired"]);
    assert_eq!(logged(&gateway, "refused"), [""; 0]);
}

/// Attack A07.
#[test]
fn rights_come_with_the_token() {
    let gateway = start("");
    let narrow = token_with(&[
        "--uid",
        "ann",
        "--permission",
        "join:lobby",
        "--permission",
        "publish:lobby",
    ]);
    let mut conn = connect(&gateway, &narrow);
    conn.send_text(r#"421["join","lobby"]"#);
    until(&mut conn, r#"431[["lobby"]]"#);
    for room in ["vault", "lob*", "*"] {
        conn.send_text(format!("422{}", json!(["join", room])));
        let texts = until(&mut conn, "432");
        let told = r#"42["error",{"message":"Not allowed to join that room"}]"#;
        assert_eq!(texts[0], told, "{room}: {texts:?}");
    }
}

/// What a laptop shows that slept longer than its token lived: it cannot know that it must fetch another.
#[test]
fn an_expired_token_was_invalid_like_any_other() {
    let old = token_with(&["--uid", "ann", "--claim", "exp=1000000000"]);
    let strict = start("");
    let mut conn = RawConn::websocket(strict.addr, SIO);
    conn.send_text(format!("40{}", json!({ "token": old })));
    let told = r#"44{"message":"Token expired","data":{"code":"TOKEN_EXPIRED"}}"#;
    assert_eq!(until(&mut conn, "44")[1..], [told]);
    let mut plain = RawConn::websocket(strict.addr, &format!("/ws?token={old}"));
    let texts = until(&mut plain, "close");
    assert!(
        texts[0].starts_with(r#"{"type":"error","error":"TOKEN_EXPIRED""#),
        "{texts:?}"
    );
    let chat = start("style = \"chat\"");
    let mut conn = RawConn::websocket(chat.addr, &format!("{SIO}&token={old}"));
    conn.send_text("40");
    let texts = until(&mut conn, "close");
    assert!(
        texts.contains(&r#"42["error",{"message":"Token expired"}]"#.to_owned()),
        "{texts:?}"
    );
    assert_eq!(texts.last().map(String::as_str), Some("close 4004"));
    for gateway in [&strict, &chat] {
        assert!(gateway.metric("sockeye_auth_tokens_total{result=\"expired\"}") >= 1.0);
    }
}

/// The log said "unauthorized" and not why, and of those who came in not who they were.
#[test]
fn the_log_names_the_user_and_the_cause_of_a_refusal() {
    let gateway = start("audience = [\"chat\"]");
    let foreign = token_with(&["--uid", "eve", "--claim", "aud=mail"]);
    let old = token_with(&[
        "--uid",
        "ann",
        "--claim",
        "aud=chat",
        "--claim",
        "exp=1000000000",
    ]);
    let endless = token_with(&["--uid", "ann", "--claim", "aud=chat", "--claim", "exp=soon"]);
    let good = token_with(&["--uid", "ann", "--claim", "aud=chat"]);
    let mut causes = Vec::new();
    for (shown, cause) in [
        (json!({ "token": foreign }), "audience"),
        (json!({ "token": old }), "expired"),
        (json!({ "token": endless }), "claim"),
        (json!({ "token": "a.b.c" }), "malformed"),
        (json!({}), "missing"),
    ] {
        let mut conn = RawConn::websocket(gateway.addr, SIO);
        conn.send_text(format!("40{shown}"));
        until(&mut conn, "44");
        causes.push(format!("127.0.0.1 {cause}"));
    }
    let mut conn = connect(&gateway, &good);
    conn.send_text(format!("421{}", json!(["token-refresh", "a.b.c"])));
    until(&mut conn, "431");
    causes.push("127.0.0.1 malformed".to_owned());
    let _plain = RawConn::websocket(gateway.addr, &format!("/ws?token={good}"));
    let fields = |message: &str, names: &[&str]| -> Vec<String> {
        let log = gateway.log().into_iter();
        let lines = log.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let lines = lines.filter(|line| line["message"] == message);
        let text = |line: &Value, name: &str| line[name].as_str().unwrap_or("none").to_owned();
        let words = |line: Value| {
            names
                .iter()
                .map(|name| text(&line, name))
                .collect::<Vec<_>>()
        };
        lines.map(|line| words(line).join(" ")).collect()
    };
    let told = || fields("token refused", &["peer", "cause"]) == causes;
    assert!(eventually(PATIENCE, told), "{:?}", gateway.log());
    let whys = fields("token refused", &["why"]);
    assert_eq!(
        [&*whys[0], &*whys[2], &*whys[4]],
        [
            "its audience (aud) holds none of auth.audience",
            "claim \"exp\" is no time in seconds",
            "none"
        ]
    );
    let named = || fields("connected", &["uid"]) == ["ann", "ann"];
    assert!(eventually(PATIENCE, named), "{:?}", gateway.log());
    let log = gateway.log().join("\n");
    assert!(
        !log.contains(&good) && !log.contains(&foreign),
        "a token is in the log"
    );
}

/// A token without an end and one without a user were refused for "claim", both.
#[test]
fn the_log_names_the_claim_that_a_token_lacks() {
    let gateway = start("");
    for claim in ["exp=null", "sub=null"] {
        let token = token_with(&["--uid", "ann", "--claim", claim]);
        let mut conn = RawConn::websocket(gateway.addr, SIO);
        conn.send_text(format!("40{}", json!({ "token": token })));
        until(&mut conn, "44");
    }
    let whys = || {
        let log = gateway.log().into_iter();
        let lines = log.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let refused = lines.filter(|line| line["message"] == "token refused");
        let whys = refused.map(|line| line["why"].as_str().unwrap_or("none").to_owned());
        whys.collect::<Vec<_>>()
    };
    let told = [
        "claim \"exp\" is missing, and auth.require_expiry asks for it",
        "claim \"sub\" is missing: it says who the user is",
    ];
    let is_told = eventually(PATIENCE, || whys() == told);
    assert!(is_told, "{:?}", gateway.log());
}
