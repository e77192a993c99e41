//! Carries messages to the servers, and tries again until their time is over. A message of a key leaves when the one before it is
//! acknowledged: so their order holds, whatever is sent again.

use crate::link::{Line, Link};
use crate::mode::Mode;
use crate::postbag::{Parcel, Postbag};
use async_nats::HeaderMap;
use async_nats::jetstream;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::{Client, HeaderName};
use bridge::{Failures, Fault, Kind, OutBooks, Said};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Messages that a stream has not acknowledged yet, of as many keys.
const UNDER_WAY_MAX: usize = 256;
/// Before a stream is asked again.
const PAUSE: Duration = Duration::from_millis(100);
/// Of the last bytes, when the bridge is closed.
const FLUSH_TIME: Duration = Duration::from_secs(5);

pub(crate) struct Courier {
    link: Link,
    mode: Mode,
    books: Arc<OutBooks>,
    failures: Arc<Failures>,
    time: Duration,
    /// No other process has it: numbers behind it are ids of messages.
    life: String,
}

/// Why an attempt came to nothing.
enum Failed {
    /// The next one may do better.
    Again,
    Never(Fault),
}

impl Courier {
    pub(crate) fn new(
        link: Link,
        mode: Mode,
        (books, failures): (Arc<OutBooks>, Arc<Failures>),
        time: Duration,
    ) -> Self {
        let nanos = std::time::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_nanos();
        // Two processes of one machine that start in the same nanosecond differ by this one.
        let life = format!("{nanos:x}-{:x}", std::process::id());
        Self {
            link,
            mode,
            books,
            failures,
            time,
            life,
        }
    }

    /// Until NATS has the message, or its time is over.
    async fn deliver(&self, parcel: Parcel, number: u64) -> String {
        let answer = self.carry(&parcel, number).await;
        self.books.settle(parcel.bytes, answer.is_ok());
        if let Err(fault) = &answer {
            let said = || vec![Said::new("message", &parcel.subject, &parcel.body)];
            let failures = &self.failures;
            failures.note_said("not acknowledged", &fault.to_string(), said);
        }
        // It may not be waited for.
        let _ = parcel.waiter.send(answer);
        parcel.key
    }

    async fn carry(&self, parcel: &Parcel, number: u64) -> Result<(), Fault> {
        let mut headers = parcel.headers.clone();
        if self.mode == Mode::JetStream {
            headers.insert(async_nats::header::NATS_MESSAGE_ID, self.id(number));
        }
        loop {
            let tried = timeout_at(parcel.deadline, self.attempt(parcel, &headers)).await;
            match tried {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(Failed::Never(fault))) => return Err(fault),
                Ok(Err(Failed::Again)) if Instant::now() < parcel.deadline => self.books.retry(),
                Ok(Err(Failed::Again)) | Err(_) => return Err(self.late()),
            }
            sleep(PAUSE).await;
        }
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.life)
    }

    fn late(&self) -> Fault {
        let text = format!(
            "NATS did not acknowledge the message within {} ms: it may be stored all the same",
            self.time.as_millis()
        );
        Fault::new(Kind::Away, text)
    }

    async fn attempt(&self, parcel: &Parcel, headers: &HeaderMap) -> Result<(), Failed> {
        let Line { client, streams } = self.link.line().await;
        let (subject, body) = (parcel.subject.clone(), parcel.body.clone());
        if let Some(max) = too_large(&client, headers, body.len()) {
            let text = format!(
                "the message has more bytes than the server takes (max_payload is {max}): send less"
            );
            return Err(Failed::Never(Fault::new(Kind::Refused, text)));
        }
        match self.mode {
            Mode::Core => {
                let sent = client.publish_with_headers(subject, headers.clone(), body);
                sent.await.map_err(|_| Failed::Again)
            }
            Mode::JetStream => {
                let message = PublishMessage::build()
                    .payload(body)
                    .headers(headers.clone());
                let sent = streams.send_publish(subject, message).await;
                let acked = sent.map_err(failed)?.await;
                acked.map(drop).map_err(failed)
            }
        }
    }
}

fn failed(error: PublishError) -> Failed {
    match error.kind() {
        // Nobody answers: the stream is not there, or its server is just starting.
        PublishErrorKind::StreamNotFound
        | PublishErrorKind::TimedOut
        | PublishErrorKind::BrokenPipe
        | PublishErrorKind::MaxAckPending => Failed::Again,
        PublishErrorKind::Other => match refusal(&error) {
            // A stream that is full, or has no leader, is another one soon.
            Some(error) if error.code() < 500 => Failed::Never(Fault::new(
                Kind::Refused,
                format!("the stream does not take the message: {error}"),
            )),
            Some(_) | None => Failed::Again,
        },
        PublishErrorKind::WrongLastMessageId
        | PublishErrorKind::WrongLastSequence
        | PublishErrorKind::MaxPayloadExceeded => Failed::Never(Fault::new(
            Kind::Refused,
            format!("the stream does not take the message: {error}"),
        )),
    }
}

pub(crate) fn refusal(error: &PublishError) -> Option<&jetstream::Error> {
    std::error::Error::source(error)?.downcast_ref()
}

/// The most that the server takes, if this is more.
fn too_large(client: &Client, headers: &HeaderMap, body: usize) -> Option<usize> {
    let max = client.max_payload();
    // As they are written: `NATS/1.0`, lines, an empty line.
    let lines = headers.iter().flat_map(|(name, values)| {
        let name: &str = HeaderName::as_ref(name);
        values
            .iter()
            .map(|value| name.len() + value.as_str().len() + 4)
    });
    (lines.sum::<usize>() + 12 + body > max).then_some(max)
}

/// Until the queue is closed and all is told.
pub(crate) async fn run(courier: Courier, mut parcels: UnboundedReceiver<Parcel>) {
    match courier.mode {
        // One connection keeps the order of all by itself.
        Mode::Core => {
            while let Some(parcel) = parcels.recv().await {
                courier.deliver(parcel, 0).await;
            }
            if courier.link.is_up() {
                let Line { client, .. } = courier.link.line().await;
                // What is not out by then is lost, as all that core NATS has not sent.
                let _ = timeout(FLUSH_TIME, client.flush()).await;
            }
        }
        Mode::JetStream => by_key(&courier, &mut parcels).await,
    }
}

async fn by_key(courier: &Courier, parcels: &mut UnboundedReceiver<Parcel>) {
    let (mut bag, mut number, mut open) = (Postbag::default(), 0_u64, true);
    let mut under_way = FuturesUnordered::new();
    while open || !under_way.is_empty() || bag.has_ready() {
        while under_way.len() < UNDER_WAY_MAX
            && let Some(parcel) = bag.next()
        {
            number += 1;
            under_way.push(courier.deliver(parcel, number));
        }
        tokio::select! {
            Some(key) = under_way.next() => bag.done(key),
            parcel = parcels.recv(), if open => match parcel {
                Some(parcel) => bag.add(parcel),
                None => open = false,
            },
        }
    }
}
