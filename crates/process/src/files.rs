//! Files that a configuration names, and the configuration itself. They are read by this door: one that has no end, as a device may have
//! none, takes neither the memory nor the time of the process, and a pipe that nobody writes to does not hold it up.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::retry_on_intr;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// No configuration is this large: one with 100,000 namespaces has a sixth of it.
pub const CONFIGURATION_BYTES_MAX: usize = 32 << 20;
/// Nor is a certificate, a list of authorities, or a file with credentials.
pub const BYTES_MAX: usize = 4 << 20;
/// A pipe with a name gets a writer within this time. One of a shell, `<(…)`, has one from the start.
pub const WRITER_MAX: Duration = Duration::from_secs(2);
/// Its writer, or who sits at a terminal, is silent for no longer.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The content of a file, which may have so many bytes.
///
/// # Errors
/// It cannot be read, has more, or is a pipe that says nothing.
pub fn bytes(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    read(path, bytes_max, SILENCE_MAX)
}

fn read(path: &Path, bytes_max: usize, silence_max: Duration) -> io::Result<Vec<u8>> {
    // Otherwise a pipe is opened when it has a writer, however long that takes.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let is_pipe = file.metadata()?.file_type().is_fifo();
    let mut bytes = Vec::new();
    // A device does not tell its length.
    let mut content = (&file).take(bytes_max as u64 + 1);
    let mut has_writer = !is_pipe;
    loop {
        let silence_max = match content.read_to_end(&mut bytes) {
            Ok(_) if has_writer || !bytes.is_empty() => break,
            Ok(_) => WRITER_MAX.min(silence_max),
            Err(error) if error.kind() == ErrorKind::WouldBlock => silence_max,
            Err(error) => return Err(error),
        };
        has_writer = true;
        if !speaks(&file, silence_max)? {
            let text = format!("nobody has written to it for {} s", silence_max.as_secs());
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
    }
    match bytes.len() {
        // The command that was to write it has failed.
        0 if is_pipe => Err(io::Error::other("it is a pipe, and nothing came by it")),
        len if len > bytes_max => Err(io::Error::other(format!(
            "it has more than the {bytes_max} bytes that are allowed"
        ))),
        _ => Ok(bytes),
    }
}

/// `false`: there is neither content nor an end within this time.
fn speaks(file: &File, within: Duration) -> io::Result<bool> {
    let within = Timespec::try_from(within).map_err(io::Error::other)?;
    let mut files = [PollFd::new(file, PollFlags::IN)];
    let ready = retry_on_intr(|| poll(&mut files, Some(&within)))?;
    Ok(ready > 0)
}

/// The same of a file that is read again and again, as a pipe cannot be.
///
/// # Errors
/// It is another thing than a regular file, cannot be read, or has more.
pub fn lasting(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    match std::fs::metadata(path)?.is_file() {
        true => bytes(path, bytes_max),
        false => Err(io::Error::other("it is no regular file")),
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
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::path::PathBuf;
    use std::process::Command;
    use std::thread;

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
        let within = bytes(folder.path(), 4).expect_err("a folder");
        assert_eq!(within.kind(), ErrorKind::IsADirectory);
        let none = bytes(Path::new("/dev/null"), 4).expect("what is given for nothing");
        assert!(none.is_empty());
    }

    fn pipe_in(folder: &Path) -> PathBuf {
        let path = folder.join("pipe");
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("run mkfifo").success());
        path
    }

    /// The thread waited in the call that opens.
    #[test]
    fn a_pipe_that_nobody_writes_to_was_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = pipe_in(folder.path());
        let short = Duration::from_millis(100);
        let alone = read(&path, 4, short).expect_err("it has no writer");
        assert_eq!(alone.kind(), ErrorKind::TimedOut);
        let mut mute = OpenOptions::new();
        let mute = mute.read(true).write(true).open(&path).expect("opened");
        let silent = read(&path, 4, short).expect_err("nothing is said");
        assert_eq!(silent.kind(), ErrorKind::TimedOut);
        drop(mute);
        let passing = lasting(&path, 4).expect_err("it is read once");
        assert_eq!(passing.to_string(), "it is no regular file");
        std::fs::write(folder.path().join("file"), "four").expect("written");
        let lasts = lasting(&folder.path().join("file"), 4);
        assert_eq!(lasts.expect("its bytes"), b"four");
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = pipe_in(folder.path());
        let name = path.clone();
        // More than a pipe holds.
        let writer = thread::spawn(move || fs::write(name, [b'x'; 200_000]));
        assert_eq!(text(&path, 200_000).expect("its text").len(), 200_000);
        writer.join().expect("ended").expect("written");
        // The pipe of a shell has a name of this kind.
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"four").expect("written");
        drop(writer);
        let name = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(text(Path::new(&name), 4).expect("its text"), "four");
        // An empty configuration would be a valid one.
        let again = text(Path::new(&name), 4).expect_err("it is read once");
        assert_eq!(again.to_string(), "it is a pipe, and nothing came by it");
    }
}
