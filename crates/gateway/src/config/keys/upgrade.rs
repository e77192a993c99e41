//! The keys of `[upgrade]`.

use crate::config::typed::section;

section! {
    /// The way from one process to the next.
    Upgrade = "upgrade." {
        socket: Option<String> = "",
            "Path of the Unix socket at which `sockeye upgrade` finds the process, such as `/run/sockeye/upgrade.sock`. Its file has \
             the mode 0600, and its path 103 bytes at most. Unset: a process hands nothing over.";
    }
}
