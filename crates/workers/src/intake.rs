//! The one door by which messages of workers come in: each is read as a whole, and only as many large ones as there is room for.

use backend::{Frame, GROWTH_MAX};
use prost::bytes::{Buf, Bytes};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Body as _;

/// One message of a worker.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// All messages of workers that are read or wait for their turn, but for the small ones.
pub const ROOM_BYTES: usize = 4 * MESSAGE_BYTES_MAX;
/// A small message takes no share, so that a sign of life never waits for a large one: a bounded number of them is under way.
pub(super) const SMALL_BYTES: usize = 64 << 10;
/// Before each message: one byte says that it is one, four how long it is. In gRPC, that byte says whether it is compressed.
pub(super) const HEAD_BYTES: usize = 5;

/// What the commands of all messages may take that are decoded and wait for their turn, beside the bytes of the messages.
pub const GROWTH_BYTES: usize = 2 * GROWTH_MAX;

/// What messages may take, for all links. Whoever has room for bytes may wait for growth, and nobody the other way round.
#[derive(Clone)]
pub(super) struct Intake {
    bytes: Arc<Semaphore>,
    growth: Arc<Semaphore>,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(ROOM_BYTES)),
            growth: Arc::new(Semaphore::new(GROWTH_BYTES)),
        }
    }
}

impl Intake {
    /// The share of a message that is to be read, if there is room for it now.
    pub(super) fn try_share(&self, bytes: usize) -> Option<Share> {
        let bytes = room_now(&self.bytes, bytes)?;
        Some(Share {
            bytes,
            growth: None,
        })
    }

    /// The share of the same message, once it is read.
    pub(super) fn try_grow(&self, share: Share, growth: usize) -> Option<Option<Share>> {
        let growth = room_now(&self.growth, growth)?;
        Some(Share { growth, ..share }.or_none())
    }
}

fn room_now(room: &Arc<Semaphore>, bytes: usize) -> Option<Option<OwnedSemaphorePermit>> {
    if bytes <= SMALL_BYTES {
        return Some(None);
    }
    let bytes = u32::try_from(bytes).ok()?;
    let permit = Arc::clone(room).try_acquire_many_owned(bytes);
    permit.ok().map(Some)
}

/// The room that a message takes until it is handled, if it is large or becomes so.
#[derive(Default)]
pub(super) struct Share {
    bytes: Option<OwnedSemaphorePermit>,
    growth: Option<OwnedSemaphorePermit>,
}

impl Share {
    fn or_none(self) -> Option<Self> {
        (self.bytes.is_some() || self.growth.is_some()).then_some(self)
    }
}

/// A worker that sends so many bytes from one look to the next is there, although no message of it is whole.
pub(super) const PACE_BYTES: u64 = 64 << 10;

/// How the bytes of a link come in. Its worker's signs of life wait behind a large message.
#[derive(Default)]
pub(super) struct Pulse {
    bytes: AtomicU64,
    /// Nothing is read: messages of others take the room.
    waits: AtomicBool,
    /// The worker is to hear that the gateway is there. One that waits stands for all.
    answers: Notify,
}

impl Pulse {
    pub(super) fn came(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Since the last call, the worker's silence was none of its own. What it asks waits behind its message, and is answered before.
    pub(super) fn beats(&self) -> bool {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        let beats = bytes >= PACE_BYTES || self.waits.load(Ordering::Relaxed);
        if beats {
            self.answer();
        }
        beats
    }

    pub(super) fn answer(&self) {
        self.answers.notify_one();
    }

    pub(super) async fn answered(&self) {
        self.answers.notified().await;
    }
}

/// The source of a link's bytes.
pub(super) trait Source: Send {
    /// All that is read is told to it.
    fn pulse(&self) -> &Arc<Pulse>;

    /// So many bytes; `None`: the stream ended before.
    fn take(&mut self, len: usize) -> impl Future<Output = Option<Bytes>> + Send;

    /// The bytes are no message. The error is for the worker.
    fn other(&mut self, kind: u8, len: usize) -> Result<(), Status>;
}

/// The messages of one link.
pub(super) struct Frames<S> {
    source: S,
    intake: Intake,
}

impl<S: Source> Frames<S> {
    pub(super) fn new(source: S, intake: Intake) -> Self {
        Self { source, intake }
    }

    pub(super) fn source(&mut self) -> &mut S {
        &mut self.source
    }

    pub(super) fn into_parts(self) -> (Intake, S) {
        (self.intake, self.source)
    }

    /// The next message; `None` at the end of the stream, however it ends. A large message is read when it has its share: until then it
    /// waits at the worker's side. The error is for the worker.
    pub(super) async fn next(&mut self) -> Result<Option<(Frame, Option<Share>)>, Status> {
        let len = loop {
            let Some(mut head) = self.source.take(HEAD_BYTES).await else {
                return Ok(None);
            };
            let (kind, len) = (head.get_u8(), head.get_u32() as usize);
            if kind == 0 {
                break len;
            }
            self.source.other(kind, len)?;
        };
        if len > MESSAGE_BYTES_MAX {
            return Err(Status::out_of_range(format!(
                "cannot take a message of {len} bytes: {MESSAGE_BYTES_MAX} are allowed, so send fewer commands in each"
            )));
        }
        let mut share = Share {
            bytes: room(self.source.pulse(), &self.intake.bytes, len).await?,
            growth: None,
        };
        let Some(message) = self.source.take(len).await else {
            return Ok(None);
        };
        let growth = backend::growth(&message);
        let growth = growth.map_err(|overgrown| {
            Status::out_of_range(format!(
                "cannot take a message: {overgrown}, so send fewer commands in each"
            ))
        })?;
        share.growth = room(self.source.pulse(), &self.intake.growth, growth).await?;
        let frame = Frame::decode(message).map_err(|error| {
            Status::invalid_argument(format!("cannot read a message of the worker: {error}"))
        })?;
        Ok(Some((frame, share.or_none())))
    }
}

/// Waits for room. What is small needs none.
async fn room(
    pulse: &Pulse,
    room: &Arc<Semaphore>,
    bytes: usize,
) -> Result<Option<OwnedSemaphorePermit>, Status> {
    if bytes <= SMALL_BYTES {
        return Ok(None);
    }
    pulse.waits.store(true, Ordering::Relaxed);
    // It is less than there is: one message may have so much.
    let permit = Arc::clone(room).acquire_many_owned(bytes as u32).await;
    pulse.waits.store(false, Ordering::Relaxed);
    // Nobody closes it.
    let stopping = |_| Status::unavailable("the gateway is stopping");
    permit.map(Some).map_err(stopping)
}

/// The body of a gRPC stream.
pub(super) struct Streamed {
    body: Body,
    /// Read, and not looked at.
    data: Bytes,
    pulse: Arc<Pulse>,
}

impl Streamed {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            data: Bytes::new(),
            pulse: Arc::default(),
        }
    }

    /// The next message. A stream that breaks has ended: its worker comes back by another.
    async fn read(&mut self) -> Option<()> {
        let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
        if let Ok(data) = frame?.ok()?.into_data() {
            self.pulse.came(data.len());
            self.data = data;
        }
        Some(())
    }
}

impl Source for Streamed {
    fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    async fn take(&mut self, len: usize) -> Option<Bytes> {
        while len > 0 && self.data.is_empty() {
            self.read().await?;
        }
        if self.data.len() >= len {
            return Some(self.data.split_to(len));
        }
        let mut whole = Vec::with_capacity(len);
        loop {
            let part = self.data.len().min(len - whole.len());
            whole.extend_from_slice(&self.data.split_to(part));
            if whole.len() == len {
                return Some(whole.into());
            }
            self.read().await?;
        }
    }

    fn other(&mut self, _: u8, _: usize) -> Result<(), Status> {
        Err(Status::unimplemented(
            "cannot read a message of the worker: it is compressed",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::proto::FromWorker;
    use prost::Message;
    use tonic::codegen::tokio_stream;

    /// Frames of a stream that comes in pieces of this size.
    fn frames(bytes: &[u8], piece: usize, intake: &Intake) -> Frames<Streamed> {
        let pieces: Vec<_> = bytes.chunks(piece).map(Bytes::copy_from_slice).collect();
        let pieces = pieces.into_iter().map(Ok::<_, Status>);
        let body = axum::body::Body::from_stream(tokio_stream::iter(pieces));
        Frames::new(Streamed::new(Body::new(body)), intake.clone())
    }

    fn framed(message: &FromWorker) -> Vec<u8> {
        let message = message.encode_to_vec();
        let len = (message.len() as u32).to_be_bytes();
        [&[0][..], &len, &message].concat()
    }

    /// A message of about this many bytes.
    fn of_bytes(bytes: usize, handled: u64) -> FromWorker {
        let command = backend::proto::Command {
            traceparent: "x".repeat(bytes),
            what: None,
        };
        FromWorker {
            handled,
            commands: vec![command],
            ..FromWorker::default()
        }
    }

    #[tokio::test]
    async fn any_pieces_of_a_stream_are_the_same_messages() {
        // The empty one is a sign of life.
        let said = [
            of_bytes(3, 1),
            FromWorker::default(),
            of_bytes(100, 2),
            of_bytes(0, 3),
        ];
        let stream: Vec<u8> = said.iter().flat_map(framed).collect();
        for piece in 1..=stream.len() {
            let mut frames = frames(&stream, piece, &Intake::default());
            for message in &said {
                let (heard, share) = frames.next().await.expect("a message").expect("more");
                assert!(share.is_none(), "{piece}");
                assert_eq!(heard, Frame::from(message.clone()), "{piece}");
            }
            assert!(frames.next().await.expect("the end").is_none());
        }
        let mut torn = frames(&stream[..stream.len() - 1], 7, &Intake::default());
        for _ in 1..said.len() {
            assert!(torn.next().await.expect("a message").is_some());
        }
        assert!(torn.next().await.expect("the end").is_none());
    }

    #[tokio::test]
    async fn what_cannot_be_taken_is_refused_before_it_is_read() {
        let too_long = (MESSAGE_BYTES_MAX as u32 + 1).to_be_bytes();
        for (head, code) in [
            ([&[0][..], &too_long].concat(), tonic::Code::OutOfRange),
            (vec![1, 0, 0, 0, 1], tonic::Code::Unimplemented),
            (vec![0, 0, 0, 0, 1, 0xff], tonic::Code::InvalidArgument),
        ] {
            let refused = frames(&head, 64, &Intake::default()).next().await;
            assert_eq!(refused.err().map(|status| status.code()), Some(code));
        }
    }

    #[test]
    fn a_large_message_has_its_share_before_it_is_read() {
        let intake = Intake::default();
        let large = 2 << 20;
        let held: Vec<Share> = (0..ROOM_BYTES / large)
            .filter_map(|_| intake.try_share(large))
            .collect();
        assert_eq!(held.len(), ROOM_BYTES / large);
        assert!(intake.try_share(SMALL_BYTES + 1).is_none(), "no room");
        let small = intake.try_share(SMALL_BYTES).expect("it needs none");
        assert!(
            intake
                .try_grow(small, 10)
                .is_some_and(|none| none.is_none())
        );
        drop(held);
        let share = intake.try_share(large).expect("room");
        let all = intake.try_grow(share, GROWTH_BYTES).expect("room");
        let other = intake.try_share(large).expect("room");
        assert!(intake.try_grow(other, large).is_none(), "no room");
        drop(all);
    }

    /// Their number was bounded and their bytes were not.
    #[tokio::test]
    async fn large_messages_were_read_whether_there_was_room_or_not() {
        let intake = Intake::default();
        let large = framed(&of_bytes(MESSAGE_BYTES_MAX - 64, 1));
        let mut held = Vec::new();
        for _ in 0..4 {
            let (_, share) = frames(&large, 1 << 20, &intake)
                .next()
                .await
                .expect("read")
                .expect("one");
            held.push(share.expect("it is large"));
        }
        let mut waiting = frames(&large, 1 << 20, &intake);
        let mut next = Box::pin(waiting.next());
        tokio::select! {
            biased;
            _ = &mut next => panic!("there is no room"),
            () = std::future::ready(()) => {}
        }
        // A sign of life goes through all the same.
        let small = framed(&of_bytes(10, 2));
        assert!(frames(&small, 1 << 20, &intake).next().await.is_ok());
        held.pop();
        assert!(matches!(next.await, Ok(Some(_))), "there is room");
    }
}
