//! Dead letters: messages that are no command, written to a subject of their own with the reason.

use crate::courier::refusal;
use crate::link::Line;
use async_nats::header::HeaderValue;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::{HeaderMap, HeaderName, Message};
use bridge::{Flaw, Place, headers};
use bytes::Bytes;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Headers are copied up to so many values; more are left out.
const HEADERS_MAX: usize = 64;
/// And up to so many bytes.
const HEADERS_BYTES_MAX: usize = 64 * 1_024;
/// What the server writes around headers and value.
const AROUND_BYTES: usize = 1_024;
/// A stream that is there answers earlier. After so many tries there is none.
const TRIES_MAX: u32 = 10;
/// Of a letter that no stream keeps, on its way to the server.
const FLUSH_TIME: Duration = Duration::from_secs(3);

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letter {
    Written,
    /// It is not taken, or there is no subject for it.
    Lost,
    /// NATS is away: to be tried again.
    Later,
    /// The connection has ended: the message comes again by the next one.
    Again,
}

/// Where a message stands, and what is wrong with it.
pub(crate) struct From<'a> {
    /// If a stream has it.
    pub(crate) place: Option<Place<'a>>,
    pub(crate) flaw: &'a Flaw,
}

/// The subject for them, if there is one.
pub(crate) struct Letters {
    subject: Option<String>,
    runtime: Handle,
}

impl Letters {
    pub(crate) fn new(subject: Option<String>, runtime: Handle) -> Self {
        Self { subject, runtime }
    }

    /// Blocks until NATS has it: a stream, if the message came from one, else the connection.
    pub(crate) fn write(
        &self,
        message: &Message,
        from: &From<'_>,
        line: &Line,
        tries: u32,
    ) -> Letter {
        let Some(subject) = self.subject.clone() else {
            return Letter::Lost;
        };
        let (headers, body) = letter(message, from, line.client.max_payload());
        match from.place {
            Some(Place { topic, offset, .. }) => {
                let id = format!("dead-{topic}-{offset}");
                self.keep(subject, headers, body, id, line, tries)
            }
            None => self.say(subject, headers, body, line),
        }
    }

    fn say(&self, subject: String, headers: HeaderMap, body: Bytes, line: &Line) -> Letter {
        let client = &line.client;
        let said = self.runtime.block_on(timeout_of(async {
            let sent = client.publish_with_headers(subject, headers, body).await;
            sent.is_ok() && client.flush().await.is_ok()
        }));
        match said {
            true => Letter::Written,
            // The message does not come again, and those behind it may go by.
            false => Letter::Lost,
        }
    }

    fn keep(
        &self,
        subject: String,
        headers: HeaderMap,
        body: Bytes,
        id: String,
        line: &Line,
        tries: u32,
    ) -> Letter {
        let message = PublishMessage::build()
            .payload(body)
            .headers(headers)
            .message_id(id);
        let sent = self.runtime.block_on(async {
            let acked = line.streams.send_publish(subject, message).await?;
            acked.await
        });
        match sent.map_err(|error| (error.kind(), error)) {
            Ok(_) => Letter::Written,
            Err((PublishErrorKind::TimedOut | PublishErrorKind::MaxAckPending, error)) => {
                tracing::warn!(%error, "a dead letter waits");
                Letter::Later
            }
            Err((PublishErrorKind::BrokenPipe, _)) => Letter::Again,
            Err((PublishErrorKind::Other, error)) => match refusal(&error) {
                Some(error) if error.code() < 500 => {
                    tracing::error!(%error, "a dead letter is lost");
                    Letter::Lost
                }
                // A stream that is full, or has no leader, is another one soon.
                Some(error) => {
                    tracing::warn!(%error, "a dead letter waits");
                    Letter::Later
                }
                None => Letter::Again,
            },
            Err((PublishErrorKind::StreamNotFound, error)) if tries < TRIES_MAX => {
                tracing::warn!(%error, "a dead letter waits for a stream with its subject");
                Letter::Later
            }
            Err((_, error)) => {
                tracing::error!(%error, "a dead letter is lost");
                Letter::Lost
            }
        }
    }
}

async fn timeout_of(sent: impl Future<Output = bool>) -> bool {
    timeout(FLUSH_TIME, sent).await.unwrap_or_default()
}

/// The message with the reason; what the server would not take is left out.
fn letter(message: &Message, from: &From<'_>, bytes_max: usize) -> (HeaderMap, Bytes) {
    let (mut all, mut bytes) = copy(message);
    let value = &message.payload;
    let stream = from.place.map(|place| place.topic);
    let number = from.place.map(|place| place.offset);
    let own = [
        (headers::REASON, Some(from.flaw.to_string())),
        (headers::FROM_TOPIC, Some(message.subject.to_string())),
        (headers::FROM_STREAM, stream.map(str::to_owned)),
        (
            headers::FROM_OFFSET,
            number.map(|number| number.to_string()),
        ),
        (headers::VALUE_BYTES, Some(value.len().to_string())),
    ];
    for (name, text) in own {
        let Some(value) = text.as_deref().and_then(fitting) else {
            continue;
        };
        bytes += name.len() + value.as_str().len() + 4;
        all.insert(name, value);
    }
    let fits = bytes + AROUND_BYTES + value.len() <= bytes_max;
    (all, if fits { value.clone() } else { Bytes::new() })
}

/// A reason may quote what a program wrote.
fn fitting(text: &str) -> Option<HeaderValue> {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    clean.parse().ok()
}

/// The message's headers, if they are few and short enough.
fn copy(message: &Message) -> (HeaderMap, usize) {
    let (mut all, mut count, mut bytes) = (HeaderMap::new(), 0, 0);
    let headers = message.headers.iter().flat_map(|headers| headers.iter());
    for (name, values) in headers {
        let text: &str = HeaderName::as_ref(name);
        // Those of a letter that was written back, or of a liar, would stand beside ours; those of the server mean the message that was.
        if headers::OF_LETTERS.contains(&text) || text.starts_with("Nats-") {
            continue;
        }
        for value in values {
            count += 1;
            bytes += text.len() + value.as_str().len() + 4;
            all.append(name.clone(), value.clone());
        }
    }
    match count <= HEADERS_MAX && bytes <= HEADERS_BYTES_MAX {
        true => (all, bytes),
        false => (HeaderMap::new(), 0),
    }
}
