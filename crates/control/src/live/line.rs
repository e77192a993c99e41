//! A line of a live trace as programs read it: one JSON object.

use hub::{TraceDecision, TraceLine, TraceWho};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// One thing that passed, or (`kind` is not `line`) a word about the trace itself.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TraceLine)]
pub(crate) struct Line {
    /// `line`; also `begin`, `node`, `dropped`, `alive` and `end`, which have other members.
    kind: &'static str,
    /// Unix time, milliseconds, at the node that saw it.
    at_ms: u64,
    /// The node that saw it.
    node: u16,
    /// The shard of that node.
    shard: u16,
    /// `in`: from a client; `out`: to clients.
    direction: &'static str,
    /// `event`, `answer`, `connect`, `disconnect`, `end` or `refusal`.
    what: &'static str,
    #[serde(flatten)]
    who: Who,
    #[serde(flatten)]
    said: Said,
    /// The rule that an event of a client met.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(flatten)]
    decided: Decided,
}

/// The client that it passed.
#[derive(Debug, Default, Serialize, ToSchema)]
struct Who {
    /// The beginning of its session's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
}

/// What was said.
#[derive(Debug, Serialize, ToSchema)]
struct Said {
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    /// The first eight of the rooms that it was for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rooms: Vec<String>,
    /// Bytes of arguments and attachments.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    /// Types and sizes of the arguments; with `payload` the arguments as JSON text, cut after 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<String>,
    /// In a redacted recording, of a first argument that is a text: equal texts have equal marks.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<String>,
    /// Sizes of its attachments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<usize>,
    /// The number by which it is answered, or that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    ack: Option<u64>,
}

/// What became of it.
#[derive(Debug, Default, Serialize, ToSchema)]
struct Decided {
    /// `relayed`, `backend`, `handled`, `refused`, `dropped`, `delivered`, `answered`, `joined` or `ended`.
    decision: &'static str,
    /// Sockets of the shard that it was sent to.
    #[serde(skip_serializing_if = "Option::is_none")]
    sockets: Option<u64>,
    /// Letters to other shards.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u64>,
    /// Letters to other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<u64>,
    /// The user or socket that said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// Milliseconds until the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_ms: Option<u64>,
    /// Why, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Bytes that waited for the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_bytes: Option<usize>,
    /// `polling`, `websocket` or `sse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    /// The protocol that its client speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'static str>,
}

impl From<Option<TraceWho>> for Who {
    fn from(who: Option<TraceWho>) -> Self {
        let Some(who) = who else {
            return Self::default();
        };
        Self {
            session: Some(who.session.into()),
            socket: who.socket.map(|id| id.to_string()),
            user: who.user.map(String::from),
        }
    }
}

impl From<TraceDecision> for Decided {
    fn from(decision: TraceDecision) -> Self {
        let named = |decision| Self {
            decision,
            ..Self::default()
        };
        match decision {
            TraceDecision::Relayed { here, shards, away } => Self {
                sockets: Some(here),
                shards: Some(shards),
                nodes: Some(away),
                ..named("relayed")
            },
            TraceDecision::Backend => named("backend"),
            TraceDecision::Handled => named("handled"),
            TraceDecision::Refused { code, why } => Self {
                code: Some(code.into()),
                why: Some(why.into()),
                ..named("refused")
            },
            TraceDecision::Dropped { why } => Self {
                why: Some(why.to_owned()),
                ..named("dropped")
            },
            TraceDecision::Delivered { to, by } => Self {
                sockets: Some(to),
                by: by.map(|by| by.to_string()),
                ..named("delivered")
            },
            TraceDecision::Answered { after_ms } => Self {
                after_ms,
                ..named("answered")
            },
            TraceDecision::Joined {
                transport,
                protocol,
            } => Self {
                transport: Some(transport),
                protocol: Some(protocol),
                ..named("joined")
            },
            TraceDecision::Ended { why, waiting } => Self {
                why: Some(why.to_owned()),
                waiting_bytes: Some(waiting),
                ..named("ended")
            },
        }
    }
}

impl Line {
    pub(super) fn of(line: TraceLine, node: u16) -> Self {
        let is_named = !line.event.is_empty();
        Self {
            kind: "line",
            at_ms: line.at_ms,
            node,
            shard: line.shard,
            direction: if line.inward { "in" } else { "out" },
            what: line.what,
            who: line.who.into(),
            said: Said {
                namespace: line.namespace.map(|name| name.to_string()),
                event: is_named.then(|| line.event.into()),
                rooms: line.rooms.into_iter().map(String::from).collect(),
                bytes: line.args.is_some().then_some(line.bytes),
                args: line.args.map(String::from),
                mark: line.mark.map(String::from),
                attachments: line.attachments,
                ack: line.ack,
            },
            rule: line.rule.map(String::from),
            decided: line.decision.into(),
        }
    }
}

/// Appends a line.
pub(super) fn write(out: &mut String, line: &impl Serialize) {
    out.push_str(&serde_json::to_string(line).unwrap_or_default());
    out.push('\n');
}

/// Lines of a node that were not told.
pub(super) fn dropped(node: u16, lines: u64) -> Value {
    json!({"kind": "dropped", "node": node, "lines": lines})
}

/// So that both ends see that the other one is there.
pub(super) fn alive() -> Value {
    json!({"kind": "alive"})
}

/// Whether a node takes part.
pub(super) fn node(node: u16, state: &str, why: Option<&str>) -> Value {
    match why {
        Some(why) => json!({"kind": "node", "node": node, "state": state, "why": why}),
        None => json!({"kind": "node", "node": node, "state": state}),
    }
}

/// The last line.
pub(super) fn end(why: &str) -> Value {
    json!({"kind": "end", "why": why})
}
