//! Messages of a stream: a durable consumer of JetStream, which all nodes share, hands them out and wants each acknowledged.

use crate::desk::Desk;
use crate::link::{Line, Link};
use crate::reading::{POLL, Source};
use async_nats::jetstream::AckKind;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::{Batch, Config};
use async_nats::jetstream::consumer::{AckPolicy, Consumer};
use async_nats::{Message as Plain, Subscriber};
use bridge::{Command, Past, Place, Unhandled};
use futures_util::{FutureExt, StreamExt};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// A member that was killed holds its messages for so long.
const ACK_WAIT: Duration = Duration::from_secs(10);
/// Those that wait in memory behind slow ones are kept so often.
const KEEP_EVERY: Duration = Duration::from_secs(3);
/// A message that cannot even be read ends the connection of whoever gets it. The server gives it up after so many times.
const DELIVERIES_MAX: i64 = 20;
/// Messages in memory that are not handed over yet, and their bytes (one message may be larger).
const BATCH_MESSAGES: usize = 64;
const BATCH_BYTES: usize = 4 * 1_024 * 1_024;
/// So long a server keeps our question for messages.
const ASK_TIME: Duration = Duration::from_secs(1);
/// The answer to it, or its end, comes within this time.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Where the client has connected anew meanwhile, the question may have gone with the connection. By then no message comes for it any more.
const LOST_TIME: Duration = Duration::from_millis(1_500);
/// At the end, what was handed out is carried out for so long.
const FINISH_TIME: Duration = Duration::from_millis(1_500);
/// The server answers a question behind the last acknowledgements within this time.
const CONFIRM_TIME: Duration = Duration::from_secs(1);

/// A command is acknowledged so long after the shards have it: by then its letters have left for other nodes, whose clients would miss it
/// if this process were killed before. Where one message is under way at a time, that would be its pace, and it is acknowledged at once.
const ACK_DELAY: Duration = Duration::from_millis(250);

/// Until it stops, or the connection has a successor. Whatever ended the connection may come again: then it shall take no other message
/// with it.
pub(crate) fn read<H>(
    runtime: &Handle,
    link: &Link,
    line: &Line,
    desk: &mut Desk<H>,
) -> Result<(), String>
where
    H: FnMut(Option<Place<'_>>, Command<'_>) -> Result<(), Unhandled>,
{
    let mut settled = Settled::new(runtime, line, desk.past());
    let ended = read_line((runtime, link, line), desk, &mut settled);
    let is_stopped = ended.is_ok() && desk.stops();
    desk.be_careful(settled.repeat_time);
    settled.end(is_stopped, || link.is_up());
    ended
}

fn read_line<H>(
    (runtime, link, line): (&Handle, &Link, &Line),
    desk: &mut Desk<H>,
    settled: &mut Settled<'_>,
) -> Result<(), String>
where
    H: FnMut(Option<Place<'_>>, Command<'_>) -> Result<(), Unhandled>,
{
    let Source::Stream {
        stream,
        durable,
        pending_max,
    } = desk.source()
    else {
        return Ok(());
    };
    let config = Config {
        durable_name: Some(durable.clone()),
        filter_subject: desk.subject().to_owned(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_deliver: DELIVERIES_MAX,
        max_ack_pending: i64::from(pending_max),
        ..Config::default()
    };
    let consumer = runtime.block_on(consumer(line, &stream, &durable, config))?;
    let mut given_up = runtime.block_on(given_up(line, &stream, &durable))?;
    let bytes_max = BATCH_BYTES.max(line.client.max_payload().saturating_add(65_536));
    settled.stream.clone_from(&stream);
    settled.begin(2 * consumer.cached_info().config.ack_wait);
    settled.delay = if pending_max == 1 {
        Duration::ZERO
    } else {
        ACK_DELAY
    };
    while !desk.stops() && link.is_up() {
        while let Some(Some(_)) = runtime.block_on(async { given_up.next().now_or_never() }) {
            let what = format!(
                "a message of the stream {stream} was given up after {DELIVERIES_MAX} tries to read it: are its headers those of NATS?"
            );
            desk.note_lost(&what);
        }
        let careful = desk.is_careful();
        let most = if careful { 1 } else { BATCH_MESSAGES };
        let connects = settled.connects_now();
        let asked = consumer.batch().max_messages(most);
        let asked = asked.max_bytes(bytes_max).expires(ASK_TIME).messages();
        let batch = runtime
            .block_on(asked)
            .map_err(|error| format!("cannot read the stream {stream}: {error}"))?;
        Pull {
            runtime,
            batch,
            held: VecDeque::new(),
            kept: Instant::now(),
            ends: None,
            connects,
            settled,
        }
        .settle(line, desk)?;
        if careful {
            settled.acknowledge(Instant::now() + ACK_DELAY);
        }
    }
    Ok(())
}

/// Messages of a connection that are settled, and acknowledged a little later.
struct Settled<'a> {
    runtime: &'a Handle,
    line: &'a Line,
    past: Past,
    stream: String,
    /// What is not acknowledged comes again within this time.
    repeat_time: Duration,
    delay: Duration,
    waiting: VecDeque<(Instant, Message)>,
    /// When one was settled last.
    last: Option<Instant>,
    /// How often the client has connected: it does so once more by itself.
    connects: u64,
}

impl<'a> Settled<'a> {
    fn new(runtime: &'a Handle, line: &'a Line, past: &Past) -> Self {
        let mut settled = Self {
            runtime,
            line,
            past: past.clone(),
            stream: String::new(),
            repeat_time: 2 * ACK_WAIT,
            delay: ACK_DELAY,
            waiting: VecDeque::new(),
            last: None,
            connects: 0,
        };
        settled.connects = settled.connects_now();
        settled
    }

    /// The stream is read now.
    fn begin(&mut self, repeat_time: Duration) {
        self.repeat_time = repeat_time;
        self.past.comes_again_within(repeat_time);
    }

    /// What was handed over may come again on this connection, which is there.
    fn doubt(&self) {
        self.past.doubt();
        self.past.comes_again_within(self.repeat_time);
    }

    fn add(&mut self, message: Message) {
        let now = Instant::now();
        self.last = Some(now);
        self.waiting.push_back((now + self.delay, message));
    }

    /// One could come again still, if its acknowledgement was lost.
    fn matters(&self) -> bool {
        self.last
            .is_some_and(|last| last.elapsed() < self.repeat_time)
    }

    fn acknowledge(&mut self, by: Instant) {
        while let Some((_, message)) = self.waiting.pop_front_if(|(due, _)| *due <= by) {
            if !answer(self.runtime, &message, AckKind::Ack) {
                self.doubt();
            }
        }
        let connects = self.connects_now();
        if self.connects != connects && self.matters() {
            // Those that were on their way went with the connection.
            self.doubt();
        }
        self.connects = connects;
    }

    fn connects_now(&self) -> u64 {
        let counted = self.line.client.statistics();
        counted.connects.load(Ordering::Relaxed)
    }

    /// Acknowledges all. Where the server does not prove that it has them, they may come again.
    fn end(mut self, is_stopped: bool, is_up: impl Fn() -> bool) {
        let last = self.waiting.back().map(|(due, _)| *due);
        self.acknowledge(last.unwrap_or_else(Instant::now));
        if !self.matters() && !self.past.is_in_doubt() {
            return;
        }
        let is_known = is_stopped && self.is_answered() && is_up();
        // Perhaps by another connection.
        self.acknowledge(Instant::now());
        if !is_known {
            // Until it is read again.
            self.past.doubt();
        }
    }

    /// The server reads what stood before a question when it answers that.
    fn is_answered(&self) -> bool {
        let answered = async {
            let asked = self.line.streams.get_stream(&self.stream);
            timeout(CONFIRM_TIME, asked).await
        };
        matches!(self.runtime.block_on(answered), Ok(Ok(_)))
    }
}

/// One that is lost on its way means that the message comes again; `false`: it is.
fn answer(runtime: &Handle, message: &Message, kind: AckKind) -> bool {
    let sent = runtime.block_on(async { timeout(POLL * 10, message.ack_with(kind)).await });
    let is_sent = matches!(sent, Ok(Ok(())));
    if !is_sent {
        tracing::debug!("a message of a stream is not acknowledged: it comes again");
    }
    is_sent
}

/// The one that is there, if it is as we need it; else a new one.
async fn consumer(
    line: &Line,
    stream: &str,
    durable: &str,
    config: Config,
) -> Result<Consumer<Config>, String> {
    let found = line.streams.get_stream(stream).await;
    let found = found.map_err(|error| format!("cannot use the stream {stream}: {error}"))?;
    let (subject, pending_max) = (config.filter_subject.clone(), config.max_ack_pending);
    let made = found.get_or_create_consumer(durable, config).await;
    let made = made.map_err(|error| {
        format!("cannot use the consumer {durable} of the stream {stream}: {error}")
    })?;
    let there = &made.cached_info().config;
    let read = match there.filter_subject.as_str() {
        // All that the stream has.
        "" => found.cached_info().config.subjects.join(" "),
        filter => filter.to_owned(),
    };
    let patient = there.ack_wait >= ACK_WAIT && there.max_deliver > 0;
    if read != subject
        || there.ack_policy != AckPolicy::Explicit
        || there.max_ack_pending != pending_max
        || !patient
    {
        return Err(format!(
            "the consumer {durable} of the stream {stream} reads {:?}, with {} pending at most, {} deliveries and {:?} for an ack: {subject:?} and {pending_max} are needed, with explicit acks, a number of deliveries and {ACK_WAIT:?} or more; delete it, or name another one in `durable`",
            read, there.max_ack_pending, there.max_deliver, there.ack_wait
        ));
    }
    Ok(made)
}

/// News about messages that the server does not hand out any more. One of the members gets each.
async fn given_up(line: &Line, stream: &str, durable: &str) -> Result<Subscriber, String> {
    let subject = format!("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.{durable}");
    let heard = line.client.queue_subscribe(subject, durable.to_owned());
    heard.await.map_err(|error| {
        format!("cannot hear of messages that the stream {stream} gives up: {error}")
    })
}

/// An answer of the server.
struct Pull<'a, 'b> {
    runtime: &'a Handle,
    batch: Batch,
    /// Came, and are not settled; in order.
    held: VecDeque<Message>,
    /// When the server was told last that they are being worked on.
    kept: Instant,
    /// The reader stops: what is not settled by then goes to others.
    ends: Option<Instant>,
    /// How often the client had connected when the question was asked.
    connects: u64,
    settled: &'a mut Settled<'b>,
}

impl Pull<'_, '_> {
    fn settle<H>(mut self, line: &Line, desk: &mut Desk<H>) -> Result<(), String>
    where
        H: FnMut(Option<Place<'_>>, Command<'_>) -> Result<(), Unhandled>,
    {
        let (mut empty, mut heard) = (true, Instant::now());
        loop {
            self.settled.acknowledge(Instant::now());
            let next = self
                .runtime
                .block_on(async { timeout(POLL, self.batch.next()).await });
            match next {
                Ok(Some(Ok(message))) => self.held.push_back(message),
                // One that does not fit into the rest of the question ends it.
                Ok(Some(Err(_))) if !empty => return Ok(()),
                Ok(Some(Err(error))) => return Err(format!("cannot read a stream: {error}")),
                Ok(None) => {
                    if empty {
                        desk.note_lag(0);
                    }
                    return Ok(());
                }
                // Messages that nobody can read would hold up the others for as long as they come again.
                Err(_)
                    if heard.elapsed() >= LOST_TIME
                        && self.connects != self.settled.connects_now() =>
                {
                    desk.be_careful(self.settled.repeat_time);
                    return Ok(());
                }
                Err(_) if heard.elapsed() < ANSWER_TIME => continue,
                Err(_) => return Err("the stream does not answer".to_owned()),
            }
            (empty, heard) = (false, Instant::now());
            self.settle_held(line, desk)?;
        }
    }

    fn settle_held<H>(&mut self, line: &Line, desk: &mut Desk<H>) -> Result<(), String>
    where
        H: FnMut(Option<Place<'_>>, Command<'_>) -> Result<(), Unhandled>,
    {
        while let Some(message) = self.held.pop_front() {
            let info = message.info();
            let info = info.map_err(|error| format!("cannot read a stream: {error}"))?;
            desk.note_lag(info.pending);
            let place = Place {
                topic: info.stream,
                partition: 0,
                offset: info.stream_sequence.cast_signed(),
                time_ms: milliseconds(info.published.unix_timestamp_nanos()),
            };
            // What is at hand is carried out: others would get it behind what comes meanwhile.
            let now = Instant::now();
            if desk.stops() && *self.ends.get_or_insert(now + FINISH_TIME) <= now {
                answer(self.runtime, &message, AckKind::Nak(None));
                continue;
            }
            if self.kept.elapsed() >= KEEP_EVERY {
                self.keep(&message);
            }
            let (plain, acked): (&Plain, &Message) = (&message.message, &message);
            // Nobody else shall get what waits here behind it.
            let settled = desk.settle(plain, place, line, || self.keep(acked));
            match settled {
                true => self.settled.add(message),
                // It comes again, to others at once.
                false => drop(answer(self.runtime, &message, AckKind::Nak(None))),
            }
        }
        Ok(())
    }

    fn keep(&mut self, current: &Message) {
        while let Some(Some(Ok(message))) = self
            .runtime
            .block_on(async { self.batch.next().now_or_never() })
        {
            self.held.push_back(message);
        }
        self.kept = Instant::now();
        answer(self.runtime, current, AckKind::Progress);
        for message in &self.held {
            answer(self.runtime, message, AckKind::Progress);
        }
    }
}

fn milliseconds(nanos: i128) -> i64 {
    i64::try_from(nanos / 1_000_000).unwrap_or_default()
}
