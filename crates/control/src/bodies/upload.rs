//! Uploads of clients: streamed to the store, and announced to a room when it is there, as the rules and the client's token say.

use super::books::add;
use super::fault::Fault;
use super::key::{Form, Key, PARTS_TYPE, unix_seconds};
use super::quota::{Over, Transfer};
use super::refusal::Refusal;
use super::stall::Ours;
use super::store::Incoming as Body;
use super::{Announcer, Bodies, UploadSettings};
use crate::page::ClientAddress;
use crate::page::limiter::network;
use axum::body::Bytes;
use hub::Fetched;
use hub::claims::Claims;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use rules::large::reference;
use rules::{Announced, Errand, Message, Outcome, Unannounced, Wanted};
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::codegen::Body as _;
use types::Target;
use wire::base64url::Id20;
use wire::http::{query_pairs, undecodable_param};

/// Names of events, rooms and files in the query.
const NAME_BYTES_MAX: usize = 256;
const MEDIA_TYPE_BYTES_MAX: usize = 100;
/// Time for other nodes to list the sockets of a user.
const FETCH_TIMEOUT: Duration = Duration::from_secs(2);
/// A shard that does not answer by then hangs.
const GRACE: Duration = Duration::from_secs(5);

type Answer = Result<Response<axum::body::Body>, Refusal>;

/// The query of a request.
#[derive(Debug, Default)]
struct Asked {
    namespace: Option<String>,
    room: Option<String>,
    event: Option<String>,
    /// The socket that the client has in that namespace.
    socket: Option<String>,
    /// Of a file.
    name: Option<String>,
}

/// Somebody who may announce this.
struct Permitted {
    room: String,
    except: Vec<String>,
}

/// Everything of an upload is in the folder.
struct Arrived {
    bodies: Arc<Bodies>,
    head: Parts,
    asked: Asked,
    key: Key,
    media_type: String,
    incoming: Body,
    /// The client's place among all uploads.
    transfer: Transfer,
}

pub(crate) async fn take(
    bodies: &Arc<Bodies>,
    head: &Parts,
    body: &mut Incoming,
    ours: &Ours,
) -> Answer {
    let (Some(settings), Some(quotas)) = (bodies.settings.uploads, &bodies.quotas) else {
        let message = "nothing can be uploaded here: set large.uploads";
        return Err(Refusal::new(404, "NOT_FOUND", message));
    };
    let announcer = bodies.announcer()?;
    let asked = Asked::read(head.uri.query().unwrap_or_default())?;
    let (namespace, event) = (asked.namespace(), asked.event()?);
    let rule = announcer.rule(namespace, event)?;
    let promised = promised_bytes(head, settings)?;
    let turn = ours.turn();
    let claims = identify(announcer, head).await?;
    let mut transfer = quotas.begin(&claims.uid, address(head)).map_err(over)?;
    transfer.expect(promised.unwrap_or(1)).map_err(over)?;
    permit(announcer, &asked, rule, &claims).await?;
    transfer.admit().map_err(over)?;
    let media_type = media_type(head);
    let no_name = || Refusal::new(500, "INTERNAL_ERROR", "the system has no randomness");
    let key = Key::make(namespace, form(&media_type)).ok_or_else(no_name)?;
    let mut incoming = bodies.store.begin(&key).await?;
    drop(turn);
    receive(bodies, body, &mut incoming, &mut transfer, settings, ours).await?;
    let _turn = ours.turn();
    let received = incoming.bytes();
    if promised.is_some_and(|promised| promised != received) {
        let message = format!("{received} bytes came, and Content-Length says another number");
        return Err(Refusal::new(400, "INCOMPLETE", message));
    }
    let arrived = Arrived {
        bodies: Arc::clone(bodies),
        head: head.clone(),
        asked,
        key,
        media_type,
        incoming,
        transfer,
    };
    // It has said everything. Should it go now, nothing is left half done.
    let published = tokio::spawn(arrived.publish());
    published.await.unwrap_or_else(|_| Err(no_answer()))
}

impl Arrived {
    async fn publish(self) -> Answer {
        let Self {
            bodies,
            head,
            asked,
            key,
            media_type,
            incoming,
            transfer,
        } = self;
        let size = bodies.store.finish(incoming).await.map_err(unfinished)?;
        let (namespace, event) = (asked.namespace(), asked.event()?);
        let announcer = bodies.announcer()?;
        // A token may have ended meanwhile, and a member may have left.
        let permitted = async {
            let rule = announcer.rule(namespace, event)?;
            let claims = identify(announcer, &head).await?;
            let permitted = permit(announcer, &asked, rule, &claims).await?;
            Ok::<_, Refusal>((claims, permitted))
        };
        let (claims, permitted) = match permitted.await {
            Ok(permitted) => permitted,
            Err(refusal) => {
                // Nobody was told of the body, so nobody needs it. A store that is away forgets it when it is old.
                let _ = bodies.store.delete(&key).await;
                return Err(refusal);
            }
        };
        let url_type = (key.form() == Form::Upload).then_some(media_type.as_str());
        let url = bodies.signer.url(&key, url_type);
        let mut more = vec![("content_type", media_type.as_str())];
        more.extend(asked.name.as_deref().map(|name| ("name", name)));
        let reference = reference(key.as_str(), &url, size, event, &more);
        // If that fails, some may have been told all the same: the body stays.
        announce(announcer, namespace, permitted, &reference).await?;
        drop(transfer);
        let network = network(address(&head));
        tracing::info!(user = claims.uid, address = %network, namespace, %key, size, "uploaded");
        Ok(created(reference))
    }
}

impl Bodies {
    fn announcer(&self) -> Result<&Announcer, Refusal> {
        let starting = || Refusal::new(503, "UNAVAILABLE", "the gateway is starting").after(1);
        self.announcer.get().ok_or_else(starting)
    }
}

impl Announcer {
    fn rule(&self, namespace: &str, event: &str) -> Result<Announced<'_>, Refusal> {
        self.rules.rule(namespace, event).map_err(unannounced)
    }
}

/// A body that is missing here is no fault of the client.
fn unfinished(fault: Fault) -> Fault {
    match fault {
        Fault::Missing => Fault::Away("an upload was removed while it was on its way".to_owned()),
        fault => fault,
    }
}

fn address(head: &Parts) -> IpAddr {
    let address = head.extensions.get().copied();
    let ClientAddress(address) = address.unwrap_or(ClientAddress(Ipv4Addr::UNSPECIFIED.into()));
    address
}

fn form(media_type: &str) -> Form {
    match media_type {
        PARTS_TYPE => Form::Parts,
        _ => Form::Upload,
    }
}

/// Everything that comes, to the store.
async fn receive(
    bodies: &Bodies,
    body: &mut Incoming,
    incoming: &mut Body,
    transfer: &mut Transfer,
    settings: UploadSettings,
    ours: &Ours,
) -> Result<(), Refusal> {
    while let Some(piece) = next(bodies, body).await? {
        let bytes = piece.len() as u64;
        if incoming.bytes() + bytes > settings.bytes_max {
            return Err(too_large(settings));
        }
        transfer.count(bytes).map_err(over)?;
        add(&bodies.books.received_bytes, bytes);
        let _turn = ours.turn();
        bodies.store.write(incoming, piece).await?;
    }
    Ok(())
}

async fn next(bodies: &Bodies, body: &mut Incoming) -> Result<Option<Bytes>, Refusal> {
    loop {
        let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await else {
            return Ok(None);
        };
        let frame = frame.map_err(|_| {
            bodies.books.uploads.cut();
            Refusal::new(400, "INCOMPLETE", "the body ended before its end")
        })?;
        // Trailers are nothing to us.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

impl Asked {
    fn read(query: &str) -> Result<Self, Refusal> {
        let mut asked = Self::default();
        if let Some(name) = undecodable_param(query) {
            let message = format!("the parameter {name:?} is no UTF-8");
            return Err(Refusal::new(400, "INVALID_REQUEST", message));
        }
        for (name, value) in query_pairs(query) {
            let place = match &*name {
                "namespace" => &mut asked.namespace,
                "room" => &mut asked.room,
                "event" => &mut asked.event,
                "socket" => &mut asked.socket,
                "name" => &mut asked.name,
                _ => {
                    let message = format!(
                        "the parameter {name:?} is not known; known: namespace, room, event, socket, name"
                    );
                    return Err(Refusal::new(400, "INVALID_REQUEST", message));
                }
            };
            let is_fit = value.len() <= NAME_BYTES_MAX && !value.chars().any(char::is_control);
            if !is_fit {
                let message = format!(
                    "the parameter {name:?} has control characters, or more than {NAME_BYTES_MAX} bytes"
                );
                return Err(Refusal::new(400, "INVALID_REQUEST", message));
            }
            *place = Some(value.into_owned());
        }
        Ok(asked)
    }

    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("/")
    }

    fn event(&self) -> Result<&str, Refusal> {
        let missing = "name the event that announces it: /upload?event=NAME&room=ROOM";
        let event = self.event.as_deref().filter(|event| !event.is_empty());
        event.ok_or_else(|| Refusal::new(400, "INVALID_REQUEST", missing))
    }
}

/// The number in `Content-Length`.
fn promised_bytes(head: &Parts, settings: UploadSettings) -> Result<Option<u64>, Refusal> {
    let length = head.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    match length {
        Some(bytes) if bytes > settings.bytes_max => Err(too_large(settings)),
        length => Ok(length),
    }
}

fn too_large(settings: UploadSettings) -> Refusal {
    let message = format!(
        "it has more than {} bytes (large.upload_max)",
        settings.bytes_max
    );
    Refusal::new(413, "TOO_LARGE", message)
}

fn unannounced(why: Unannounced) -> Refusal {
    let (status, code) = match why {
        Unannounced::NoNamespace | Unannounced::NotStored => (404, "NOT_FOUND"),
        Unannounced::Reserved => (403, "RESERVED_EVENT"),
        Unannounced::NotForRooms | Unannounced::Schema => (403, "FORBIDDEN"),
    };
    Refusal::new(status, code, why.message())
}

fn over(over: Over) -> Refusal {
    match over {
        Over::AtOnce => {
            let message = "this user or address has too many uploads under way";
            Refusal::new(429, "TOO_MANY_UPLOADS", message).after(5)
        }
        Over::Bytes(seconds) => {
            let message = "this user or address has uploaded what it may for now";
            Refusal::new(429, "QUOTA_EXCEEDED", message).after(seconds)
        }
    }
}

/// The client's token, as good now.
async fn identify(announcer: &Announcer, head: &Parts) -> Result<Claims, Refusal> {
    let Some(verifier) = &announcer.verifier else {
        let message =
            "uploads need tokens, and none can be checked: set auth.secret or another key";
        return Err(Refusal::new(403, "FORBIDDEN", message));
    };
    let bearer = head.headers.get(header::AUTHORIZATION);
    let bearer = bearer.and_then(|value| value.to_str().ok()?.split_once(' '));
    let token = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let missing = || {
        let message = "a token is needed (Authorization: Bearer TOKEN)";
        Refusal::new(401, "AUTHENTICATION_REQUIRED", message)
    };
    let (_, token) = token.ok_or_else(missing)?;
    let verdict = verifier.verify(token.trim(), unix_seconds()).await;
    verdict.map_err(|refused| {
        let denied = refused.denied;
        let status = match denied {
            hub::claims::Denied::Unavailable => 503,
            _ => 401,
        };
        Refusal::new(status, denied.code(), denied.message())
    })
}

/// Whether this user may publish to the room, by the token or as a member of it.
async fn permit(
    announcer: &Announcer,
    asked: &Asked,
    rule: Announced<'_>,
    claims: &Claims,
) -> Result<Permitted, Refusal> {
    let room = asked.room.as_deref().or(rule.room);
    let room = room.filter(|room| !room.is_empty()).ok_or_else(|| {
        let message = "name the room: /upload?event=NAME&room=ROOM";
        Refusal::new(400, "INVALID_REQUEST", message)
    })?;
    let grants = claims.grants.as_ref();
    if grants.is_some_and(|grants| !grants.may_publish(room)) {
        let message = "the token does not allow to publish to that room";
        return Err(Refusal::new(403, "FORBIDDEN", message));
    }
    let sockets = sockets_of(announcer, asked.namespace(), &claims.uid).await?;
    let is_member = sockets
        .iter()
        .any(|socket| socket.rooms.iter().any(|own| own == room));
    // The room of a socket's id is that client's alone, whatever a token says.
    let is_granted = grants.is_some() && Id20::decode(room.as_bytes()).is_none();
    if !is_member && !is_granted && rule.room != Some(room) {
        let message = "no socket of this user is in that room";
        return Err(Refusal::new(403, "NOT_IN_ROOM", message));
    }
    let own = asked.socket.clone().filter(|_| !rule.echo);
    let own = own.filter(|own| sockets.iter().any(|socket| socket.id == *own));
    Ok(Permitted {
        room: room.to_owned(),
        except: own.into_iter().collect(),
    })
}

async fn sockets_of(
    announcer: &Announcer,
    namespace: &str,
    user: &str,
) -> Result<Vec<Fetched>, Refusal> {
    let of = Target {
        namespace: namespace.to_owned(),
        users: vec![user.to_owned()],
        ..Target::default()
    };
    match send(announcer, of, Wanted::Fetch(FETCH_TIMEOUT)).await? {
        Outcome::Found(found) => Ok(found.sockets),
        _ => Err(no_answer()),
    }
}

async fn announce(
    announcer: &Announcer,
    namespace: &str,
    to: Permitted,
    reference: &str,
) -> Result<(), Refusal> {
    let of = Target {
        except: to.except,
        ..Target::room(namespace, to.room)
    };
    let message = Message {
        event: hub::notices::LARGE.to_owned(),
        args: reference.to_owned(),
        ..Message::default()
    };
    match send(announcer, of, Wanted::Emit(message)).await? {
        Outcome::Done { everywhere: true } => Ok(()),
        // Another process has the clients: the upload is repeated there.
        Outcome::Moved => Err(no_answer()),
        _ => {
            let message = "other nodes cannot be reached: only clients of this node got it";
            Err(Refusal::new(503, "CLUSTER_UNAVAILABLE", message).after(1))
        }
    }
}

async fn send(announcer: &Announcer, of: Target, what: Wanted) -> Result<Outcome, Refusal> {
    let (answer, answered) = oneshot::channel();
    let answer = Box::new(move |outcome| drop(answer.send(outcome)));
    announcer.shards.send(Errand {
        of,
        what,
        answer,
        begun: None,
    });
    let answered = tokio::time::timeout(FETCH_TIMEOUT + GRACE, answered).await;
    answered.ok().and_then(Result::ok).ok_or_else(no_answer)
}

fn no_answer() -> Refusal {
    Refusal::new(503, "NO_ANSWER", "a shard did not answer in time").after(1)
}

/// Without parameters; what is none is bytes.
fn media_type(head: &Parts) -> String {
    let said = head.headers.get(header::CONTENT_TYPE);
    let said = said.and_then(|said| said.to_str().ok()).unwrap_or_default();
    let said = said.split(';').next().unwrap_or_default().trim();
    let is_word = |word: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !word.is_empty() && word.bytes().all(fits)
    };
    let is_type = said
        .split_once('/')
        .is_some_and(|(one, two)| is_word(one) && is_word(two));
    // `#` and `&` end a part of an address.
    match is_type && said.len() <= MEDIA_TYPE_BYTES_MAX && !said.contains(['#', '&']) {
        true => said.to_ascii_lowercase(),
        false => "application/octet-stream".to_owned(),
    }
}

fn created(reference: String) -> Response<axum::body::Body> {
    let mut response = Response::new(axum::body::Body::from(reference));
    *response.status_mut() = StatusCode::CREATED;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
