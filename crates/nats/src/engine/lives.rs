//! Keys whose bucket has a name of its own in each of its lives: a server that lost all has another one, which takes nothing that was meant
//! for the one before.

use super::keeper::Line;
use super::keys::{Bucket, Value, config, is_missing, subject_of};
use super::{Engine, Trouble};
use async_nats::datetime::DateTime;
use async_nats::jetstream::context::{
    CreateStreamErrorKind, GetStreamByNameErrorKind, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use async_nats::jetstream::{Error as Refusal, ErrorCode};
use bytes::Bytes;
use std::error::Error;
use std::time::Duration;

/// Two nodes may begin one at the same moment: the slower one finds that of the other.
const TRIES_MAX: usize = 4;
/// A key that shows what time it is for the server.
const CLOCK: &str = "clock";

/// Why a key of a life was not read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unkept {
    /// The bucket has another life, or none.
    Gone,
    /// Several servers keep it. They make a bucket anew that they lost, empty, with its old name and age: nobody would notice.
    Spread,
    /// It is not known whether it was done.
    Trouble(Trouble),
}

fn trouble(bucket: &Bucket, why: impl std::fmt::Display) -> Trouble {
    Trouble::new(format!(
        "cannot use the bucket {:?} of JetStream: {why}",
        bucket.name
    ))
}

impl Engine {
    /// The name of the bucket's life. One that has none begins one, which ends with this word.
    ///
    /// # Errors
    /// JetStream did not answer, or takes no bucket.
    pub async fn life(&self, bucket: &Bucket, word: &str) -> Result<String, Trouble> {
        let line = self.line().await?;
        let subjects = subject_of(&self.0.plan.root, &bucket.name, ">");
        for _ in 0..TRIES_MAX {
            match line.streams.stream_by_subject(subjects.clone()).await {
                Ok(name) => return Ok(name),
                Err(why) if why.kind() == GetStreamByNameErrorKind::NotFound => {}
                Err(why) => return Err(trouble(bucket, why)),
            }
            let name = format!("{}_{}", bucket.name, word.replace('.', "-"));
            if self.begin(&line, bucket, &name).await? {
                return Ok(name);
            }
        }
        Err(trouble(bucket, "others make it and it is gone again"))
    }

    /// `false`: another node has begun one. A single server gives the same subjects to one stream only, so there is one life at a time.
    async fn begin(&self, line: &Line, bucket: &Bucket, name: &str) -> Result<bool, Trouble> {
        let mut config = config(&self.0.plan.root, bucket, 1);
        config.name = name.to_owned();
        let Err(why) = line.streams.create_stream(config).await else {
            return Ok(true);
        };
        match why.kind() {
            CreateStreamErrorKind::JetStream(refusal)
                if refusal.error_code() == ErrorCode::STREAM_SUBJECT_OVERLAP =>
            {
                Ok(false)
            }
            _ => Err(trouble(bucket, why)),
        }
    }

    /// How long a life has been there, by the server's clock.
    ///
    /// # Errors
    /// JetStream did not answer, or the life is over.
    pub async fn age(&self, bucket: &Bucket, life: &str) -> Result<Duration, Unkept> {
        let stream = self.stream(bucket, life).await?;
        let info = stream.get_info().await.map_err(|_| Unkept::Gone)?;
        let cluster = info.cluster.and_then(|cluster| cluster.name);
        if cluster.is_some_and(|name| !name.is_empty()) {
            return Err(Unkept::Spread);
        }
        let born = info.created;
        self.write_in(bucket, life, CLOCK, b"", None).await?;
        let now = self.last_of(bucket, &stream, CLOCK).await?;
        let age = now.map(|(_, now)| now - born);
        // A clock that was set back: it counts as new.
        Ok(age.and_then(|age| age.try_into().ok()).unwrap_or_default())
    }

    /// What stands under a key.
    ///
    /// # Errors
    /// JetStream did not answer, or the life is over.
    pub async fn read_in(
        &self,
        bucket: &Bucket,
        life: &str,
        key: &str,
    ) -> Result<Option<Value>, Unkept> {
        let stream = self.stream(bucket, life).await?;
        let last = self.last_of(bucket, &stream, key).await?;
        Ok(last.map(|(value, _)| value))
    }

    /// Writes over a revision, or over whatever stands there; `false`: somebody was faster.
    ///
    /// # Errors
    /// JetStream did not answer, or the life is over.
    pub async fn write_in(
        &self,
        bucket: &Bucket,
        life: &str,
        key: &str,
        bytes: &[u8],
        over: Option<u64>,
    ) -> Result<bool, Unkept> {
        let line = self.line().await.map_err(Unkept::Trouble)?;
        let subject = subject_of(&self.0.plan.root, &bucket.name, key);
        let mut message = PublishMessage::build()
            .payload(Bytes::copy_from_slice(bytes))
            .expected_stream(life);
        if let Some(revision) = over {
            message = message.expected_last_subject_sequence(revision);
        }
        let written = match line.streams.send_publish(subject, message).await {
            Ok(acked) => acked.await,
            Err(why) => Err(why),
        };
        let Err(why) = written else { return Ok(true) };
        let refusal = why.source().and_then(|why| why.downcast_ref::<Refusal>());
        match (why.kind(), refusal.map(Refusal::error_code)) {
            (PublishErrorKind::WrongLastSequence, _) => Ok(false),
            (PublishErrorKind::StreamNotFound, _) | (_, Some(ErrorCode::STREAM_NOT_MATCH)) => {
                Err(Unkept::Gone)
            }
            _ => Err(Unkept::Trouble(trouble(bucket, why))),
        }
    }

    /// Takes a value away, if it is still of that revision.
    ///
    /// # Errors
    /// JetStream did not answer, or it was gone already.
    pub async fn erase_in(&self, bucket: &Bucket, life: &str, revision: u64) -> Result<(), Unkept> {
        let stream = self.stream(bucket, life).await?;
        match stream.delete_message(revision).await {
            Ok(_) => Ok(()),
            Err(why) => Err(Unkept::Trouble(trouble(bucket, why))),
        }
    }

    async fn stream(&self, bucket: &Bucket, life: &str) -> Result<Stream<()>, Unkept> {
        let line = self.line().await.map_err(Unkept::Trouble)?;
        let stream = line.streams.get_stream_no_info(life).await;
        stream.map_err(|why| Unkept::Trouble(trouble(bucket, why)))
    }

    async fn last_of(
        &self,
        bucket: &Bucket,
        stream: &Stream<()>,
        key: &str,
    ) -> Result<Option<(Value, DateTime)>, Unkept> {
        let subject = subject_of(&self.0.plan.root, &bucket.name, key);
        match stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => Ok(Some((
                Value {
                    revision: message.sequence,
                    bytes: message.payload.into(),
                },
                message.time,
            ))),
            Err(why) => match why.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(None),
                LastRawMessageErrorKind::JetStream(error) if is_missing(&error) => {
                    Err(Unkept::Gone)
                }
                _ => Err(Unkept::Trouble(trouble(bucket, why))),
            },
        }
    }
}
