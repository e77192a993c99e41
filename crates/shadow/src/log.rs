//! Lines for the operator. A terminal that stands still must not hold up clients: lines that it does not take are left out.

use std::io::{self, Write};
use std::sync::LazyLock;
use std::sync::mpsc::{SyncSender, sync_channel};

const LINES_MAX: usize = 256;

static LINES: LazyLock<Option<SyncSender<String>>> = LazyLock::new(|| {
    let (lines, said) = sync_channel::<String>(LINES_MAX);
    let thread = std::thread::Builder::new().name("log".to_owned());
    let begun = thread.spawn(move || {
        for line in said {
            // Nobody may read it.
            let _ = writeln!(io::stderr(), "{line}");
        }
    });
    begun.ok().map(|_| lines)
});

pub fn say(line: String) {
    if let Some(lines) = &*LINES {
        let _ = lines.try_send(line);
    }
}
