//! Recordings by hand, and what they make of parts and steps.

use super::*;
use std::io::Write;

fn script(lines: &[String]) -> Script {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let head = "{\"sockeye_recording\":1}\n".to_owned();
    let end = format!("{{\"kind\":\"end\",\"lines\":{}}}\n", lines.len());
    let text = [head, lines.concat(), end].concat();
    file.write_all(text.as_bytes()).expect("written");
    let recording = Recording::read(file.path(), false).expect("a recording");
    Script::of(&recording).expect("a play")
}

fn line(at_ms: u64, socket: &str, what: &str, more: &str) -> String {
    format!(
        "{{\"kind\":\"line\",\"at_ms\":{at_ms},\"direction\":\"in\",\"what\":\"{what}\",\"session\":\"s\",\"socket\":\"{socket}\"{more}}}\n"
    )
}

/// Its line names the first of them.
#[test]
fn all_sockets_of_a_session_leave_with_it() {
    let script = script(&[
        line(1, "one", "connect", ""),
        line(2, "two", "connect", ""),
        line(3, "three", "connect", "").replace("\"s\"", "\"other\""),
        line(4, "one", "end", ""),
    ]);
    let leaves = |part: &Part| {
        let steps = part.steps.iter();
        steps
            .filter(|step| matches!(step.deed, Deed::Leave))
            .count()
    };
    let leaves: Vec<usize> = script.parts.iter().map(leaves).collect();
    assert_eq!(leaves, [1, 1, 0]);
}

#[test]
fn sizes_that_no_number_holds_are_borne() {
    let max = usize::MAX;
    let script = script(&[line(
        1,
        "one",
        "event",
        &format!(
            ",\"event\":\"e\",\"bytes\":{max},\"args\":\"string({max}), string({max})\",\"attachments\":[{max},{max}]"
        ),
    )]);
    let step = &script.parts[0].steps[0];
    assert!(step.is_large());
    let Deed::Say { args, .. } = &step.deed else {
        panic!("{:?}", step.deed);
    };
    assert!(args.text(2).len() < 2 << 20);
    let mut line = Line::default();
    (line.attachments, line.bytes) = (vec![max, max], max);
    assert!(!is_whole(&line, ""));
}
