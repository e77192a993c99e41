//! What the assembler makes of sequences of frames.

use super::super::frame::{write_frame, write_masked};
use super::*;

const LIMITS: Limits = Limits {
    message_bytes_max: 1000,
    fragments_max: 8,
    masked: true,
    deflate: false,
};
const MASK: [u8; 4] = [9, 8, 7, 6];

/// (fin, opcode, payload)
type Frame<'a> = (bool, OpCode, &'a [u8]);

fn bytes(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(fin, opcode, payload) in frames {
        write_masked(&mut out, fin, opcode, payload, MASK);
    }
    out
}

/// Runs all frames through one assembler; what came out, as text, and how it ended.
fn run(frames: &[Frame<'_>], limits: &Limits) -> (Vec<String>, Result<(), Violation>) {
    run_bytes(&mut bytes(frames), limits)
}

fn run_bytes(mut buf: &mut [u8], limits: &Limits) -> (Vec<String>, Result<(), Violation>) {
    let mut assembler = Assembler::default();
    let mut seen = Vec::new();
    loop {
        let consumed = match assembler.step(buf, limits) {
            Ok(Step::NeedMore { .. }) => return (seen, Ok(())),
            Ok(Step::Fragment { consumed }) => consumed,
            Ok(Step::Message {
                consumed, message, ..
            }) => {
                seen.push(format!("{message:?}"));
                consumed
            }
            Err(violation) => return (seen, Err(violation)),
        };
        buf = &mut buf[consumed..];
    }
}

#[test]
fn messages_come_out_whole_with_control_frames_between() {
    let frames: [Frame<'_>; 7] = [
        (true, OpCode::Text, b"one"),
        (false, OpCode::Text, "z\u{fc}".as_bytes()),
        (true, OpCode::Ping, b"?"),
        (false, OpCode::Continuation, b""),
        (true, OpCode::Continuation, b"rich"),
        (true, OpCode::Binary, b""),
        (true, OpCode::Close, b"\x03\xe8"),
    ];
    let (seen, end) = run(&frames, &LIMITS);
    let expected = [
        r#"Text("one")"#,
        "Ping([63])",
        r#"Text("zürich")"#,
        "Binary([])",
        r#"Close(Some(CloseFrame { code: 1000, reason: "" }))"#,
    ];
    assert_eq!(
        (seen.iter().map(String::as_str).collect(), end),
        (expected.to_vec(), Ok(()))
    );
}

#[test]
fn violations_name_the_rule_and_its_close_code() {
    use OpCode::{Binary, Close, Continuation, Text};
    let long = [b'x'; 1001];
    let half = [b'x'; 501];
    let cases: [(&[Frame<'_>], Violation, u16); 11] = [
        (
            &[(true, Continuation, b"")],
            Violation::UnexpectedContinuation,
            1002,
        ),
        (
            &[
                (false, Text, b"a"),
                (true, Continuation, b"b"),
                (true, Continuation, b"c"),
            ],
            Violation::UnexpectedContinuation,
            1002,
        ),
        (
            &[(false, Text, b"a"), (true, Text, b"b")],
            Violation::InterruptedMessage,
            1002,
        ),
        (
            &[(false, Binary, b"a"), (false, Binary, b"b")],
            Violation::InterruptedMessage,
            1002,
        ),
        (&[(true, Text, b"\xff")], Violation::InvalidUtf8, 1007),
        (
            &[(true, Text, b"\xed\xa0\x80")],
            Violation::InvalidUtf8,
            1007,
        ),
        (
            &[(false, Text, b"\xce"), (true, Continuation, b"")],
            Violation::InvalidUtf8,
            1007,
        ),
        (&[(true, Binary, &long)], Violation::MessageTooBig, 1009),
        (
            &[(false, Binary, &half), (true, Continuation, &half)],
            Violation::MessageTooBig,
            1009,
        ),
        (&[(true, Close, b"\x03")], Violation::BadClose, 1002),
        (
            &[(true, Close, b"\x03\xe8\xff")],
            Violation::InvalidUtf8,
            1007,
        ),
    ];
    for (frames, violation, code) in cases {
        assert_eq!(run(frames, &LIMITS).1, Err(violation), "{frames:?}");
        assert_eq!(violation.close_code(), code, "{frames:?}");
    }
}

#[test]
fn broken_text_is_refused_at_the_first_fragment_that_shows_it() {
    let mut assembler = Assembler::default();
    let mut good = bytes(&[(false, OpCode::Text, "aé€".as_bytes().split_at(5).0)]);
    assert!(matches!(
        assembler.step(&mut good, &LIMITS),
        Ok(Step::Fragment { .. })
    ));
    // The open character wants 0xac next.
    let mut bad = bytes(&[(false, OpCode::Continuation, b"\x41")]);
    assert_eq!(
        assembler.step(&mut bad, &LIMITS),
        Err(Violation::InvalidUtf8)
    );
}

#[test]
fn endless_fragments_end_at_the_limit() {
    let mut frames: Vec<Frame<'_>> = vec![(false, OpCode::Binary, b"")];
    frames.extend([(false, OpCode::Continuation, b"".as_slice()); 20]);
    assert_eq!(run(&frames, &LIMITS).1, Err(Violation::TooManyFragments));
    assert_eq!(Violation::TooManyFragments.close_code(), 1008);
    frames.truncate(9);
    assert_eq!(run(&frames, &LIMITS).1, Err(Violation::TooManyFragments));
    frames.truncate(8);
    assert_eq!(run(&frames, &LIMITS).1, Ok(()));
}

#[test]
fn size_is_judged_by_the_header_and_memory_follows_bytes_received() {
    let mut assembler = Assembler::default();
    let mut huge = vec![0x82, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    assert_eq!(
        assembler.step(&mut huge, &LIMITS),
        Err(Violation::MessageTooBig)
    );

    let mut declared = bytes(&[(true, OpCode::Binary, &[1; 1000])]);
    let wanted = declared.len();
    declared.truncate(20);
    assert_eq!(
        assembler.step(&mut declared, &LIMITS),
        Ok(Step::NeedMore { wanted })
    );
    assert_eq!(assembler.heap_bytes(), 0);

    let mut fragment = bytes(&[(false, OpCode::Binary, &[1; 100])]);
    assert!(assembler.step(&mut fragment, &LIMITS).is_ok());
    assert!(assembler.is_mid_message());
    assert!(
        (100..400).contains(&assembler.heap_bytes()),
        "{}",
        assembler.heap_bytes()
    );
}

#[test]
fn a_finished_message_is_freed_by_the_next_step() {
    let mut assembler = Assembler::default();
    let mut first = bytes(&[(false, OpCode::Text, b"a")]);
    let mut last = bytes(&[(true, OpCode::Continuation, b"b")]);
    assert!(assembler.step(&mut first, &LIMITS).is_ok());
    assert!(assembler.step(&mut last, &LIMITS).is_ok());
    assert!(!assembler.is_mid_message());
    assert!(assembler.heap_bytes() > 0);
    assert_eq!(
        assembler.step(&mut [], &LIMITS),
        Ok(Step::NeedMore { wanted: 0 })
    );
    assert_eq!(assembler.heap_bytes(), 0);
}

#[test]
fn each_side_insists_on_the_other_ones_masking() {
    let mut unmasked = Vec::new();
    write_frame(&mut unmasked, OpCode::Text, b"hi");
    assert_eq!(
        run_bytes(&mut unmasked.clone(), &LIMITS).1,
        Err(Violation::Mask)
    );
    let client = Limits {
        masked: false,
        ..LIMITS
    };
    assert_eq!(
        run_bytes(&mut unmasked, &client),
        (vec![r#"Text("hi")"#.to_owned()], Ok(()))
    );
    assert_eq!(
        run(&[(true, OpCode::Text, b"hi")], &client).1,
        Err(Violation::Mask)
    );
}

#[test]
fn compressed_messages_need_deflate_and_are_handed_out_unchecked() {
    let mut frame = bytes(&[(true, OpCode::Text, b"\xff\xfe")]);
    frame[0] |= 0x40;
    let refused = Violation::Frame(FrameError::ReservedBits);
    assert_eq!(
        Assembler::default().step(&mut frame.clone(), &LIMITS),
        Err(refused)
    );
    let deflate = Limits {
        deflate: true,
        ..LIMITS
    };
    let message = Message::Binary(&[0xff, 0xfe]);
    assert_eq!(
        Assembler::default().step(&mut frame, &deflate),
        Ok(Step::Message {
            consumed: 8,
            compressed: true,
            text: true,
            message
        })
    );
}

#[test]
fn long_text_takes_the_vector_check_to_the_same_end() {
    let mut text = "ü".repeat(400).into_bytes();
    let limits = Limits {
        message_bytes_max: 2000,
        ..LIMITS
    };
    assert_eq!(run(&[(true, OpCode::Text, &text)], &limits).1, Ok(()));
    let cut: [Frame<'_>; 2] = [
        (false, OpCode::Text, &text[..301]),
        (true, OpCode::Continuation, &text[301..]),
    ];
    assert_eq!(run(&cut, &limits).1, Ok(()));
    text[700] = b'x';
    assert_eq!(
        run(&[(true, OpCode::Text, &text)], &limits).1,
        Err(Violation::InvalidUtf8)
    );
}
