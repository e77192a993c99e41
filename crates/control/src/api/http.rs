//! The HTTP door: paths under `/v1`, and the document that describes them.

use super::books::{Call, Door};
use super::model::{
    Accepted, Collected, Count, Deleted, Disconnect, Done, Emit, HistoryPage, Import, Imported,
    Join, Leave, Members, Order, Rooms, Sockets,
};
use super::problem::{Details, Kind, Problem};
use super::{Api, check, lists::Page, once};
use crate::history::{Deletion, Range};
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, FromRequest, MatchedPath, Path, RawQuery, Request, State};
use axum::http::header;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use identity::keys::Operator;
use rules::{Message, Wanted};
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use types::Target;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::http::{query_pairs, undecodable_param};

/// One call.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// The beginning of all its paths.
pub(crate) const ROOT: &str = "/v1/";
pub(crate) const DOCUMENT: &str = "/v1/openapi.json";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Sockeye server API",
        description = "Send events to clients of a Sockeye cluster, move their sockets between rooms, disconnect them, and see who is there. \
                       The operators' listener of every node serves it."
    ),
    security(("key" = [])),
    modifiers(&Keys)
)]
struct Document;

struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "A key of `admin.api_keys`: `sockeye api-key NAME` makes one.",
            ))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("key", SecurityScheme::Http(scheme));
    }
}

/// Answers that every call may get.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "the variants are the document's")]
pub(crate) enum Problems<'a> {
    /// A member or parameter cannot be used: `field` names it.
    #[response(status = 400, content_type = "application/problem+json")]
    Invalid(#[to_schema] Details<'a>),
    /// No key, or one that is not known.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(#[to_schema] Details<'a>),
    /// The key is not for this, or no key is configured.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(#[to_schema] Details<'a>),
    /// The body has more than 1 MiB.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(#[to_schema] Details<'a>),
    /// The Idempotency-Key was used for another request.
    #[response(status = 422, content_type = "application/problem+json")]
    KeyReused(#[to_schema] Details<'a>),
    /// The key has made its calls. Retry-After says when it may call again.
    #[response(status = 429, content_type = "application/problem+json")]
    TooMany(#[to_schema] Details<'a>),
    /// The gateway has too much to do, and has not begun with it.
    #[response(status = 503, content_type = "application/problem+json")]
    Busy(#[to_schema] Details<'a>),
    /// A part of the gateway did not answer in time. The call may be carried out all the same.
    #[response(status = 504, content_type = "application/problem+json")]
    NoAnswer(#[to_schema] Details<'a>),
}

/// The paths, and the document of exactly these.
fn described() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(emit))
        .routes(routes!(join))
        .routes(routes!(leave))
        .routes(routes!(disconnect))
        .routes(routes!(sockets))
        .routes(routes!(rooms))
        .routes(routes!(count))
        .routes(routes!(delete_body))
        .routes(routes!(read_history, delete_history, import_history))
        .routes(routes!(members))
}

/// `others`: the documents of calls that are served elsewhere.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    api: &Arc<Api>,
    others: impl IntoIterator<Item = utoipa::openapi::OpenApi>,
) -> Router<S> {
    let (routes, mut document) = described().split_for_parts();
    others.into_iter().for_each(|other| document.merge(other));
    let document: Arc<str> = document.to_json().unwrap_or_default().into();
    let document = get(move || async move {
        (
            [(header::CONTENT_TYPE, "application/json")],
            document.to_string(),
        )
    });
    let calls = routes.route_layer(from_fn_with_state(Arc::clone(api), admit));
    calls
        .route(DOCUMENT, document)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(Arc::clone(api))
}

/// For paths under `/v1` that nobody serves.
pub(crate) fn not_found(path: &str) -> Response {
    let detail = format!("{path:?} is no path of the server API: {DOCUMENT} lists them");
    Problem::new(Kind::NotFound, detail).into_response()
}

pub(crate) async fn wrong_method(request: Request) -> Response {
    let detail = format!(
        "{} is no method of {:?}: {DOCUMENT} lists them",
        request.method(),
        request.uri().path()
    );
    Problem::new(Kind::MethodNotAllowed, detail).into_response()
}

/// Only with a key, and only so often with each.
async fn admit(
    State(api): State<Arc<Api>>,
    caller: Option<Extension<Operator>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(Extension(Operator(caller))) = caller else {
        return Problem::no_keys().into_response();
    };
    let (began, path) = (Instant::now(), request.extensions().get::<MatchedPath>());
    let call = path.and_then(|path| Call::at(path.as_str()));
    let response = counted(&api, &caller, request, next).await;
    if let Some(call) = call {
        let problem = response.extensions().get().copied();
        api.books.note(call, Door::Http, problem, began.elapsed());
    }
    response
}

/// Only so often with each key. Those who need none are not counted.
pub(crate) async fn pace(
    State(api): State<Arc<Api>>,
    caller: Option<Extension<Operator>>,
    request: Request,
    next: Next,
) -> Response {
    match caller {
        Some(Extension(Operator(caller))) => counted(&api, &caller, request, next).await,
        None => next.run(request).await,
    }
}

async fn counted(
    api: &Api,
    caller: &identity::keys::Caller,
    request: Request,
    next: Next,
) -> Response {
    let (standing, admitted) = api.count(caller);
    let mut response = match admitted {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    if let Some(standing) = standing {
        standing.write(response.headers_mut());
    }
    response
}

type Caller = Extension<Operator>;
type Body = Result<Bytes, BytesRejection>;
pub(crate) type Called = Result<Response, Problem>;

/// Send an event
///
/// To rooms, users, single sockets or a whole namespace, on all nodes. With `ack` the call waits for the answers of all receivers.
#[utoipa::path(post, path = "/v1/emit", request_body = Emit,
    params(("Idempotency-Key" = Option<String>, Header, description = "A call that is repeated under the same key within 10 minutes, at any node of the cluster, is carried out once.")),
    responses((status = 202, description = "It is on its way.", body = Accepted), (status = 200, description = "The answers to an event with `ack`.", body = Collected), Problems))]
async fn emit(asked: Asking<Emit>) -> Called {
    asked.order().await
}

/// Put sockets into rooms
#[utoipa::path(post, path = "/v1/join", request_body = Join,
    params(("Idempotency-Key" = Option<String>, Header, description = "As for `/v1/emit`.")),
    responses((status = 202, description = "They join.", body = Accepted), Problems))]
async fn join(asked: Asking<Join>) -> Called {
    asked.order().await
}

/// Take sockets out of rooms
#[utoipa::path(post, path = "/v1/leave", request_body = Leave,
    params(("Idempotency-Key" = Option<String>, Header, description = "As for `/v1/emit`.")),
    responses((status = 202, description = "They leave.", body = Accepted), Problems))]
async fn leave(asked: Asking<Leave>) -> Called {
    asked.order().await
}

/// Put sockets out
#[utoipa::path(post, path = "/v1/disconnect", request_body = Disconnect,
    params(("Idempotency-Key" = Option<String>, Header, description = "As for `/v1/emit`.")),
    responses((status = 202, description = "They are put out.", body = Accepted), Problems))]
async fn disconnect(asked: Asking<Disconnect>) -> Called {
    asked.order().await
}

/// A request for something to be done.
struct Asking<T> {
    api: Arc<Api>,
    caller: Operator,
    key: Option<String>,
    what: T,
}

impl<T: DeserializeOwned> FromRequest<Arc<Api>> for Asking<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Problem> {
        let caller = request.extensions().get::<Operator>().cloned();
        let key = once::key_of(request.headers()).map(|key| key.map(str::to_owned));
        let body = Bytes::from_request(request, api).await;
        Ok(Self {
            api: Arc::clone(api),
            caller: caller.ok_or_else(Problem::no_keys)?,
            what: read(body)?,
            key: key?,
        })
    }
}

impl<T> Asking<T>
where
    Order: TryFrom<T, Error = Problem>,
{
    async fn order(self) -> Called {
        let (Operator(caller), key) = (&self.caller, self.key.as_deref());
        let order = Order::try_from(self.what)?;
        Ok(match self.api.order(caller, key, order).await? {
            Done::Accepted(accepted) => {
                (axum::http::StatusCode::ACCEPTED, Json(accepted)).into_response()
            }
            Done::Collected(collected) => Json(collected).into_response(),
        })
    }
}

impl TryFrom<Emit> for Order {
    type Error = Problem;

    fn try_from(mut emit: Emit) -> Result<Self, Problem> {
        let of = emit.target();
        let message = Message {
            args: check::arguments(&emit.args)?,
            attachments: check::decoded(&emit.attachments)?,
            event: emit.event,
            volatile: emit.volatile,
            receipt: None,
            spot: None,
        };
        Ok(Self {
            of,
            stored: emit.stored,
            wanted: check::event(message, emit.ack.map(|ack| ack.timeout_ms))?,
        })
    }
}

/// Requests whose own members need no check.
macro_rules! orders {
    ($($name:ident: $request:ident => $wanted:expr,)*) => {$(
        impl TryFrom<$name> for Order {
            type Error = Problem;

            fn try_from(mut $request: $name) -> Result<Self, Problem> {
                Ok(Self {
                    of: $request.target(),
                    stored: false,
                    wanted: $wanted,
                })
            }
        }
    )*};
}

orders! {
    Join: request => Wanted::Join(request.join),
    Leave: request => Wanted::Leave(request.leave),
    Disconnect: request => Wanted::Disconnect { close: request.close },
}

/// List sockets
#[utoipa::path(get, path = "/v1/sockets",
    params(
        ("namespace" = Option<String>, Query, description = "`/` if it is left out."),
        ("room" = Option<Vec<String>>, Query, description = "Members of this room; may be given several times."),
        ("user" = Option<Vec<String>>, Query, description = "Sockets of this user; may be given several times."),
        ("socket" = Option<Vec<String>>, Query, description = "The socket with this id; may be given several times."),
        ("except" = Option<Vec<String>>, Query, description = "No members of this room; may be given several times."),
        ("local" = Option<bool>, Query, description = "Only sockets of the node that is asked."),
        ("all" = Option<bool>, Query, description = "All sockets of the namespace. Needed without `room`, `user` and `socket`."),
        ("after" = Option<String>, Query, description = "`next` of the page before."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1_000, description = "Sockets of one page; 100 if it is left out."),
    ),
    responses((status = 200, description = "A page.", body = Sockets), Problems))]
async fn sockets(
    State(api): State<Arc<Api>>,
    Extension(Operator(caller)): Caller,
    RawQuery(query): RawQuery,
) -> Called {
    let asked = Asked::read(
        query.as_deref(),
        &[
            "namespace",
            "room",
            "user",
            "socket",
            "except",
            "local",
            "all",
            "after",
            "limit",
        ],
    )?;
    let page = api.sockets(&caller, asked.of, &asked.page).await?;
    Ok(Json(page).into_response())
}

/// List rooms
#[utoipa::path(get, path = "/v1/rooms",
    params(
        ("namespace" = Option<String>, Query, description = "`/` if it is left out."),
        ("prefix" = Option<String>, Query, description = "Only rooms whose names begin so."),
        ("local" = Option<bool>, Query, description = "Only sockets of the node that is asked."),
        ("after" = Option<String>, Query, description = "`next` of the page before."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1_000, description = "Rooms of one page; 100 if it is left out."),
    ),
    responses((status = 200, description = "A page.", body = Rooms), Problems))]
async fn rooms(
    State(api): State<Arc<Api>>,
    Extension(Operator(caller)): Caller,
    RawQuery(query): RawQuery,
) -> Called {
    let asked = Asked::read(
        query.as_deref(),
        &["namespace", "prefix", "local", "after", "limit"],
    )?;
    let page = api
        .rooms(&caller, asked.of, &asked.prefix, &asked.page)
        .await?;
    Ok(Json(page).into_response())
}

/// Count the members of a room
#[utoipa::path(get, path = "/v1/rooms/{room}/count",
    params(
        ("room" = String, Path, description = "Name of the room."),
        ("namespace" = Option<String>, Query, description = "`/` if it is left out."),
        ("local" = Option<bool>, Query, description = "Only sockets of the node that is asked."),
    ),
    responses((status = 200, description = "The number. A room without members has none.", body = Count), Problems))]
async fn count(
    State(api): State<Arc<Api>>,
    Extension(Operator(caller)): Caller,
    room: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Called {
    let unread = |_| Problem::field("room", "the name in the path is no UTF-8");
    let Path(room) = room.map_err(unread)?;
    let asked = Asked::read(query.as_deref(), &["namespace", "local"])?;
    let count = api.count_room(&caller, asked.of, room).await?;
    Ok(Json(count).into_response())
}

/// Delete a stored body
///
/// That of a large event or of an upload, by the `key` of its `large_message`.
#[utoipa::path(delete, path = "/v1/large/{key}",
    params(
        ("key" = String, Path, description = "`key` of the message."),
        ("namespace" = Option<String>, Query, description = "The namespace of the message; `/` if it is left out."),
    ),
    responses((status = 204, description = "It is gone."),
        (status = 404, description = "There is no such body, or no more.", body = Details, content_type = "application/problem+json"), Problems))]
async fn delete_body(
    State(api): State<Arc<Api>>,
    Extension(Operator(caller)): Caller,
    key: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Called {
    let unread = |_| Problem::field("key", "the key in the path is no UTF-8");
    let Path(key) = key.map_err(unread)?;
    let asked = Query::read(query.as_deref(), &["namespace"])?;
    api.delete_body(&caller, asked.namespace(), &key).await?;
    Ok(axum::http::StatusCode::NO_CONTENT.into_response())
}

/// Members of a room
///
/// By user, on all nodes, where the namespace has presence (`namespaces.NAME.presence`). A node answers from what it knows; one that has
/// no member of the room asks the others first, and goes on hearing of the room for a minute.
#[utoipa::path(get, path = "/v1/presence",
    params(
        ("namespace" = Option<String>, Query, description = "`/` if it is left out."),
        ("room" = String, Query, description = "The room."),
    ),
    responses((status = 200, description = "Its members.", body = Members),
        (status = 404, description = "Rooms of this name have no presence.", body = Details, content_type = "application/problem+json"), Problems))]
async fn members(
    State(api): State<Arc<Api>>,
    Extension(Operator(caller)): Caller,
    RawQuery(query): RawQuery,
) -> Called {
    let asked = Query::read(query.as_deref(), &["namespace", "room"])?;
    let room = asked.room()?;
    let members = api.members(&caller, asked.namespace(), room);
    Ok(Json(members.await?).into_response())
}

/// Read what a room said
///
/// From the store of history, if the namespace has one (`namespaces.NAME.history.stored`).
#[utoipa::path(get, path = "/v1/history",
    params(
        ("namespace" = Option<String>, Query, description = "`/` if it is left out."),
        ("room" = String, Query, description = "The room."),
        ("before" = Option<String>, Query, description = "Only events before this place, newest first; `next` of the page before."),
        ("after" = Option<String>, Query, description = "Only events after this place, oldest first; `0` is the beginning."),
        ("since" = Option<u64>, Query, description = "Only events of this time and later, in ms since 1970."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1_000, description = "Events of one page; 100 if it is left out. A page has 1 MiB at most."),
    ),
    responses((status = 200, description = "A page.", body = HistoryPage),
        (status = 404, description = "Nothing of this room is stored.", body = Details, content_type = "application/problem+json"), Problems))]
async fn read_history(
    State(api): State<Arc<Api>>,
    Extension(Operator(caller)): Caller,
    RawQuery(query): RawQuery,
) -> Called {
    let known = ["namespace", "room", "before", "after", "since", "limit"];
    let asked = Query::read(query.as_deref(), &known)?;
    let room = asked.room()?;
    let range = asked.range()?;
    let page = api.read_history(&caller, asked.namespace(), room, range);
    Ok(Json(page.await?).into_response())
}

/// Delete what was said
///
/// A whole room, one event of it, or all that clients of one user said in the namespace. What clients have is theirs.
#[utoipa::path(delete, path = "/v1/history",
    params(
        ("namespace" = Option<String>, Query, description = "`/` if it is left out."),
        ("room" = Option<String>, Query, description = "All of this room, or with `at` one event of it."),
        ("at" = Option<String>, Query, description = "`at` of the event."),
        ("user" = Option<String>, Query, description = "All that clients of this user said. Either `room` or `user` is needed."),
    ),
    responses((status = 200, description = "It is gone from the store.", body = Deleted),
        (status = 404, description = "Nothing of this namespace is stored.", body = Details, content_type = "application/problem+json"), Problems))]
async fn delete_history(
    State(api): State<Arc<Api>>,
    Extension(Operator(caller)): Caller,
    RawQuery(query): RawQuery,
) -> Called {
    let asked = Query::read(query.as_deref(), &["namespace", "room", "at", "user"])?;
    let deletion = asked.deletion()?;
    let deleted = api
        .delete_history(&caller, asked.namespace(), deletion)
        .await?;
    Ok(Json(deleted).into_response())
}

/// Store what another store had
///
/// Events of one room, oldest first, with their times and users. Members do not hear them. The answer comes when the store has them.
/// What is stored twice is there twice: `sockeye history import` looks first. It needs the scope `forget`, as a deletion does.
#[utoipa::path(post, path = "/v1/history", request_body = Import,
    responses((status = 200, description = "They are stored.", body = Imported),
        (status = 404, description = "Nothing of this room is stored.", body = Details, content_type = "application/problem+json"), Problems))]
async fn import_history(
    State(api): State<Arc<Api>>,
    Extension(Operator(caller)): Caller,
    body: Body,
) -> Called {
    let imported = api.import_history(&caller, read(body)?);
    Ok(Json(imported.await?).into_response())
}

/// Parameters of a query that stand once for each name that they mean.
const LISTS: [&str; 4] = ["room", "user", "socket", "except"];

/// The members of a query string.
#[derive(Default)]
struct Asked {
    of: Target,
    prefix: String,
    page: Page,
}

impl Asked {
    fn read(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut asked = Self::default();
        asked.of.namespace.push('/');
        let mut given = std::collections::HashSet::new();
        for (name, value) in parameters(query)? {
            if !known.contains(&&*name) {
                let detail = format!("the parameter is not known; known: {}", known.join(", "));
                return Err(Problem::field(name, detail));
            }
            if !LISTS.contains(&&*name) && !given.insert(name.to_string()) {
                return Err(Problem::field(name, "it is given twice"));
            }
            asked.take(&name, value.into_owned())?;
        }
        Ok(asked)
    }

    fn take(&mut self, name: &str, value: String) -> Result<(), Problem> {
        let of = &mut self.of;
        match name {
            "namespace" => of.namespace = value,
            "room" => of.rooms.push(value),
            "user" => of.users.push(value),
            "socket" => of.sockets.push(value),
            "except" => of.except.push(value),
            "local" => of.local = parsed(name, &value, "true or false")?,
            "all" => of.all = parsed(name, &value, "true or false")?,
            "prefix" => self.prefix = value,
            "after" => self.page.after = Some(value),
            _ => self.page.limit = parsed(name, &value, "a whole number")?,
        }
        Ok(())
    }
}

/// Two values that are no text would be one: a room that nobody meant.
fn parameters(
    query: Option<&str>,
) -> Result<impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)>, Problem> {
    let query = query.unwrap_or_default();
    match undecodable_param(query) {
        Some(name) => Err(Problem::field(name, "the parameter is no UTF-8")),
        None => Ok(query_pairs(query)),
    }
}

/// The members of a query string, each of which stands once.
pub(crate) struct Query(std::collections::HashMap<String, String>);

impl Query {
    pub(crate) fn read(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut given = std::collections::HashMap::new();
        for (name, value) in parameters(query)? {
            if !known.contains(&&*name) {
                let detail = format!("the parameter is not known; known: {}", known.join(", "));
                return Err(Problem::field(name, detail));
            }
            if given.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(Problem::field(name, "it is given twice"));
            }
        }
        Ok(Self(given))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn parsed<T: std::str::FromStr>(
        &self,
        name: &str,
        needed: &str,
    ) -> Result<Option<T>, Problem> {
        let given = self.get(name).map(|text| parsed(name, text, needed));
        given.transpose()
    }

    fn namespace(&self) -> &str {
        self.get("namespace").unwrap_or("/")
    }

    fn room(&self) -> Result<&str, Problem> {
        self.get("room").ok_or_else(|| missing("room"))
    }

    fn range(&self) -> Result<Range, Problem> {
        let limit = self.parsed("limit", "a whole number")?;
        let since = self.parsed("since", "a time in ms since 1970")?;
        let range = Range::read(self.get("before"), self.get("after"), limit);
        let range = range.map_err(|error| Problem::new(Kind::InvalidRequest, error))?;
        Ok(range.since(since))
    }

    fn deletion(&self) -> Result<Deletion, Problem> {
        let owned = |name: &str| self.get(name).map(str::to_owned);
        let at = self.get("at").map(|text| {
            text.parse()
                .map_err(|error| Problem::field("at", format!("{error}")))
        });
        match (owned("room"), owned("user"), at.transpose()?) {
            (Some(room), None, at) => Ok(Deletion::Room { room, at }),
            (None, Some(user), None) => Ok(Deletion::User { user }),
            (None, None, _) => Err(missing("room")),
            (None, Some(_), Some(_)) => Err(Problem::field("at", "it is for events of a room")),
            (Some(_), Some(_), _) => Err(Problem::field("user", "give either a room or a user")),
        }
    }
}

fn missing(name: &str) -> Problem {
    Problem::field(name, "it is missing")
}

fn parsed<T: std::str::FromStr>(name: &str, value: &str, needed: &str) -> Result<T, Problem> {
    let parsed = value.parse();
    parsed.map_err(|_| Problem::field(name, format!("cannot use {value:?}: {needed} is needed")))
}

/// Reads a body, and names the member that is at fault.
fn read<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let body = body.map_err(|error| match error.status().as_u16() {
        413 => Problem::new(
            Kind::PayloadTooLarge,
            format!("the body has more than {BODY_BYTES_MAX} bytes"),
        ),
        _ => Problem::new(
            Kind::InvalidRequest,
            format!("cannot read the body: {error}"),
        ),
    })?;
    // Members of an array would be taken by their places.
    if body.trim_ascii_start().starts_with(b"[") {
        let detail = "cannot use the body: it is an array, and an object is needed";
        return Err(Problem::new(Kind::InvalidRequest, detail));
    }
    let mut reader = serde_json::Deserializer::from_slice(&body);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let field = error.path().to_string();
        let detail = format!("cannot use the body: {}", error.inner());
        match field.as_str() {
            "." | "?" => Problem::new(Kind::InvalidRequest, detail),
            _ => Problem::field(field, detail),
        }
    })?;
    let end = reader.end();
    end.map_err(|error| {
        Problem::new(
            Kind::InvalidRequest,
            format!("cannot use the body: {error}"),
        )
    })?;
    Ok(read)
}
