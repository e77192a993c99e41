//! Dead letters: records that are no command, written to a topic of their own with the reason.

use crate::settings::Settings;
use crate::writer::{Out, Writer};
use bridge::{Fault, Flaw, Kind, Limits, Place, headers};
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

/// The topic for them, if there is one.
pub(crate) struct Letters(Option<Postbox>);

struct Postbox {
    settings: Settings,
    topic: String,
    writer: Writer,
}

impl Letters {
    pub(crate) fn new(settings: &Settings, topic: Option<&str>) -> Result<Self, Fault> {
        let Some(topic) = topic else {
            return Ok(Self(None));
        };
        Ok(Self(Some(Postbox {
            settings: settings.clone(),
            topic: topic.to_owned(),
            writer: writer(settings, topic)?,
        })))
    }

    /// Blocks until Kafka has it.
    pub(crate) fn write(
        &mut self,
        message: &BorrowedMessage<'_>,
        place: Place<'_>,
        flaw: &Flaw,
    ) -> Letter {
        let Some(postbox) = &mut self.0 else {
            return Letter::Lost;
        };
        let written = postbox
            .writer
            .write(letter(message, place, flaw))
            .and_then(|delivery| delivery.wait());
        match written {
            Ok(_) => Letter::Written,
            Err(fault) if matches!(fault.kind(), Kind::Away | Kind::Full | Kind::Closed) => {
                tracing::warn!(%fault, "a dead letter waits");
                Letter::Later
            }
            Err(fault) if fault.kind() == Kind::Broken => {
                tracing::error!(%fault, "a dead letter waits for another client of Kafka");
                postbox.renew();
                Letter::Later
            }
            Err(fault) => {
                tracing::error!(%fault, "a dead letter is lost");
                Letter::Lost
            }
        }
    }
}

impl Postbox {
    /// Its client has failed for good.
    fn renew(&mut self) {
        match writer(&self.settings, &self.topic) {
            Ok(next) => self.writer = next,
            Err(fault) => tracing::error!(%fault, "cannot make another client of Kafka"),
        }
    }
}

fn writer(settings: &Settings, topic: &str) -> Result<Writer, Fault> {
    let limits = Limits {
        waiting_bytes_max: 4 << 20,
        record_bytes_max: RECORD_BYTES_MAX + 100_000,
        time: TIME,
    };
    Writer::new(settings, topic, limits)
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
    let copied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // Those of a letter that was written back, or of a liar, would stand before ours.
        let kept = headers
            .iter()
            .filter(|header| !headers::OF_LETTERS.contains(&header.key));
        kept.fold(none(), |(all, bytes), header| {
            let length = header.key.len() + header.value.map_or(0, <[u8]>::len);
            (all.insert(header), bytes + length)
        })
    }));
    match copied {
        Ok(copied) if copied.1 <= RECORD_BYTES_MAX / 2 => copied,
        _ => none(),
    }
}
