//! Namespace `/lab`: every operation of the seam behind an event of its own.

use hub::{AckTo, Collected, Context, Emit, Event, Found, Member, Refusal, ServerEvent};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// Answers that wait for other shards.
#[derive(Debug, Default)]
pub(crate) struct Lab {
    waiting: HashMap<u64, AckTo>,
    next: u64,
}

const NAMESPACE: &str = "/lab";
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// The namespace's middleware.
pub(crate) fn admit(auth: &str) -> Result<(), Refusal> {
    let auth: Value = serde_json::from_str(auth).unwrap_or_default();
    match truthy(&auth["reject"]) {
        true => Err(Refusal {
            message: "rejected by token".into(),
            data: None,
        }),
        false => Ok(()),
    }
}

fn truthy(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
        && value.as_f64() != Some(0.0)
        && value.as_str() != Some("")
}

pub(crate) fn connected(socket: &mut Member<'_>, auth: &str) {
    let auth: Value = serde_json::from_str(auth).unwrap_or_default();
    if let Some(user) = auth.get("user") {
        socket.set_data(&json!({ "user": user }).to_string());
        if let Some(user) = user.as_str() {
            // A name that is no room name is simply not addressable.
            let _ = socket.set_user(user);
        }
    }
}

/// Arguments of an event, unparsed.
struct Args<'a>(Vec<&'a RawValue>);

impl<'a> Args<'a> {
    /// `text` is the event's arguments in brackets.
    fn new(text: &'a str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_default())
    }

    fn raw(&self, at: usize) -> &'a str {
        self.0.get(at).map_or("null", |raw| raw.get())
    }

    fn value(&self, at: usize) -> Value {
        serde_json::from_str(self.raw(at)).unwrap_or_default()
    }

    fn text(&self, at: usize) -> String {
        self.value(at).as_str().unwrap_or_default().to_owned()
    }

    fn number(&self, at: usize) -> u64 {
        self.value(at).as_u64().unwrap_or_default()
    }

    /// One room's name or an array of them.
    fn rooms(&self, at: usize) -> Vec<String> {
        match self.value(at) {
            Value::Array(rooms) => rooms.iter().filter_map(room).collect(),
            one => room(&one).into_iter().collect(),
        }
    }

    /// Arguments from `at` on, as raw elements.
    fn rest(&self, at: usize) -> String {
        let rest: Vec<&str> = self.0.iter().skip(at).map(|raw| raw.get()).collect();
        rest.join(",")
    }
}

/// A room's name; numbers are names too.
fn room(value: &Value) -> Option<String> {
    match value {
        Value::String(room) => Some(room.clone()),
        Value::Number(room) => Some(room.to_string()),
        _ => None,
    }
}

impl Lab {
    pub(crate) fn event(&mut self, socket: &mut Member<'_>, event: Event<'_>) {
        let text = format!("[{}]", event.args);
        let args = Args::new(&text);
        match event.name {
            "echo" => echo(socket, event),
            "ask" => {
                let (args, attachments) = (event.args, event.attachments);
                let question = Emit {
                    attachments,
                    ..Emit::new("question", args)
                };
                socket.ask(&question, ASK_TIMEOUT, 0);
            }
            "who" => {
                let who = who(socket);
                answer(&mut socket.cx(), event.ack, &who);
            }
            "join" | "leave" => membership(socket, event, &args.rooms(0).join("")),
            "to" | "in" | "in-volatile" | "except" | "all" | "local" | "to-user" | "all-date" => {
                broadcast(socket, &event, &args);
            }
            "burst" | "volatile" => series(socket, event.name == "volatile", &args),
            "collect" => self.collect(&mut socket.cx(), event, &args),
            "fetch" => self.fetch(&mut socket.cx(), event, &args),
            "sockets-join" | "sockets-leave" | "sockets-kick" => {
                select(&mut socket.cx(), event.name, &args)
            }
            "server-side-emit" => {
                let (name, rest) = (args.text(0), args.rest(1));
                let emit = Emit {
                    attachments: event.attachments,
                    ..Emit::new(&name, &rest)
                };
                socket.cx().servers(NAMESPACE).emit(&emit);
            }
            "server-side-ask" => self.ask_servers(&mut socket.cx(), event, &args),
            "server-count" => {
                let servers = socket.cx().servers(NAMESPACE).count().to_string();
                answer(&mut socket.cx(), event.ack, &servers);
            }
            "kick" => socket.disconnect(false),
            "kick-close" => socket.disconnect(true),
            "drop" => socket.drop_transport(),
            "length" => {
                let length = event
                    .attachments
                    .first()
                    .map_or(-1, |bytes| bytes.len() as i64);
                answer(&mut socket.cx(), event.ack, &length.to_string());
            }
            // Stands for a bug in an application: the session that triggered it ends, others go on.
            "panic" => panic!("asked to"),
            _ => {}
        }
    }

    fn wait(&mut self, ack: Option<AckTo>) -> Option<u64> {
        self.next += 1;
        self.waiting.insert(self.next, ack?);
        Some(self.next)
    }

    /// `collect(room, ms, ev, any…, ack)`
    fn collect(&mut self, cx: &mut Context<'_>, event: Event<'_>, args: &Args<'_>) {
        let (rooms, name, rest) = (args.rooms(0), args.text(2), args.rest(3));
        let timeout = Duration::from_millis(args.number(1));
        let attachments = event.attachments;
        let Some(token) = self.wait(event.ack) else {
            return;
        };
        let emit = Emit {
            attachments,
            ..Emit::new(&name, &rest)
        };
        cx.of(NAMESPACE)
            .to(&borrowed(&rooms))
            .collect(&emit, timeout, token);
    }

    /// `server-side-ask(ev, any…, ack)`
    fn ask_servers(&mut self, cx: &mut Context<'_>, event: Event<'_>, args: &Args<'_>) {
        let (name, rest, attachments) = (args.text(0), args.rest(1), event.attachments);
        let Some(token) = self.wait(event.ack) else {
            return;
        };
        let emit = Emit {
            attachments,
            ..Emit::new(&name, &rest)
        };
        cx.servers(NAMESPACE).ask(&emit, FETCH_TIMEOUT, token);
    }

    pub(crate) fn collected(&mut self, cx: &mut Context<'_>, token: u64, collected: &Collected) {
        let (mut answers, mut attachments) = (Vec::new(), Vec::new());
        for answer in &collected.answers {
            let mut first = Args::new(&format!("[{}]", answer.args)).value(0);
            shift(&mut first, attachments.len() as u64);
            answers.push(first);
            attachments.extend(answer.attachments.iter().cloned());
        }
        let error = if collected.complete {
            "null"
        } else {
            r#""operation has timed out""#
        };
        if let Some(ack) = self.waiting.remove(&token) {
            cx.ack(
                ack,
                &format!("{error},{}", Value::from(answers)),
                &attachments,
            );
        }
    }

    /// `fetch(room or null, ack)`
    fn fetch(&mut self, cx: &mut Context<'_>, event: Event<'_>, args: &Args<'_>) {
        let Some(token) = self.wait(event.ack) else {
            return;
        };
        let rooms = args.rooms(0);
        cx.of(NAMESPACE)
            .to(&borrowed(&rooms))
            .fetch(FETCH_TIMEOUT, token);
    }

    pub(crate) fn found(&mut self, cx: &mut Context<'_>, token: u64, found: &Found) {
        let sockets: Vec<Value> = found
            .sockets
            .iter()
            .map(|socket| {
                let data: Value = serde_json::from_str(&socket.data).unwrap_or_default();
                json!({ "id": socket.id, "rooms": socket.rooms, "data": data })
            })
            .collect();
        let error = if found.complete {
            "null"
        } else {
            r#""timeout reached: missing responses""#
        };
        answer(
            cx,
            self.waiting.remove(&token),
            &format!("{error},{}", Value::from(sockets)),
        );
    }
}

/// Renumbers the attachments of one answer as part of a packet that has others before them.
fn shift(value: &mut Value, by: u64) {
    match value {
        Value::Object(object) if object.get("_placeholder") == Some(&Value::Bool(true)) => {
            let number = object
                .get("num")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            object.insert("num".into(), (number + by).into());
        }
        Value::Object(object) => object.values_mut().for_each(|value| shift(value, by)),
        Value::Array(values) => values.iter_mut().for_each(|value| shift(value, by)),
        _ => {}
    }
}

/// `ping-nodes(x)` of another server: with an ack it is answered, without one this server's clients are told.
pub(crate) fn server_event(cx: &mut Context<'_>, event: ServerEvent<'_>) {
    if event.name != "ping-nodes" {
        return;
    }
    let first = Args::new(&format!("[{}]", event.args)).raw(0).to_owned();
    match event.ack {
        Some(ack) => {
            let pong = format!("{{\"pong\":{first}}}");
            cx.answer_server(ack, &pong, event.attachments);
        }
        None => {
            let emit = Emit {
                attachments: event.attachments,
                ..Emit::new("node-event", &first)
            };
            cx.of(NAMESPACE).local().emit(&emit);
        }
    }
}

fn answer(cx: &mut Context<'_>, ack: Option<AckTo>, args: &str) {
    if let Some(ack) = ack {
        cx.ack(ack, args, &[]);
    }
}

fn echo(socket: &mut Member<'_>, event: Event<'_>) {
    let (args, attachments) = (event.args, event.attachments);
    match event.ack {
        Some(ack) => socket.cx().ack(ack, args, attachments),
        None => socket.emit(&Emit {
            attachments,
            ..Emit::new("echo", args)
        }),
    }
}

fn who(socket: &Member<'_>) -> String {
    let Some(info) = socket.info() else {
        return "null".into();
    };
    let query: serde_json::Map<String, Value> = wire::http::query_pairs(info.query)
        .map(|(name, value)| (name.into_owned(), value.into_owned().into()))
        .collect();
    let auth: Value = serde_json::from_str(info.auth).unwrap_or_default();
    json!({
        "id": info.id, "transport": info.transport, "recovered": socket.recovered(), "auth": auth, "query": query,
    })
    .to_string()
}

fn membership(socket: &mut Member<'_>, event: Event<'_>, room: &str) {
    if event.name == "join" {
        // The limits' metric tells of refused joins; the list in the ack shows them.
        let _ = socket.join(room);
    } else {
        socket.leave(room);
    }
    let rooms = json!(socket.rooms()).to_string();
    answer(&mut socket.cx(), event.ack, &rooms);
}

fn broadcast(socket: &mut Member<'_>, event: &Event<'_>, args: &Args<'_>) {
    let everyone = matches!(event.name, "all" | "local" | "all-date");
    let names = if everyone { Vec::new() } else { args.rooms(0) };
    let names = borrowed(&names);
    let at = usize::from(!everyone);
    let (name, mut rest) = (args.text(at), args.rest(at + 1));
    if event.name == "all-date" {
        rest = json!(iso_date(args.number(1))).to_string();
    }
    let emit = Emit {
        attachments: event.attachments,
        volatile: event.name == "in-volatile",
        ..Emit::new(&name, &rest)
    };
    let mut cx = socket.cx();
    let everyone = cx.of(NAMESPACE);
    let group = match event.name {
        "to" => socket.to(&names),
        "in" | "in-volatile" => everyone.to(&names),
        "to-user" => everyone.to_users(&names),
        "except" => everyone.except(&names),
        "local" => everyone.local(),
        _ => everyone,
    };
    group.emit(&emit);
}

/// A date as JSON has it: `1970-01-01T00:00:00.000Z`.
fn iso_date(ms: u64) -> String {
    let (days, ms) = ((ms / 86_400_000) as i64, ms % 86_400_000);
    // Civil date of a day number (proleptic Gregorian calendar, eras of 400 years from 0000-03-01).
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (date, month) = (
        of_year - (153 * month + 2) / 5 + 1,
        if month < 10 { month + 3 } else { month - 9 },
    );
    let year = year + era * 400 + i64::from(month <= 2);
    let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!(
        "{year:04}-{month:02}-{date:02}T{h:02}:{m:02}:{s:02}.{:03}Z",
        ms % 1000
    )
}

/// `n` separate events.
fn series(socket: &mut Member<'_>, volatile: bool, args: &Args<'_>) {
    let name = args.text(0);
    for n in 0..args.number(1).min(100_000) {
        let args = n.to_string();
        socket.emit(&Emit {
            volatile,
            ..Emit::new(&name, &args)
        });
    }
}

/// Operations on the sockets that a room selects.
fn select(cx: &mut Context<'_>, what: &str, args: &Args<'_>) {
    let (selector, room) = (args.rooms(0), args.text(1));
    let rooms = borrowed(&selector);
    let group = cx.of(NAMESPACE).to(&rooms);
    // The reference tells nobody either how far it got.
    let _ = match what {
        "sockets-join" => group.join(&[&room]),
        "sockets-leave" => group.leave(&[&room]),
        _ => group.disconnect(args.value(1) == Value::Bool(true)),
    };
}

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
