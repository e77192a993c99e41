//! What is kept for an endpoint that is down counts as what it costs.

#![expect(
    unsafe_code,
    reason = "an allocator that counts is unsafe by its trait"
)]

use backend::proto::command::What;
use backend::proto::{Command, Connect, Decision, FromWorker, Gone, Header, Hello};
use backend::{Backend, Calling, Event, Link, Name, Outcome, Said, Settings, Up};
use prost::Message;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

/// A block of the allocator has a size of its own.
fn cost(layout: Layout) -> usize {
    layout.size().next_multiple_of(16)
}

// SAFETY: every call goes unchanged to the system allocator, which keeps the contract; counting touches only a thread-local integer
// that needs no allocation itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.with(|held| held.set(held.get().wrapping_add(cost(layout))));
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.with(|held| held.set(held.get().wrapping_sub(cost(layout))));
        // SAFETY: `pointer` came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SOCKETS: u64 = 4_000;

fn name(number: u64) -> String {
    format!("{number:020}")
}

/// As browsers come.
fn comes(number: u64) -> Up {
    Up::Connect {
        number,
        connect: connect(number).into(),
    }
}

fn connect(number: u64) -> Connect {
    let header = |(name, value): &(&str, &str)| Header {
        name: (*name).to_owned(),
        value: value.as_bytes().to_vec().into(),
    };
    let headers = [
        ("host", "chat.example.org"),
        (
            "user-agent",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
        ),
        ("accept", "*/*"),
        ("accept-language", "en-US,en;q=0.9"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("cache-control", "no-cache"),
        (
            "cookie",
            "session=0123456789abcdef0123456789abcdef; theme=dark",
        ),
        ("origin", "https://chat.example.org"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
    ];
    Connect {
        socket: name(number),
        namespace: "/".to_owned(),
        auth: br#"{"token":"0123456789"}"#.to_vec().into(),
        query: "EIO=4&transport=websocket".to_owned(),
        address: "192.0.2.17".to_owned(),
        headers: headers.iter().map(header).collect(),
        protocol: "socketio".to_owned(),
        ..Connect::default()
    }
}

fn gone(number: u64) -> Up {
    Up::Gone(Gone {
        socket: name(number),
        reason: "transport close".to_owned(),
        rooms: (0..4).map(|room| format!("room-{room}-{number}")).collect(),
    })
}

fn event(number: u64) -> Up {
    let said = Said {
        event: "order",
        args: r#"{"dish":"soup","table":17}"#,
        ..Said::default()
    };
    let socket = Name::parse(&name(number)).expect("a name");
    Up::Event(Event::new(socket, &said))
}

/// Each header line of its client was three blocks of memory, too.
#[test]
fn lists_of_a_socket_that_were_used_once_kept_their_places() {
    let mut backend = Backend::new(Settings::default());
    let hello = Hello {
        instance: "a".to_owned(),
        ..Hello::default()
    };
    backend.attach(1, Link(1), &hello).expect("welcome");
    let before = HELD.with(Cell::get);
    for number in 0..SOCKETS {
        backend.up(1, comes(number));
        while backend.poll(1, Link(1)).is_some() {}
        // It says that it handled the CONNECT, and decides later.
        let handled = FromWorker {
            handled: number + 1,
            ..FromWorker::default()
        };
        backend.received(1, Link(1), handled).expect("in order");
        let decision = Decision {
            socket: name(number),
            admit: true,
            ..Decision::default()
        };
        let decides = FromWorker {
            first: number + 1,
            commands: vec![Command {
                what: Some(What::Decision(decision)),
                ..Command::default()
            }],
            ..FromWorker::default()
        };
        backend.received(1, Link(1), decides).expect("in order");
    }
    drop(backend.take_out());
    assert_eq!((backend.sockets() as u64, backend.bytes()), (SOCKETS, 0));
    let held = HELD.with(Cell::get).wrapping_sub(before) as u64 / SOCKETS;
    let wire = connect(0).encoded_len();
    println!("{held} B, of which {wire} B are what the client said");
    assert!(held < 1_500, "{held}");
}

/// A backend whose endpoint is told of clients, and what it held before.
fn told(decides: bool) -> Backend {
    let settings = Settings {
        queue_bytes_max: 1 << 30,
        ..Settings::default()
    };
    Backend::calling(
        settings,
        Calling {
            decides,
            calls_max: usize::MAX,
            ..Calling::default()
        },
    )
}

/// Held bytes for each that is counted.
fn per_counted_byte(backend: &Backend, before: usize) -> f64 {
    let held = HELD.with(Cell::get).wrapping_sub(before);
    println!("held {held}, counted {}", backend.bytes());
    held as f64 / backend.bytes() as f64
}

#[test]
fn ends_that_wait_for_an_endpoint_took_six_times_the_memory_that_was_counted() {
    let before = HELD.with(Cell::get);
    let mut backend = told(true);
    for number in 0..SOCKETS {
        backend.up(1, comes(number));
    }
    while let Some(call) = backend.next_call(1) {
        let ended = backend.call_ended(1, call.number, Outcome::Taken(Vec::new()));
        ended.expect("nothing to carry out");
    }
    assert_eq!(backend.bytes(), 0, "all have heard of the beginnings");
    for number in 0..SOCKETS {
        backend.up(2, gone(number));
    }
    drop(backend.take_out());
    let ratio = per_counted_byte(&backend, before);
    assert!((0.6..1.4).contains(&ratio), "{ratio}");
}

#[test]
fn beginnings_and_events_that_wait_count_as_what_they_cost() {
    let mut backend = told(false);
    let before = HELD.with(Cell::get);
    for number in 0..SOCKETS {
        backend.up(1, comes(number));
        for _ in 0..4 {
            backend.up(1, event(number));
        }
    }
    for number in 0..SOCKETS {
        backend.up(2, gone(number));
    }
    drop(backend.take_out());
    let ratio = per_counted_byte(&backend, before);
    assert!((0.6..1.4).contains(&ratio), "{ratio}");
}
