//! The gRPC door: `sockeye.api.v1.Api`, on the listener for workers. The messages become those of the HTTP door.

use super::lists::Page;
use super::model::{self, Done, Order};
use super::problem::{Kind, Problem};
use super::{Api, BODY_BYTES_MAX, books, check, once, proto};
use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use identity::keys::Caller;
use process::seats::Peer;
use prost::Message;
use rules::Wanted;
use serde_json::value::RawValue;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request as HttpRequest, Response as HttpResponse};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};
use types::{Answer, Target};

/// A request is here by then, or its call ends: one that never comes would keep its place for ever.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// The service, for a server of `tonic`.
#[derive(Clone, Debug)]
struct Service(Arc<Api>);

/// The service at its path, for the server that workers attach to.
pub fn routes(api: Arc<Api>) -> Routes {
    Routes::new(Service(api))
}

/// A call that has its key.
struct Call {
    api: Arc<Api>,
    caller: Caller,
    key: Option<String>,
}

type Later<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

/// One method: what it does with the request of a call.
struct Method<Q, F> {
    call: Option<Call>,
    /// The request is here.
    arrived: Option<oneshot::Sender<()>>,
    act: F,
    of: PhantomData<Q>,
}

impl<Q, A, F, L> UnaryService<Q> for Method<Q, F>
where
    Q: Send + 'static,
    A: Send + 'static,
    F: FnOnce(Call, Q) -> L + Clone,
    L: Future<Output = Result<A, Problem>> + Send + 'static,
{
    type Response = A;
    type Future = Later<Response<A>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        drop(self.arrived.take());
        let Some(call) = self.call.take() else {
            return Box::pin(async { Err(Status::internal("a method is called once")) });
        };
        let done = (self.act.clone())(call, request.into_inner());
        Box::pin(async move { done.await.map(Response::new).map_err(Status::from) })
    }
}

impl Call {
    fn admit(api: &Arc<Api>, headers: &HeaderMap) -> Result<Self, Problem> {
        if api.keys().is_empty() {
            return Err(Problem::no_keys());
        }
        let unknown = || {
            Problem::new(
                Kind::Unauthorized,
                "no known API key in the metadata: `authorization: Bearer KEY`",
            )
        };
        let caller = api.keys().find(headers).ok_or_else(unknown)?;
        api.count(&caller).1?;
        Ok(Self {
            api: Arc::clone(api),
            caller,
            key: once::key_of(headers)?.map(str::to_owned),
        })
    }

    async fn order(&self, target: Option<Target>, wanted: Wanted) -> Result<Done, Problem> {
        let order = Order {
            of: within(target),
            stored: false,
            wanted,
        };
        let key = self.key.as_deref();
        self.api.order(&self.caller, key, order).await
    }

    async fn accepted(
        self,
        target: Option<Target>,
        wanted: Wanted,
    ) -> Result<proto::Accepted, Problem> {
        match self.order(target, wanted).await? {
            Done::Accepted(accepted) => Ok(accepted.into()),
            Done::Collected(_) => Err(super::stopping()),
        }
    }
}

// ---- the methods ----------------------------------------------------------------------------------------------------------

async fn emit(call: Call, asked: proto::EmitRequest) -> Result<proto::EmitResponse, Problem> {
    use proto::emit_response::What;
    let message = rules::Message {
        event: asked.event,
        args: check::arguments(&elements(&asked.args)?)?,
        attachments: asked.attachments,
        volatile: asked.volatile,
        receipt: None,
        spot: None,
    };
    let timeout_ms = (asked.ack_timeout_ms > 0).then_some(asked.ack_timeout_ms.into());
    let wanted = check::event(message, timeout_ms)?;
    let what = match call.order(asked.to, wanted).await? {
        Done::Accepted(accepted) => What::Accepted(accepted.into()),
        Done::Collected(collected) => What::Collected(collected.into()),
    };
    Ok(proto::EmitResponse { what: Some(what) })
}

async fn join(call: Call, asked: proto::JoinRequest) -> Result<proto::Accepted, Problem> {
    call.accepted(asked.of, Wanted::Join(asked.rooms)).await
}

async fn leave(call: Call, asked: proto::LeaveRequest) -> Result<proto::Accepted, Problem> {
    call.accepted(asked.of, Wanted::Leave(asked.rooms)).await
}

async fn disconnect(
    call: Call,
    asked: proto::DisconnectRequest,
) -> Result<proto::Accepted, Problem> {
    let close = asked.close;
    call.accepted(asked.of, Wanted::Disconnect { close }).await
}

async fn list_sockets(
    call: Call,
    asked: proto::ListSocketsRequest,
) -> Result<proto::Sockets, Problem> {
    let page = page(asked.after, asked.limit);
    let found = call.api.sockets(&call.caller, within(asked.of), &page);
    let found = found.await?;
    let sockets = found.sockets.into_iter().map(|socket| proto::Socket {
        id: socket.id,
        rooms: socket.rooms,
        data: socket.data.get().to_owned(),
    });
    Ok(proto::Sockets {
        sockets: sockets.collect(),
        next: found.next.unwrap_or_default(),
        complete: found.complete,
    })
}

async fn list_rooms(call: Call, asked: proto::ListRoomsRequest) -> Result<proto::Rooms, Problem> {
    let of = part_of(asked.namespace, asked.local);
    let page = page(asked.after, asked.limit);
    let found = call
        .api
        .rooms(&call.caller, of, &asked.prefix, &page)
        .await?;
    let rooms = found.rooms.into_iter().map(|room| proto::Room {
        room: room.room,
        sockets: room.sockets,
    });
    Ok(proto::Rooms {
        rooms: rooms.collect(),
        next: found.next.unwrap_or_default(),
        complete: found.complete,
    })
}

async fn count_room(call: Call, asked: proto::CountRoomRequest) -> Result<proto::Count, Problem> {
    let of = part_of(asked.namespace, asked.local);
    let count = call.api.count_room(&call.caller, of, asked.room).await?;
    Ok(proto::Count {
        sockets: count.sockets,
        complete: count.complete,
    })
}

// ---- messages -------------------------------------------------------------------------------------------------------------

/// With the default of the HTTP door.
fn within(target: Option<Target>) -> Target {
    let mut target = target.unwrap_or_default();
    if target.namespace.is_empty() {
        target.namespace.push('/');
    }
    target
}

fn part_of(namespace: String, local: bool) -> Target {
    within(Some(Target {
        namespace,
        local,
        ..Target::default()
    }))
}

fn page(after: String, limit: u32) -> Page {
    let page = Page::default();
    Page {
        after: Some(after).filter(|after| !after.is_empty()),
        limit: match limit {
            0 => page.limit,
            limit => limit as usize,
        },
    }
}

/// Raw JSON elements, separated by commas.
fn elements(args: &[u8]) -> Result<Vec<Box<RawValue>>, Problem> {
    let list = [b"[", args, b"]"].concat();
    let elements = serde_json::from_slice(&list);
    elements.map_err(|error| {
        Problem::field(
            "args",
            format!("they are no JSON elements separated by commas: {error}"),
        )
    })
}

impl From<model::Accepted> for proto::Accepted {
    fn from(accepted: model::Accepted) -> Self {
        Self {
            everywhere: accepted.everywhere,
        }
    }
}

impl From<model::Collected> for proto::Collected {
    fn from(collected: model::Collected) -> Self {
        Self {
            acked: collected.acked,
            timed_out: collected.timed_out,
            gone: collected.gone,
            undelivered: collected.undelivered,
            complete: collected.complete,
            answers: collected.answers.into_iter().map(Answer::from).collect(),
        }
    }
}

impl From<model::Answer> for Answer {
    fn from(answer: model::Answer) -> Self {
        let args = answer.args.get();
        let elements = args
            .strip_prefix('[')
            .and_then(|args| args.strip_suffix(']'));
        let attachments = answer
            .attachments
            .iter()
            .filter_map(|text| STANDARD.decode(text).ok());
        Self {
            args: Bytes::copy_from_slice(elements.unwrap_or(args).as_bytes()),
            attachments: attachments.map(Bytes::from).collect(),
        }
    }
}

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        Self::new(code_of(problem.kind()), problem.message())
    }
}

fn code_of(kind: Kind) -> Code {
    match kind {
        Kind::InvalidRequest => Code::InvalidArgument,
        Kind::Unauthorized => Code::Unauthenticated,
        Kind::Forbidden => Code::PermissionDenied,
        Kind::NotFound | Kind::MethodNotAllowed => Code::Unimplemented,
        Kind::PayloadTooLarge => Code::OutOfRange,
        Kind::TooManyRequests => Code::ResourceExhausted,
        Kind::Conflict => Code::Aborted,
        Kind::KeyReused => Code::FailedPrecondition,
        Kind::Busy => Code::Unavailable,
        Kind::NoAnswer => Code::DeadlineExceeded,
    }
}

// ---- the server -----------------------------------------------------------------------------------------------------------

impl NamedService for Service {
    const NAME: &'static str = "sockeye.api.v1.Api";
}

impl Service {
    async fn run<Q, A, F, L>(self, request: HttpRequest<Body>, act: F) -> HttpResponse<Body>
    where
        Q: Message + Default + 'static,
        A: Message + 'static,
        F: FnOnce(Call, Q) -> L + Clone,
        L: Future<Output = Result<A, Problem>> + Send + 'static,
    {
        // Nothing is read from a caller without a key.
        let call = match Call::admit(&self.0, request.headers()) {
            Ok(call) => call,
            Err(problem) => return Status::from(problem).into_http(),
        };
        if let Some(peer) = request.extensions().get::<Peer>() {
            peer.trust();
        }
        let (arrived, arrival) = oneshot::channel();
        let method = Method {
            call: Some(call),
            arrived: Some(arrived),
            act,
            of: PhantomData,
        };
        let codec = tonic_prost::ProstCodec::<A, Q>::default();
        let mut grpc = Grpc::new(codec).max_decoding_message_size(BODY_BYTES_MAX);
        let mut answer = pin!(grpc.unary(method, request));
        tokio::select! {
            answer = &mut answer => answer,
            arrived = tokio::time::timeout(REQUEST_TIMEOUT, arrival) => match arrived {
                Ok(_) => answer.await,
                Err(_) => late().into_http(),
            },
        }
    }
}

fn late() -> Status {
    Status::deadline_exceeded(format!(
        "the request did not come within {} s: nothing was done",
        REQUEST_TIMEOUT.as_secs()
    ))
}

/// What went wrong, as the HTTP door says it.
fn problem_of(answer: &HttpResponse<Body>) -> Option<Kind> {
    let code = Status::from_header_map(answer.headers())?.code();
    let found = Kind::ALL.into_iter().find(|kind| code_of(*kind) == code);
    match code {
        Code::Ok => None,
        // tonic's own words are about requests that it cannot read.
        _ => Some(found.unwrap_or(Kind::InvalidRequest)),
    }
}

impl tonic::codegen::Service<HttpRequest<Body>> for Service {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        let api = self.clone();
        Box::pin(async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default();
            let Some(what) = books::Call::of_method(method) else {
                let unknown = format!("{method:?} is no method of {}", Self::NAME);
                return Ok(Status::unimplemented(unknown).into_http());
            };
            let (began, books) = (Instant::now(), api.0.books());
            let answer = match what {
                books::Call::Emit => api.run(request, emit).await,
                books::Call::Join => api.run(request, join).await,
                books::Call::Leave => api.run(request, leave).await,
                books::Call::Disconnect => api.run(request, disconnect).await,
                books::Call::ListSockets => api.run(request, list_sockets).await,
                books::Call::ListRooms => api.run(request, list_rooms).await,
                books::Call::CountRoom => api.run(request, count_room).await,
                books::Call::DeleteBody | books::Call::History | books::Call::Presence => {
                    Status::unimplemented("this call is made by HTTP").into_http()
                }
            };
            let problem = problem_of(&answer);
            books.note(what, books::Door::Grpc, problem, began.elapsed());
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Settings;
    use axum::body::Bytes;
    use identity::keys::{ApiKeys, Keyring, generate};
    use rules::ToShards;
    use tonic::codegen::Service as _;
    use tonic::codegen::tokio_stream;

    struct Nowhere;

    impl ToShards for Nowhere {
        fn send(&self, _: rules::Errand) {}
    }

    /// The answer to an emit whose body never ends, before the body is read; `None`: the body is waited for.
    fn answer(service: &mut Service, headers: &[(&str, &[u8])]) -> Option<Code> {
        let body = tokio_stream::pending::<Result<Bytes, Infallible>>();
        let body = Body::new(axum::body::Body::from_stream(body));
        let mut request = HttpRequest::post("/sockeye.api.v1.Api/Emit");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut answer = service.call(request.body(body).expect("a request"));
        match answer
            .as_mut()
            .poll(&mut Context::from_waker(std::task::Waker::noop()))
        {
            Poll::Ready(Ok(answer)) => {
                Status::from_header_map(answer.headers()).map(|told| told.code())
            }
            Poll::Pending => None,
        }
    }

    fn service() -> (Service, String) {
        let (key, entry) = generate("ci", &[]).expect("a key");
        let settings = Settings::of(Keyring::new(ApiKeys::parse(&[entry]).expect("an entry")));
        (
            Service(Arc::new(Api::new(settings, Box::new(Nowhere)))),
            key,
        )
    }

    #[tokio::test]
    async fn nothing_is_read_from_a_caller_without_a_key() {
        let (mut service, key) = service();
        let unknown = Some(Code::Unauthenticated);
        assert_eq!(answer(&mut service, &[]), unknown);
        assert_eq!(
            answer(&mut service, &[("x-api-key", b"sockeye_x")]),
            unknown
        );
        assert_eq!(answer(&mut service, &[("x-api-key", key.as_bytes())]), None);
    }

    #[tokio::test]
    async fn a_request_that_never_came_kept_its_place_for_ever() {
        let (mut service, key) = service();
        let body = tokio_stream::pending::<Result<Bytes, Infallible>>();
        let body = Body::new(axum::body::Body::from_stream(body));
        let request = HttpRequest::post("/sockeye.api.v1.Api/Emit").header("x-api-key", &key);
        let answer = service.call(request.body(body).expect("a request")).await;
        let answer = answer.expect("an answer");
        let told = Status::from_header_map(answer.headers()).expect("a status");
        assert_eq!(told.code(), Code::DeadlineExceeded);
        assert!(told.message().contains("nothing was done"), "{told}");
        let problems = service.0.books().by_problem();
        assert!(
            problems.contains(&("no-answer".to_owned(), 1.0)),
            "{problems:?}"
        );
    }

    #[test]
    fn an_idempotency_key_that_cannot_be_used_is_refused_and_not_forgotten() {
        let (mut service, key) = service();
        let headers: [(&str, &[u8]); 2] =
            [("x-api-key", key.as_bytes()), ("idempotency-key", b"\xff")];
        assert_eq!(answer(&mut service, &headers), Some(Code::InvalidArgument));
    }
}
