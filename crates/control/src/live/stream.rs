//! `GET /v1/trace`: the lines of all nodes, as they come, to one reader. A slow one costs a bounded queue; what finds no room is counted
//! and told.

use super::desk::{ALIVE, BATCH_BYTES_MAX, Desk, LOOK, OWN_MAX, Running};
use super::line::{self, Line};
use super::order::{KNOWN, Order};
use super::others::Others;
use crate::admin::nodes::Nodes;
use crate::api::Api;
use crate::api::http::{self, Called, Problems, Query};
use crate::api::problem::{Kind, Problem};
use crate::inside::audit::Audit;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use identity::keys::{Caller, Operator, Standing};
use nodes::relay::Relays;
use process::seats::Peer;
use serde_json::json;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, timeout};
use tonic::codegen::tokio_stream::Stream;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Batches that wait for the connection.
const BATCHES_MAX: usize = 4;
/// The caller's key is looked at so often.
const KEY_LOOK: Duration = Duration::from_secs(1);
/// The last line waits so long for its reader.
const LAST_WORD: Duration = Duration::from_secs(5);
/// A connection stays so long for a trace beyond its time.
const GRACE: Duration = Duration::from_secs(10);

/// What it takes to follow something. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) desk: Desk,
    pub(crate) nodes: Nodes,
    pub(crate) relays: Option<Relays>,
    pub(crate) audit: Arc<Audit>,
}

pub(crate) fn routes<S: Clone + Send + Sync + 'static>(live: Live, api: &Arc<Api>) -> Router<S> {
    let router: Router<Live> = described().into();
    router
        .route_layer(from_fn_with_state(Arc::clone(api), http::pace))
        .method_not_allowed_fallback(http::wrong_method)
        .with_state(live)
}

/// The path, and its part of the document of the server API.
pub(crate) fn described() -> OpenApiRouter<Live> {
    OpenApiRouter::new().routes(routes!(trace))
}

/// Follow a user, a session, a room, events of one name or a share of all sessions
///
/// What passes, on all nodes, as it passes: one JSON object a line, until the time is over or the caller hangs up. Arguments are told by
/// type and size only; with `payload` as they are, which needs the scope `trace:payload` and a reason for the audit.
#[utoipa::path(get, path = "/v1/trace",
    params(
        ("session" = Option<String>, Query, description = "The id of a session, or of one of its sockets."),
        ("user" = Option<String>, Query, description = "All sockets of a user."),
        ("room" = Option<String>, Query, description = "Events to a room."),
        ("event" = Option<String>, Query, description = "Events of a name."),
        ("share" = Option<String>, Query, description = "Of the sessions that begin from now on so many, by chance: `2.5` or `2.5%`. 1,024 sockets of each shard at most; one beyond counts as a dropped line."),
        ("record" = Option<bool>, Query, description = "For a recording: without `payload`, names of users and rooms are marks. Equal names have equal marks in one recording."),
        ("namespace" = Option<String>, Query, description = "Only there. For rooms and events `/`, if it is left out; for users and sessions all."),
        ("seconds" = Option<u64>, Query, minimum = 1, maximum = 600, description = "So long; 300 if it is left out."),
        ("lines" = Option<u32>, Query, minimum = 1, maximum = 1_000, description = "Lines that each node tells in a second; 200 if it is left out. More are counted."),
        ("payload" = Option<bool>, Query, description = "Show arguments as they are."),
        ("reason" = Option<String>, Query, description = "Why, for the audit. Needed with `payload`."),
        ("local" = Option<bool>, Query, description = "Only at the node that is asked."),
    ),
    responses((status = 200, description = "Lines, each a JSON object.", body = Line, content_type = "application/x-ndjson"), Problems))]
async fn trace(
    State(live): State<Live>,
    operator: Option<Extension<Operator>>,
    standing: Option<Extension<Standing>>,
    peer: Option<Extension<Peer>>,
    RawQuery(query): RawQuery,
) -> Called {
    let (Some(Extension(Operator(caller))), Some(Extension(standing))) = (operator, standing)
    else {
        return Err(Problem::no_keys());
    };
    let query = Query::read(query.as_deref(), &KNOWN)?;
    let order = Order::read(&caller, &query)?;
    if live.nodes.is_drained() {
        let detail = "this node is drained: its shards have ended; ask another one";
        return Err(Problem::new(Kind::Busy, detail));
    }
    let Some(running) = live.desk.begin(&order) else {
        let detail = format!("{OWN_MAX} traces run at this node: end one of them");
        return Err(Problem::new(Kind::Busy, detail));
    };
    if let Some(Extension(peer)) = peer {
        peer.stay(order.time() + GRACE);
    }
    let entry = Entry::begin(&live.audit, &caller, &order);
    let (sender, batches) = mpsc::channel(BATCHES_MAX);
    let others = Others::new(live.nodes.clone(), live.relays, &order);
    let teller = Teller {
        node: live.desk.me(),
        order,
        running,
        others,
        standing,
        nodes: live.nodes,
        sender,
        batch: String::new(),
    };
    tokio::spawn(teller.run(entry));
    Ok(answer(batches))
}

fn answer(batches: mpsc::Receiver<Bytes>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, Body::from_stream(Batches(batches))).into_response()
}

/// The batches of one trace, as the body of an answer.
struct Batches(mpsc::Receiver<Bytes>);

impl Stream for Batches {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|batch| batch.map(Ok))
    }
}

/// The line of the audit, which is told how the trace ended.
struct Entry {
    audit: Arc<Audit>,
    number: u64,
}

impl Entry {
    fn begin(audit: &Arc<Audit>, caller: &Caller, order: &Order) -> Self {
        let words = order.words();
        tracing::info!(
            operator = caller.name(),
            of = words,
            payload = order.shows_payload(),
            "trace begins"
        );
        Self {
            number: audit.begin(caller, ("trace", order.namespace()), &words),
            audit: Arc::clone(audit),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.audit.end(self.number, Ok(()));
    }
}

/// Brings lines together, and watches over the time and the key.
struct Teller {
    node: u16,
    order: Order,
    running: Running,
    others: Others,
    standing: Standing,
    nodes: Nodes,
    sender: mpsc::Sender<Bytes>,
    batch: String,
}

impl Teller {
    async fn run(mut self, entry: Entry) {
        let why = self.tell().await;
        drop(entry);
        if let Some(why) = why {
            self.running.write(&mut self.batch);
            line::write(&mut self.batch, &line::end(why));
            let last = Bytes::from(std::mem::take(&mut self.batch));
            // The reader may have gone, or stand still.
            let _ = timeout(LAST_WORD, self.sender.send(last)).await;
        }
    }

    /// Why it ended; `None`: the reader has gone.
    async fn tell(&mut self) -> Option<&'static str> {
        let until = Instant::now() + self.order.time();
        let (mut spoke, mut looked) = (Instant::now(), Instant::now());
        let mut looks = interval(LOOK);
        self.begin();
        loop {
            let has_room = self.batch.len() < BATCH_BYTES_MAX;
            tokio::select! {
                () = self.sender.closed() => return None,
                line = self.others.next(), if has_room => {
                    self.batch.push_str(&line);
                    continue;
                }
                _ = looks.tick() => {}
            }
            let now = Instant::now();
            if now >= until {
                return Some("its time is over");
            }
            if now - looked >= KEY_LOOK {
                looked = now;
                let caller = self.standing.caller();
                if !caller.is_some_and(|caller| self.order.is_for(&caller)) {
                    return Some("the key or the login of its caller has ended");
                }
            }
            if self.nodes.is_drained() {
                return Some("this node is drained, and its shards have ended");
            }
            self.others.look(&mut self.batch);
            self.running.write(&mut self.batch);
            if self.batch.is_empty() && now - spoke >= ALIVE {
                line::write(&mut self.batch, &line::alive());
            }
            if !self.batch.is_empty()
                && let Ok(place) = self.sender.try_reserve()
            {
                spoke = now;
                place.send(Bytes::from(std::mem::take(&mut self.batch)));
            }
        }
    }

    fn begin(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |now| now.as_millis() as u64);
        let begin = json!({
            "kind": "begin", "node": self.node, "of": self.order.words(), "payload": self.order.shows_payload(),
            "until_ms": now_ms + self.order.time().as_millis() as u64,
        });
        line::write(&mut self.batch, &begin);
    }
}
