//! Packets of the protocol's own examples, and the ones that must end the session.

use super::PacketType::*;
use super::*;

fn packet<'a>(kind: PacketType, namespace: &'a str, id: Option<u64>, data: &'a str) -> Packet<'a> {
    Packet {
        kind,
        attachments: 0,
        namespace,
        id,
        data,
    }
}

#[test]
fn packets_seen_on_the_wire_are_read_and_written_back() {
    let cases = [
        ("0", packet(Connect, "/", None, "")),
        (
            r#"0/lab,{"user":"ann"}"#,
            packet(Connect, "/lab", None, r#"{"user":"ann"}"#),
        ),
        ("1/lab,", packet(Disconnect, "/lab", None, "")),
        ("1", packet(Disconnect, "/", None, "")),
        (
            r#"2["message",1]"#,
            packet(Event, "/", None, r#"["message",1]"#),
        ),
        (
            r#"2/lab,17["echo","a"]"#,
            packet(Event, "/lab", Some(17), r#"["echo","a"]"#),
        ),
        (r#"20["x"]"#, packet(Event, "/", Some(0), r#"["x"]"#)),
        ("2[1]", packet(Event, "/", None, "[1]")),
        ("30[]", packet(Ack, "/", Some(0), "[]")),
        (
            r#"3/lab,7["fine"]"#,
            packet(Ack, "/lab", Some(7), r#"["fine"]"#),
        ),
        (
            r#"4/random,{"message":"Invalid namespace"}"#,
            packet(
                ConnectError,
                "/random",
                None,
                r#"{"message":"Invalid namespace"}"#,
            ),
        ),
        (r#"4"old""#, packet(ConnectError, "/", None, r#""old""#)),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text), Ok(expected), "{text}");
        let mut out = Vec::new();
        write(&mut out, &expected);
        assert_eq!(String::from_utf8_lossy(&out), text);
        assert_eq!(written_len(&expected), text.len());
    }
}

#[test]
fn binary_packets_announce_their_attachments() {
    let named = |num| format!(r#"{{"_placeholder":true,"num":{num}}}"#);
    let data = format!(
        r#"["echo",{}]"#,
        [9, 8, 7, 6, 5, 4, 3, 2, 1, 0].map(named).join(",")
    );
    let text = format!("510-/lab,0{data}");
    let expected = Packet {
        kind: BinaryEvent,
        attachments: 10,
        namespace: "/lab",
        id: Some(0),
        data: &data,
    };
    assert_eq!(parse(&text), Ok(expected));
    let mut out = Vec::new();
    write(&mut out, &expected);
    assert_eq!(
        (out.as_slice(), written_len(&expected)),
        (text.as_bytes(), text.len())
    );
    let ack = parse(r#"61-4[{"_placeholder":true,"num":0}]"#);
    assert!(ack.is_ok_and(|packet| packet.kind == BinaryAck && packet.attachments == 1));
}

#[test]
fn spellings_that_the_reference_takes_are_taken() {
    let cases = [
        ("0/custom", packet(Connect, "/custom", None, "")),
        (
            "0/custom?a=b,{}",
            packet(Connect, "/custom?a=b", None, "{}"),
        ),
        ("2 [ \"a\" ] ", packet(Event, "/", None, "[ \"a\" ]")),
        ("2/é,[\"a\"]", packet(Event, "/é", None, "[\"a\"]")),
        (
            "29007199254740991[\"a\"]",
            packet(Event, "/", Some((1 << 53) - 1), "[\"a\"]"),
        ),
        (
            "399999999999999999999999[]",
            packet(Ack, "/", Some(u64::MAX), "[]"),
        ),
        ("3[]", packet(Ack, "/", None, "[]")),
        ("37", packet(Ack, "/", Some(7), "")),
        (
            r#"2["a",{"_placeholder":true,"num":99}]"#,
            packet(Event, "/", None, r#"["a",{"_placeholder":true,"num":99}]"#),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text), Ok(expected), "{text}");
    }
}

#[test]
fn violations_are_named() {
    let cases: [(&str, ParseError); 51] = [
        ("", ParseError::Type),
        ("7", ParseError::Type),
        ("a", ParseError::Type),
        ("é", ParseError::Type),
        ("5", ParseError::Attachments),
        ("5[\"a\"]", ParseError::Attachments),
        ("51[\"a\"]", ParseError::Attachments),
        ("50-[\"a\"]", ParseError::Attachments),
        ("5-1-[\"a\"]", ParseError::Attachments),
        ("51.5-[\"a\"]", ParseError::Attachments),
        ("5a-[\"a\"]", ParseError::Attachments),
        ("5-[\"a\"]", ParseError::Attachments),
        ("511-[\"a\"]", ParseError::Attachments),
        ("5100000-[\"a\"]", ParseError::Attachments),
        ("599999999999999999999-[\"a\"]", ParseError::Attachments),
        ("0/a\u{1e}b,", ParseError::Namespace),
        ("61-[]", ParseError::Placeholder),
        ("29007199254740992[\"a\"]", ParseError::Id),
        ("2/lab,18446744073709551616[\"a\"]", ParseError::Id),
        ("51-99999999999999999999[\"a\"]", ParseError::Id),
        ("2abc[\"a\"]", ParseError::Json),
        ("2[\"a\"", ParseError::Json),
        ("2[\"a\"]x", ParseError::Json),
        ("2[\"a\",]", ParseError::Json),
        ("2-1[\"a\"]", ParseError::Json),
        ("2 ", ParseError::Json),
        ("0[", ParseError::Json),
        ("0[]", ParseError::Shape),
        ("0\"a\"", ParseError::Shape),
        ("0null", ParseError::Shape),
        ("1{}", ParseError::Shape),
        ("1/lab,[]", ParseError::Shape),
        ("2{}", ParseError::Shape),
        ("2\"a\"", ParseError::Shape),
        ("25", ParseError::Empty),
        ("2[]", ParseError::Shape),
        ("2[null]", ParseError::Shape),
        ("2[{\"a\":1}]", ParseError::Shape),
        ("2[[\"a\"]]", ParseError::Shape),
        ("2[true]", ParseError::Shape),
        ("30{}", ParseError::Shape),
        ("30\"a\"", ParseError::Shape),
        ("4", ParseError::Shape),
        ("4[]", ParseError::Shape),
        ("51-", ParseError::Shape),
        ("61-0", ParseError::Shape),
        ("2", ParseError::Empty),
        ("2/lab,", ParseError::Empty),
        ("2[\"connect\"]", ParseError::ReservedEvent),
        ("2[ \"\\u0063onnect\" ,1]", ParseError::ReservedEvent),
        ("51-[\"disconnecting\"]", ParseError::ReservedEvent),
    ];
    for (text, error) in cases {
        assert_eq!(parse(text), Err(error), "{text}");
    }
    let deep = format!("2[\"a\",{}]", "[".repeat(10_000));
    assert_eq!(parse(&deep), Err(ParseError::Json));
}

#[test]
fn every_attachment_is_named_by_one_placeholder() {
    let bad = [
        r#"{"_placeholder":true,"num":1}"#,
        r#"{"_placeholder":true,"num":-1}"#,
        r#"{"_placeholder":true,"num":0.5}"#,
        r#"{"_placeholder":true,"num":"0"}"#,
        r#"{"_placeholder":true,"num":99999999999999999999}"#,
        r#"{"_placeholder":true}"#,
        r#"{"_placeholder":true,"num":0,"num":7}"#,
        r#"{"_placeholder":true,"num":0,"x":1}"#,
        r#"{"x":{"_placeholder":true,"num":1}}"#,
        r#"[[{"\u005fplaceholder":true,"num":1}]]"#,
        r#"{"_placeholder":true,"num":0},{"_placeholder":true,"num":0}"#,
        r#"[{"_placeholder":true,"num":0},{"a":{"num":0,"_placeholder":true}}]"#,
        r#"{"x":"}","_placeholder" : true}"#,
        r#"{"_placeholder":false,"num":0}"#,
        r#""{\"_placeholder\":true,\"num\":0}""#,
        r#"{"num":0}"#,
        "1",
    ];
    for value in bad {
        let text = format!(r#"51-["a",{value}]"#);
        assert_eq!(parse(&text), Err(ParseError::Placeholder), "{text}");
        let ack = format!("61-0[{value}]");
        assert_eq!(parse(&ack), Err(ParseError::Placeholder), "{ack}");
    }
    let good = [
        r#"{"num":0,"_placeholder":true}"#,
        r#"[{ "_placeholder" : true , "num" : 0 },{"_placeholder":false,"num":0}]"#,
        r#"{"_placeholder":true,"num":0},{"num":7,"num":7},{"_placeholder":false,"num":7}"#,
        r#""{\"_placeholder\":true,\"num\":7}",{"_placeholder":true,"num":0}"#,
    ];
    for value in good {
        let text = format!(r#"51-["a",{value}]"#);
        assert!(parse(&text).is_ok(), "{text}");
    }
}
