//! The processes of this one's family, as `/proc` shows them.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The flag by which a successor knows what it is.
const TAKE_OVER: &[u8] = b"--take-over";

/// What one look at a process's children shows.
#[derive(Default)]
pub struct Family {
    /// A living child that was started to take over. One whose parent has ended is a child of the supervisor.
    pub heir: Option<u32>,
    /// A child ends in this moment. Until its last thread has ended, it cannot be waited for, and its own children stay its children.
    pub is_one_ending: bool,
}

impl Family {
    /// All in one look: a child that ends between two looks would be in neither, and its heir as well.
    pub fn of(parent: u32) -> Self {
        let mut family = Self::default();
        for (pid, words) in children(parent) {
            family.is_one_ending |= words.is_empty() && has_no_program(pid);
            if takes_over(&words) {
                family.heir = family.heir.or(Some(pid));
            }
        }
        family
    }
}

/// Children, with the words that started them. One that ends has none.
fn children(parent: u32) -> impl Iterator<Item = (u32, Vec<u8>)> {
    let all = fs::read_dir("/proc").into_iter().flatten();
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(move |pid: u32| {
        let folder = Path::new("/proc").join(pid.to_string());
        let words = fs::read(folder.join("cmdline")).unwrap_or_default();
        (parent_of(&folder) == Some(parent)).then_some((pid, words))
    })
}

fn parent_of(folder: &Path) -> Option<u32> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The name in parentheses may hold blanks. The state comes next, and is not asked: one whose first thread is a zombie may have others.
    let rest = stat.rsplit(')').next()?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// A process without memory has none. A living one that has overwritten its words has.
fn has_no_program(pid: u32) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    program.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

fn takes_over(words: &[u8]) -> bool {
    words.split(|byte| *byte == 0).any(|word| word == TAKE_OVER)
}
