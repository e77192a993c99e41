//! `GET /v1/node/listen`: what a test client hears, line by line.

use super::client::Client;
use super::order::Order;
use super::places::{Place, Places};
use crate::admin::nodes::Nodes;
use crate::api::http::{self, Called, Problems};
use crate::api::problem::{Kind, Problem};
use crate::api::{Api, Order as Wish};
use crate::metrics::node::Node;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::{Extension, Router};
use identity::keys::{Operator, Standing};
use process::seats::Peer;
use rules::Wanted;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, timeout};
use tonic::codegen::tokio_stream::Stream;
use types::Target;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Batches that wait for the connection, and how large one may get before events are only counted.
const BATCHES_MAX: usize = 4;
const BATCH_BYTES_MAX: usize = 64 * 1024;
/// Events that are told in a second; more are counted.
const EVENTS_MAX: u32 = 200;
const LOOK: Duration = Duration::from_millis(100);
/// Without anything else to say.
const ALIVE: Duration = Duration::from_secs(5);
/// The caller's key is looked at so often.
const KEY_LOOK: Duration = Duration::from_secs(1);
/// The last line waits so long for its reader.
const LAST_WORD: Duration = Duration::from_secs(5);
/// A connection stays so long beyond its time.
const GRACE: Duration = Duration::from_secs(20);

/// What it takes to let test clients in. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    api: Arc<Api>,
    node: Arc<Node>,
    nodes: Nodes,
    places: Places,
}

impl Listening {
    pub(crate) fn new(api: &Arc<Api>, node: &Arc<Node>, nodes: &Nodes) -> Self {
        Self {
            api: Arc::clone(api),
            node: Arc::clone(node),
            nodes: nodes.clone(),
            places: Places::default(),
        }
    }
}

pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    listening: Listening,
    api: &Arc<Api>,
) -> Router<S> {
    let router: Router<Listening> = described().into();
    router
        .route_layer(from_fn_with_state(Arc::clone(api), http::pace))
        .method_not_allowed_fallback(http::wrong_method)
        .with_state(listening)
}

/// The path, and its part of the document of the server API.
pub(crate) fn described() -> OpenApiRouter<Listening> {
    OpenApiRouter::new().routes(routes!(listen))
}

/// One thing that a test client heard, or (`kind` is not `event`) a word about the client itself.
#[derive(ToSchema)]
#[schema(as = HeardLine)]
#[expect(dead_code, reason = "the members are the document's")]
struct Line {
    /// `event`; also `begin`, `joined`, `dropped`, `alive` and `end`, which have other members.
    kind: &'static str,
    /// Unix time, milliseconds.
    at_ms: u64,
    /// Its name.
    event: String,
    /// Arguments as JSON text, without the brackets, cut after 4 KiB.
    args: String,
    /// Bytes of the arguments.
    bytes: usize,
    /// Attachments, which are not shown.
    attachments: usize,
    /// An answer was asked for. The test client answers at once, without arguments.
    asks: bool,
}

/// Let a test client listen
///
/// A client of the node that is asked, without a token: it comes in as others do, is put into the room if one is named, and tells what it
/// hears, one JSON object a line, until the time is over or the caller hangs up. Workers and members of the room see it come. It needs the
/// scope `trace:payload`, with a room also `members`, and a reason for the audit.
#[utoipa::path(get, path = "/v1/node/listen",
    params(
        ("namespace" = Option<String>, Query, description = "The namespace; `/`, if it is left out."),
        ("room" = Option<String>, Query, description = "The room; without one it hears what all in the namespace do."),
        ("seconds" = Option<u64>, Query, minimum = 1, maximum = 600, description = "So long; 300 if it is left out."),
        ("reason" = String, Query, description = "Why, for the audit."),
    ),
    responses((status = 200, description = "Lines, each a JSON object.", body = Line, content_type = "application/x-ndjson"), Problems))]
async fn listen(
    State(listening): State<Listening>,
    operator: Option<Extension<Operator>>,
    standing: Option<Extension<Standing>>,
    peer: Option<Extension<Peer>>,
    RawQuery(query): RawQuery,
) -> Called {
    let (Some(Extension(operator)), Some(Extension(standing))) = (operator, standing) else {
        return Err(Problem::no_keys());
    };
    let order = Order::read(&operator.0, query.as_deref())?;
    if listening.nodes.is_drained() || listening.node.doorway.get().is_none() {
        let detail = "this node takes no clients now: ask another one";
        return Err(Problem::new(Kind::Busy, detail));
    }
    let place = listening.places.take(operator.0.name());
    let place = place.map_err(|why| Problem::new(Kind::Busy, why))?;
    if let Some(Extension(peer)) = peer {
        peer.stay(order.time() + GRACE);
    }
    let (sender, batches) = mpsc::channel(BATCHES_MAX);
    let teller = Teller {
        listening,
        operator,
        standing,
        order,
        sender,
        batch: String::new(),
        second: (Instant::now(), 0),
        dropped: 0,
        _place: place,
    };
    tokio::spawn(teller.run());
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::from_stream(Batches(batches))).into_response())
}

/// The batches of one client, as the body of an answer.
struct Batches(mpsc::Receiver<Bytes>);

impl Stream for Batches {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|batch| batch.map(Ok))
    }
}

/// Lets the client in, brings lines together, and watches over the time and the key.
struct Teller {
    /// First: it is free when its reader has the end.
    _place: Place,
    listening: Listening,
    operator: Operator,
    standing: Standing,
    order: Order,
    sender: mpsc::Sender<Bytes>,
    batch: String,
    /// When the second began, and the events that were told in it.
    second: (Instant, u32),
    dropped: u64,
}

/// How it ended.
enum End {
    /// Its reader has gone.
    Unread,
    /// It has not heard anything.
    NotLetIn(String),
    Over(String),
}

impl Teller {
    async fn run(mut self) {
        let (words, namespace) = (self.order.words(), self.order.namespace.clone());
        let operator = self.operator.0.name().to_owned();
        tracing::info!(operator, of = words, namespace, "a test client listens");
        let audit = Arc::clone(&self.listening.node.audit);
        let entry = audit.begin(&self.operator.0, ("listen", Some(&*namespace)), &words);
        let end = match self.come().await {
            Ok(client) => self.tell(client).await,
            Err(end) => end,
        };
        let (outcome, why) = match end {
            End::Unread => (Ok(()), None),
            End::NotLetIn(why) => (Err(why.clone()), Some(why)),
            End::Over(why) => (Ok(()), Some(why)),
        };
        audit.end(entry, outcome);
        if let Some(why) = why {
            self.write(&json!({"kind": "end", "why": why}));
            let last = Bytes::from(std::mem::take(&mut self.batch));
            // The reader may have gone, or stand still.
            let _ = timeout(LAST_WORD, self.sender.send(last)).await;
        }
    }

    fn write(&mut self, line: &Value) {
        self.batch.push_str(&line.to_string());
        self.batch.push('\n');
    }

    /// Brings the client in, and into its room.
    async fn come(&mut self) -> Result<Client, End> {
        let node = Arc::clone(&self.listening.node);
        let Some(doorway) = node.doorway.get() else {
            return Err(End::NotLetIn("this node takes no clients".to_owned()));
        };
        let coming = Client::come(doorway, &self.order.namespace);
        let client = tokio::select! {
            () = self.sender.closed() => return Err(End::Unread),
            client = coming => client.map_err(End::NotLetIn)?,
        };
        self.write(&json!({"kind": "begin", "socket": client.socket()}));
        match self.join(client.socket()).await {
            Some(why) => Err(End::NotLetIn(why)),
            None => Ok(client),
        }
    }

    async fn tell(&mut self, mut client: Client) -> End {
        let until = Instant::now() + self.order.time();
        let (mut spoke, mut looked) = (Instant::now(), Instant::now());
        let mut looks = interval(LOOK);
        loop {
            // It always reads: a reader that is slow loses lines, and the room has no slow member for that.
            tokio::select! {
                () = self.sender.closed() => return End::Unread,
                read = client.read() => {
                    let heard = match read {
                        Ok(()) => client.hear().await,
                        Err(why) => Err(why),
                    };
                    client.take().iter().for_each(|line| self.tell_event(line));
                    match heard {
                        Ok(()) => continue,
                        Err(why) => return End::Over(why),
                    }
                }
                _ = looks.tick() => {}
            }
            let now = Instant::now();
            if now >= until {
                return End::Over("its time is over".to_owned());
            }
            if now - looked >= KEY_LOOK {
                looked = now;
                let caller = self.standing.caller();
                if !caller.is_some_and(|caller| self.order.is_for(&caller)) {
                    return End::Over("the key or the login of its caller has ended".to_owned());
                }
            }
            self.send(now, &mut spoke);
        }
    }

    /// Puts the client into its room; why that could not be done.
    async fn join(&mut self, socket: &str) -> Option<String> {
        let room = self.order.room.clone()?;
        let order = Wish {
            of: Target {
                local: true,
                ..Target::room(self.order.namespace.clone(), socket)
            },
            stored: false,
            wanted: Wanted::Join(vec![room.clone()]),
        };
        match self
            .listening
            .api
            .order(&self.operator.0, None, order)
            .await
        {
            Ok(_) => {
                self.write(&json!({"kind": "joined", "room": room}));
                None
            }
            Err(problem) => Some(format!("it cannot join the room: {}", problem.message())),
        }
    }

    /// A crowd that talks is not told in whole.
    fn tell_event(&mut self, line: &Value) {
        let now = Instant::now();
        if now - self.second.0 >= Duration::from_secs(1) {
            self.second = (now, 0);
        }
        self.second.1 += 1;
        match self.second.1 <= EVENTS_MAX && self.batch.len() < BATCH_BYTES_MAX {
            true => self.write(line),
            false => self.dropped += 1,
        }
    }

    fn send(&mut self, now: Instant, spoke: &mut Instant) {
        if self.dropped > 0 {
            let count = std::mem::take(&mut self.dropped);
            self.write(&json!({"kind": "dropped", "events": count}));
        }
        if self.batch.is_empty() && now - *spoke >= ALIVE {
            self.write(&json!({"kind": "alive"}));
        }
        if !self.batch.is_empty()
            && let Ok(place) = self.sender.try_reserve()
        {
            *spoke = now;
            place.send(Bytes::from(std::mem::take(&mut self.batch)));
        }
    }
}
