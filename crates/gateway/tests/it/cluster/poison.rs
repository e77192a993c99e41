//! Bytes that end Node servers, or would: gateways survive and count them, and never write them.

use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::{SocketIo, msgpack};
use serde_json::{Value, json};
use servers::{NodePeer, Redis};
use std::collections::BTreeMap;

const REFUSED: &str = "sockeye_foreign_refused_total";

/// How a gateway counts a message.
#[derive(Clone, Copy)]
enum Counted {
    Refused(&'static str),
    /// It has a meaning here, though it may end a Node server.
    Read(&'static str),
}

use Counted::{Read, Refused};

struct Row {
    /// `PUBLISH`, `SPUBLISH`, or `XADD` with the bytes as `data` of a broadcast.
    command: &'static str,
    channel: &'static str,
    body: Vec<u8>,
    counted: Counted,
}

const MAIN: &str = "socket.io#/#";
const ROOM: &str = "socket.io#/#room#";
const REQUESTS: &str = "socket.io-request#/#";
const RESPONSES: &str = "socket.io-response#/#";

fn row(channel: &'static str, body: impl Into<Vec<u8>>, counted: Counted) -> Row {
    let (command, body) = ("PUBLISH", body.into());
    Row {
        command,
        channel,
        body,
        counted,
    }
}

fn packed(value: &Value) -> Vec<u8> {
    msgpack::encode(value)
}

/// A map so deep that a reader that calls itself runs out of stack.
fn deep() -> Vec<u8> {
    [b"\x93\xa1u".as_slice(), &vec![0x91; 100_000], b"\x80"].concat()
}

/// In the channel of broadcasts.
fn broadcasts() -> Vec<Row> {
    let packet = json!({"type": 2, "data": ["poison"], "nsp": "/"});
    let opts = json!({"rooms": ["nobody"], "except": [], "flags": {}});
    let mut rows = vec![
        row(MAIN, packed(&json!({"type": 3})), Refused("shape")),
        row(MAIN, packed(&json!({})), Refused("shape")),
        row(MAIN, "", Refused("garbage")),
        row(MAIN, "{}", Refused("shape")),
        row(MAIN, r#"{"type":3,"data":{}}"#, Refused("shape")),
        row(MAIN, deep(), Refused("garbage")),
        // An opened map of 4 billion members, and a text of 4 GB.
        row(MAIN, b"\xdf\xff\xff\xff\xff", Refused("garbage")),
        row(MAIN, b"\xdb\xff\xff\xff\xffa", Refused("garbage")),
    ];
    for channel in [MAIN, ROOM] {
        rows.extend([
            row(channel, "garbage", Refused("garbage")),
            row(channel, b"\xc1", Refused("garbage")),
            row(channel, packed(&Value::Null), Refused("shape")),
            row(channel, packed(&json!([])), Refused("shape")),
            row(channel, packed(&json!(["u"])), Refused("shape")),
            row(channel, packed(&json!(["u", packet])), Refused("shape")),
            row(channel, packed(&json!(["u", null, opts])), Refused("shape")),
            row(
                channel,
                packed(&json!(["u", packet, null])),
                Refused("shape"),
            ),
            row(channel, packed(&json!([1, packet, opts])), Refused("shape")),
            row(
                channel,
                packed(&json!(["u", {"type": 2, "data": ["poison"], "nsp": "/else"}, opts])),
                Refused("elsewhere"),
            ),
            row(
                channel,
                packed(&json!(["u", {"type": 2, "data": ["connect"], "nsp": "/"}, opts])),
                Refused("shape"),
            ),
            // A namespace that is missing is the main one, flags that are missing are none.
            row(
                channel,
                packed(&json!(["u", {"type": 2, "data": ["poison"]}, {"rooms": ["nobody"]}])),
                Read("classic"),
            ),
        ]);
    }
    rows
}

/// In the channels of requests and answers.
fn requests() -> Vec<Row> {
    let json = |channel, text: &str, counted| row(channel, text, counted);
    let mut rows = vec![
        json(REQUESTS, r#"{"type":5,"requestId":"a"}"#, Refused("shape")),
        json(REQUESTS, r#"{"type":5,"opts":{}}"#, Refused("shape")),
        json(REQUESTS, r#"{"type":7,"requestId":"a"}"#, Refused("shape")),
        row(
            REQUESTS,
            packed(
                &json!({"type": 7, "requestId": "a", "packet": {"type": 2, "data": ["poison"]}}),
            ),
            Refused("shape"),
        ),
        json(REQUESTS, r#"{"type":2}"#, Refused("shape")),
        json(
            REQUESTS,
            r#"{"type":3,"sid":"x","room":"y"}"#,
            Refused("shape"),
        ),
        json(REQUESTS, r#"{"type":4}"#, Refused("shape")),
        json(REQUESTS, r#"{"type":6}"#, Refused("shape")),
        json(REQUESTS, r#"{"type":0}"#, Refused("shape")),
        json(REQUESTS, r#"{"type":1}"#, Refused("shape")),
        json(REQUESTS, r#"{"type":99}"#, Refused("unknown")),
        json(REQUESTS, r#"{"type":"5"}"#, Refused("unknown")),
        json(
            RESPONSES,
            r#"{"requestId":"nobody","sockets":[]}"#,
            Read("classic"),
        ),
        json(
            RESPONSES,
            r#"{"requestId":"a","sockets":7}"#,
            Refused("shape"),
        ),
        json(RESPONSES, r#"{"requestId":7,"rooms":[]}"#, Refused("shape")),
        json(RESPONSES, r#"{"requestId":"a","type":8}"#, Refused("shape")),
        json(
            RESPONSES,
            r#"{"requestId":"a","type":8,"clientCount":-1}"#,
            Refused("shape"),
        ),
        json(
            RESPONSES,
            r#"{"requestId":"a","type":99}"#,
            Refused("unknown"),
        ),
    ];
    // What is long and names no question of this node is not read.
    for (channel, long) in [(REQUESTS, "garbage"), (RESPONSES, "elsewhere")] {
        rows.extend([
            row(channel, packed(&Value::Null), Refused("shape")),
            row(channel, "", Refused("garbage")),
            row(channel, "garbage", Refused("garbage")),
            row(channel, "{}", Refused("shape")),
            row(channel, "{", Refused("garbage")),
            row(channel, "[".repeat(100_000), Refused(long)),
        ]);
    }
    rows
}

/// For servers with the sharded adapter, and in the stream.
fn clustered() -> Vec<Row> {
    let sharded = |body: Vec<u8>, counted| Row {
        command: "SPUBLISH",
        ..row(MAIN, body, counted)
    };
    let text = |text: &str| text.as_bytes().to_vec();
    let mut rows = vec![
        sharded(packed(&Value::Null), Refused("shape")),
        sharded(text(""), Refused("garbage")),
        sharded(text("garbage"), Refused("garbage")),
        sharded(text("{}"), Refused("shape")),
        sharded(packed(&json!([])), Refused("shape")),
        sharded(text(r#"{"type":3,"nsp":"/"}"#), Refused("shape")),
        sharded(text(r#"{"type":3,"nsp":"/","data":{}}"#), Refused("shape")),
        sharded(
            text(r#"{"type":7,"nsp":"/","data":{"requestId":"a"}}"#),
            Refused("shape"),
        ),
        sharded(text(r#"{"type":9,"nsp":"/","data":{}}"#), Refused("shape")),
        sharded(
            text(r#"{"type":8,"nsp":"/","data":{"requestId":"a"}}"#),
            Refused("shape"),
        ),
        sharded(
            text(r#"{"type":99,"nsp":"/","data":{"requestId":"a"}}"#),
            Refused("unknown"),
        ),
        sharded(
            text(r#"{"type":4,"nsp":"/else","data":{"opts":{}}}"#),
            Refused("elsewhere"),
        ),
    ];
    let entry = |data: &str, why| Row {
        command: "XADD",
        ..row("", data, Refused(why))
    };
    rows.extend([
        entry("", "garbage"),
        entry("{", "garbage"),
        entry("{}", "shape"),
        entry("not base64", "garbage"),
        entry("wA==", "shape"),
        entry(r#"{"packet":null,"opts":{}}"#, "shape"),
    ]);
    rows
}

/// In the channel of python-socketio.
fn python() -> Vec<Row> {
    let say = |body: &[u8], counted| row("socketio", body, counted);
    vec![
        // A pickle that would run a program.
        say(
            b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94.",
            Refused("pickle"),
        ),
        say(b"", Refused("garbage")),
        say(b"garbage", Refused("garbage")),
        say(b"{}", Refused("shape")),
        say(b"[]", Refused("shape")),
        say(br#"{"method":"emit"}"#, Refused("shape")),
        say(br#"{"method":"close_room"}"#, Refused("shape")),
        say(br#"{"method":"disconnect"}"#, Refused("shape")),
        say(
            br#"{"method":"callback","sid":"x","id":-1}"#,
            Refused("shape"),
        ),
        say(
            br#"{"method":"emit","event":"e","binary":true,"data":["x","%"]}"#,
            Refused("garbage"),
        ),
        say(br#"{"method":"else"}"#, Refused("unknown")),
    ]
}

/// What was refused by reason and read by dialect, without our own messages that come back.
fn counts(gateway: &Gateway) -> BTreeMap<String, f64> {
    let is_count = |name: &str| {
        (name.starts_with(REFUSED) && !name.contains("\"own\""))
            || name.starts_with("sockeye_foreign_read_total")
    };
    let metrics = gateway.metrics().into_iter();
    metrics.filter(|(name, _)| is_count(name)).collect()
}

fn publish(redis: &Redis, row: &Row) {
    if row.command == "XADD" {
        let data = String::from_utf8_lossy(&row.body);
        let entry = ["uid", "emitter", "nsp", "/", "type", "3", "data", &data];
        redis.ask(&[&["XADD", "socket.io", "*"][..], &entry].concat());
        return;
    }
    let receivers = redis.publish(row.command, row.channel, &row.body);
    assert!(receivers >= 2, "{}: both gateways listen", row.channel);
}

/// Each row is counted once by each gateway, as what it is; the good message behind it reaches the members of both.
fn is_survived(row: &Row, redis: &Redis, gateways: &[Gateway], members: &mut [SocketIo]) {
    let shown = String::from_utf8_lossy(&row.body[..row.body.len().min(80)]).into_owned();
    let what = format!("{} {}: {shown:?}", row.command, row.channel);
    let before: Vec<_> = gateways.iter().map(counts).collect();
    publish(redis, row);
    let name = match row.counted {
        Refused(why) => format!("{REFUSED}{{reason=\"{why}\"}}"),
        Read(dialect) => format!("sockeye_foreign_read_total{{dialect=\"{dialect}\"}}"),
    };
    for (gateway, before) in gateways.iter().zip(before) {
        let mut expected = before.clone();
        *expected.get_mut(&name).expect("a metric") += 1.0;
        let mut now = before;
        eventually(PATIENCE, || {
            now = counts(gateway);
            now == expected
        });
        assert_eq!(now, expected, "{what}");
    }
    let good = json!(["emitter", {"type": 2, "data": ["good", shown], "nsp": "/"}, {"rooms": ["r1"], "except": [], "flags": {}}]);
    assert!(redis.publish("PUBLISH", "socket.io#/#r1#", &packed(&good)) >= 2);
    for member in members {
        assert_eq!(member.expect("good"), [json!(shown)], "{what}");
    }
}

fn all_survived(rows: &[Row]) {
    let redis = Redis::start();
    let config = super::config(&redis, "[compat]\npython = true\n");
    let mut gateways = [(); 2].map(|()| Gateway::start(&config));
    super::all_up(&gateways);
    let mut members = [&gateways[0], &gateways[1]].map(|gateway| super::member(gateway, "r1"));
    let readers = || redis.ask(&["CLIENT", "LIST"]).matches("cmd=xread").count() == 2;
    assert!(eventually(PATIENCE, readers), "both read the stream");
    for row in rows {
        is_survived(row, &redis, &gateways, &mut members);
    }
    for gateway in &mut gateways {
        assert!(gateway.is_alive());
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn broadcasts_that_end_node_servers_are_counted_and_the_next_one_arrives() {
    all_survived(&broadcasts());
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn requests_and_answers_that_end_node_servers_are_counted_and_the_next_message_arrives() {
    all_survived(&requests());
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn poison_for_other_adapters_is_counted_and_the_next_message_arrives() {
    let mut rows = clustered();
    rows.extend(python());
    all_survived(&rows);
}

/// Events that clients of a gateway may say, the worst that we could think of.
fn strange_events() -> Vec<(String, Vec<Value>)> {
    let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
    let wide: Value = (0..70_000).collect();
    let bytes = |len: usize| json!({"bytes": "ab".repeat(len)});
    let event = |name: &str, args: Vec<Value>| (name.to_owned(), args);
    vec![
        event("error", vec![json!(null)]),
        event("__proto__", vec![json!({"__proto__": {"polluted": 1}})]),
        event(
            "constructor",
            vec![json!({"constructor": {"prototype": {}}})],
        ),
        event(
            "toString",
            vec![json!({"toString": 1, "toJSON": 2, "then": 3, "length": -1})],
        ),
        event("", vec![]),
        event("\u{0}\u{7f}\u{2028}😀", vec![json!("\u{0}\u{2028}😀")]),
        event(
            "numbers",
            vec![json!([
                0,
                -1,
                255,
                65_536,
                u64::MAX,
                i64::MIN,
                1.5,
                1e300,
                -0.0
            ])],
        ),
        event("deep", vec![deep]),
        event("wide", vec![wide]),
        event("text", vec![json!("x".repeat(70_000))]),
        event(
            "bytes",
            vec![bytes(0), json!({"a": [bytes(1), bytes(300)]})],
        ),
        event(&"n".repeat(200), vec![json!({"": {"": null}})]),
    ]
}

/// A Node server with this adapter stays alive beside a gateway, whatever its clients say, ask for and are named after.
fn node_stays_alive(adapter: &str) {
    let redis = Redis::start();
    let [gateway]: [Gateway; 1] = super::nodes(&redis);
    let mut peer = NodePeer::start(&redis.url(), adapter, "/");
    peer.call(json!({"do": "client", "name": "n", "rooms": ["r1", "*", "a#b"]}));
    let mut member = super::member(&gateway, "r1");
    let arrives = |peer: &mut NodePeer, member: &mut SocketIo| {
        assert!(eventually(PATIENCE, || {
            member.emit("good", &[]);
            std::thread::sleep(std::time::Duration::from_millis(20));
            peer.heard_else().iter().any(|line| line["event"] == "good")
        }));
    };
    arrives(&mut peer, &mut member);
    for room in ["*", "a#b", "[x]?", "42", "é😀", "x".repeat(20).as_str()] {
        let joined = member.ask("join", &[json!(room)]);
        assert!(!joined.is_empty(), "{room}");
    }
    for (name, args) in strange_events() {
        member.emit(&name, &args);
    }
    member.emit("last", &[]);
    peer.hears("n", "last");
    let found = peer.call(json!({"do": "fetch"}));
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{found}");
    member.leave_session();
    let mut another = super::member(&gateway, "r1");
    arrives(&mut peer, &mut another);
    assert!(peer.is_alive());
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn no_client_of_a_gateway_ends_a_node_server_with_the_classic_adapter() {
    node_stays_alive("classic");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn no_client_of_a_gateway_ends_a_node_server_with_the_sharded_adapter() {
    node_stays_alive("sharded");
}
