//! Files that a configuration names, and the configuration itself. They are read by this door: one that has no end, as a device may have
//! none, takes neither the memory nor the time of the process.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// No configuration is this large: one with 100,000 namespaces has a sixth of it.
pub const CONFIGURATION_BYTES_MAX: usize = 32 << 20;
/// Nor is a certificate, a list of authorities, or a file with credentials.
pub const BYTES_MAX: usize = 4 << 20;

/// The content of a file, which may have so many bytes.
///
/// # Errors
/// It cannot be read, or has more.
pub fn bytes(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A device does not tell its length.
    let mut file = File::open(path)?.take(bytes_max as u64 + 1);
    file.read_to_end(&mut bytes)?;
    match bytes.len() > bytes_max {
        true => Err(io::Error::other(format!(
            "it has more than the {bytes_max} bytes that are allowed"
        ))),
        false => Ok(bytes),
    }
}

/// The same as text.
///
/// # Errors
/// It cannot be read, has more, or is no text.
pub fn text(path: &Path, bytes_max: usize) -> io::Result<String> {
    let text = String::from_utf8(bytes(path, bytes_max)?);
    text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_was_read_for_ever() {
        let endless = Path::new("/dev/zero");
        let why = text(endless, 1_000).expect_err("it has no end").to_string();
        assert_eq!(why, "it has more than the 1000 bytes that are allowed");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "four").expect("written");
        assert_eq!(text(&path, 4).expect("its text"), "four");
        assert_eq!(
            bytes(&path, 3).expect_err("too much").kind(),
            ErrorKind::Other
        );
        std::fs::write(&path, b"\xff").expect("written");
        assert_eq!(
            text(&path, 4).expect_err("no text").to_string(),
            "it is no UTF-8"
        );
        assert_eq!(bytes(&path, 4).expect("its bytes"), b"\xff");
        let gone = bytes(&folder.path().join("gone"), 4).expect_err("none");
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }
}
