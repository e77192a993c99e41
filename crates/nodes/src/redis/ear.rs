//! A connection that hears: it hands messages on, and tells what the server confirms.

use super::conn::{Conn, OnPush, closed, refusal};
use super::event::{EarId, Event};
use super::settings::{Addr, Settings};
use super::wait::Backoff;
use crate::engine::{Kind, Message, News, Topic, Trouble};
use crate::feed::Source;
use redis::{Cmd, Pipeline, PushInfo, PushKind, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// A connection that is silent for so long is lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// Commands in one write.
const CALLS_MAX: usize = 1_000;

/// The connection to one server, with its history.
#[derive(Debug, Default)]
pub(super) struct Ear {
    pub(super) id: EarId,
    pub(super) link: Link,
    backoff: Backoff,
}

#[derive(Debug, Default)]
pub(super) enum Link {
    #[default]
    New,
    Opening,
    Open(Arc<Conn>),
    Closed {
        trouble: Trouble,
        again: Instant,
    },
}

#[derive(Debug)]
pub(super) enum Call {
    Subscribe(Topic),
    Unsubscribe(Topic),
}

impl Call {
    fn command(&self) -> Cmd {
        let (on, topic) = match self {
            Call::Subscribe(topic) => (true, topic),
            Call::Unsubscribe(topic) => (false, topic),
        };
        let (verb, name) = match (topic, on) {
            (Topic::Channel(Kind::Classic, name), true) => ("SUBSCRIBE", name),
            (Topic::Channel(Kind::Classic, name), false) => ("UNSUBSCRIBE", name),
            (Topic::Channel(Kind::Sharded, name), true) => ("SSUBSCRIBE", name),
            (Topic::Channel(Kind::Sharded, name), false) => ("SUNSUBSCRIBE", name),
            (Topic::Pattern(name), true) => ("PSUBSCRIBE", name),
            (Topic::Pattern(name), false) => ("PUNSUBSCRIBE", name),
        };
        let mut command = Cmd::new();
        command.arg(verb).arg(&name[..]);
        command
    }
}

impl Ear {
    pub(super) fn may_open(&self) -> bool {
        match &self.link {
            Link::New => true,
            Link::Closed { again, .. } => *again <= Instant::now(),
            Link::Opening | Link::Open(_) => false,
        }
    }

    pub(super) fn is_open(&mut self, conn: Conn) {
        self.link = Link::Open(Arc::new(conn));
        self.backoff = Backoff::default();
    }

    pub(super) fn is_closed(&mut self, trouble: Trouble) {
        // A connection that worked until now may be opened again at once.
        let pause = match self.link {
            Link::Open(_) => Duration::ZERO,
            _ => self.backoff.next(),
        };
        let again = Instant::now() + pause;
        self.link = Link::Closed { trouble, again };
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        match &self.link {
            Link::Closed { trouble, .. } => Some(trouble.clone()),
            _ => None,
        }
    }

    /// Sends commands; their confirmations come by [`Hearing`].
    pub(super) fn send(&self, addr: &Addr, calls: Vec<Call>, events: &UnboundedSender<Event>) {
        let Link::Open(conn) = &self.link else { return };
        let (conn, addr, id, events) = (Arc::clone(conn), addr.clone(), self.id, events.clone());
        tokio::spawn(async move {
            for calls in calls.chunks(CALLS_MAX) {
                let mut pipeline = Pipeline::with_capacity(calls.len());
                for call in calls {
                    pipeline.add_command(call.command());
                }
                let sent = conn.send(&pipeline, PATIENCE).await;
                let event = match sent {
                    Err(trouble) => Event::EarLost(addr.clone(), id, trouble),
                    Ok(answers) => match answers.iter().find_map(refusal) {
                        Some(why) => {
                            let moved = why.starts_with("MOVED") || why.starts_with("ASK ");
                            let text = format!("cannot subscribe at Redis at {addr}: {why}");
                            let refused = Trouble::refused(text, &why);
                            Event::EarRefused(id, subscribed(calls), moved, refused)
                        }
                        None => continue,
                    },
                };
                let _ = events.send(event);
            }
        });
    }

    /// Asks whether the connection lives.
    pub(super) fn probe(&self, addr: &Addr, events: &UnboundedSender<Event>) {
        let Link::Open(conn) = &self.link else { return };
        let (conn, addr, id, events) = (Arc::clone(conn), addr.clone(), self.id, events.clone());
        tokio::spawn(async move {
            let mut ping = Cmd::new();
            ping.arg("PING");
            if let Err(trouble) = conn.ask(ping, PATIENCE).await {
                let _ = events.send(Event::EarLost(addr, id, trouble));
            }
        });
    }
}

fn subscribed(calls: &[Call]) -> Vec<Topic> {
    let topics = calls.iter().filter_map(|call| match call {
        Call::Subscribe(topic) => Some(topic.clone()),
        Call::Unsubscribe(_) => None,
    });
    topics.collect()
}

/// What a connection does with what it hears.
#[derive(Debug)]
pub(super) struct Hearing {
    pub(super) addr: Addr,
    pub(super) id: EarId,
    pub(super) source: Source,
    pub(super) events: UnboundedSender<Event>,
}

impl Hearing {
    pub(super) async fn open(self, settings: Arc<Settings>) {
        let (addr, id, events) = (self.addr.clone(), self.id, self.events.clone());
        let on_push: OnPush = Box::new(move |push| self.take(push));
        let opened = Conn::open(&addr, &settings.login, &settings, Some(on_push)).await;
        let opened = opened.and_then(|conn| {
            conn.hello.suits(&addr, &settings.mode)?;
            Ok(conn)
        });
        let _ = events.send(Event::EarOpened(addr, id, opened));
    }

    /// HOT PATH: each message comes by here.
    fn take(&self, push: PushInfo) {
        let (kind, data) = (push.kind, push.data);
        let message = match kind {
            PushKind::Message => Some((Kind::Classic, false)),
            PushKind::PMessage => Some((Kind::Classic, true)),
            PushKind::SMessage => Some((Kind::Sharded, false)),
            _ => None,
        };
        if let Some((kind, by_pattern)) = message {
            if let Some(message) = read_message(kind, by_pattern, data) {
                self.source.tell(News::Message(message));
            }
            return;
        }
        let event = if kind == PushKind::Disconnection {
            let trouble = closed(&self.addr);
            Some(Event::EarLost(self.addr.clone(), self.id, trouble))
        } else {
            read_topic(&kind, data).map(|(on, topic)| match on {
                true => Event::EarConfirmed(self.id, topic),
                false => Event::EarEnded(self.id, topic),
            })
        };
        if let Some(event) = event {
            let _ = self.events.send(event);
        }
    }
}

/// `[pattern,] channel, body`.
fn read_message(kind: Kind, by_pattern: bool, data: Vec<Value>) -> Option<Message> {
    let mut words = data.into_iter().map(|value| match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    });
    let mut word = || words.next().flatten();
    let pattern = match by_pattern {
        true => Some(word()?.into()),
        false => None,
    };
    Some(Message {
        kind,
        pattern,
        channel: word()?,
        body: word()?,
    })
}

/// Which topic a confirmation is about, and whether it is subscribed now.
fn read_topic(kind: &PushKind, data: Vec<Value>) -> Option<(bool, Topic)> {
    let Some(Value::BulkString(name)) = data.into_iter().next() else {
        return None;
    };
    let name = name.into();
    match kind {
        PushKind::Subscribe => Some((true, Topic::Channel(Kind::Classic, name))),
        PushKind::SSubscribe => Some((true, Topic::Channel(Kind::Sharded, name))),
        PushKind::PSubscribe => Some((true, Topic::Pattern(name))),
        PushKind::Unsubscribe => Some((false, Topic::Channel(Kind::Classic, name))),
        PushKind::SUnsubscribe => Some((false, Topic::Channel(Kind::Sharded, name))),
        PushKind::PUnsubscribe => Some((false, Topic::Pattern(name))),
        _ => None,
    }
}
