//! The processes of this one's family, as `/proc` shows them.

use std::fs;
use std::path::Path;

/// The flag by which a successor knows what it is.
const TAKE_OVER: &[u8] = b"--take-over";

/// A living child that was started to take over. One whose parent has ended is a child of the supervisor.
pub fn heir(parent: u32) -> Option<u32> {
    let mut heirs = children(parent).filter(|(_, words)| takes_over(words));
    heirs.next().map(|(pid, _)| pid)
}

/// Whether a child was killed in this moment: it has lost its words, and cannot be waited for yet.
pub fn is_one_ending(parent: u32) -> bool {
    children(parent).any(|(_, words)| words.is_empty())
}

/// Living children, with the words that started them.
fn children(parent: u32) -> impl Iterator<Item = (u32, Vec<u8>)> {
    let all = fs::read_dir("/proc").into_iter().flatten();
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(move |pid: u32| {
        let folder = Path::new("/proc").join(pid.to_string());
        let words = fs::read(folder.join("cmdline")).unwrap_or_default();
        is_child(&folder, parent).then_some((pid, words))
    })
}

/// A living one.
fn is_child(folder: &Path, parent: u32) -> bool {
    let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
    // The name in parentheses may hold blanks.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = rest.split_whitespace();
    let lives = fields
        .next()
        .is_some_and(|state| state != "Z" && state != "X");
    lives && fields.next().and_then(|ppid| ppid.parse().ok()) == Some(parent)
}

fn takes_over(words: &[u8]) -> bool {
    words.split(|byte| *byte == 0).any(|word| word == TAKE_OVER)
}
