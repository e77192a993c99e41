//! Sessions, rooms, ends and links of all nodes: each node is asked for its own, by the way of relayed connections, and those that do not answer are
//! named. Nothing of this goes through Redis.

use super::{
    Caller, ITEMS, ITEMS_MAX, Inside, Problems, SESSIONS_MAX, TURN_TIMEOUT, admit, limited,
};
use crate::api::http::{Called, Query};
use crate::api::problem::{Kind, Problem};
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use identity::keys::Scope;
use nodes::relay::{ANSWER_BYTES_MAX, Relays};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use utoipa::ToSchema;

/// Questions to all nodes at once. More wait for up to five seconds.
pub(super) const ROUNDS_MAX: usize = 2;
/// Nodes that one question asks at once: each answer is up to two megabytes.
const ASKED_MAX: usize = 16;
/// Of all answers to one question.
const ROUND_BYTES_MAX: usize = 64 << 20;

/// What is wanted of each node, in the words of its own calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Sessions,
    Rooms,
    Ends,
    Links,
}

impl Wanted {
    const ALL: [Self; 4] = [Self::Sessions, Self::Rooms, Self::Ends, Self::Links];

    fn word(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Rooms => "rooms",
            Self::Ends => "ends",
            Self::Links => "links",
        }
    }

    fn limit_max(self) -> usize {
        match self {
            Self::Sessions => SESSIONS_MAX,
            Self::Rooms | Self::Ends | Self::Links => ITEMS_MAX,
        }
    }
}

/// A node that was asked.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = NodeThatWasAsked)]
struct Asked {
    /// Its number.
    node: u16,
    /// Its part is in the answer.
    answered: bool,
    /// Why it is not; `null` if it is.
    why: Option<String>,
}

/// A room, as several nodes have it.
#[derive(Default)]
struct RoomOfNodes {
    members: u64,
    nodes: Vec<Value>,
    /// Events each second, of the node that heard of most.
    events: Option<f64>,
    deliveries: f64,
    /// Members for whom bytes wait, and these bytes.
    behind: Option<(u64, u64)>,
}

/// The parts of all nodes.
struct Gathered {
    /// Each item has the number of its node, `node`.
    items: Vec<Value>,
    matched: u64,
    more: bool,
    complete: bool,
    asked: Vec<Asked>,
}

impl Inside {
    /// Questions of other nodes are answered from now on.
    pub(crate) fn answer_nodes(&self) {
        if let Some(relays) = self.node.relays.get() {
            let inside = self.clone();
            relays.answer_with(move |question| {
                let inside = inside.clone();
                async move { inside.answer_node(&question).await }
            });
        }
    }

    /// A node asks in the cluster's name: it has admitted the one who wants to know.
    async fn answer_node(&self, question: &[u8]) -> Vec<u8> {
        let answer = match std::str::from_utf8(question).ok().and_then(read_question) {
            Some((wanted, query)) => {
                let found = self.own(wanted, Some(query)).await;
                found.map_err(|problem| problem.detail().to_owned())
            }
            None => Err("it does not know this question".to_owned()),
        };
        let answer = match answer {
            Ok(found) => json!({"found": found}).to_string(),
            Err(why) => json!({"why": why}).to_string(),
        };
        if answer.len() > ANSWER_BYTES_MAX {
            let why = "its answer is too large: ask for fewer (limit)";
            return json!({"why": why}).to_string().into();
        }
        answer.into()
    }

    /// The part of this node.
    async fn own(&self, wanted: Wanted, query: Option<&str>) -> Result<Value, Problem> {
        let found = match wanted {
            Wanted::Sessions => self.sessions(query).await.map(serde_json::to_value),
            Wanted::Rooms => self.rooms(query).await.map(serde_json::to_value),
            Wanted::Ends => self.ends(query).await.map(serde_json::to_value),
            Wanted::Links => self.links(query).map(serde_json::to_value),
        };
        found?.map_err(|error| Problem::new(Kind::Busy, error.to_string()))
    }

    async fn gather(&self, wanted: Wanted, query: Option<&str>) -> Result<Gathered, Problem> {
        let turn = tokio::time::timeout(TURN_TIMEOUT, self.rounds.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            let detail =
                format!("{ROUNDS_MAX} questions to all nodes are open, and they take long");
            return Err(Problem::new(Kind::Busy, detail));
        };
        let (only, query) = without_node(query)?;
        self.ask_all(wanted, only, &query).await
    }

    async fn ask_all(
        &self,
        wanted: Wanted,
        only: Option<u16>,
        query: &str,
    ) -> Result<Gathered, Problem> {
        let me = self.nodes.me().number;
        let places = Arc::new(Semaphore::new(ASKED_MAX));
        let room = Arc::new(Semaphore::new(ROUND_BYTES_MAX));
        let mut asked = JoinSet::new();
        let mut found = BTreeMap::new();
        for row in self.nodes.others() {
            let node = row.number;
            if only.is_some_and(|only| only != node) {
                continue;
            }
            if !row.heard {
                found.insert(node, Err("it is silent".to_owned()));
                continue;
            }
            let relays = self.node.relays.get().cloned();
            let question = format!("{}?{query}", wanted.word());
            let (places, room) = (Arc::clone(&places), Arc::clone(&room));
            // If its task fails, it is named as well.
            found.insert(node, Err("its answer cannot be read".to_owned()));
            asked.spawn(async move {
                let _place = places.acquire().await;
                (node, ask(relays, node, &question, &room).await)
            });
        }
        if only.is_none_or(|only| only == me) {
            let own = match self.own(wanted, Some(query)).await {
                Err(problem) if problem.is_of_caller() => return Err(problem),
                own => own.map_err(|problem| problem.detail().to_owned()),
            };
            found.insert(me, own);
        }
        while let Some(answered) = asked.join_next().await {
            if let Ok((node, answer)) = answered {
                found.insert(node, answer);
            }
        }
        match only.filter(|_| found.is_empty()) {
            Some(only) => Err(no_node(only)),
            None => Ok(Gathered::of(wanted, found)),
        }
    }

    /// Pages ask for links every few seconds, so they share an answer, and take no turn from those who look for something.
    async fn links_of_all(&self) -> Result<Arc<LinksOfNodes>, Problem> {
        let inside = self.clone();
        let links = self.all_links.read(async move || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let found = inside.ask_all(Wanted::Links, None, "").await?;
            Ok(Arc::new(LinksOfNodes {
                links: found.items,
                at_ms: now.map_or(0, |now| now.as_millis() as u64),
                complete: found.complete,
                nodes: found.asked,
            }))
        });
        links.await.unwrap_or_else(|| {
            let detail = "the nodes are asked for their links, and that takes long: try again";
            Err(Problem::new(Kind::Busy, detail))
        })
    }
}

fn no_node(number: u16) -> Problem {
    let detail = format!("there is no node {number}: GET /v1/nodes lists them");
    Problem::field("node", detail)
}

async fn ask(
    relays: Option<Relays>,
    node: u16,
    question: &str,
    room: &Semaphore,
) -> Result<Value, String> {
    let Some(relays) = relays else {
        let why = "this node asks no others: that needs cluster.secret and cluster.relay_listen";
        return Err(why.to_owned());
    };
    let answer = relays.ask(node, question).await?;
    // Until the whole round has ended.
    room.try_acquire_many(answer.len() as u32)
        .map_err(|_| format!("all answers have more than {ROUND_BYTES_MAX} bytes: ask for fewer"))?
        .forget();
    let unreadable = || "its answer cannot be read: it is of another version".to_owned();
    let mut answer: Value = serde_json::from_slice(&answer).map_err(|_| unreadable())?;
    if let Some(why) = answer.get("why").and_then(Value::as_str) {
        return Err(why.to_owned());
    }
    let found = answer.get_mut("found").map(Value::take);
    found.filter(Value::is_object).ok_or_else(unreadable)
}

fn read_question(question: &str) -> Option<(Wanted, &str)> {
    let (word, query) = question.split_once('?')?;
    let mut all = Wanted::ALL.into_iter();
    Some((all.find(|wanted| wanted.word() == word)?, query))
}

/// The node that is meant, if it is one, and the rest of the query.
fn without_node(query: Option<&str>) -> Result<(Option<u16>, String), Problem> {
    let pairs = query.unwrap_or_default().split('&');
    let (nodes, rest): (Vec<&str>, Vec<&str>) =
        pairs.partition(|pair| pair.starts_with("node=") || *pair == "node");
    let query = nodes.join("&");
    let query = Query::read(Some(&query), &["node"])?;
    let node = query.parsed("node", "the number of a node")?;
    Ok((node, rest.join("&")))
}

impl Gathered {
    fn of(wanted: Wanted, found: BTreeMap<u16, Result<Value, String>>) -> Self {
        let mut gathered = Self {
            items: Vec::new(),
            matched: 0,
            more: false,
            complete: true,
            asked: Vec::new(),
        };
        for (node, part) in found {
            let why = match part {
                Ok(part) => {
                    gathered.take(wanted, node, part);
                    None
                }
                Err(why) => Some(why),
            };
            gathered.complete &= why.is_none();
            gathered.asked.push(Asked {
                node,
                answered: why.is_none(),
                why,
            });
        }
        gathered
    }

    fn take(&mut self, wanted: Wanted, node: u16, mut part: Value) {
        self.matched += part["matched"].as_u64().unwrap_or_default();
        self.more |= part["more"] == true;
        self.complete &= part["complete"] == true;
        let items = part.get_mut(wanted.word()).map(Value::take);
        if let Some(Value::Array(items)) = items {
            self.items.extend(items.into_iter().map(|mut item| {
                if let Some(item) = item.as_object_mut() {
                    item.insert("node".to_owned(), node.into());
                }
                item
            }));
        }
    }

    /// So many of them, as many of each node as of any other.
    fn fair(self, limit: usize) -> Vec<Value> {
        let mut taken = BTreeMap::<u64, usize>::new();
        let place = |item: &Value, taken: &mut BTreeMap<u64, usize>| {
            let of_node = taken.entry(item["node"].as_u64().unwrap_or_default());
            let place = of_node.or_default();
            *place += 1;
            *place
        };
        let items = self.items.into_iter();
        let mut placed: Vec<(usize, Value)> =
            items.map(|item| (place(&item, &mut taken), item)).collect();
        placed.sort_by_key(|(place, _)| *place);
        placed.truncate(limit);
        placed.into_iter().map(|(_, item)| item).collect()
    }

    /// Rooms of several nodes as one list, in the order of what they are wanted for.
    fn rooms(self) -> Vec<Value> {
        let mut rooms = BTreeMap::<(String, String), RoomOfNodes>::new();
        for item in self.items {
            let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
            let known = rooms.entry((text("namespace"), text("room"))).or_default();
            known.members += item["members"].as_u64().unwrap_or_default();
            let events = item["events_per_second"].as_f64();
            if events > known.events {
                known.events = events;
            }
            let deliveries = item["deliveries_per_second"].as_f64().unwrap_or_default();
            known.deliveries += deliveries;
            if let Some(bytes) = item["waiting_bytes"].as_u64() {
                let (members, waiting) = known.behind.unwrap_or_default();
                let more = item["members_behind"].as_u64().unwrap_or_default();
                known.behind = Some((members + more, waiting + bytes));
            }
            known.nodes.push(item["node"].clone());
        }
        let mut rooms: Vec<_> = rooms.into_iter().collect();
        // The sort keeps the order of names. Nobody tells deliveries or what waits unless these are wanted.
        rooms.sort_by(|(_, a), (_, b)| {
            let waiting = |room: &RoomOfNodes| room.behind.map(|(_, bytes)| bytes);
            let busier = b.deliveries.total_cmp(&a.deliveries);
            let slower = busier.then_with(|| waiting(b).cmp(&waiting(a)));
            slower.then(b.members.cmp(&a.members))
        });
        let room = |((namespace, room), of): ((String, String), RoomOfNodes)| {
            json!({
                "namespace": namespace,
                "room": room,
                "members": of.members,
                "nodes": of.nodes,
                "events_per_second": of.events,
                "deliveries_per_second": of.events.map(|_| of.deliveries),
                "members_behind": of.behind.map(|(members, _)| members),
                "waiting_bytes": of.behind.map(|(_, bytes)| bytes),
            })
        };
        rooms.into_iter().map(room).collect()
    }
}

fn limit_of(wanted: Wanted, query: Option<&str>) -> Result<usize, Problem> {
    // Each node looks at the whole query.
    let pairs = query.unwrap_or_default().split('&');
    let limit = pairs.filter(|pair| pair.starts_with("limit="));
    let limit = limit.collect::<Vec<_>>().join("&");
    let query = Query::read(Some(&limit), &["limit"])?;
    limited(&query, wanted.limit_max(), ITEMS)
}

/// Sessions of all nodes.
#[derive(Debug, Serialize, ToSchema)]
struct SessionsOfNodes {
    /// As `/v1/node/sessions` has them, each with the number of its `node`.
    #[schema(value_type = Vec<serde_json::Value>)]
    sessions: Vec<Value>,
    /// All that fit the question, at the nodes that answered.
    matched: u64,
    /// `false`: a node or a shard did not answer in time.
    complete: bool,
    nodes: Vec<Asked>,
}

/// Find sessions of all nodes
///
/// As `/v1/node/sessions`. Nodes that do not answer in 4 s are named in `nodes`, and `complete` is `false`.
#[utoipa::path(get, path = "/v1/nodes/sessions",
    params(
        ("node" = Option<u16>, Query, description = "Only this node is asked."),
        ("id" = Option<String>, Query, description = "The id of the session, or of one of its sockets."),
        ("user" = Option<String>, Query, description = "With a socket of this user."),
        ("address" = Option<String>, Query, description = "The client's address."),
        ("room" = Option<String>, Query, description = "With a socket in this room of the namespace; of `/`, if none is given."),
        ("namespace" = Option<String>, Query, description = "With a socket in this namespace."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 200, description = "So many are shown; 100 if it is left out."),
    ),
    responses((status = 200, description = "The sessions.", body = SessionsOfNodes), Problems))]
pub(super) async fn sessions_of_nodes(
    State(inside): State<Inside>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Called {
    admit(&caller, Scope::Read)?;
    let limit = limit_of(Wanted::Sessions, query.as_deref())?;
    let found = inside.gather(Wanted::Sessions, query.as_deref()).await?;
    let found = SessionsOfNodes {
        matched: found.matched,
        complete: found.complete,
        nodes: found.asked.clone(),
        sessions: found.fair(limit),
    };
    Ok(Json(found).into_response())
}

/// Rooms of all nodes.
#[derive(Debug, Serialize, ToSchema)]
struct RoomsOfNodes {
    /// In the order that was wanted: `namespace`, `room`, `members`, the `nodes` that they are at, and figures of the busiest or slowest.
    #[schema(value_type = Vec<serde_json::Value>)]
    rooms: Vec<Value>,
    /// There are more than these. Then a room may have more members, at nodes where it is none of the largest.
    more: bool,
    /// `false`: a node or a shard did not answer in time.
    complete: bool,
    nodes: Vec<Asked>,
}

/// Find rooms of all nodes
///
/// As `/v1/node/rooms`; members of all nodes are added up. Nodes that do not answer in 4 s are named in `nodes`, and `complete` is `false`.
#[utoipa::path(get, path = "/v1/nodes/rooms",
    params(
        ("node" = Option<u16>, Query, description = "Only this node is asked."),
        ("namespace" = Option<String>, Query, description = "Only rooms of this namespace."),
        ("contains" = Option<String>, Query, description = "Only rooms whose names have this text in them."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1_000, description = "So many are shown; 100 if it is left out."),
        ("order" = Option<String>, Query, description = "`largest`; `busiest`: up to 128 of each shard, of a sample; or `slowest`: those for whose members most bytes wait. `largest` if it is left out."),
    ),
    responses((status = 200, description = "The rooms.", body = RoomsOfNodes), Problems))]
pub(super) async fn rooms_of_nodes(
    State(inside): State<Inside>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Called {
    admit(&caller, Scope::Read)?;
    let limit = limit_of(Wanted::Rooms, query.as_deref())?;
    let asked = asked_for_rooms(query.as_deref().unwrap_or_default());
    let found = inside.gather(Wanted::Rooms, Some(&asked)).await?;
    let (more, complete, nodes) = (found.more, found.complete, found.asked.clone());
    let mut rooms = found.rooms();
    let more = more || rooms.len() > limit;
    rooms.truncate(limit);
    let found = RoomsOfNodes {
        rooms,
        more,
        complete,
        nodes,
    };
    Ok(Json(found).into_response())
}

/// What each node is asked: as many rooms as it may tell where what they are wanted for adds up over nodes. One that is none of the first on any
/// of them may be the first of all.
fn asked_for_rooms(query: &str) -> String {
    let adds_up = |pair: &str| matches!(pair, "order=busiest" | "order=slowest");
    if !query.split('&').any(adds_up) {
        return query.to_owned();
    }
    let others = query.split('&').filter(|pair| !pair.starts_with("limit="));
    let most = format!("limit={ITEMS_MAX}");
    others.chain([&*most]).collect::<Vec<_>>().join("&")
}

/// Sessions of all nodes that ended.
#[derive(Debug, Serialize, ToSchema)]
struct EndsOfNodes {
    /// As `/v1/node/ends` has them, each with the number of its `node`. The newest first, by the clocks of the nodes.
    #[schema(value_type = Vec<serde_json::Value>)]
    ends: Vec<Value>,
    /// `false`: a node or a shard did not answer in time.
    complete: bool,
    nodes: Vec<Asked>,
}

/// List the last ends of sessions of all nodes
///
/// As `/v1/node/ends`. Nodes that do not answer in 4 s are named in `nodes`, and `complete` is `false`.
#[utoipa::path(get, path = "/v1/nodes/ends",
    params(
        ("node" = Option<u16>, Query, description = "Only this node is asked."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1_000, description = "So many are shown; 100 if it is left out."),
    ),
    responses((status = 200, description = "The ends.", body = EndsOfNodes), Problems))]
pub(super) async fn ends_of_nodes(
    State(inside): State<Inside>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Called {
    admit(&caller, Scope::Read)?;
    let limit = limit_of(Wanted::Ends, query.as_deref())?;
    let found = inside.gather(Wanted::Ends, query.as_deref()).await?;
    let mut ends = found.items;
    ends.sort_by_key(|end| std::cmp::Reverse(end["at_ms"].as_u64()));
    ends.truncate(limit);
    let found = EndsOfNodes {
        ends,
        complete: found.complete,
        nodes: found.asked,
    };
    Ok(Json(found).into_response())
}

/// The links of all nodes, as they were at most two seconds ago.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LinksOfNodes {
    /// By the number of the node.
    #[schema(value_type = Vec<super::links::NodeLinks>)]
    links: Vec<Value>,
    /// Unix time at which the nodes were asked, milliseconds.
    at_ms: u64,
    /// `false`: a node did not answer in time.
    complete: bool,
    nodes: Vec<Asked>,
}

impl LinksOfNodes {
    fn of_node(&self, number: u16) -> Result<Self, Problem> {
        let asked = self.nodes.iter().find(|asked| asked.node == number);
        let asked = asked.ok_or_else(|| no_node(number))?;
        let links = self.links.iter().filter(|one| one["node"] == number);
        Ok(Self {
            links: links.cloned().collect(),
            at_ms: self.at_ms,
            complete: asked.answered,
            nodes: vec![asked.clone()],
        })
    }
}

/// Show who talks to whom
///
/// Of each node: its load, the engine between the nodes and how long the way through it is, the nodes that it hears and relays to, its
/// backends and bridges. Nodes that do not answer in 4 s are named in `nodes`, and `complete` is `false`. Whoever asks within two seconds gets
/// the same answer.
#[utoipa::path(get, path = "/v1/nodes/links",
    params(("node" = Option<u16>, Query, description = "Only this node is shown.")),
    responses((status = 200, description = "The links.", body = LinksOfNodes), Problems))]
pub(super) async fn links_of_nodes(
    State(inside): State<Inside>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Called {
    admit(&caller, Scope::Read)?;
    let (only, query) = without_node(query.as_deref())?;
    Query::read(Some(&query), &[])?;
    let found = inside.links_of_all().await?;
    Ok(match only {
        Some(only) => Json(found.of_node(only)?).into_response(),
        None => Json(&*found).into_response(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_does_not_answer_is_named_and_the_others_are_shown() {
        let room =
            |room: &str, members: u64| json!({"namespace": "/", "room": room, "members": members});
        let part = |rooms: Vec<Value>| json!({"rooms": rooms, "more": false, "complete": true});
        let found = BTreeMap::from([
            (1, Ok(part(vec![room("a", 3), room("b", 9)]))),
            (2, Err("it is silent".to_owned())),
            (3, Ok(part(vec![room("a", 8)]))),
        ]);
        let gathered = Gathered::of(Wanted::Rooms, found);
        assert!(!gathered.complete);
        let missing: Vec<u16> = gathered
            .asked
            .iter()
            .filter(|node| !node.answered)
            .map(|node| node.node)
            .collect();
        assert_eq!(missing, [2]);
        let rooms = gathered.rooms();
        assert_eq!(
            (&rooms[0]["room"], &rooms[0]["members"]),
            (&json!("a"), &json!(11))
        );
        assert_eq!(rooms[0]["nodes"], json!([1, 3]));
        let session = |id: u64| json!({"id": id});
        let part = |ids: &[u64]| json!({"sessions": ids.iter().map(|id| session(*id)).collect::<Vec<_>>(), "complete": true});
        let found = BTreeMap::from([(1, Ok(part(&[1, 2, 3]))), (2, Ok(part(&[4])))]);
        let fair = Gathered::of(Wanted::Sessions, found).fair(3);
        let ids: Vec<u64> = fair.iter().filter_map(|one| one["id"].as_u64()).collect();
        assert_eq!(ids, [1, 4, 2]);
        // Nodes say anything: what is no list is nothing.
        let odd = BTreeMap::from([(1, Ok(json!({"sessions": 7}))), (2, Ok(Value::Null))]);
        let gathered = Gathered::of(Wanted::Sessions, odd);
        assert_eq!((gathered.items.len(), gathered.complete), (0, false));
    }

    #[test]
    fn one_node_can_be_meant_and_the_rest_of_the_query_stays() {
        assert_eq!(asked_for_rooms("limit=3&contains=a"), "limit=3&contains=a");
        assert_eq!(
            asked_for_rooms("limit=3&order=slowest&contains=a"),
            "order=slowest&contains=a&limit=1000"
        );
        let (node, rest) = without_node(Some("user=a%26b&node=7&limit=3")).expect("a node");
        assert_eq!((node, &*rest), (Some(7), "user=a%26b&limit=3"));
        assert_eq!(without_node(None).expect("none"), (None, String::new()));
        for wrong in ["node=x", "node=1&node=2", "node=70000", "node"] {
            assert!(without_node(Some(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(
            read_question("rooms?limit=1"),
            Some((Wanted::Rooms, "limit=1"))
        );
        assert_eq!(read_question("config?"), None);
    }
}
