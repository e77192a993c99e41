//! Keys: streams of JetStream with one message for each, here called buckets. A value is written over a revision: whoever is slower notices. Their
//! subjects are those of nodes: a leaf node lets none of `$KV.>` through.

use super::keeper::Line;
use super::{Engine, Plan, Trouble};
use async_nats::jetstream::context::{CreateStreamErrorKind, PublishErrorKind, RequestErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DeleteMessageErrorKind, DiscardPolicy, Info, LastRawMessageErrorKind, StorageType,
    Stream,
};
use async_nats::jetstream::{Context, ErrorCode};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::time::Duration;

/// Values that are asked for at once.
const ASKED_AT_ONCE: usize = 32;
/// Copies of a bucket among several servers.
const COPIES: usize = 3;

/// A place for keys.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Letters, digits, `-` and `_`.
    pub name: String,
    /// A value ends so long after it was written.
    pub age: Option<Duration>,
    /// Of all values. What would not fit is refused.
    pub bytes_max: Option<u32>,
}

/// What stands under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Grows with each writing in the bucket; 0 stands for a key without a value.
    pub revision: u64,
}

pub(super) fn subject_of(root: &str, bucket: &str, key: &str) -> String {
    format!("{root}.key.{bucket}.{key}")
}

/// Nothing of it is written to a disk: a server that starts anew has forgotten everything, and nodes tell it again.
pub(super) fn config(root: &str, bucket: &Bucket, copies: usize) -> Config {
    Config {
        name: bucket.name.clone(),
        subjects: vec![subject_of(root, &bucket.name, ">")],
        max_messages_per_subject: 1,
        max_age: bucket.age.unwrap_or_default(),
        max_bytes: bucket.bytes_max.map_or(-1, i64::from),
        discard: DiscardPolicy::New,
        storage: StorageType::Memory,
        num_replicas: copies,
        description: Some("Sockeye: what its nodes know of each other".to_owned()),
        ..Config::default()
    }
}

/// The buckets stand.
pub(super) async fn ensure(line: &Line, plan: &Plan) -> Result<(), Trouble> {
    let is_cluster = line.client.server_info().cluster.is_some();
    for bucket in &plan.buckets {
        let copies = if is_cluster { COPIES } else { 1 };
        let mut made = line
            .streams
            .get_or_create_stream(config(&plan.root, bucket, copies))
            .await;
        let refused = |kind: CreateStreamErrorKind| {
            matches!(kind, CreateStreamErrorKind::JetStream(_)) && is_cluster
        };
        if made.as_ref().is_err_and(|why| refused(why.kind())) {
            // Two servers, or a cluster of which only some have JetStream.
            made = line
                .streams
                .get_or_create_stream(config(&plan.root, bucket, 1))
                .await;
        }
        let made = made.map_err(|why| {
            Trouble::new(format!(
                "cannot keep the numbers of nodes in the bucket {:?} of JetStream: {why}: nodes need a server with JetStream \
                 (`jetstream {{}}` in its configuration), or cluster.jetstream_domain behind a leaf node, and the right to \"$JS.API.>\"",
                bucket.name
            ))
        })?;
        copy(line, made.cached_info()).await;
    }
    Ok(())
}

/// A bucket may have been made when there was one server, or from a leaf node, which does not know how many there are.
async fn copy(line: &Line, bucket: &Info) {
    let has = bucket.config.num_replicas;
    // A server that is alone names itself, and no cluster.
    let cluster = bucket.cluster.as_ref();
    let name = cluster.and_then(|cluster| cluster.name.as_deref());
    if name.is_none_or(str::is_empty) || has >= COPIES {
        return;
    }
    let config = Config {
        num_replicas: COPIES,
        ..bucket.config.clone()
    };
    if let Err(error) = line.streams.update_stream(config).await {
        let bucket = &bucket.config.name;
        tracing::warn!(
            bucket, has, wanted = COPIES, %error,
            "a bucket of JetStream has too few copies: without their servers nodes know nothing of each other; `nats stream edit` changes it"
        );
    }
}

/// How an attempt ended.
enum Failure {
    /// The bucket is not there (any more).
    Missing,
    Other(String),
}

impl Failure {
    fn other(why: impl std::fmt::Display) -> Self {
        Self::Other(why.to_string())
    }
}

impl Engine {
    /// What stands under a key.
    ///
    /// # Errors
    /// JetStream did not answer.
    pub async fn read(&self, bucket: &str, key: &str) -> Result<Option<Value>, Trouble> {
        let subject = subject_of(&self.0.plan.root, bucket, key);
        self.attempt(bucket, |place| last(place, subject.clone()))
            .await
    }

    /// All keys of a bucket.
    ///
    /// # Errors
    /// JetStream did not answer.
    pub async fn read_all(&self, bucket: &str) -> Result<Vec<(String, Value)>, Trouble> {
        let all = subject_of(&self.0.plan.root, bucket, ">");
        self.attempt(bucket, |place| all_of(place, all.clone()))
            .await
    }

    /// Writes over a revision, or over whatever stands there; `false`: somebody was faster.
    ///
    /// # Errors
    /// JetStream did not answer: nobody knows whether it was written.
    pub async fn write(
        &self,
        bucket: &str,
        key: &str,
        bytes: &[u8],
        over: Option<u64>,
    ) -> Result<bool, Trouble> {
        let (subject, bytes) = (
            subject_of(&self.0.plan.root, bucket, key),
            Bytes::copy_from_slice(bytes),
        );
        self.attempt(bucket, |place| {
            put(place, subject.clone(), bytes.clone(), over)
        })
        .await
    }

    /// Takes a value away, if it is still of that revision.
    ///
    /// # Errors
    /// JetStream did not answer.
    pub async fn erase(&self, bucket: &str, revision: u64) -> Result<(), Trouble> {
        self.attempt(bucket, |place| strike(place, revision)).await
    }

    /// A bucket that is gone is made again.
    async fn attempt<T, F>(
        &self,
        bucket: &str,
        ask: impl Fn(Place) -> F + Send,
    ) -> Result<T, Trouble>
    where
        T: Send,
        F: Future<Output = Result<T, Failure>> + Send,
    {
        let line = self.line().await?;
        let cannot = |why: String| {
            Trouble::new(format!(
                "cannot use the bucket {bucket:?} of JetStream: {why}"
            ))
        };
        let stream = line.streams.get_stream_no_info(bucket).await;
        let stream = stream.map_err(|why| cannot(why.to_string()))?;
        let place = || Place {
            streams: line.streams.clone(),
            stream: stream.clone(),
        };
        match ask(place()).await {
            Ok(answer) => return Ok(answer),
            Err(Failure::Other(why)) => return Err(cannot(why)),
            Err(Failure::Missing) => ensure(&line, &self.0.plan).await?,
        }
        ask(place()).await.map_err(|failure| match failure {
            Failure::Other(why) => cannot(why),
            Failure::Missing => cannot("it is not there".to_owned()),
        })
    }
}

/// Where a bucket is.
struct Place {
    streams: Context,
    stream: Stream<()>,
}

async fn all_of(place: Place, all: String) -> Result<Vec<(String, Value)>, Failure> {
    let info = place.stream.info_with_subjects(&all).await;
    let info = info.map_err(|why| match why.kind() {
        // An error of JetStream's own: there is no such stream, as a rule.
        RequestErrorKind::Other => Failure::Missing,
        _ => Failure::other(why),
    })?;
    let subjects: Vec<(String, usize)> = info.try_collect().await.map_err(Failure::other)?;
    let stem = all.len() - 1;
    let asked = subjects.into_iter().map(|(subject, _)| {
        let place = Place {
            streams: place.streams.clone(),
            stream: place.stream.clone(),
        };
        async move {
            let key = subject.get(stem..).unwrap_or_default().to_owned();
            let value = last(place, subject).await?;
            Ok::<_, Failure>(value.map(|value| (key, value)))
        }
    });
    let values = stream::iter(asked).buffered(ASKED_AT_ONCE);
    let values: Vec<Option<(String, Value)>> = values.try_collect().await?;
    Ok(values.into_iter().flatten().collect())
}

async fn put(
    place: Place,
    subject: String,
    bytes: Bytes,
    over: Option<u64>,
) -> Result<bool, Failure> {
    let mut message = PublishMessage::build().payload(bytes);
    if let Some(revision) = over {
        message = message.expected_last_subject_sequence(revision);
    }
    let written = match place.streams.send_publish(subject, message).await {
        Ok(acked) => acked.await,
        Err(why) => Err(why),
    };
    match written {
        Ok(_) => Ok(true),
        Err(why) => match why.kind() {
            PublishErrorKind::WrongLastSequence => Ok(false),
            PublishErrorKind::StreamNotFound => Err(Failure::Missing),
            _ => Err(Failure::other(why)),
        },
    }
}

async fn strike(place: Place, revision: u64) -> Result<(), Failure> {
    match place.stream.delete_message(revision).await {
        Ok(_) => Ok(()),
        Err(why) => match why.kind() {
            // It is gone.
            DeleteMessageErrorKind::JetStream(_) => Ok(()),
            _ => Err(Failure::other(why)),
        },
    }
}

pub(super) fn is_missing(error: &async_nats::jetstream::Error) -> bool {
    error.error_code() == ErrorCode::STREAM_NOT_FOUND
}

async fn last(place: Place, subject: String) -> Result<Option<Value>, Failure> {
    let stream = place.stream;
    match stream.get_last_raw_message_by_subject(&subject).await {
        Ok(message) => Ok(Some(Value {
            revision: message.sequence,
            bytes: message.payload.into(),
        })),
        Err(why) => match why.kind() {
            LastRawMessageErrorKind::NoMessageFound => Ok(None),
            LastRawMessageErrorKind::JetStream(error) if is_missing(&error) => {
                Err(Failure::Missing)
            }
            _ => Err(Failure::other(why)),
        },
    }
}
