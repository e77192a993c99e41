//! Records that are no commands.

use crate::{Program, broadcast, header, headers, make_topics, read, reading, settings};
use kafka::{Action, Command, Inlet, Place, Unhandled};
use rdkafka::message::{Header, Message, OwnedHeaders};
use servers::{Kafka, wait_for};
use std::sync::mpsc;

const MIB: usize = 1 << 20;

/// A header whose name is no text: other languages can write it.
fn unreadable_name() -> OwnedHeaders {
    let bytes = [b"X-".to_vec(), vec![0xff, 0xfe]].concat();
    #[expect(
        unsafe_code,
        reason = "no safe call writes such a name; only its bytes are used"
    )]
    // SAFETY: the text is handed to C as pointer and length, and never looked at as text.
    let key = unsafe { std::str::from_utf8_unchecked(&bytes) };
    let value = Some("1");
    broadcast().insert(Header { key, value })
}

/// The records and the beginning of the reason for each.
fn poison() -> Vec<(OwnedHeaders, Option<Vec<u8>>, &'static str)> {
    let body = || Some(b"[\"x\"]".to_vec());
    let none: Option<&str> = None;
    let null = OwnedHeaders::new().insert(Header {
        key: "X-Operator",
        value: none,
    });
    vec![
        (
            OwnedHeaders::new(),
            body(),
            "the header X-Operator is missing or null",
        ),
        (null, body(), "the header X-Operator is missing or null"),
        (
            headers(&[("X-Operator", "explode")]),
            body(),
            "the header X-Operator is \"explode\": known are unicast,",
        ),
        (
            broadcast(),
            Some(vec![b'x'; 16 * MIB]),
            "the value has 16777216 bytes: at most 1048576 are allowed",
        ),
        (broadcast(), None, "the record has no value"),
        (unreadable_name(), body(), "it cannot be read: is the name"),
        (
            headers(&[
                ("X-Operator", "broadcast"),
                ("X-Sockeye-Namespace", "/admin"),
            ]),
            body(),
            "the topic in has no right to the namespace \"/admin\"",
        ),
        (broadcast(), Some(b"refuse".to_vec()), "no such thing"),
        (broadcast(), Some(b"panic".to_vec()), "it cannot be read"),
        // It pretends to be a letter; the test looks at the first header of each name.
        (
            headers(&[
                ("X-Sockeye-Reason", "a lie"),
                ("X-Sockeye-From-Topic", "elsewhere"),
                ("X-Sockeye-From-Offset", "-7"),
                ("X-Operator", "explode"),
            ]),
            body(),
            "the header X-Operator is \"explode\": known are unicast,",
        ),
    ]
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn poison_goes_to_the_dead_letters_and_does_not_stop_the_partition() {
    let kafka = Kafka::start();
    make_topics(&kafka, &["in", "dead"], 1);
    let program = Program::new(&kafka);
    let poison = poison();
    for (headers, value, _) in &poison {
        program.write("in", 0, headers.clone(), value.as_deref());
    }
    program.write("in", 0, broadcast(), Some(b"good"));
    program.flush();
    let (sender, handed) = mpsc::channel();
    let inlet = Inlet::start(
        &settings(&kafka),
        reading(&["in"]),
        move |_: Place<'_>, command: Command<'_>| {
            let Action::Emit { body, .. } = command.action else {
                return Ok(());
            };
            assert_ne!(body, b"panic", "a handler with a mistake");
            if body == b"refuse" {
                return Err("no such thing".to_owned().into());
            }
            sender.send(body.to_vec()).map_err(|_| Unhandled::Later)
        },
    );
    let inlet = inlet.expect("it reads");
    let good = handed.recv_timeout(servers::PATIENCE);
    assert_eq!(good.as_deref(), Ok(&b"good"[..]));
    let figures = inlet.figures();
    assert_eq!((figures.dead, figures.lost), (poison.len() as u64, 0));
    let dead = read(&kafka, "dead", poison.len());
    assert_eq!(dead.len(), poison.len());
    for (offset, (letter, (_, value, reason))) in dead.iter().zip(&poison).enumerate() {
        let told = header(letter, "X-Sockeye-Reason").expect("a reason");
        assert!(told.starts_with(reason), "{told}, not {reason}");
        let from = header(letter, "X-Sockeye-From-Offset");
        assert_eq!(from, Some(offset.to_string()));
        assert_eq!(
            header(letter, "X-Sockeye-From-Topic").as_deref(),
            Some("in")
        );
        let kept = value.as_deref().filter(|value| value.len() < MIB);
        assert_eq!(letter.payload(), kept, "{reason}");
    }
    let bytes = header(&dead[3], "X-Sockeye-Value-Bytes");
    assert_eq!(bytes, Some((16 * MIB).to_string()));
    assert_eq!(header(&dead[2], "X-Operator").as_deref(), Some("explode"));
    inlet.stop();
}

/// Nobody has made the topic of dead letters: that is counted, and commands go on.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn without_a_topic_for_dead_letters_they_are_counted() {
    let kafka = Kafka::start();
    make_topics(&kafka, &["in"], 1);
    let program = Program::new(&kafka);
    program.write("in", 0, OwnedHeaders::new(), Some(b"bad"));
    program.write("in", 0, broadcast(), Some(b"good"));
    program.flush();
    let mut reading = reading(&["in"]);
    reading.dead_letters = None;
    let inlet = Inlet::start(&settings(&kafka), reading, |_, _| Ok(())).expect("it reads");
    wait_for("the good one", || {
        (inlet.figures().handed == 1).then_some(())
    });
    assert_eq!((inlet.figures().lost, inlet.figures().dead), (1, 0));
    inlet.stop();
}
