//! The hot path allocates nothing: counted, not believed.

#![expect(
    unsafe_code,
    reason = "an allocator that counts is unsafe by its trait"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use wire::websocket::deflate::{Deflater, Inflater};
use wire::websocket::frame::{self, OpCode};
use wire::websocket::message::{Assembler, Limits, Message, Step};
use wire::{engineio, json, socketio};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes unchanged to the system allocator, which keeps the contract; counting
// touches only a thread-local integer that needs no allocation itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    run();
    ALLOCATIONS.with(Cell::get) - before
}

const LIMITS: Limits = Limits {
    message_bytes_max: 1_000,
    fragments_max: 8,
    masked: true,
    deflate: false,
};

#[test]
fn an_event_comes_in_and_goes_out_without_allocation() {
    let text = r#"42/lab,17["chat",{"text":"hé","list":[1,2.5,null]},"x"]"#;
    let mut buf = Vec::new();
    frame::write_masked(&mut buf, true, OpCode::Text, text.as_bytes(), [1, 2, 3, 4]);
    let mut packet_text = Vec::with_capacity(256);
    let mut out = Vec::with_capacity(256);
    let mut assembler = Assembler::default();
    let count = allocations(|| {
        let Ok(Step::Message {
            message: Message::Text(text),
            ..
        }) = assembler.step(&mut buf, &LIMITS)
        else {
            panic!("one whole text message")
        };
        let (_, data) = engineio::parse_text(text).expect("a packet");
        let packet = socketio::parse(data).expect("an event");
        let event = socketio::event(packet.data);
        assert_eq!((event.name.as_ref(), event.args.len()), ("chat", 38));
        assert_eq!(json::Elements::bare(event.args).count(), 2);
        packet_text.push(b'4');
        socketio::write(&mut packet_text, &packet);
        frame::write_frame(&mut out, OpCode::Text, &packet_text);
    });
    assert_eq!(count, 0);
    assert_eq!(packet_text, text.as_bytes());
}

#[test]
fn a_binary_event_is_parsed_without_allocation() {
    let text = r#"52-["upload",{"_placeholder":true,"num":0},[{"_placeholder":true,"num":1}]]"#;
    assert_eq!(allocations(|| assert!(socketio::parse(text).is_ok())), 0);
}

#[test]
fn the_counter_counts() {
    let fragmented = || {
        let mut assembler = Assembler::default();
        let mut buf = [0x01, 0x81, 0, 0, 0, 0, b'a'];
        assert!(assembler.step(&mut buf, &LIMITS).is_ok());
    };
    assert_eq!(allocations(fragmented), 2, "the state and its buffer");
    assert_eq!(
        allocations(|| assert!(socketio::event(r#"["\u0061"]"#).name == "a")),
        1
    );
}

/// What is said to be held is held, to a tenth: the figure goes to operators.
#[test]
fn compressors_say_how_large_they_are() {
    let held = |make: &mut dyn FnMut() -> usize| {
        let before = BYTES.with(Cell::get);
        let said = make();
        (BYTES.with(Cell::get) - before, said)
    };
    let text = [7; 3_000];
    let mut payload = Vec::with_capacity(64 * 1024);
    let mut cases: Vec<_> = [9, 12, 15]
        .map(|bits| held(&mut || Deflater::new(6, bits).heap_bytes()))
        .into();
    Deflater::new(6, 15).deflate(&text, &mut payload);
    let mut out = Vec::with_capacity(64 * 1024);
    cases.push(held(&mut || {
        let mut inflater = Inflater::default();
        assert!(inflater.inflate_next(&payload, 3_000, &mut out).is_ok());
        Inflater::BYTES
    }));
    for (counted, said) in &cases {
        assert!(counted.abs_diff(*said) <= counted / 10, "{cases:?}");
    }
}

#[test]
fn compressing_and_inflating_allocate_nothing_once_warm() {
    let text = br#"42["chat",{"content":"hello hello hello hello hello"}]"#.repeat(30);
    let (mut deflater, mut inflater) = (Deflater::new(6, 15), Inflater::default());
    let (mut payload, mut out) = (Vec::with_capacity(4_096), Vec::with_capacity(4_096));
    let mut round = || {
        payload.clear();
        out.clear();
        assert!(deflater.deflate(&text, &mut payload));
        deflater.forget();
        assert!(inflater.inflate(&payload, text.len(), &mut out).is_ok());
    };
    round();
    assert_eq!(allocations(|| (0..100).for_each(|_| round())), 0);
}
