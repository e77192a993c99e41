//! One node as its operators see it: figures of the last hour, sessions, rooms, ends, settings, actions. The console and the
//! command line read all of it through the server API, `/v1/node/…`.

pub(crate) mod audit;
mod backends;
mod conditions;
mod everywhere;
mod failures;
mod lately;
mod leaving;
mod links;
mod looks;
mod near;
mod series;

pub use audit::Audit;
pub use near::bounded_keys;

use crate::admin::nodes::Nodes;
use crate::api::Api;
use crate::api::http::{self, Called, Problems, Query};
use crate::api::problem::{Kind, Problem};
use crate::debug::Inspect;
use crate::metrics::Exporter;
use crate::metrics::node::Node;
use audit::Action;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use backends::{__path_node_backends, node_backends};
use conditions::{Conditions, Finding};
use everywhere::{
    __path_ends_of_nodes, __path_links_of_nodes, __path_rooms_of_nodes, __path_sessions_of_nodes,
    LinksOfNodes, ends_of_nodes, links_of_nodes, rooms_of_nodes, sessions_of_nodes,
};
use failures::{__path_node_failures, node_failures};
use hub::{Classes, Question, RoomsWanted, SessionsWanted, Sight};
use identity::keys::{Operator, Scope};
use lately::Lately;
use leaving::{DrainPlan, DrainProgress, DrainView, SessionClasses};
use looks::{Ends, Rooms, Sessions};
use near::{NearLimit, Refusal};
use serde::Serialize;
use series::{Point, Series};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::base64url::Id20;

/// Items of one answer at most.
const ITEMS_MAX: usize = 1_000;
/// Sessions of one answer at most: each is up to some kilobytes.
const SESSIONS_MAX: usize = 200;
const ITEMS: usize = 100;
/// Questions to the shards at once. More wait for up to five seconds.
const LOOKS_MAX: usize = 4;
const TURN_TIMEOUT: Duration = Duration::from_secs(5);
/// Shards that do not answer by then are missing, and the answer says so.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A setting in force.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Setting {
    /// Such as `server.shards`.
    pub key: String,
    /// Its value. Secrets are hidden.
    #[schema(value_type = serde_json::Value)]
    pub value: serde_json::Value,
    /// The same where it is a number, and the bytes of a size; `null` otherwise.
    pub number: Option<u64>,
    /// Where it comes from, such as a file and its line.
    pub source: String,
}

/// The effect that a reload would have now.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Reload {
    /// Keys that would change at once.
    pub live: Vec<String>,
    /// Keys that would change at a restart.
    pub restart: Vec<String>,
    /// Why the configuration would be refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// The configuration of this process. May wait for the disk.
pub trait Settings: Send + Sync + Debug {
    /// All settings in force.
    fn shown(&self) -> Vec<Setting>;
    /// The effect that a reload would have.
    fn reload(&self) -> Reload;
}

/// Everything that is shown. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    inspect: Arc<dyn Inspect>,
    settings: Arc<dyn Settings>,
    exporter: Arc<Exporter>,
    nodes: Nodes,
    node: Arc<Node>,
    looks: Arc<Semaphore>,
    /// Questions to all nodes.
    rounds: Arc<Semaphore>,
    all_links: Lately<Result<Arc<LinksOfNodes>, Problem>>,
    hour: Arc<Series>,
    conditions: Arc<Conditions>,
}

impl Inside {
    pub(crate) fn new(
        inspect: Arc<dyn Inspect>,
        settings: Arc<dyn Settings>,
        exporter: &Arc<Exporter>,
        nodes: Nodes,
        node: &Arc<Node>,
    ) -> Self {
        Self {
            inspect,
            settings,
            exporter: Arc::clone(exporter),
            nodes,
            node: Arc::clone(node),
            looks: Arc::new(Semaphore::new(LOOKS_MAX)),
            rounds: Arc::new(Semaphore::new(everywhere::ROUNDS_MAX)),
            all_links: Lately::default(),
            hour: Arc::default(),
            conditions: Arc::default(),
        }
    }

    /// To be called about once a second.
    pub(crate) fn sample(&self, now: Instant) {
        self.hour.sample(now, self.exporter.shards());
        self.conditions.sample(now, &self.exporter);
        self.node.bridges.pass_time();
    }

    /// Whether this node is well, as it was when it was sampled last.
    pub(crate) fn health(&self) -> Health {
        let conditions = self.conditions.findings();
        let sentence = match &conditions[..] {
            [] => "All is well.".to_owned(),
            [only] => only.sentence.clone(),
            [worst, others @ ..] => format!("{} And {} more.", worst.sentence, others.len()),
        };
        let ok = conditions.iter().all(|found| found.severity == "info");
        Health {
            ok,
            sentence,
            conditions,
        }
    }

    /// The answers of the shards that answer in time, and whether all did.
    async fn look(&self, question: Question) -> Result<(Vec<Sight>, bool), Problem> {
        if self.nodes.is_drained() {
            let detail = "this node is drained: its sessions are gone, and its shards have ended";
            return Err(Problem::new(Kind::Busy, detail));
        }
        let turn = Arc::clone(&self.looks).acquire_owned();
        let Ok(Ok(turn)) = tokio::time::timeout(TURN_TIMEOUT, turn).await else {
            let detail =
                format!("{LOOKS_MAX} questions to the shards are open, and they take long");
            return Err(Problem::new(Kind::Busy, detail));
        };
        let inspect = Arc::clone(&self.inspect);
        let looked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let sights = inspect.look(&question, ANSWER_TIMEOUT);
            let is_complete = sights.len() == inspect.shard_count();
            (sights, is_complete)
        });
        let stopping = |_| Problem::new(Kind::Busy, "the gateway is stopping");
        looked.await.map_err(stopping)
    }
}

pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    inside: Inside,
    api: &Arc<Api>,
) -> Router<S> {
    let router: Router<Inside> = described().into();
    router
        .route_layer(from_fn_with_state(Arc::clone(api), http::pace))
        .layer(map_response(not_stored))
        .method_not_allowed_fallback(http::wrong_method)
        .with_state(inside)
}

/// An answer is for the one who asked, and old a second later.
async fn not_stored(mut response: Response) -> Response {
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}

/// The paths, and their part of the document of the server API.
pub(crate) fn described() -> OpenApiRouter<Inside> {
    OpenApiRouter::new()
        .routes(routes!(node_overview))
        .routes(routes!(node_sessions))
        .routes(routes!(node_rooms))
        .routes(routes!(node_ends))
        .routes(routes!(node_backends))
        .routes(routes!(node_failures))
        .routes(routes!(sessions_of_nodes))
        .routes(routes!(rooms_of_nodes))
        .routes(routes!(ends_of_nodes))
        .routes(routes!(links_of_nodes))
        .routes(routes!(node_drain))
        .routes(routes!(node_config))
        .routes(routes!(node_audit))
}

type Caller = Option<Extension<Operator>>;

/// Only with a key that has the scope, for all namespaces: the answers are about the whole process.
fn admit(caller: &Caller, scope: Scope) -> Result<(), Problem> {
    let Some(Extension(Operator(caller))) = caller else {
        return Err(Problem::no_keys());
    };
    match caller.may_everywhere(scope) {
        true => Ok(()),
        false => Err(Problem::without_scope(caller, scope)),
    }
}

fn limited(query: &Query, max: usize, usual: usize) -> Result<usize, Problem> {
    let limit = query.parsed::<usize>("limit", "a whole number")?;
    let limit = limit.unwrap_or(usual.min(max));
    match (1..=max).contains(&limit) {
        true => Ok(limit),
        false => {
            let detail = format!("{limit} is not between 1 and {max}");
            Err(Problem::field("limit", detail))
        }
    }
}

/// Whether the node is well.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// Nothing is wrong that an operator should look at.
    pub(crate) ok: bool,
    /// One sentence about all of it.
    pub(crate) sentence: String,
    /// The faults, the worst first.
    pub(crate) conditions: Vec<Finding>,
}

/// The node that answers.
#[derive(Debug, Serialize, ToSchema)]
struct Me {
    /// Its number in the cluster.
    number: u16,
    /// Host and process.
    name: String,
    version: String,
    /// A word, such as `ready` or `draining`.
    state: String,
    /// Unix time of its start, seconds.
    started: u64,
}

/// The bounds that its figures are compared with.
#[derive(Debug, Serialize, ToSchema)]
struct Bounds {
    /// Connections above which newcomers are refused; `null` before the node has begun.
    connections: Option<u64>,
    /// Memory that the process may use; `null` if nobody knows.
    memory_bytes: Option<u64>,
}

/// The node at a glance.
#[derive(Debug, Serialize, ToSchema)]
struct Overview {
    node: Me,
    /// Unix time at this node, milliseconds.
    now_ms: u64,
    limits: Bounds,
    health: Health,
    /// What was refused or cut since the node began, by reason.
    refusals: Vec<Refusal>,
    /// One a second, the oldest first.
    points: Vec<Point>,
}

/// The figures of the last hour
///
/// One point a second, of the node that is asked, and whether the node is well. Ask again with the `t` of the last point to get those that
/// came since.
#[utoipa::path(get, path = "/v1/node/overview",
    params(
        ("after" = Option<u64>, Query, description = "Only points after this time, in Unix milliseconds."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 3_600, description = "So many of the newest points; 300 if it is left out."),
    ),
    responses((status = 200, description = "The figures.", body = Overview), Problems))]
async fn node_overview(State(inside): State<Inside>, RawQuery(query): RawQuery) -> Called {
    let query = Query::read(query.as_deref(), &["after", "limit"])?;
    let after = query.parsed("after", "a time in ms since 1970")?;
    let limit = limited(&query, 3_600, 300)?;
    let me = inside.nodes.me();
    let bounds = inside.exporter.bounds();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let overview = Overview {
        node: Me {
            number: me.number,
            name: me.card.name,
            version: me.card.version,
            state: me.card.state,
            started: me.card.started_s,
        },
        now_ms: now.map_or(0, |now| now.as_millis() as u64),
        limits: Bounds {
            connections: bounds.map(|bounds| bounds.connections),
            memory_bytes: bounds.and_then(|bounds| bounds.memory_bytes),
        },
        health: inside.health(),
        refusals: inside.refusals(),
        points: inside.hour.after(after.unwrap_or_default(), limit),
    };
    Ok(Json(overview).into_response())
}

/// Find sessions of the node
///
/// Those that fit all of what is given; without anything, some of all. Only sessions of the node that is asked are looked at: `/v1/sockets`
/// finds sockets on all nodes. With `id`, the answer also has the kernel's figures of the connection and the workers of the sockets.
#[utoipa::path(get, path = "/v1/node/sessions",
    params(
        ("id" = Option<String>, Query, description = "The id of the session, or of one of its sockets."),
        ("user" = Option<String>, Query, description = "With a socket of this user."),
        ("address" = Option<String>, Query, description = "The client's address."),
        ("room" = Option<String>, Query, description = "With a socket in this room of the namespace; of `/`, if none is given."),
        ("namespace" = Option<String>, Query, description = "With a socket in this namespace."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 200, description = "So many are shown; 100 if it is left out."),
    ),
    responses((status = 200, description = "The sessions.", body = Sessions), Problems))]
async fn node_sessions(
    State(inside): State<Inside>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Called {
    admit(&caller, Scope::Read)?;
    let found = inside.sessions(query.as_deref()).await?;
    Ok(Json(found).into_response())
}

impl Inside {
    async fn sessions(&self, query: Option<&str>) -> Result<Sessions, Problem> {
        let known = ["id", "user", "address", "room", "namespace", "limit"];
        let query = Query::read(query, &known)?;
        let limit = limited(&query, SESSIONS_MAX, ITEMS)?;
        let id = query.get("id").map(|text| {
            let id = Id20::decode(text.as_bytes());
            id.ok_or_else(|| {
                Problem::field("id", format!("{text:?} is no id of a session or socket"))
            })
        });
        let is_one = id.is_some();
        let wanted = SessionsWanted {
            id: id.transpose()?,
            address: query.parsed("address", "an IP address")?,
            namespace: query.get("namespace").map(str::to_owned),
            user: query.get("user").map(str::to_owned),
            room: query.get("room").map(str::to_owned),
            limit,
        };
        let (sights, complete) = self.look(Question::Sessions(wanted)).await?;
        let mut found = Sessions {
            sessions: Vec::new(),
            matched: 0,
            complete,
        };
        for sight in sights {
            if let Sight::Sessions(seen) = sight {
                found.matched += seen.matched;
                found
                    .sessions
                    .extend(seen.items.into_iter().map(looks::Session::from));
            }
        }
        found.sessions.truncate(limit);
        if is_one && let Some(windows) = self.node.workers.windows.get() {
            for session in &mut found.sessions {
                session.find_workers(windows).await;
            }
        }
        Ok(found)
    }
}

/// Find rooms of the node
///
/// The largest, the busiest or the slowest first. Only members at the node that is asked are counted: `/v1/rooms` counts those of all nodes.
#[utoipa::path(get, path = "/v1/node/rooms",
    params(
        ("namespace" = Option<String>, Query, description = "Only rooms of this namespace."),
        ("contains" = Option<String>, Query, description = "Only rooms whose names have this text in them."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1_000, description = "So many are shown; 100 if it is left out."),
        ("order" = Option<String>, Query, description = "`largest`; `busiest`: up to 128 of each shard, of a sample; or `slowest`: those for whose members most bytes wait. `largest` if it is left out."),
    ),
    responses((status = 200, description = "The rooms.", body = Rooms), Problems))]
async fn node_rooms(
    State(inside): State<Inside>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Called {
    admit(&caller, Scope::Read)?;
    let found = inside.rooms(query.as_deref()).await?;
    Ok(Json(found).into_response())
}

impl Inside {
    async fn rooms(&self, query: Option<&str>) -> Result<Rooms, Problem> {
        let query = Query::read(query, &["namespace", "contains", "limit", "order"])?;
        let limit = limited(&query, ITEMS_MAX, ITEMS)?;
        let order = query.get("order");
        let wanted = RoomsWanted {
            namespace: query.get("namespace").map(str::to_owned),
            contains: query.get("contains").unwrap_or_default().to_owned(),
            limit: match order {
                None | Some("largest") => limit + 1,
                // Shards add up: a room that is none of the first on any of them may be the first of all.
                _ => ITEMS_MAX + 1,
            },
        };
        let question = match order {
            None | Some("largest") => Question::Rooms(wanted),
            Some("busiest") => Question::BusyRooms(wanted),
            Some("slowest") => Question::SlowRooms(wanted),
            Some(other) => {
                let detail = format!("{other:?} is none of largest, busiest and slowest");
                return Err(Problem::field("order", detail));
            }
        };
        let (sights, complete) = self.look(question).await?;
        let seen = sights.into_iter().flat_map(|sight| match sight {
            Sight::Rooms(seen) => seen.items,
            _ => Vec::new(),
        });
        let mut rooms = looks::merged(seen.collect(), limit + 1);
        let more = rooms.len() > limit;
        rooms.truncate(limit);
        Ok(Rooms {
            rooms,
            more,
            complete,
        })
    }
}

/// List the last ends of sessions
///
/// Why the last sessions of the node that is asked ended, and what led to it. The newest first.
#[utoipa::path(get, path = "/v1/node/ends",
    params(("limit" = Option<usize>, Query, minimum = 1, maximum = 1_000, description = "So many are shown; 100 if it is left out.")),
    responses((status = 200, description = "The ends.", body = Ends), Problems))]
async fn node_ends(
    State(inside): State<Inside>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Called {
    admit(&caller, Scope::Read)?;
    let found = inside.ends(query.as_deref()).await?;
    Ok(Json(found).into_response())
}

impl Inside {
    async fn ends(&self, query: Option<&str>) -> Result<Ends, Problem> {
        let query = Query::read(query, &["limit"])?;
        let limit = limited(&query, ITEMS_MAX, ITEMS)?;
        let (sights, complete) = self.look(Question::Ends { limit }).await?;
        let seen = sights.into_iter().flat_map(|sight| match sight {
            Sight::Ends(ends) => ends,
            _ => Vec::new(),
        });
        let mut ends: Vec<looks::End> = seen.map(looks::End::from).collect();
        ends.sort_by_key(|end| std::cmp::Reverse(end.at_ms));
        ends.truncate(limit);
        Ok(Ends { ends, complete })
    }
}

/// Show the plan of a drain, or how far it is
///
/// How many sessions of each kind the node that is asked has, at which rate a drain closes them, and by when it is over.
#[utoipa::path(get, path = "/v1/node/drain",
    responses((status = 200, description = "The plan, and the progress.", body = DrainView), Problems))]
async fn node_drain(
    State(inside): State<Inside>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Called {
    admit(&caller, Scope::Read)?;
    Query::read(query.as_deref(), &[])?;
    let me = inside.nodes.me();
    // The shards of a drained node have ended.
    let (sights, complete) = match inside.nodes.is_drained() {
        true => (Vec::new(), true),
        false => inside.look(Question::Classes).await?,
    };
    let classes = sights.into_iter().map(|sight| match sight {
        Sight::Classes(classes) => classes,
        _ => Classes::default(),
    });
    let classes = classes.fold(Classes::default(), Classes::and);
    let moving = inside.nodes.moving();
    let begun = moving.begun();
    let pace = begun.map_or_else(|| moving.pace(), |begun| begun.pace);
    let sessions = begun.map_or(classes.all, |begun| begun.sessions);
    let figures = inside.exporter.figures();
    let count = |name, labels: &[&str]| figures.value(name, labels).unwrap_or_default() as u64;
    let view = DrainView {
        node: me.number,
        state: me.card.state,
        plan: DrainPlan::new(pace, sessions),
        progress: begun.map(DrainProgress::from),
        sessions: SessionClasses::of(classes, count("sockeye_tls_connections", &[])),
        closed_in_a_pause: count("sockeye_sent_away_total", &["pause"]),
        closed_while_busy: count("sockeye_sent_away_total", &["busy"]),
        complete,
    };
    Ok(Json(view).into_response())
}

/// The configuration in force.
#[derive(Debug, Serialize, ToSchema)]
struct Configuration {
    settings: Vec<Setting>,
    reload: Reload,
    /// Limits that have a figure beside them, the nearest first.
    limits: Vec<NearLimit>,
}

/// Show the configuration
///
/// Every setting of the node that is asked and where it comes from, what a reload would change, and how near the node is to its limits. Secrets
/// are hidden.
#[utoipa::path(get, path = "/v1/node/config",
    responses((status = 200, description = "The configuration.", body = Configuration), Problems))]
async fn node_config(State(inside): State<Inside>, caller: Caller) -> Called {
    admit(&caller, Scope::Operate)?;
    let read = tokio::task::spawn_blocking(move || {
        let settings = inside.settings.shown();
        Configuration {
            limits: inside.near(&settings),
            reload: inside.settings.reload(),
            settings,
        }
    });
    let stopping = |_| Problem::new(Kind::Busy, "the gateway is stopping");
    Ok(Json(read.await.map_err(stopping)?).into_response())
}

/// The actions of operators.
#[derive(Debug, Serialize, ToSchema)]
struct Actions {
    /// The newest first.
    actions: Vec<Action>,
}

/// List the last actions of operators
///
/// Logins, drains, looks at payload, and calls that moved or disconnected sockets, sent events from the console or deleted history, at the
/// node that is asked.
/// A thousand are remembered; the log has them all.
#[utoipa::path(get, path = "/v1/node/audit",
    params(("limit" = Option<usize>, Query, minimum = 1, maximum = 1_000, description = "So many are shown; 100 if it is left out.")),
    responses((status = 200, description = "The actions.", body = Actions), Problems))]
async fn node_audit(
    State(inside): State<Inside>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Called {
    admit(&caller, Scope::Operate)?;
    let query = Query::read(query.as_deref(), &["limit"])?;
    let actions = inside.node.audit.newest(limited(&query, ITEMS_MAX, ITEMS)?);
    Ok(Json(Actions { actions }).into_response())
}
