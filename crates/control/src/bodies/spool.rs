//! A folder of bodies on this machine, and how many bytes it holds.

use super::fault::Fault;
use super::key::{Key, folder_of};
use axum::body::Bytes;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::Semaphore;

/// The folder.
#[derive(Debug)]
pub(crate) struct Spool {
    root: PathBuf,
    objects: Arc<LocalFileSystem>,
    usage: Arc<Usage>,
    writers: Arc<Semaphore>,
}

/// Events that are written at once. A disk that hangs keeps the bodies of these, and of no more: the others give up while they wait.
const WRITERS_MAX: usize = 4;

#[derive(Debug)]
struct Usage {
    bytes: AtomicU64,
    bytes_max: u64,
}

/// Bytes of the folder that somebody will write. Dropped, they are free again.
pub(crate) struct Share {
    usage: Arc<Usage>,
    bytes: u64,
}

impl Usage {
    fn take(&self, bytes: u64) -> Result<(), Fault> {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        let taken = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(drop).map_err(|_| Fault::Full)
    }

    fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

impl Share {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), Fault> {
        self.usage.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// They are written, and stay.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.usage.give_back(self.bytes);
    }
}

impl Spool {
    pub(crate) fn open(folder: &Path, bytes_max: u64, keep: Duration) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("cannot use the folder {}: {error}", folder.display())
        };
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        // Bodies are for those who have their addresses, and not for other users of the machine.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let private = fs::Permissions::from_mode(0o700);
            fs::set_permissions(folder, private).map_err(|error| failed(&error))?;
        }
        let root = folder.canonicalize().map_err(|error| failed(&error))?;
        let objects = LocalFileSystem::new_with_prefix(&root).map_err(|error| failed(&error))?;
        let usage = Usage {
            bytes: AtomicU64::new(0),
            bytes_max,
        };
        let spool = Self {
            root,
            objects: Arc::new(objects),
            usage: Arc::new(usage),
            writers: Arc::new(Semaphore::new(WRITERS_MAX)),
        };
        let swept = sweep(&spool.root, keep).map_err(|error| failed(&error))?;
        let used = swept.bytes;
        spool.usage.bytes.store(used, Ordering::Relaxed);
        Ok(spool)
    }

    pub(crate) fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.objects) as Arc<dyn ObjectStore>
    }

    pub(crate) fn as_store(&self) -> &LocalFileSystem {
        &self.objects
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.usage.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn reserve(&self, bytes: u64) -> Result<Share, Fault> {
        let mut share = Share {
            usage: Arc::clone(&self.usage),
            bytes: 0,
        };
        share.grow(bytes)?;
        Ok(share)
    }

    /// Keeps a body that is there as a whole.
    pub(crate) async fn put(&self, key: &Key, body: Bytes) -> Result<(), Fault> {
        let closed = |_| Fault::Away("the store is closed".to_owned());
        let turn = Arc::clone(&self.writers).acquire_owned().await;
        let turn = turn.map_err(closed)?;
        let share = self.reserve(body.len() as u64)?;
        let path = self.root.join(key.path());
        // Whoever waits may give up; the thread goes on, and gives turn and share back only when it is done.
        let write = move || -> std::io::Result<()> {
            let _turn = turn;
            write_whole(&path, &body)?;
            share.keep();
            Ok(())
        };
        Ok(in_background(write).await??)
    }

    /// So many bytes were removed.
    pub(crate) fn forget(&self, bytes: u64) {
        self.usage.give_back(bytes);
    }

    /// A part of a body that is there.
    pub(crate) async fn read(&self, key: &Key, range: Range<u64>) -> Result<Bytes, Fault> {
        let path = self.root.join(key.path());
        let read = move || -> std::io::Result<Vec<u8>> {
            let mut file = fs::File::open(path)?;
            file.seek(SeekFrom::Start(range.start))?;
            let len = range.end - range.start;
            let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
            file.take(len).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        Ok(in_background(read).await??.into())
    }

    /// Removes what is old; says how many bodies that were.
    pub(crate) async fn sweep(&self, keep: Duration) -> Result<u64, Fault> {
        let root = self.root.clone();
        let before = self.bytes();
        let swept = in_background(move || sweep(&root, keep)).await??;
        // Bodies written or removed meanwhile are counted already.
        match swept.bytes {
            counted if counted >= before => drop(self.usage.take(counted - before)),
            counted => self.usage.give_back(before - counted),
        }
        Ok(swept.removed)
    }
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Fault::Away(error.to_string()))
}

/// Under its name only when it is whole.
fn write_whole(path: &Path, body: &[u8]) -> std::io::Result<()> {
    let mut half = path.as_os_str().to_owned();
    half.push("#1");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let written = fs::write(&half, body).and_then(|()| fs::rename(&half, path));
    if written.is_err() {
        // One that cannot be removed now goes when it is old.
        let _ = fs::remove_file(&half);
    }
    written
}

#[derive(Default)]
struct Swept {
    bytes: u64,
    removed: u64,
}

/// Looks at all bodies, and at what was never whole because a process ended: what is old goes.
fn sweep(root: &Path, keep: Duration) -> std::io::Result<Swept> {
    let mut swept = Swept::default();
    let now = SystemTime::now();
    for folder in fs::read_dir(root)?.filter_map(Result::ok) {
        let name = folder.file_name();
        let Some(name) = name
            .to_str()
            .filter(|name| name.len() == folder_of("").len())
        else {
            continue;
        };
        // One that was removed meanwhile has nothing.
        let Ok(files) = fs::read_dir(folder.path()) else {
            continue;
        };
        for file in files.filter_map(Result::ok) {
            let id = file.file_name();
            let id = id.to_str().unwrap_or_default();
            // A body on its way has `#` and a number behind its name.
            let id = id.split_once('#').map_or(id, |(id, _)| id);
            let Some(about) = file.metadata().ok().filter(|about| about.is_file()) else {
                continue;
            };
            if Key::of_path(&format!("{name}/{id}")).is_none() {
                // It is not ours.
                continue;
            }
            let age = about
                .modified()
                .map(|at| now.duration_since(at).unwrap_or_default());
            let age = age.unwrap_or_default();
            if age > keep && fs::remove_file(file.path()).is_ok() {
                swept.removed += 1;
            } else {
                swept.bytes += about.len();
            }
        }
    }
    Ok(swept)
}

#[cfg(test)]
mod tests {
    use super::super::key::Form;
    use super::*;

    fn key() -> Key {
        Key::make("/chat", Form::Upload).expect("randomness")
    }

    #[test]
    fn what_is_old_goes_also_if_it_was_never_whole_and_what_is_not_ours_stays() {
        let root = tempfile::tempdir().expect("a folder");
        let (whole, half) = (key(), key());
        let whole = root.path().join(whole.path());
        fs::create_dir_all(whole.parent().expect("a folder")).expect("made");
        fs::write(&whole, b"12345").expect("written");
        let half = root.path().join(format!("{}#7", half.path()));
        fs::write(&half, b"123").expect("written");
        let foreign = whole.with_file_name("notes.txt");
        fs::write(&foreign, b"mine").expect("written");
        fs::write(root.path().join("README"), b"mine").expect("written");
        let hour = Duration::from_secs(3600);
        let spool = Spool::open(root.path(), 10, hour).expect("opened");
        assert_eq!(spool.bytes(), 8);
        assert!(whole.exists() && half.exists());
        // Both are a moment old.
        while whole.exists() || half.exists() {
            sweep(&spool.root, Duration::ZERO).expect("swept");
        }
        assert!(foreign.exists() && root.path().join("README").exists());
    }

    /// A disk that hangs holds its writers. What waits behind them gives up, and keeps neither memory nor room.
    #[tokio::test]
    async fn what_waits_for_a_disk_that_hangs_can_give_up() {
        let root = tempfile::tempdir().expect("a folder");
        let spool = Spool::open(root.path(), 10, Duration::from_secs(60)).expect("opened");
        let all = u32::try_from(WRITERS_MAX).expect("a number");
        let hang = spool.writers.acquire_many(all).await.expect("all of them");
        let (late, body) = (key(), Bytes::from(b"1234567890".to_vec()));
        let waiting = spool.put(&late, body.clone());
        let waiting = tokio::time::timeout(Duration::from_millis(20), waiting);
        assert!(waiting.await.is_err());
        assert!(body.is_unique(), "nobody else keeps it");
        assert_eq!(spool.bytes(), 0);
        drop(hang);
        spool.put(&late, body.clone()).await.expect("written");
        assert_eq!(
            fs::read(root.path().join(late.path())).expect("there"),
            body
        );
        assert_eq!(spool.put(&key(), body).await, Err(Fault::Full));
    }

    #[test]
    fn a_body_that_cannot_be_written_whole_leaves_nothing() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join(key().path());
        fs::create_dir_all(path.join("in the way")).expect("a folder of that name");
        assert!(write_whole(&path, b"12345").is_err());
        let folder = fs::read_dir(path.parent().expect("a folder")).expect("read");
        assert_eq!(folder.count(), 1, "what was in the way");
    }

    #[test]
    fn a_share_is_given_back_unless_it_is_kept() {
        let root = tempfile::tempdir().expect("a folder");
        let spool = Spool::open(root.path(), 10, Duration::from_secs(60)).expect("opened");
        let mut share = spool.reserve(4).expect("room");
        assert_eq!(share.grow(7), Err(Fault::Full));
        share.grow(6).expect("room");
        assert_eq!(spool.reserve(1).err(), Some(Fault::Full));
        drop(share);
        spool.reserve(10).expect("room").keep();
        assert_eq!(spool.bytes(), 10);
        spool.forget(3);
        assert_eq!(spool.reserve(4).err(), Some(Fault::Full));
        assert!(spool.reserve(3).is_ok());
    }
}
