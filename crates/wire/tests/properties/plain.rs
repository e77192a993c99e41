//! The one mapping, through both encodings.

use crate::values;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::plain::{self, Incoming, Outgoing};

/// Arguments: values, with bytes in front of some of them.
type Arguments = Vec<(Option<Vec<u8>>, Value)>;

fn arguments() -> impl Strategy<Value = Arguments> {
    vec(
        (
            proptest::option::of(vec(any::<u8>(), 0..20)),
            values::value(),
        ),
        0..5,
    )
}

/// Raw elements and attachments in the canonical form.
fn canonical(arguments: &Arguments) -> (String, Vec<Vec<u8>>) {
    let (mut list, mut attachments) = (Vec::new(), Vec::new());
    for (bytes, value) in arguments {
        if let Some(bytes) = bytes {
            let placeholder = json!({ "_placeholder": true, "num": attachments.len() });
            list.push(json!({ "nested": [placeholder] }).to_string());
            attachments.push(bytes.clone());
        }
        list.push(value.to_string());
    }
    (list.join(","), attachments)
}

/// Equal but for how a whole double is written.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && same(a, b))
        }
        _ => a == b,
    }
}

fn same_list(a: &str, b: &str) -> bool {
    let parse = |list: &str| serde_json::from_str::<Value>(&format!("[{list}]"));
    matches!((parse(a), parse(b)), (Ok(a), Ok(b)) if same(&a, &b))
}

/// Written without its fraction, as JavaScript does, and no other number by that.
#[test]
fn a_large_whole_double_is_the_same_number() {
    let mut packed = Vec::new();
    let event = Outgoing {
        name: "x",
        room: None,
        args: "8651528655900151.0",
        attachments: &[],
        id: None,
        offset: None,
    };
    plain::write_msgpack(&mut packed, &event);
    let Ok(Incoming::Event { args, .. }) = plain::parse_msgpack(&packed) else {
        panic!("{packed:?}");
    };
    assert_eq!(args, "8651528655900151");
    assert!(same_list(&args, event.args), "{args}");
}

proptest! {
    #[test]
    fn events_survive_both_encodings(
        arguments in arguments(),
        name in "[a-z\"é]{1,8}".prop_filter("has a meaning", |name| {
            !["ack", "join", "leave"].contains(&name.as_str())
        }),
        room in proptest::option::of(values::string()),
        id in proptest::option::of(0..1_u64 << 53),
    ) {
        let (args, bytes) = canonical(&arguments);
        let attachments: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let room = room.as_deref();
        let event = Outgoing { name: &name, room, args: &args, attachments: &attachments, id, offset: None };
        let (mut text, mut packed) = (Vec::new(), Vec::new());
        plain::write_json(&mut text, &event);
        plain::write_msgpack(&mut packed, &event);
        let text = String::from_utf8(text).expect("JSON is UTF-8");
        prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
        for incoming in [plain::parse_json(&text), plain::parse_msgpack(&packed)] {
            let Ok(Incoming::Event { name: n, room: r, args: a, attachments: b, id: i }) = incoming
            else {
                return Err(TestCaseError::fail(format!("{incoming:?} from {text}")));
            };
            prop_assert_eq!((n.as_ref(), r.as_deref(), i), (name.as_str(), room, id));
            prop_assert!(same_list(&a, &args), "{} is not {}", a, args);
            prop_assert_eq!(&b, &bytes);
        }
    }

    #[test]
    fn damaged_text_is_judged_without_panic(
        value in values::value(),
        damages in vec(values::damage(), 0..4),
    ) {
        let text = json!({ "type": "x", "room": "r", "payload": value }).to_string();
        let text = values::apply(&text, &damages);
        if plain::parse_json(&text).is_ok() {
            prop_assert!(wire::json::validate(text.as_bytes()).is_ok());
        }
    }

    #[test]
    fn damaged_msgpack_yields_json_or_nothing(
        arguments in arguments(),
        damages in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let (args, bytes) = canonical(&arguments);
        let attachments: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let attachments = &attachments;
        let event = Outgoing { name: "x", room: None, args: &args, attachments, id: None, offset: None };
        let mut packed = Vec::new();
        plain::write_msgpack(&mut packed, &event);
        for (index, byte) in damages {
            let index = index.index(packed.len());
            packed[index] = byte;
        }
        if !whole {
            packed.truncate(cut.index(packed.len()));
        }
        if let Ok(Incoming::Event { args, .. }) = plain::parse_msgpack(&packed) {
            let list = format!("[{args}]");
            prop_assert_eq!(wire::json::validate(list.as_bytes()), Ok(()), "{}", list);
        }
    }

    #[test]
    fn random_bytes_are_judged_without_panic(bytes in vec(any::<u8>(), 0..64)) {
        // A message needs at least a map head, a key and a value.
        if plain::parse_msgpack(&bytes).is_ok() {
            prop_assert!(bytes.len() > 6);
        }
    }
}
