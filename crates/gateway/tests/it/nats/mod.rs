//! The bridge to NATS on the real binary with a real server: what clients do comes out, what programs publish goes in, and what clients
//! notice while a server or a gateway fails.

mod flood;
mod inwards;
mod outwards;
mod program;
mod troubles;
mod upgrades;

use crate::harness::token::{SECRET, token};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::SocketIo;
use async_nats::header::HeaderMap;
use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::{self, consumer, stream};
use async_nats::{Client, Message};
use futures_util::StreamExt;
use serde_json::json;
use servers::Nats;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::timeout;

const PRODUCED: &str = "sockeye_nats_events_total{outcome=\"produced\"}";
const HANDED: &str = "sockeye_nats_commands_total{outcome=\"handed\"}";

/// Pings tell clients that wait for long that the gateway is there. Events go to `sockeye.>`, commands of all operators come from `commands`, letters to `dead`.
fn config(url: &str, out: &str, inlet: &str, more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[socketio]\nping_interval = \"5s\"\nping_timeout = \"60s\"\n[server]\nshards = 2\n[auth]\nsecret = \"{SECRET}\"\nrequired = false\n\
         [nats]\nurls = [{url:?}]\n\
         [nats.out]\nsubject = \"sockeye.{{namespace}}.{{name}}\"\n{out}\n\
         [nats.in.programs]\nsubject = \"commands\"\ndead_letters = \"dead\"\n{inlet}\n\
         operators = [\"unicast\", \"user\", \"room\", \"broadcast\", \"internal\"]\n\
         [namespaces.\"/\"]\nclient_joins = true\n\
         [namespaces.\"/\".events.order]\naction = \"nats\"\nroom_field = \"doc\"\n{more}\n"
    )
}

/// Commands come from a stream.
const STREAM: &str = "stream = \"COMMANDS\"";

/// A program of its own, with a client that is the gateway's, too.
struct Program {
    runtime: Runtime,
    client: Client,
}

impl Program {
    fn new(nats: &Nats) -> Program {
        let runtime = Runtime::new().expect("a runtime");
        let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
        let client = runtime.block_on(options.connect(nats.url()));
        let client = client.expect("a client");
        Program { runtime, client }
    }

    /// With the streams of the configuration.
    fn with_streams(nats: &Nats) -> Program {
        let program = Program::new(nats);
        let streams = [
            ("EVENTS", "sockeye.>"),
            ("COMMANDS", "commands"),
            ("DEAD", "dead"),
        ];
        for (name, subject) in streams {
            let config = stream::Config {
                name: name.to_owned(),
                subjects: vec![subject.to_owned()],
                ..stream::Config::default()
            };
            let context = program.streams();
            let made = program.runtime.block_on(context.create_stream(config));
            made.expect("a stream");
        }
        program
    }

    fn streams(&self) -> jetstream::Context {
        let _inside = self.runtime.enter();
        jetstream::new(self.client.clone())
    }

    /// By core NATS; a stream with the subject has it, too.
    fn publish(&self, subject: &str, headers: &[(&str, &str)], value: &str) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, *value);
        }
        let value = value.to_owned().into();
        let sent = self
            .client
            .publish_with_headers(subject.to_owned(), map, value);
        self.runtime.block_on(sent).expect("it is taken");
    }

    fn flush(&self) {
        self.runtime
            .block_on(self.client.flush())
            .expect("all is sent");
    }

    /// One command, which the server has when this returns.
    fn say(&self, headers: &[(&str, &str)], value: &str) {
        self.publish("commands", headers, value);
        self.flush();
    }

    /// The first messages of a stream, and those that should not be there.
    fn read(&self, stream: &str, count: usize) -> Vec<Message> {
        let name = stream.to_owned();
        self.runtime.block_on(async {
            let stream = self.streams().get_stream(&name).await.expect("a stream");
            let config = consumer::pull::Config {
                ack_policy: AckPolicy::None,
                ..consumer::pull::Config::default()
            };
            let consumer = stream.create_consumer(config).await.expect("a consumer");
            let mut messages = consumer.messages().await.expect("messages");
            let deadline = Instant::now() + PATIENCE;
            let mut found = Vec::new();
            loop {
                let patience = match found.len() < count {
                    true => deadline.saturating_duration_since(Instant::now()),
                    false => Duration::from_millis(500),
                };
                match timeout(patience, messages.next()).await {
                    Ok(Some(Ok(message))) => found.push(message.message.clone()),
                    Ok(other) => panic!("{other:?}"),
                    Err(_) => {
                        let have = found.len();
                        assert!(have >= count, "{have} of {count} messages of {name}");
                        return found;
                    }
                }
            }
        })
    }
}

fn header(message: &Message, name: &str) -> Option<String> {
    let found = message.headers.as_ref()?.get(name)?;
    Some(found.as_str().to_owned())
}

fn text(message: &Message) -> String {
    String::from_utf8_lossy(&message.payload).into_owned()
}

/// A socket of a user; with an empty name, of none.
fn comes(node: &Gateway, user: &str) -> SocketIo {
    let auth = match user {
        "" => json!({}),
        user => json!({"token": token(user)}),
    };
    SocketIo::websocket(node.addr, "/", auth)
}

/// Waits until it is so.
fn soon(what: &str, is_so: impl FnMut() -> bool) {
    assert!(eventually(PATIENCE, is_so), "waited in vain: {what}");
}

/// The inlet listens: a command to nobody is handed over.
fn listens(node: &Gateway, program: &Program) {
    soon("the gateway listens", || {
        program.say(&[("X-Operator", "user"), ("X-Uid", "nobody")], "[\"x\"]");
        node.metric(HANDED) >= 1.0
    });
}
