//! The program of this process, as a file.

use std::io;
use std::path::PathBuf;

/// As it is on the disk now; where it was replaced, the system remembers the old one as deleted.
pub fn own() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let text = own.to_string_lossy();
    Ok(match text.strip_suffix(" (deleted)") {
        Some(path) => PathBuf::from(path),
        None => own,
    })
}
