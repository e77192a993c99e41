//! Every letter in every dialect: written, read again, torn to pieces.

use compat::names::{Channel, Names};
use compat::refused::Refused;
use compat::verb::{Answer, Args, Event, Fetched, Letter, Selection, Verb, own_uid};
use compat::{classic, clustered, python};

fn names() -> Names {
    Names::new("socket.io")
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

fn some() -> Selection {
    Selection {
        rooms: words(&["r1"]),
        except: words(&["r2", "té"]),
    }
}

fn text() -> Args {
    Args {
        json: r#"{"n":1},"té\n",null,-1.5"#.to_owned(),
        attachments: Vec::new(),
    }
}

fn bytes() -> Args {
    Args {
        json: r#"{"_placeholder":true,"num":0},[{"_placeholder":true,"num":1}]"#.to_owned(),
        attachments: vec![vec![1, 2, 3], Vec::new()],
    }
}

fn event(args: Args, volatile: bool) -> Event {
    Event {
        name: "ev".to_owned(),
        args,
        volatile,
    }
}

fn request() -> String {
    "qF_JZn".to_owned()
}

fn one(json: &str) -> Args {
    Args {
        json: json.to_owned(),
        attachments: Vec::new(),
    }
}

/// Orders and events, which all dialects have.
fn orders() -> Vec<Verb> {
    let rooms = || words(&["r3", "r4"]);
    vec![
        Verb::Broadcast {
            to: some(),
            event: event(text(), true),
        },
        Verb::Broadcast {
            to: Selection::default(),
            event: event(Args::default(), false),
        },
        Verb::Broadcast {
            to: some(),
            event: event(bytes(), false),
        },
        Verb::Join {
            of: some(),
            rooms: rooms(),
        },
        Verb::Leave {
            of: some(),
            rooms: rooms(),
        },
        Verb::Disconnect {
            of: some(),
            close: true,
        },
    ]
}

/// Questions and answers of Node's adapters.
fn questions() -> Vec<Verb> {
    let answer = |answer| Verb::Answer {
        request: request(),
        to: String::new(),
        answer,
    };
    vec![
        Verb::Ask {
            request: request(),
            to: some(),
            event: event(bytes(), false),
            timeout_ms: Some(3_000),
        },
        Verb::Ask {
            request: request(),
            to: some(),
            event: event(text(), true),
            timeout_ms: Some(3_000),
        },
        Verb::Fetch {
            request: request(),
            of: some(),
        },
        Verb::ServerEmit {
            request: None,
            args: one(r#""ping",{"v":1}"#),
        },
        Verb::ServerEmit {
            request: Some(request()),
            args: one(r#""ping""#),
        },
        answer(Answer::Sockets(vec![Fetched {
            id: "Zc7f0ch5oTBIRcgBAAAA".to_owned(),
            rooms: words(&["Zc7f0ch5oTBIRcgBAAAA", "r1"]),
            data: r#"{"a":[1]}"#.to_owned(),
        }])),
        answer(Answer::Sockets(Vec::new())),
        answer(Answer::Emitted(one(r#"{"a":1}"#))),
        answer(Answer::Emitted(Args::default())),
        answer(Answer::Count(7)),
        answer(Answer::Ack(one("null"))),
        answer(Answer::Ack(Args {
            json: r#"{"_placeholder":true,"num":0}"#.to_owned(),
            attachments: vec![vec![9]],
        })),
    ]
}

/// What only the classic adapter asks.
fn classic_questions() -> Vec<Verb> {
    vec![
        Verb::Ids {
            request: request(),
            rooms: words(&["r1"]),
        },
        Verb::Rooms { request: request() },
        Verb::Answer {
            request: request(),
            to: String::new(),
            answer: Answer::Rooms(words(&["r1", "42"])),
        },
        Verb::Answer {
            request: request(),
            to: String::new(),
            answer: Answer::Ids(words(&["a"])),
        },
    ]
}

fn letter(verb: Verb) -> Letter {
    // Answers of classic servers do not say whose they are.
    let from = match &verb {
        Verb::Answer { .. } => String::new(),
        _ => "3J1VvJ".to_owned(),
    };
    Letter {
        from,
        namespace: "/lab".to_owned(),
        verb,
    }
}

fn classic_letters() -> Vec<Letter> {
    let all = [orders(), questions(), classic_questions()].concat();
    all.into_iter().map(letter).collect()
}

fn clustered_letters() -> Vec<Letter> {
    let all = [orders(), questions()].concat();
    all.into_iter().map(letter).collect()
}

#[test]
fn the_classic_dialect_reads_what_it_writes() {
    for letter in classic_letters() {
        let publish = classic::encode(&names(), &letter).expect("a word for it");
        let names = names();
        let channel = names.read(&publish.channel).expect("a channel of ours");
        assert_eq!(classic::decode(channel, &publish.body), Ok(letter));
    }
}

#[test]
fn the_sharded_dialect_reads_what_it_writes() {
    for letter in clustered_letters() {
        let publish = clustered::encode_sharded(&names(), &letter);
        let body = publish.expect("a word for it").body;
        assert_eq!(clustered::decode("/lab", &body), Ok(letter));
    }
}

fn fields<'a>(
    entry: &'a [(&'static str, String); 4],
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    entry
        .iter()
        .map(|(key, value)| (key.as_bytes(), value.as_bytes()))
}

#[test]
fn the_streams_dialect_reads_what_it_writes() {
    let mut entries = 0;
    for letter in clustered_letters() {
        let read = match clustered::encode_streams(&names(), &letter).expect("a word for it") {
            clustered::Post::Publish(publish) => clustered::decode("/lab", &publish.body),
            clustered::Post::Entry(entry) => {
                entries += 1;
                clustered::decode_entry(fields(&entry))
            }
        };
        assert_eq!(read, Ok(letter));
    }
    assert_eq!(
        entries,
        orders().len(),
        "questions and answers are published"
    );
}

#[test]
fn the_python_dialect_reads_what_it_writes() {
    let socket = || Selection {
        rooms: words(&["Zc7f0ch5oTBIRcgBAAAA"]),
        except: Vec::new(),
    };
    let verbs = [
        Verb::Broadcast {
            to: some(),
            event: event(text(), false),
        },
        Verb::Broadcast {
            to: Selection::default(),
            event: event(bytes(), false),
        },
        Verb::Join {
            of: socket(),
            rooms: words(&["r1"]),
        },
        Verb::Leave {
            of: socket(),
            rooms: words(&["r1"]),
        },
        Verb::Disconnect {
            of: socket(),
            close: false,
        },
    ];
    for letter in verbs.map(letter) {
        let body = python::encode(&letter).expect("a word for it");
        assert_eq!(python::decode(&body), Ok(letter));
    }
}

#[test]
fn an_answer_to_python_names_the_question_as_python_does() {
    let question = br#"{"method": "emit", "event": "ev", "data": ["a"], "binary": false,
        "namespace": "/lab", "room": "r1", "skip_sid": null, "callback": ["r1", "/lab", 3],
        "host_id": "abc"}"#;
    let asked = python::decode(question).expect("a question");
    let Verb::Ask { request, .. } = asked.verb else {
        panic!("{asked:?}")
    };
    let answer = Letter {
        from: own_uid(1, 2),
        namespace: "/lab".to_owned(),
        verb: Verb::Answer {
            request: request.clone(),
            to: asked.from,
            answer: Answer::Ack(one("1,\"b\"")),
        },
    };
    let written = python::encode(&answer).expect("a word for it");
    let expected = r#"{"method": "callback", "host_id": "abc", "sid": "r1", "namespace": "/lab", "id": 3, "args": [1,"b"]}"#;
    assert_eq!(String::from_utf8_lossy(&written), expected);
    let read = python::decode(&written).expect("an answer");
    let Verb::Answer { request: named, .. } = read.verb else {
        panic!("{read:?}")
    };
    assert_eq!(named, request);
}

#[test]
fn letters_of_our_own_nodes_are_left_alone() {
    let own = |letter: Letter| Letter {
        from: own_uid(3, 99),
        ..letter
    };
    let names = names();
    for letter in orders().into_iter().map(letter).map(own) {
        let publish = classic::encode(&names, &letter).expect("a word for it");
        let channel = names.read(&publish.channel).expect("a channel of ours");
        assert_eq!(classic::decode(channel, &publish.body), Err(Refused::Own));
        let publish = clustered::encode_sharded(&names, &letter).expect("a word for it");
        assert_eq!(clustered::decode("/lab", &publish.body), Err(Refused::Own));
        if let Some(body) = python::encode(&letter) {
            assert_eq!(python::decode(&body), Err(Refused::Own));
        }
    }
}

/// Bytes that end a Node server when they come in the channel of its broadcasts, requests or answers; and some that do not.
#[test]
fn what_ends_a_node_server_is_refused() {
    let names = names();
    let (main, requests) = (names.main("/lab"), names.requests("/lab"));
    let responses = names.responses("/lab");
    let room = names.room("/lab", "nobody");
    let packed = |hex: &[u8]| hex.to_vec();
    let cases: [(&str, Vec<u8>, Refused); 19] = [
        (&main, packed(&[0x80]), Refused::Shape),
        (&main, packed(&[0x81, 0xa1, b'a', 0xc0]), Refused::Shape),
        (&main, b"garbage".to_vec(), Refused::Garbage),
        (&main, Vec::new(), Refused::Garbage),
        (&main, br#"{"type":3}"#.to_vec(), Refused::Garbage),
        (&main, b"[1,2]".to_vec(), Refused::Garbage),
        // ["u"], ["u", nil, {}], ["u", {}, nil], [nil, nil, nil]
        (&main, packed(&[0x91, 0xa1, b'u']), Refused::Elsewhere),
        (
            &main,
            packed(&[0x93, 0xa1, b'u', 0xc0, 0x80]),
            Refused::Elsewhere,
        ),
        (
            &main,
            packed(&[0x93, 0xa1, b'u', 0x80, 0xc0]),
            Refused::Elsewhere,
        ),
        (&main, packed(&[0x93, 0xc0, 0xc0, 0xc0]), Refused::Elsewhere),
        (&room, b"garbage".to_vec(), Refused::Garbage),
        (
            &requests,
            br#"{"type":5,"requestId":"a"}"#.to_vec(),
            Refused::Shape,
        ),
        (
            &requests,
            br#"{"type":7,"requestId":"a"}"#.to_vec(),
            Refused::Shape,
        ),
        (&requests, packed(&[0xc0]), Refused::Shape),
        (&requests, b"{}".to_vec(), Refused::Shape),
        (&requests, br#"{"type":99}"#.to_vec(), Refused::Unknown),
        (&requests, br#"{"type":2}"#.to_vec(), Refused::Shape),
        (&responses, packed(&[0xc0]), Refused::Shape),
        (&responses, b"{}".to_vec(), Refused::Shape),
    ];
    for (name, body, refused) in cases {
        let channel = names.read(name).expect("a channel of ours");
        assert_eq!(
            classic::decode(channel, &body),
            Err(refused),
            "{name} {body:?}"
        );
    }
    // Sound for Node, and for us: options without rooms mean everyone.
    let everyone = [
        &[0x93, 0xa1, b'u', 0x83][..],
        b"\xa4type\x02\xa4data\x91\xa2ev\xa3nsp\xa4/lab\x80",
    ]
    .concat();
    let channel = names.read(&main).expect("a channel of ours");
    let letter = classic::decode(channel, &everyone).expect("sound");
    let Verb::Broadcast { to, .. } = letter.verb else {
        panic!("{letter:?}")
    };
    assert_eq!(to, Selection::default());
}

#[test]
fn a_room_of_another_type_is_never_everyone() {
    let requests = names().requests("/");
    let names = names();
    let channel = names.read(&requests).expect("a channel of ours");
    let body = br#"{"type":4,"opts":{"rooms":[null,7,-1.5,{"a":1}],"except":[]},"close":true}"#;
    let letter = classic::decode(channel, body).expect("sound");
    let Verb::Disconnect { of, close: true } = letter.verb else {
        panic!("{letter:?}")
    };
    assert_eq!(of.rooms, ["\0null", "7", "-1.5", "\0{\"a\":1}"]);
    // Two names were one of ours.
    let body =
        br#"{"type":4,"opts":{"rooms":["\ud800","\udfff","\ufffd"],"except":[]},"close":true}"#;
    let letter = classic::decode(channel, body).expect("sound");
    let Verb::Disconnect { of, .. } = letter.verb else {
        panic!("{letter:?}")
    };
    assert_eq!(of.rooms, ["\0\"\\ud800\"", "\0\"\\udfff\"", "\u{fffd}"]);
    let body = br#"{"type":4,"opts":{"rooms":"r1"},"close":true}"#;
    assert_eq!(classic::decode(channel, body), Err(Refused::Shape));
}

#[test]
fn a_placeholder_without_bytes_is_refused() {
    let body = br#"{"type":3,"data":{"packet":{"type":2,"data":["ev",{"_placeholder":true,"num":0}]},"opts":{"rooms":[]}},"uid":"b7d40d3bd530e322","nsp":"/lab"}"#;
    assert_eq!(clustered::decode("/lab", body), Err(Refused::Shape));
}

#[test]
fn messages_of_other_namespaces_are_left_alone() {
    let letter = letter(orders().remove(0));
    let names = names();
    let publish = classic::encode(&names, &letter).expect("a word for it");
    for namespace in ["/", "/lab2"] {
        let channel = Channel::Main {
            namespace,
            room: None,
        };
        assert_eq!(
            classic::decode(channel, &publish.body),
            Err(Refused::Elsewhere)
        );
    }
    let sharded = clustered::encode_sharded(&names, &letter);
    let body = sharded.expect("a word for it").body;
    assert_eq!(clustered::decode("/", &body), Err(Refused::Elsewhere));
}

#[test]
fn a_pickle_is_never_opened() {
    assert_eq!(
        python::decode(b"\x80\x05cposix\nsystem\n"),
        Err(Refused::Pickle)
    );
}

#[test]
fn lists_without_end_and_deep_nests_are_refused() {
    let names = names();
    let requests = names.requests("/");
    let channel = names.read(&requests).expect("a channel of ours");
    let many = format!("[{}0]", "0,".repeat(65_536));
    let body = format!(r#"{{"type":2,"opts":{{"rooms":{many}}},"rooms":[]}}"#);
    assert_eq!(
        classic::decode(channel, body.as_bytes()),
        Err(Refused::TooMany)
    );
    let deep = format!(
        r#"{{"type":6,"data":{}{}}}"#,
        "[".repeat(1_000),
        "]".repeat(1_000)
    );
    assert_eq!(
        classic::decode(channel, deep.as_bytes()),
        Err(Refused::Garbage)
    );
    let large = vec![b' '; 33 * 1024 * 1024];
    assert_eq!(classic::decode(channel, &large), Err(Refused::TooLarge));
    // Lengths that announce more than there is.
    for body in [
        &[0xdd, 0xff, 0xff, 0xff, 0xff][..],
        &[0xdf, 0xff, 0xff, 0xff, 0xff],
        &[0xc6, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert_eq!(classic::decode(channel, body), Err(Refused::Garbage));
    }
}

/// Everything that the dialects write, with bytes changed, cut off, doubled. Whatever is still taken can be written again.
#[test]
fn torn_letters_are_taken_or_refused() {
    let names = names();
    let mut whole: Vec<(String, Vec<u8>)> = Vec::new();
    for letter in classic_letters() {
        let publish = classic::encode(&names, &letter).expect("a word for it");
        whole.push((publish.channel, publish.body));
    }
    for letter in clustered_letters() {
        let publish = clustered::encode_sharded(&names, &letter).expect("a word for it");
        whole.push((publish.channel, publish.body));
        if let Some(body) = python::encode(&letter) {
            whole.push((names.main("/lab"), body));
        }
    }
    let mut taken = 0;
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (channel, body) = &whole[random.usize(..whole.len())];
        let mut body = body.clone();
        for _ in 0..random.usize(1..4) {
            tear(&mut body, &mut random);
        }
        let channel = names.read(channel).expect("a channel of ours");
        let letters = [
            classic::decode(channel, &body),
            clustered::decode("/lab", &body),
            python::decode(&body),
            clustered::decode_entry(
                [
                    (&b"nsp"[..], &b"/lab"[..]),
                    (b"type", b"3"),
                    (b"data", &body),
                ]
                .into_iter(),
            ),
        ];
        for letter in letters.into_iter().flatten() {
            taken += 1;
            let _ = classic::encode(&names, &letter);
            let _ = clustered::encode_sharded(&names, &letter);
            let _ = clustered::encode_streams(&names, &letter);
            let _ = python::encode(&letter);
        }
    }
    assert!(taken > 100, "{taken} of 20,000 were still sound");
}

fn tear(body: &mut Vec<u8>, random: &mut fastrand::Rng) {
    if body.is_empty() {
        return;
    }
    let at = random.usize(..body.len());
    match random.u8(..5) {
        0 => body[at] = random.u8(..),
        1 => body.truncate(at),
        2 => body.insert(at, random.u8(..)),
        3 => drop(body.remove(at)),
        _ => {
            let piece = body[at..(at + 8).min(body.len())].to_vec();
            body.splice(at..at, piece);
        }
    }
}
