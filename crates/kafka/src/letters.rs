//! Dead letters: records that are no command, written to a topic of their own with the reason.

use crate::command::{Flaw, Place};
use crate::fault::{Fault, Kind};
use crate::headers;
use crate::settings::Settings;
use crate::writer::{Limits, Out, Writer};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use std::time::Duration;

const TIME: Duration = Duration::from_secs(10);
/// Headers are copied up to so many; more are left out.
const HEADERS_MAX: usize = 64;
/// Of key, headers and value. Larger values are left out.
const RECORD_BYTES_MAX: usize = 900_000;

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letter {
    Written,
    /// Kafka does not take it, or there is no topic for it.
    Lost,
    /// Kafka is away: to be tried again.
    Later,
}

pub(crate) struct Letters {
    writer: Option<Writer>,
}

impl Letters {
    pub(crate) fn new(settings: &Settings, topic: Option<&str>) -> Result<Self, Fault> {
        let limits = Limits {
            waiting_bytes_max: 4 << 20,
            record_bytes_max: RECORD_BYTES_MAX + 100_000,
            time: TIME,
        };
        let writer = topic.map(|topic| Writer::new(settings, topic, limits));
        let writer = writer.transpose()?;
        Ok(Self { writer })
    }

    /// Blocks until Kafka has it.
    pub(crate) fn write(
        &self,
        message: &BorrowedMessage<'_>,
        place: Place<'_>,
        flaw: &Flaw,
    ) -> Letter {
        let Some(writer) = &self.writer else {
            return Letter::Lost;
        };
        let written = writer
            .write(letter(message, place, flaw))
            .and_then(|delivery| delivery.wait());
        match written {
            Ok(_) => Letter::Written,
            Err(fault) if matches!(fault.kind(), Kind::Away | Kind::Full) => {
                tracing::warn!(%fault, "a dead letter waits");
                Letter::Later
            }
            Err(fault) => {
                tracing::error!(%fault, "a dead letter is lost");
                Letter::Lost
            }
        }
    }
}

/// The record with the reason; what would make it too large for the topic is left out.
fn letter<'a>(message: &'a BorrowedMessage<'_>, place: Place<'_>, flaw: &Flaw) -> Out<'a> {
    let value = message.payload();
    let value_bytes = value.map_or(0, <[u8]>::len);
    let key = message.key().filter(|key| key.len() <= 1_024);
    let (copied, copied_bytes) = copy(message);
    let own = [
        (headers::REASON, flaw.to_string()),
        (headers::FROM_TOPIC, place.topic.to_owned()),
        (headers::FROM_PARTITION, place.partition.to_string()),
        (headers::FROM_OFFSET, place.offset.to_string()),
        (headers::VALUE_BYTES, value_bytes.to_string()),
    ];
    let (all, headers_bytes) =
        own.iter()
            .fold((copied, copied_bytes), |(all, bytes), (key, value)| {
                let header = Header {
                    key,
                    value: Some(value),
                };
                (all.insert(header), bytes + key.len() + value.len())
            });
    Out {
        key,
        headers: all,
        headers_bytes,
        value: value.filter(|_| value_bytes + headers_bytes <= RECORD_BYTES_MAX - 2_048),
    }
}

/// The record's headers, if they can be read and are few and short enough.
fn copy(message: &BorrowedMessage<'_>) -> (OwnedHeaders, usize) {
    let none = || (OwnedHeaders::new(), 0);
    let Some(headers) = message.headers() else {
        return none();
    };
    if headers.count() > HEADERS_MAX {
        return none();
    }
    // A name that is not UTF-8 makes the library panic.
    let bytes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let lengths = headers
            .iter()
            .map(|header| header.key.len() + header.value.map_or(0, <[u8]>::len));
        lengths.sum::<usize>()
    }));
    match bytes {
        Ok(bytes) if bytes <= RECORD_BYTES_MAX / 2 => (headers.detach(), bytes),
        _ => none(),
    }
}
