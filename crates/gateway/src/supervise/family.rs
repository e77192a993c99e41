//! The processes of this one's family, as `/proc` shows them.

use std::fs;
use std::path::Path;

/// The flag by which a successor knows what it is.
const TAKE_OVER: &[u8] = b"--take-over";

/// What one look at a process's children shows.
#[derive(Default)]
pub struct Family {
    /// A living child that was started to take over. One whose parent has ended is a child of the supervisor.
    pub heir: Option<u32>,
    /// A child ends in this moment: it has lost its words, and cannot be waited for yet. Its own children come next.
    pub is_one_ending: bool,
}

impl Family {
    /// All in one look: a child that ends between two looks would be in neither, and its heir as well.
    pub fn of(parent: u32) -> Self {
        let mut family = Self::default();
        for (pid, words) in children(parent) {
            family.is_one_ending |= words.is_empty();
            if takes_over(&words) {
                family.heir = family.heir.or(Some(pid));
            }
        }
        family
    }
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
