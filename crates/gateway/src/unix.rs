//! Files of the Unix sockets listened on: made with their permissions before anybody can connect, taken over from a process
//! that died, never from one that lives, and removed at the end.

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Connections the kernel may hold for us before we accept (cut down to net.core.somaxconn).
const BACKLOG: i32 = 65_535;
/// Taking a place takes a moment: another process that has it locked for longer stands still, or locks the folder for a reason of its own.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Files that are ours; removed when this is dropped.
#[derive(Debug, Default)]
pub struct SocketFiles(Vec<SocketFile>);

#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Another process may have put its own socket there since.
    inode: (u64, u64),
    /// While this is open nothing else has the same inode. Only Linux can open a socket's file without connecting.
    _held: Option<OwnedFd>,
}

impl SocketFile {
    fn made(path: &Path) -> Result<SocketFile> {
        Ok(SocketFile {
            path: path.to_owned(),
            _held: hold(path)?,
            inode: inode(path)?,
        })
    }

    fn is_there_still(&self) -> bool {
        inode(&self.path).is_ok_and(|found| found == self.inode)
    }

    /// Unless another process has taken its place meanwhile.
    fn remove(&self) -> Result<()> {
        let _place = Place::lock(&self.path);
        match self.is_there_still() {
            true => Ok(fs::remove_file(&self.path)?),
            false => Ok(()),
        }
    }
}

impl SocketFiles {
    /// They end with these.
    pub fn join(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// They are another process's now.
    pub fn let_go(&mut self) {
        self.0.clear();
    }
}

/// The place of a socket, locked: one process at a time looks who is there and takes it. The lock is one of its folder (`flock`), so that nothing is
/// left behind by a process that is killed, and a full disk has room for it.
#[derive(Debug)]
struct Place {
    _lock: Option<File>,
}

impl Place {
    /// Without a lock it goes on: then two processes that start there in one moment may take the place from each other.
    fn lock(socket: &Path) -> Self {
        let folder = match socket.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let lock = lock(folder).inspect_err(|error| {
            tracing::warn!(folder = %folder.display(), %error, "cannot lock the folder of a socket: another gateway must not start there now");
        });
        Self { _lock: lock.ok() }
    }
}

fn lock(folder: &Path) -> std::io::Result<File> {
    let (file, began) = (File::open(folder)?, Instant::now());
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_TIMEOUT => {
                sleep(LOOK_INTERVAL);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Where a socket stands that is to take the place of this one.
pub fn name_beside(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(BESIDE);
    name.into()
}

fn inode(path: &Path) -> std::io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(target_os = "linux")]
fn hold(path: &Path) -> Result<Option<OwnedFd>> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Some(rustix::fs::open(path, flags, Mode::empty())?))
}

#[cfg(not(target_os = "linux"))]
fn hold(_path: &Path) -> Result<Option<OwnedFd>> {
    Ok(None)
}

/// Opens a listener on each path.
pub fn listen(paths: &[PathBuf], mode: u32) -> Result<(Vec<UnixListener>, SocketFiles)> {
    let (mut listeners, mut files) = (Vec::new(), SocketFiles::default());
    for path in paths {
        let opened = open(path, mode, &mut files);
        let place = || format!("cannot listen on unix:{}", path.display());
        listeners.push(opened.with_context(place)?);
    }
    Ok((listeners, files))
}

/// Goes on with listeners of another process, which has let their files go. A file that cannot be looked at is left where it is.
pub fn adopt(paths: &[PathBuf]) -> SocketFiles {
    let files = paths.iter().filter_map(|path| {
        let made = SocketFile::made(path);
        let tell = |error: &anyhow::Error| {
            tracing::error!(path = %path.display(), error = format!("{error:#}"), "cannot find the file of a socket that was taken over: its clients stay, newcomers may not find it");
        };
        made.inspect_err(tell).ok()
    });
    SocketFiles(files.collect())
}

/// What the name of a socket that is to take another's place has behind it.
pub const BESIDE: &str = ".new";

/// A listener that is to take the place of one that another process has.
#[derive(Debug)]
pub struct Beside {
    listeners: Vec<UnixListener>,
    files: SocketFiles,
    path: PathBuf,
}

/// Opens it under another name.
pub fn beside(path: &Path, mode: u32) -> Result<Beside> {
    let (listeners, files) = listen(&[name_beside(path)], mode)?;
    let path = path.to_owned();
    Ok(Beside {
        listeners,
        files,
        path,
    })
}

impl Beside {
    /// Takes the place: whoever connects finds the one or the other.
    pub fn replace(mut self) -> Result<(Vec<UnixListener>, SocketFiles)> {
        let _place = Place::lock(&self.path);
        for file in &mut self.files.0 {
            let renamed = fs::rename(&file.path, &self.path);
            let place = || {
                format!(
                    "cannot put a socket in the place of {}",
                    self.path.display()
                )
            };
            renamed.with_context(place)?;
            self.path.clone_into(&mut file.path);
        }
        Ok((self.listeners, self.files))
    }
}

fn open(path: &Path, mode: u32, files: &mut SocketFiles) -> Result<UnixListener> {
    // Until it listens: before that nobody can tell it from one that is left behind.
    let _place = Place::lock(path);
    clear(path)?;
    let address = SocketAddrUnix::new(path)?;
    let socket = socket()?;
    rustix::net::bind(&socket, &address)?;
    files.0.push(SocketFile::made(path)?);
    // Nobody gets in before this: a bound socket that does not listen refuses connections.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

fn socket() -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    // Nothing is started while listeners are opened, so that between these calls is no danger.
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Makes room for a new socket: removes one that nobody listens on.
fn clear(path: &Path) -> Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if !metadata.file_type().is_socket() {
        bail!("there is a file that is no socket: remove it, or name another path");
    }
    match rustix::net::connect(&socket()?, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        // With a full backlog it is `AGAIN`.
        Ok(()) | Err(Errno::AGAIN) => bail!(
            "another process listens there, or a gateway that still drains: `ss -lxp src {}` says which. Wait until it has ended, or name another \
             path",
            path.display()
        ),
        Err(error) => Err(error).context("cannot see whether another process listens there"),
    }
}

impl Drop for SocketFiles {
    fn drop(&mut self) {
        for file in self.0.iter().filter(|file| file.is_there_still()) {
            if let Err(error) = file.remove() {
                let error = format!("{error:#}");
                tracing::warn!(path = %file.path.display(), error, "cannot remove the socket");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::sync::Barrier;
    use std::thread;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    #[test]
    fn a_socket_has_its_mode_and_is_gone_with_its_owner() {
        let folder = folder();
        let path = folder.path().join("s.sock");
        let (listeners, files) = listen(std::slice::from_ref(&path), 0o620).expect("listen");
        let metadata = fs::metadata(&path).expect("a file");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o620);
        let _client = UnixStream::connect(&path).expect("connect");
        drop(listeners);
        drop(files);
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_living_one_is_not() {
        let folder = folder();
        let path = folder.path().join("s.sock");
        // A process that was killed leaves its file.
        drop(UnixListener::bind(&path).expect("bind"));
        let (listeners, files) =
            listen(std::slice::from_ref(&path), 0o660).expect("the dead one's place");
        let error = listen(std::slice::from_ref(&path), 0o660).expect_err("there is a living one");
        let text = format!("{error:#}");
        assert!(
            text.contains("s.sock: another process listens there"),
            "{text}"
        );
        assert!(path.exists(), "the failed attempt took the file away");
        drop((listeners, files));
    }

    /// Each saw that nobody listened, and one removed the socket at which the other listened already: that one was never found.
    #[test]
    fn processes_that_started_at_one_dead_socket_removed_each_others() {
        const STARTS: usize = 3;
        let folder = folder();
        let path = folder.path().join("s.sock");
        for round in 0..100 {
            drop(UnixListener::bind(&path).expect("bind"));
            let barrier = Barrier::new(STARTS);
            let start = || {
                barrier.wait();
                listen(std::slice::from_ref(&path), 0o660)
            };
            let starts = thread::scope(|scope| {
                let starts: Vec<_> = (0..STARTS).map(|_| scope.spawn(start)).collect();
                let ends = starts.into_iter().map(|start| start.join());
                ends.collect::<Result<Vec<_>, _>>().expect("no panic")
            });
            let (open, refused): (Vec<_>, Vec<_>) = starts.into_iter().partition(Result::is_ok);
            assert_eq!(open.len(), 1, "round {round}: {open:?}");
            for error in refused.into_iter().filter_map(Result::err) {
                let text = format!("{error:#}");
                assert!(text.contains("another process listens there"), "{text}");
            }
            UnixStream::connect(&path).expect("it is found");
            let files = fs::read_dir(folder.path()).expect("a folder");
            assert_eq!(files.count(), 1, "no lock is left");
            drop(open);
            assert!(!path.exists());
        }
    }

    /// A program beside has locked the folder for as long as it lives.
    #[test]
    fn a_folder_that_another_program_has_locked_is_used_all_the_same() {
        let folder = folder();
        let path = folder.path().join("s.sock");
        let other = lock(folder.path()).expect("a lock");
        let listening = listen(std::slice::from_ref(&path), 0o660).expect("listen");
        UnixStream::connect(&path).expect("it is found");
        drop(listening);
        drop(other);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    /// The lock was a file beside the socket once: a link in its place led elsewhere, and whatever had its name was removed.
    #[test]
    fn what_stands_beside_a_socket_stays() {
        let folder = folder();
        let path = folder.path().join("s.sock");
        let beside = folder.path().join("s.sock.lock");
        fs::write(&beside, "precious").expect("write");
        drop(listen(std::slice::from_ref(&path), 0o660).expect("listen"));
        assert_eq!(fs::read_to_string(&beside).expect("read"), "precious");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn what_is_no_socket_stays() {
        let folder = folder();
        let path = folder.path().join("notes.txt");
        fs::write(&path, "precious").expect("write");
        let error = listen(std::slice::from_ref(&path), 0o660).expect_err("a file is there");
        assert!(format!("{error:#}").contains("no socket"), "{error:#}");
        assert_eq!(fs::read_to_string(&path).expect("read"), "precious");
    }

    #[test]
    fn a_successors_socket_is_not_removed() {
        let folder = folder();
        let path = folder.path().join("s.sock");
        let (listeners, files) = listen(std::slice::from_ref(&path), 0o660).expect("listen");
        drop(listeners);
        let (successor, theirs) = listen(std::slice::from_ref(&path), 0o660).expect("take over");
        drop(files);
        assert!(UnixStream::connect(&path).is_ok());
        drop((successor, theirs));
        assert!(!path.exists());
    }
}
