//! The store of bodies: a folder, or a bucket that speaks S3. What is written there appears whole or not at all.

use super::fault::Fault;
use super::key::{Key, unix_seconds};
use super::spool::Spool;
use crate::bodies::bucket::{self, Bucket};
use axum::body::Bytes;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tonic::codegen::tokio_stream::StreamExt;

/// S3 takes no smaller parts, but for the last.
const PART_BYTES: u64 = 8 << 20;
/// Parts on their way to a bucket, of all uploads: they are what a bucket costs in memory.
const PARTS_MAX: usize = 2;

/// The store of bodies.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Bodies, or, with a bucket, uploads on their way there.
    pub folder: PathBuf,
    /// Bytes that the folder may hold.
    pub folder_bytes_max: u64,
    pub bucket: Option<Bucket>,
}

/// A store that is open.
#[derive(Debug)]
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    /// The folder: it is `objects` itself, if there is no bucket.
    spool: Spool,
    has_bucket: bool,
    parts: Semaphore,
    timeout: Duration,
    keep: Duration,
}

impl Store {
    /// `timeout`: for each request. `keep`: older bodies are removed.
    pub(crate) fn open(place: &Place, timeout: Duration, keep: Duration) -> Result<Self, String> {
        let spool = Spool::open(&place.folder, place.folder_bytes_max, keep)?;
        let objects = match &place.bucket {
            None => spool.objects(),
            Some(bucket) => bucket::open(bucket, timeout)?,
        };
        Ok(Self {
            objects,
            spool,
            has_bucket: place.bucket.is_some(),
            parts: Semaphore::new(PARTS_MAX),
            timeout,
            keep,
        })
    }

    /// Bytes in the folder, as far as is known.
    pub(crate) fn folder_bytes(&self) -> u64 {
        self.spool.bytes()
    }

    async fn within<T>(
        &self,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Fault> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(Fault::Slow),
        }
    }

    /// Keeps the body of an event.
    pub(crate) async fn put(&self, key: &Key, body: Bytes) -> Result<(), Fault> {
        if !self.has_bucket {
            let put = tokio::time::timeout(self.timeout, self.spool.put(key, body));
            return put.await.unwrap_or(Err(Fault::Slow));
        }
        let (path, payload) = (path_of(key), PutPayload::from(body));
        self.within(self.objects.put(&path, payload))
            .await
            .map(drop)
    }

    /// Begins to keep what comes in pieces.
    pub(crate) async fn begin(&self, key: &Key) -> Result<Incoming, Fault> {
        let path = path_of(key);
        let upload = self.within(self.spool.as_store().put_multipart(&path));
        Ok(Incoming {
            key: key.clone(),
            upload: upload.await?,
            share: self.spool.reserve(0)?,
        })
    }

    /// A piece of what comes. The next one waits until this one is written.
    pub(crate) async fn write(&self, incoming: &mut Incoming, piece: Bytes) -> Result<(), Fault> {
        incoming.share.grow(piece.len() as u64)?;
        self.within(incoming.upload.put_part(piece.into())).await
    }

    /// All has come. Only now is there anything under that name.
    pub(crate) async fn finish(&self, mut incoming: Incoming) -> Result<u64, Fault> {
        self.within(incoming.upload.complete()).await?;
        let size = incoming.share.bytes();
        if !self.has_bucket {
            incoming.share.keep();
            return Ok(size);
        }
        let carried = self.carry(&incoming.key, size).await;
        // Its remains go when they are old.
        let path = path_of(&incoming.key);
        let _ = self.within(self.spool.as_store().delete(&path)).await;
        carried.map(|()| size)
    }

    /// From the folder to the bucket, one part after the other.
    async fn carry(&self, key: &Key, size: u64) -> Result<(), Fault> {
        let path = path_of(key);
        if size <= PART_BYTES {
            let _place = self.parts.acquire().await;
            let body = self.spool.read(key, 0..size).await?;
            let put = self.objects.put(&path, body.into());
            return self.within(put).await.map(drop);
        }
        let mut upload = self.within(self.objects.put_multipart(&path)).await?;
        let carried = self.carry_parts(&mut *upload, key, size).await;
        if carried.is_err() {
            // A bucket that is away keeps the parts until its own rules remove them.
            let _ = self.within(upload.abort()).await;
        }
        carried
    }

    async fn carry_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        key: &Key,
        size: u64,
    ) -> Result<(), Fault> {
        let mut at = 0;
        while at < size {
            let end = size.min(at + PART_BYTES);
            let _place = self.parts.acquire().await;
            let body = self.spool.read(key, at..end).await?;
            self.within(upload.put_part(body.into())).await?;
            at = end;
        }
        self.within(upload.complete()).await.map(drop)
    }

    pub(crate) async fn size(&self, key: &Key) -> Result<u64, Fault> {
        let about = self.within(self.objects.head(&path_of(key))).await?;
        Ok(about.size)
    }

    /// A body, or a part of it.
    pub(crate) async fn get(
        &self,
        key: &Key,
        range: Option<std::ops::Range<u64>>,
    ) -> Result<GetResult, Fault> {
        let options = GetOptions {
            range: range.map(GetRange::Bounded),
            ..GetOptions::default()
        };
        let path = path_of(key);
        self.within(self.objects.get_opts(&path, options)).await
    }

    pub(crate) async fn delete(&self, key: &Key) -> Result<(), Fault> {
        let size = self.size(key).await?;
        self.within(self.objects.delete(&path_of(key))).await?;
        if !self.has_bucket {
            self.spool.forget(size);
        }
        Ok(())
    }

    /// Removes what is old; says how many bodies that were.
    pub(crate) async fn sweep(&self) -> Result<u64, Fault> {
        let mut removed = self.spool.sweep(self.keep).await?;
        if !self.has_bucket {
            return Ok(removed);
        }
        let mut all = self.objects.list(None);
        let oldest = unix_seconds().saturating_sub(self.keep.as_secs());
        while let Some(found) = self.next(&mut all).await? {
            let key = Key::of_path(found.as_ref());
            if key.is_some_and(|key| key.made_seconds() < oldest) {
                self.within(self.objects.delete(&found)).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    async fn next(
        &self,
        all: &mut (impl StreamExt<Item = object_store::Result<object_store::ObjectMeta>> + Unpin),
    ) -> Result<Option<Path>, Fault> {
        let next = async { all.next().await.transpose() };
        let found = self.within(next).await?;
        Ok(found.map(|found| found.location))
    }
}

/// A body that comes in pieces. Dropped, it leaves nothing.
pub(crate) struct Incoming {
    key: Key,
    upload: Box<dyn MultipartUpload>,
    share: super::spool::Share,
}

impl Incoming {
    pub(crate) fn bytes(&self) -> u64 {
        self.share.bytes()
    }
}

fn path_of(key: &Key) -> Path {
    Path::from(key.path())
}
