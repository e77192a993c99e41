//! Each call of a handler is marked: a panic under it is the hub's.

use std::fs;
use std::path::Path;

/// Blocks with lifetimes of their own make views and choose among sockets: nothing in them can fail.
fn is_view(line: &str) -> bool {
    let views = ["Context", "Member", "Group", "Here", "Servers"];
    let view = line
        .strip_prefix("impl ")
        .and_then(|line| line.split_once("<'_"));
    view.is_some_and(|(name, _)| views.contains(&name))
}

/// Calls of views in one file.
fn calls(source: &str) -> usize {
    let (mut calls, mut ours) = (0, false);
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        ours = ours && line != "}" || is_view(line);
        if ours && line.starts_with("    pub fn ") {
            calls += 1;
            let head = std::iter::once(line).chain(&mut lines);
            let rest = head.take_while(|line| !line.ends_with('{')).count();
            let first = lines.next().unwrap_or_default();
            let marked = first.contains("Inside::enter()");
            assert!(marked, "{line} ({rest} more lines): {first}");
        }
    }
    calls
}

fn calls_below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).expect("a folder of sources");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let calls = paths.map(|path| match path.is_dir() {
        true => calls_below(&path),
        false => calls(&fs::read_to_string(&path).expect("text")),
    });
    calls.sum()
}

/// A method that forgets the mark would have its panics booked as the handler's.
#[test]
fn every_call_of_a_handler_is_marked() {
    let calls = calls_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(calls >= 40, "{calls} calls");
}
