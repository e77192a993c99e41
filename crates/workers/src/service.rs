//! Keys, the first message, and each link's frames on their way to the driver; and what is gRPC's own.

use super::host::Host;
use super::intake::{Frames, Intake, Source, Streamed};
use super::large::{self, Larder};
use super::letter::{LINK_MESSAGES, Letter, Outbox, outbox};
use super::pipe::Pipe;
use super::state::Desk;
use backend::proto::Hello;
use backend::{Denied, Link};
use identity::keys::Lease;
use process::flood::Lines;
use process::seats::Peer;
use prost::bytes::{BufMut, Bytes};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{Notify, oneshot};
use tokio::time::{MissedTickBehavior, interval};
use tonic::Status;
use tonic::body::Body;
use tonic::codec::{EncodeBody, EncodeBuf, Encoder, SingleMessageCompressionOverride};
use tonic::codegen::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::codegen::tokio_stream::Stream;
use tonic::server::NamedService;

/// A worker's first message comes by then.
pub(super) const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is looked whether a message that is not whole goes on coming.
const LOOK: Duration = Duration::from_secs(1);

/// Of the log, that strangers cause.
pub(super) const LINES: &str = "connections of workers refused or ended";

#[derive(Clone)]
pub(super) struct Workers {
    desks: Arc<BTreeMap<String, Desk>>,
    intake: Intake,
    lines: Lines,
    pub(super) host: Host,
    larder: Arc<dyn Larder>,
}

impl Workers {
    pub(super) fn new(desks: BTreeMap<String, Desk>, host: Host, larder: Arc<dyn Larder>) -> Self {
        Self {
            desks: Arc::new(desks),
            intake: Intake::default(),
            lines: Lines::new(LINES),
            host,
            larder,
        }
    }

    /// `backend`: the one that was named, if anything was read.
    fn refuse(&self, backend: &str, why: &str) -> Status {
        self.host.facts.refused.fetch_add(1, Ordering::Relaxed);
        match self.lines.admit() {
            true => tracing::warn!(backend, "worker refused: {why}"),
            false => drop(self.host.log.suppressed.fetch_add(1, Ordering::Relaxed)),
        }
        Status::unauthenticated(
            "cannot attach: no backend of this name has this key; its entry goes into backends.NAME.api_keys (metadata `authorization: Bearer KEY`)",
        )
    }

    /// Takes in a caller that shows a key in these headers and says hello.
    pub(super) async fn attach<S: Source>(
        &self,
        headers: &HeaderMap,
        frames: &mut Frames<S>,
        peer: Option<&Peer>,
        pipe: Option<&Arc<Pipe>>,
    ) -> Result<Attached, Status> {
        // Nothing is read from a caller without a key.
        let known = self
            .desks
            .values()
            .any(|desk| desk.keys.find(headers).is_some());
        if !known {
            return Err(self.refuse("", "no backend has its key"));
        }
        peer.iter().copied().for_each(Peer::trust);
        let first = tokio::time::timeout(HELLO_TIMEOUT, frames.next()).await;
        let first = first.map_err(|_| {
            Status::deadline_exceeded("cannot attach: the first message did not come within 5 s")
        })??;
        let hello = first.and_then(|(frame, _)| frame.into_hello());
        let hello = hello.ok_or_else(|| {
            Status::invalid_argument("cannot attach: the first message has no `hello`")
        })?;
        let desk = self.desks.get(&hello.backend);
        let lease = desk.and_then(|desk| Some((desk.clone(), desk.keys.lease(headers)?)));
        // A key of one backend tells nothing about the names of others.
        let other = || self.refuse(&hello.backend, "its key is for another backend");
        let (desk, lease) = lease.ok_or_else(other)?;
        let (outbox, messages) = outbox();
        let link = introduce(&desk, hello, outbox, pipe.cloned()).await?;
        let messages = Messages {
            messages,
            room: Arc::clone(&desk.room),
        };
        Ok(Attached {
            desk,
            link,
            lease,
            larder: Arc::clone(&self.larder),
            messages,
        })
    }

    /// Links may be served by shards: their messages wait for no store.
    pub(super) fn may_lodge(&self) -> bool {
        self.larder.is_needless()
    }

    pub(super) fn intake(&self) -> &Intake {
        &self.intake
    }

    async fn stream(self, request: HttpRequest<Body>) -> Result<Messages, Status> {
        let (request, body) = request.into_parts();
        let peer = request.extensions.get::<Peer>().cloned();
        let mut frames = Frames::new(Streamed::new(body), self.intake.clone());
        let attached = self.attach(&request.headers, &mut frames, peer.as_ref(), None);
        let Attached {
            desk,
            link,
            lease,
            larder,
            messages,
        } = attached.await?;
        tokio::spawn(read(desk, link, frames, lease, peer, larder));
        Ok(messages)
    }
}

/// A worker that the driver knows.
pub(super) struct Attached {
    pub(super) desk: Desk,
    pub(super) link: Link,
    pub(super) lease: Lease,
    pub(super) larder: Arc<dyn Larder>,
    pub(super) messages: Messages,
}

async fn introduce(
    desk: &Desk,
    hello: Hello,
    outbox: Outbox,
    pipe: Option<Arc<Pipe>>,
) -> Result<Link, Status> {
    let (answer, answered) = oneshot::channel();
    let letter = Letter::Attach {
        hello,
        outbox,
        pipe,
        answer,
    };
    let stopping = || Status::unavailable("cannot attach: the gateway is stopping");
    desk.letters.send(letter).await.map_err(|_| stopping())?;
    let link = answered.await.map_err(|_| stopping())?;
    link.map_err(|denied| match denied {
        Denied::Crowd => Status::resource_exhausted(denied.message()),
        Denied::Instance | Denied::Received => Status::invalid_argument(denied.message()),
    })
}

/// Hands on what a worker says until its stream ends, or its key does. The queue to the driver is short: while it is full, nothing
/// is read. Returns what it read from; `None`: there is no driver any more.
pub(super) async fn read<S: Source>(
    desk: Desk,
    link: Link,
    mut frames: Frames<S>,
    mut lease: Lease,
    peer: Option<Peer>,
    larder: Arc<dyn Larder>,
) -> Option<Frames<S>> {
    let mut expelled = pin!(lease.ended());
    let pulse = Arc::clone(frames.source().pulse());
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let last = loop {
        let next = {
            let mut next = pin!(frames.next());
            loop {
                tokio::select! {
                    biased;
                    () = expelled.as_mut() => break None,
                    next = next.as_mut() => break Some(next),
                    // A driver with a full queue has more to do than to look who is silent.
                    _ = looks.tick() => if pulse.beats() {
                        let _ = desk.letters.try_send(Letter::Heard(link));
                    },
                }
            }
        };
        let Some(next) = next else {
            peer.iter().for_each(Peer::distrust);
            break Letter::Expelled(link);
        };
        let letter = match next {
            Ok(Some((mut frame, share))) => {
                {
                    let mut stored = pin!(large::make_small(&*larder, &mut frame));
                    loop {
                        tokio::select! {
                            biased;
                            () = stored.as_mut() => break,
                            // Its worker waits for us: nothing is read meanwhile.
                            _ = looks.tick() => {
                                pulse.answer();
                                let _ = desk.letters.try_send(Letter::Heard(link));
                            }
                        }
                    }
                }
                Letter::Frame(link, frame, share)
            }
            Ok(None) => break Letter::Detached(link, None),
            Err(fault) => break Letter::Detached(link, Some(fault)),
        };
        desk.letters.send(letter).await.ok()?;
    };
    desk.letters.send(last).await.ok()?;
    Some(frames)
}

/// What a worker is sent.
pub(super) struct Messages {
    messages: Receiver<Result<Bytes, Status>>,
    room: Arc<Notify>,
}

impl Messages {
    /// The next one; `None`: the driver has ended the link without a word.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Messages {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = self.messages.poll_recv(cx);
        // The driver waits for it only if there was none.
        if message.is_ready() && self.messages.len() + 1 >= LINK_MESSAGES {
            self.room.notify_one();
        }
        message
    }
}

/// Messages to workers come encoded.
struct Encoded;

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.reserve(message.len());
        into.put(message);
        Ok(())
    }
}

fn streamed(messages: Messages) -> HttpResponse<Body> {
    let plain = SingleMessageCompressionOverride::default();
    let body = EncodeBody::new_server(Encoded, messages, None, plain, None);
    let mut response = HttpResponse::new(Body::new(body));
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

type Later<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl NamedService for Workers {
    const NAME: &'static str = "sockeye.worker.v1.Workers";
}

impl tonic::codegen::Service<HttpRequest<Body>> for Workers {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = Later<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        let workers = self.clone();
        Box::pin(async move {
            if request.uri().path() != "/sockeye.worker.v1.Workers/Attach" {
                return Ok(Status::unimplemented(
                    "the one method is sockeye.worker.v1.Workers/Attach",
                )
                .into_http());
            }
            let attached = workers.stream(request).await;
            Ok(attached.map_or_else(Status::into_http, streamed))
        })
    }
}
