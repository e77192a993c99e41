//! `sockeye emit`, `sockets`, `rooms` and `disconnect`: the server API from the command line.

use crate::config::Request;
use crate::door::{Door, Key, escaped, plain};
use crate::inside_calls::bytes;
use crate::print;
use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// Which sockets are meant: one of --room, --user, --socket and --all is needed.
#[derive(Debug, Args)]
struct Target {
    /// Members of this room; may be given several times.
    #[arg(long, value_name = "NAME")]
    room: Vec<String>,
    /// Sockets of this user; may be given several times.
    #[arg(long, value_name = "UID")]
    user: Vec<String>,
    /// The socket of this id; may be given several times.
    #[arg(long, value_name = "ID")]
    socket: Vec<String>,
    /// No members of this room; may be given several times.
    #[arg(long, value_name = "NAME")]
    except: Vec<String>,
    /// The namespace of the sockets.
    #[arg(long, value_name = "NAME", default_value = "/")]
    namespace: String,
    /// Only sockets of the node that is asked.
    #[arg(long)]
    local: bool,
    /// All sockets of the namespace.
    #[arg(long)]
    all: bool,
}

/// Send an event to clients, on whatever node they are: one of --room, --user, --socket and --all is needed.
#[derive(Debug, Args)]
#[command(after_help = "Example: sockeye emit news '\"hello\"' '{\"n\":1}' --room sports")]
pub struct EmitArgs {
    /// Name of the event.
    event: String,
    /// Arguments, each as JSON; text that is no JSON is sent as a string.
    args: Vec<String>,
    #[command(flatten)]
    to: Target,
    /// Wait for the answers of all receivers, 60s at most.
    #[arg(long, value_name = "TIME", value_parser = time)]
    ack: Option<Duration>,
    /// Clients that cannot take the event at once do not get it.
    #[arg(long, conflicts_with = "ack")]
    volatile: bool,
    /// As JSON, for programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: Key,
}

/// List sockets, on whatever node they are: one of --room, --user, --socket and --all is needed.
#[derive(Debug, Args)]
pub struct SocketsArgs {
    #[command(flatten)]
    of: Target,
    #[command(flatten)]
    list: List,
}

/// List rooms and how many sockets are in each.
#[derive(Debug, Args)]
#[command(after_help = "Examples: sockeye rooms doc:, sockeye rooms --first slowest --limit 10")]
pub struct RoomsArgs {
    /// Only rooms whose names begin with this; with --first, those that have it in them.
    #[arg(default_value = "")]
    prefix: String,
    /// The namespace of the sockets.
    #[arg(long, value_name = "NAME", default_value = "/")]
    namespace: String,
    /// Only sockets of the node that is asked.
    #[arg(long)]
    local: bool,
    /// Not by name: those with most members, with most traffic lately, or with most that waits for their members.
    #[arg(long, value_name = "ORDER", value_parser = ["largest", "busiest", "slowest"], conflicts_with = "after")]
    first: Option<String>,
    #[command(flatten)]
    list: List,
}

/// How a list is shown.
#[derive(Debug, Args)]
struct List {
    /// Most items of a page.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// Begin behind this one: the last one of the page before.
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
    /// As JSON, for programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: Key,
}

/// Disconnect sockets: one of --room, --user, --socket and --all is needed.
#[derive(Debug, Args)]
pub struct DisconnectArgs {
    #[command(flatten)]
    of: Target,
    /// Their connections end as well, with all namespaces.
    #[arg(long)]
    close: bool,
    #[command(flatten)]
    key: Key,
}

impl Target {
    /// What was said on the command line, and nothing else: an earlier gateway refuses an empty list, and a member that it does not know.
    fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("namespace".to_owned(), json!(self.namespace));
        for (name, list) in [
            ("rooms", &self.room),
            ("users", &self.user),
            ("sockets", &self.socket),
            ("except", &self.except),
        ] {
            if !list.is_empty() {
                body.insert(name.to_owned(), json!(list));
            }
        }
        for (name, is_set) in [("local", self.local), ("all", self.all)] {
            if is_set {
                body.insert(name.to_owned(), true.into());
            }
        }
        body
    }

    fn query(&self) -> String {
        let mut query = format!(
            "namespace={}&local={}&all={}",
            escaped(&self.namespace),
            self.local,
            self.all
        );
        for (name, list) in [
            ("room", &self.room),
            ("user", &self.user),
            ("socket", &self.socket),
            ("except", &self.except),
        ] {
            for value in list {
                let _ = write!(query, "&{name}={}", escaped(value));
            }
        }
        query
    }
}

fn time(text: &str) -> Result<Duration, String> {
    units::duration(text).ok_or_else(|| "a time is needed, such as 500ms or 2s".to_owned())
}

pub fn emit(args: &EmitArgs, request: &Request) -> Result<()> {
    let door = Door::of(request, args.key.needed("send an event")?)?;
    let door = door.patient(args.ack.unwrap_or_default());
    let value =
        |text: &String| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
    let mut body = args.to.body();
    body.insert("event".to_owned(), json!(args.event));
    let values: Vec<Value> = args.args.iter().map(value).collect();
    body.insert("args".to_owned(), values.into());
    body.insert("volatile".to_owned(), json!(args.volatile));
    if let Some(ack) = args.ack {
        let ack = json!({ "timeout_ms": ack.as_millis() as u64 });
        body.insert("ack".to_owned(), ack);
    }
    let answer = door.call("POST", "/v1/emit", Some(&body.into()))?;
    match args.json {
        true => print::line(format_args!("{answer:#}")),
        false => print::print(emitted(&answer)),
    }
}

fn emitted(answer: &Value) -> String {
    let Some(answers) = answer["answers"].as_array() else {
        return accepted(answer);
    };
    let mut out: String = answers
        .iter()
        .map(|answer| format!("{}\n", answer["args"]))
        .collect();
    let _ = writeln!(
        out,
        "{} answered, {} did not in time, {} left, {} did not get it",
        answer["acked"], answer["timed_out"], answer["gone"], answer["undelivered"]
    );
    out
}

fn accepted(answer: &Value) -> String {
    match answer["everywhere"].as_bool() {
        Some(false) => {
            "accepted for this node only: other nodes cannot be reached now\n".to_owned()
        }
        _ => "accepted\n".to_owned(),
    }
}

pub fn sockets(args: &SocketsArgs, request: &Request) -> Result<()> {
    let path = format!("/v1/sockets?{}", args.of.query());
    args.list.show(&path, request, |list| {
        let mut out = format!("{:<20}  {}\n", "SOCKET", "ROOMS");
        for socket in list["sockets"].as_array().into_iter().flatten() {
            let id = socket["id"].as_str().unwrap_or_default();
            let rooms = socket["rooms"].as_array().into_iter().flatten();
            let rooms = rooms.filter_map(Value::as_str).filter(|room| *room != id);
            let rooms: Vec<String> = rooms.map(plain).collect();
            let _ = writeln!(out, "{id:<20}  {}", rooms.join(" "));
        }
        out
    })
}

pub fn rooms(args: &RoomsArgs, request: &Request) -> Result<()> {
    let (namespace, prefix) = (escaped(&args.namespace), escaped(&args.prefix));
    if let Some(first) = &args.first {
        let of = if args.local { "node" } else { "nodes" };
        let path = format!("/v1/{of}/rooms?namespace={namespace}&contains={prefix}&order={first}");
        return args
            .list
            .show(&path, request, |list| first_rooms(list, first));
    }
    let path = format!(
        "/v1/rooms?namespace={namespace}&prefix={prefix}&local={}",
        args.local
    );
    args.list.show(&path, request, |list| {
        let mut out = format!("{:>8}  {}\n", "SOCKETS", "ROOM");
        for room in list["rooms"].as_array().into_iter().flatten() {
            let name = plain(room["room"].as_str().unwrap_or_default());
            let _ = writeln!(
                out,
                "{:>8}  {name}",
                room["sockets"].as_u64().unwrap_or_default()
            );
        }
        out
    })
}

/// Rooms with the figures that they are in this order for.
fn first_rooms(list: &Value, order: &str) -> String {
    let heads = match order {
        "busiest" => ["EVENTS/S", "DELIVERIES/S"],
        "slowest" => ["BEHIND", "WAITING"],
        _ => ["", ""],
    };
    let mut out = format!(
        "{:>8}  {:>10}  {:>12}  ROOM\n",
        "MEMBERS", heads[0], heads[1]
    );
    for room in list["rooms"].as_array().into_iter().flatten() {
        let number = |name: &str| room[name].as_u64().unwrap_or_default();
        let rate = |name: &str| format!("{:.1}", room[name].as_f64().unwrap_or_default());
        let [left, right] = match order {
            "busiest" => [rate("events_per_second"), rate("deliveries_per_second")],
            "slowest" => [
                number("members_behind").to_string(),
                bytes(number("waiting_bytes")),
            ],
            _ => Default::default(),
        };
        let name = plain(room["room"].as_str().unwrap_or_default());
        let members = number("members");
        let _ = writeln!(out, "{members:>8}  {left:>10}  {right:>12}  {name}");
    }
    out
}

impl List {
    fn show(&self, path: &str, request: &Request, table: impl Fn(&Value) -> String) -> Result<()> {
        let door = Door::of(request, self.key.needed("see who is there")?)?;
        let after = self
            .after
            .as_deref()
            .map(|after| format!("&after={}", escaped(after)));
        let path = format!("{path}&limit={}{}", self.limit, after.unwrap_or_default());
        let list = door.call("GET", &path, None)?;
        if self.json {
            return print::line(format_args!("{list:#}"));
        }
        print::print(table(&list))?;
        if let Some(next) = list["next"].as_str() {
            eprintln!("there are more: --after {next:?}");
        }
        if list["complete"] == Value::Bool(false) {
            eprintln!(
                "the list is not complete: a node did not answer in time, or there are too many sockets"
            );
        }
        Ok(())
    }
}

pub fn disconnect(args: &DisconnectArgs, request: &Request) -> Result<()> {
    let door = Door::of(request, args.key.needed("put anybody out")?)?;
    let mut body = args.of.body();
    body.insert("close".to_owned(), json!(args.close));
    let answer = door.call("POST", "/v1/disconnect", Some(&body.into()))?;
    print::print(accepted(&answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            room: Vec::new(),
            user: Vec::new(),
            socket: Vec::new(),
            except: Vec::new(),
            namespace: "/".to_owned(),
            local: false,
            all: false,
        }
    }

    /// A gateway of an earlier build refused each call: "the list is empty, so nobody is meant".
    #[test]
    fn lists_that_nobody_had_named_were_sent_empty() {
        let ada = Target {
            user: vec!["ada".to_owned()],
            ..target()
        };
        assert_eq!(
            Value::from(ada.body()),
            json!({ "namespace": "/", "users": ["ada"] })
        );
        let all = Target {
            all: true,
            local: true,
            ..target()
        };
        assert_eq!(
            Value::from(all.body()),
            json!({ "namespace": "/", "all": true, "local": true })
        );
    }
}
