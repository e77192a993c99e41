//! Answers of endpoints, right and wrong.

use super::*;
use backend::proto::Item;

const SOCKET: &str = "AAAAAAAAAAAAAAAAAAAB";

fn news(what: Said, decides: bool) -> Vec<News> {
    let item = Item {
        what: Some(what),
        ..Item::default()
    };
    vec![News {
        about: SOCKET.to_owned(),
        item,
        namespace: "/shop".to_owned(),
        user: String::new(),
        decides,
    }]
}

fn asked(ack: u64) -> Vec<News> {
    let event = proto::Event {
        socket: SOCKET.to_owned(),
        event: "order".to_owned(),
        ack,
        ..proto::Event::default()
    };
    news(Said::Event(event), false)
}

fn came() -> Vec<News> {
    let connect = proto::Connect {
        socket: SOCKET.to_owned(),
        ..proto::Connect::default()
    };
    news(Said::Connect(connect.into()), true)
}

#[test]
fn commands_come_in_their_order_with_their_text_untouched() {
    let body = r#" {"commands":[
        {"emit":{"rooms":["kitchen"],"sockets":["AAAAAAAAAAAAAAAAAAAC"],"except":["x"],"event":"soup","args":[1.10,{"a":[]}],"volatile":true}},
        {"join":{"namespace":"/","users":["ada"],"join":["a","b"]}},
        {"disconnect":{"rooms":["a"],"close":true}},
        {"ack":{"args":["\u00e9",{"_placeholder":true,"num":0}],"attachments":["AAH/"]}}]} "#;
    let commands = read(body.as_bytes(), &asked(9)).expect("commands");
    let [
        What::Emit(emit),
        What::Join(join),
        What::Disconnect(end),
        What::Ack(ack),
    ] = commands.as_slice()
    else {
        panic!("{commands:?}");
    };
    let to = emit.to.as_ref().expect("a target");
    assert_eq!(to.namespace, "/shop", "that of the event");
    assert_eq!(
        (&*to.rooms[0], &*to.sockets[0]),
        ("kitchen", "AAAAAAAAAAAAAAAAAAAC")
    );
    assert_eq!(to.except, ["x"]);
    assert_eq!(emit.args, r#"1.10,{"a":[]}"#.as_bytes());
    assert!(emit.volatile && end.close);
    let of = join.of.as_ref().expect("a target");
    assert_eq!((&*of.namespace, &*of.users[0]), ("/", "ada"));
    assert_eq!(join.rooms, ["a", "b"]);
    assert_eq!((&*ack.socket, ack.ack), (SOCKET, 9));
    assert_eq!(ack.attachments[0], [0, 1, 255].as_slice());
}

#[test]
fn a_newcomer_is_refused_in_the_words_of_the_endpoint() {
    let body = br#"{"commands":[{"refuse":{"message":"closed","data":{"until":9}}}]}"#;
    let commands = read(body, &came()).expect("commands");
    let [What::Decision(decision)] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    assert!(!decision.admit);
    assert_eq!(
        (&*decision.message, &*decision.data),
        ("closed", r#"{"until":9}"#)
    );
}

#[test]
fn an_answer_with_one_fault_does_nothing_at_all() {
    let wrong = [
        (r#"{"commands":{}}"#, "a list is needed"),
        (r#"{"commands":[],"x":1}"#, "unknown member \"x\""),
        (r#"{"commands":[],"commands":[]}"#, "two members"),
        (r#"{"commands":[],"\u0063ommands":[]}"#, "two members"),
        (
            r#"{"commands":[{"emit":{"event":"a","namespace":"/a","namespace":"/b"}}]}"#,
            "two members \"namespace\"",
        ),
        (r#"{"commands":[{"refues":{}}]}"#, "known commands"),
        (r#"{"commands":[{"emit":{},"ack":{}}]}"#, "one member"),
        (
            r#"{"commands":[{"emit":{"all":true,"event":""}}]}"#,
            "a text is needed",
        ),
        (r#"{"commands":[{"emit":{}}]}"#, "event is needed"),
        (
            r#"{"commands":[{"emit":{"event":"a","args":1}}]}"#,
            "a list",
        ),
        (
            r#"{"commands":[{"emit":{"event":"a","rooms":["b",""]}}]}"#,
            "rooms[1]: a name is empty",
        ),
        (
            r#"{"commands":[{"emit":{"event":"a","rooms":[1]}}]}"#,
            "texts are",
        ),
        // What was `rooms` once is a choice of sockets.
        (
            r#"{"commands":[{"join":{"sockets":["AAAAAAAAAAAAAAAAAAAC"],"rooms":["a"]}}]}"#,
            "\"join\" is needed",
        ),
        (
            r#"{"commands":[{"leave":{"all":true,"leave":[""]}}]}"#,
            "leave[0]: a name is empty",
        ),
        (
            r#"{"commands":[{"emit":{"event":"a","sockets":["x"]}}]}"#,
            "sockets[0]: \"x\" is no socket's id",
        ),
        (
            r#"{"commands":[{"emit":{"event":"a","all":true,"rooms":["x"]}}]}"#,
            "leave one of both out",
        ),
        (
            r#"{"commands":[{"disconnect":{"rooms":["a"],"close":1}}]}"#,
            "true or false",
        ),
        (r#"{"commands":[{"ack":{"attachments":["*"]}}]}"#, "base64"),
        (r#"{"commands":[{"refuse":{}}]}"#, "waits for a decision"),
        (
            r#"{"commands":[{"emit":{"all":true,"event":"connect"}}]}"#,
            "only the libraries emit",
        ),
        (
            r#"{"commands":[{"emit":{"all":true,"event":"a","attachments":["AAAA"]}}]}"#,
            "must stand in args once",
        ),
        (
            r#"{"commands":[{"ack":{"args":[{"_placeholder":true,"num":1}],"attachments":["AAAA"]}}]}"#,
            "must stand in args once",
        ),
    ];
    for (body, why) in wrong {
        match read(body.as_bytes(), &asked(1)).expect_err(body) {
            Fault::Wrong(error) => assert!(error.contains(why), "{body}: {error}"),
            none @ Fault::NoAnswer(_) => panic!("{body}: {none:?}"),
        }
    }
    let ack = br#"{"commands":[{"ack":{}}]}"#;
    assert!(read(ack, &asked(0)).is_err(), "nobody waits");
    assert!(read(ack, &[asked(1), asked(2)].concat()).is_err());
    for body in [
        &b"\xff"[..],
        b"OK",
        b"<html>",
        b"[]",
        br#"{"command":[]}"#,
        b"null",
    ] {
        let error = read(body, &asked(1)).expect_err("no answer");
        assert!(matches!(error, Fault::NoAnswer(_)), "{error:?}");
    }
    assert_eq!(read(b"{}", &asked(1)), Ok(Vec::new()));
}

#[test]
fn an_emit_to_an_empty_list_is_not_for_the_whole_namespace() {
    let command = |kind: &str, to: &str| {
        let body = format!("{{\"commands\":[{{\"{kind}\":{{{to}}}}}]}}");
        read(body.as_bytes(), &asked(0))
    };
    let event = "\"event\":\"x\"";
    for to in [
        "\"sockets\":[],\"rooms\":[\"a\"],",
        "\"all\":true,\"rooms\":[],",
    ] {
        assert!(command("emit", &format!("{to}{event}")).is_ok(), "{to}");
    }
    for (kind, to) in [
        ("emit", event),
        (
            "emit",
            "\"rooms\":[],\"sockets\":[],\"users\":[],\"event\":\"x\"",
        ),
        ("emit", "\"except\":[\"a\"],\"event\":\"x\""),
        ("join", "\"join\":[\"a\"]"),
        ("leave", "\"leave\":[\"a\"]"),
        ("disconnect", "\"close\":true"),
    ] {
        let error = command(kind, to).expect_err(to);
        let Fault::Wrong(error) = error else {
            panic!("{error:?}")
        };
        assert!(error.contains("nobody is meant"), "{error}");
    }
}
