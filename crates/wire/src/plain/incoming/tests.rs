//! Messages that are understood, and the many that are not.

use super::*;

fn event<'a>(name: &'a str, room: Option<&'a str>, args: &'a str, id: Option<u64>) -> Incoming<'a> {
    Incoming::Event {
        name: name.into(),
        room: room.map(Into::into),
        args: args.into(),
        attachments: Vec::new(),
        id,
    }
}

#[test]
fn messages_are_understood() {
    let join = |id| Incoming::Join {
        room: "general".into(),
        id,
    };
    let cases = [
        (r#"{"type":"join","room":"general"}"#, join(None)),
        (
            r#" { "room" : "general" , "id" : 7, "type" : "join" } "#,
            join(Some(7)),
        ),
        (
            r#"{"type":"leave","room":"a\u0062"}"#,
            Incoming::Leave {
                room: "ab".into(),
                id: None,
            },
        ),
        (
            r#"{"type":"message","payload":"hi"}"#,
            event("message", None, r#""hi""#, None),
        ),
        (
            r#"{"type":"message","room":"r","payload":{"a":[1]},"id":0}"#,
            event("message", Some("r"), r#"{"a":[1]}"#, Some(0)),
        ),
        (
            r#"{"type":"x","room":null,"id":null,"payload":null}"#,
            event("x", None, "null", None),
        ),
        (
            r#"{"type":"x","payload":null,"args":0}"#,
            event("x", None, "", None),
        ),
        (
            r#"{"type":"x","payload":[1],"args":1}"#,
            event("x", None, "[1]", None),
        ),
        (
            r#"{"type":"x","payload":[ 1 , [2] ],"args":2}"#,
            event("x", None, "1 , [2]", None),
        ),
        (
            r#"{"type":"x","payload":[1,2]}"#,
            event("x", None, "[1,2]", None),
        ),
        (
            r#"{"type":"join","payload":"general"}"#,
            event("join", None, r#""general""#, None),
        ),
        (
            r#"{"type":"message","text":"hi","room":"r","n":1}"#,
            event("message", Some("r"), r#"{"text":"hi","n":1}"#, None),
        ),
        (
            r#"{"type":"a","type":"b","payload":1,"payload":2}"#,
            event("b", None, "2", None),
        ),
        (
            r#"{"type":"ack","id":7,"payload":[1,2],"args":2}"#,
            Incoming::Ack {
                id: 7,
                args: "1,2".into(),
                attachments: Vec::new(),
            },
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_json(text), Ok(expected), "{text}");
    }
}

#[test]
fn other_text_is_invalid() {
    let deep = format!(
        r#"{{"type":"x","payload":{}1{}}}"#,
        "[".repeat(500),
        "]".repeat(500)
    );
    let many = format!(
        r#"{{"type":"x","payload":[{}1]}}"#,
        r#"{"_binary":""},"#.repeat(ATTACHMENTS_MAX + 1)
    );
    let bad = [
        "",
        "x",
        "[]",
        "null",
        "{}",
        r#""type""#,
        r#"{"type":"x"}"#,
        r#"{"payload":1}"#,
        r#"{"type":1,"payload":1}"#,
        r#"{"type":null,"payload":1}"#,
        r#"{"type":"message"}"#,
        r#"{"type":"message","room":"r","id":1}"#,
        r#"{"type":"join"}"#,
        r#"{"type":"join","room":null}"#,
        r#"{"type":"join","room":7}"#,
        r#"{"type":"x","room":{},"payload":1}"#,
        r#"{"type":"x","id":"7","payload":1}"#,
        r#"{"type":"x","id":-1,"payload":1}"#,
        r#"{"type":"x","id":1.0,"payload":1}"#,
        r#"{"type":"x","id":9007199254740992,"payload":1}"#,
        r#"{"type":"ack","payload":1}"#,
        r#"{"type":"ack","id":1}"#,
        r#"{"type":"x","payload":1,"args":0}"#,
        r#"{"type":"x","payload":[1],"args":2}"#,
        r#"{"type":"x","payload":{},"args":2}"#,
        r#"{"type":"x","payload":1,"args":"1"}"#,
        r#"{"type":"x","payload":1}}"#,
        r#"{"type":"x","text":1}"#,
        r#"{"type":"connect","payload":1}"#,
        r#"{"type":"disconnect","room":"r","payload":1}"#,
        r#"{"type":"connect_error","payload":1,"id":1}"#,
        r#"{"type":"disc\u006fnnecting","payload":1}"#,
        r#"{"type":"newListener","payload":1}"#,
        r#"{"type":"removeListener","payload":1}"#,
        &deep,
        &many,
    ];
    for text in bad {
        assert!(parse_json(text).is_err(), "{text}");
    }
}

#[test]
fn bytes_become_attachments_and_placeholders() {
    let text = concat!(
        r#"{"type":"x","payload":[{"_binary":"AQID"},"{\"_binary\":\"\"}","#,
        r#"{"a":{ "_binary" : "\/w" }}],"args":3}"#
    );
    let args = concat!(
        r#"{"_placeholder":true,"num":0},"{\"_binary\":\"\"}","#,
        r#"{"a":{"_placeholder":true,"num":1}}"#
    );
    let expected = Incoming::Event {
        name: "x".into(),
        room: None,
        args: args.into(),
        attachments: vec![vec![1, 2, 3], vec![255]],
        id: None,
    };
    assert_eq!(parse_json(text), Ok(expected));

    let data = r#"{"_binary":"?"},{"_binary":1},{"_binary":"","a":1},{"a":1,"_binary":""}"#;
    let text = format!(r#"{{"type":"x","payload":[{data}],"args":4}}"#);
    assert_eq!(parse_json(&text), Ok(event("x", None, data, None)));
}

#[test]
fn forged_placeholders_do_not_pass_beside_real_bytes() {
    let forged = r#"{"_placeholder":true,"num":0}"#;
    let alone = format!(r#"{{"type":"x","payload":{forged}}}"#);
    assert_eq!(parse_json(&alone), Ok(event("x", None, forged, None)));
    let beside = format!(r#"{{"type":"x","payload":[{forged},{{"_binary":""}}]}}"#);
    assert!(parse_json(&beside).is_err());
}

#[test]
fn msgpack_obeys_the_same_rules() {
    let message =
        b"\x84\xa4type\xa4echo\xa4room\xa1r\xa2id\x07\xa7payload\x93\x01\xc4\x02\x01\x02\xa1x";
    let expected = Incoming::Event {
        name: "echo".into(),
        room: Some("r".into()),
        args: r#"[1,{"_placeholder":true,"num":0},"x"]"#.into(),
        attachments: vec![vec![1, 2]],
        id: Some(7),
    };
    assert_eq!(parse_msgpack(message), Ok(expected));
    let bad: [&[u8]; 8] = [
        b"",
        b"\x80",
        b"\x90",
        b"\x81\xa4type\xa4echo",
        b"\x82\xa4type\xa7connect\xa7payload\x01",
        // The room, which is no argument, holds bytes.
        b"\x83\xa4type\xa4echo\xa4room\xc4\x01a\xa7payload\x01",
        b"\x83\xa4type\xa4echo\xa4meta\xc4\x01a\xa7payload\x01",
        // A forged placeholder in their place.
        b"\x83\xa4type\xa4echo\xa4meta\xc4\x01a\xa7payload\x82\xac_placeholder\xc3\xa3num\x05",
    ];
    for bytes in bad {
        assert!(parse_msgpack(bytes).is_err(), "{bytes:02x?}");
    }
}

#[test]
fn what_is_wrong_is_named_with_the_id_of_the_message() {
    for (text, field, id) in [
        (r#"{"id":7,"payload":1}"#, Some("type"), Some(7)),
        (
            r#"{"type":"connect","id":7,"payload":1}"#,
            Some("type"),
            Some(7),
        ),
        (r#"{"type":"message","id":7}"#, Some("payload"), Some(7)),
        (
            r#"{"type":"message","room":1,"id":7,"payload":1}"#,
            Some("room"),
            Some(7),
        ),
        (r#"{"type":"join","id":7}"#, Some("room"), Some(7)),
        (
            r#"{"type":"message","id":"7","payload":1}"#,
            Some("id"),
            None,
        ),
        (
            r#"{"type":"message","id":7,"payload":1,"args":2}"#,
            Some("args"),
            Some(7),
        ),
        ("[1]", Some("type"), None),
        ("{", None, None),
    ] {
        let invalid = parse_json(text).expect_err(text);
        assert_eq!((invalid.field, invalid.id), (field, id), "{text}");
        let named = field.map(|field| format!("`{field}`"));
        assert!(
            named.is_none_or(|named| invalid.message().contains(&named)),
            "{text}"
        );
    }
}

/// A question was answered by something that nobody can read: without its id, whoever asked would wait until the time is up.
#[test]
fn an_ack_that_is_refused_names_its_question() {
    let (open, close) = ("[".repeat(500), "]".repeat(500));
    let deep = format!(r#"{{"type":"ack","id":7,"payload":{open}{close}}}"#);
    let first = format!(r#"{{"payload":{open}{close},"id":7,"type":"ack"}}"#);
    for text in [&*deep, &first, r#"{"type":"ack","id":7}"#] {
        let invalid = parse_json(text).expect_err(text);
        assert_eq!((invalid.id, invalid.is_ack), (Some(7), true), "{text}");
    }
    let event = format!(r#"{{"type":"x","id":7,"payload":{open}{close}}}"#);
    let invalid = parse_json(&event).expect_err(&event);
    assert_eq!((invalid.id, invalid.is_ack), (Some(7), false));
    // By MessagePack, wherever the payload stands.
    let packed = |before: &[u8], behind: &[u8]| {
        let parts: [&[u8]; 5] = [b"\x83", before, b"\xa7payload", &[0x91; 500], behind];
        parse_msgpack(&parts.concat()).expect_err("too deep")
    };
    let [ack, id] = [&b"\xa4type\xa3ack"[..], b"\xa2id\x07"];
    let end = &b"\x01"[..];
    for invalid in [
        packed(&[ack, id].concat(), end),
        packed(id, &[end, ack].concat()),
        packed(b"", &[end, ack, id].concat()),
    ] {
        assert_eq!((invalid.id, invalid.is_ack), (Some(7), true));
    }
    let nameless = parse_json(r#"{"type":"ack","payload":1}"#).expect_err("no id");
    assert_eq!((nameless.id, nameless.is_ack), (None, true));
}
