//! A worker for tests, with clients of gRPC and of frames that are not the gateway's own code. Its logic is that of a small kitchen.
//! `WORKERS_FRAMING=grpc` makes it speak gRPC; else it speaks frames.

use super::framing;
use crate::harness::{PATIENCE, eventually};
use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, Command, FromWorker, Hello, Item, ToWorker, Welcome};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Request, Status, Streaming};

/// One event as it was handled.
#[derive(Clone, Debug, PartialEq)]
pub struct Handled {
    pub socket: String,
    pub number: u64,
    pub redelivered: bool,
}

/// What a worker process remembers.
#[derive(Debug, Default)]
pub struct Memory {
    pub handled: Vec<Handled>,
    pub resumed: Vec<proto::Resume>,
    pub gone: Vec<proto::Gone>,
    pub failed: Vec<proto::Failed>,
    pub found: Vec<proto::Found>,
    pub nodes_gone: Vec<u32>,
    pub connects: Vec<proto::Connect>,
    pub upgraded: Vec<proto::Upgraded>,
    pub welcome: Option<Welcome>,
    pub goodbye: bool,
    /// How the gateway ended its link.
    pub fault: Option<Status>,
    known: bool,
    frozen: bool,
    received: u64,
    commands: u64,
    /// It says of nothing that it is handled.
    holds: bool,
    unconfirmed: Vec<(u64, Command)>,
}

/// A worker. It has a thread of its own, which ends when the worker is dropped, and its connection with it, in the middle of
/// whatever it does.
pub struct Worker {
    memory: Arc<Mutex<Memory>>,
    orders: Sender<Wish>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What a test wants of a worker.
enum Wish {
    Say(Order),
    Leave,
    /// Handle nothing from now on.
    Freeze,
}

impl Worker {
    /// Attaches, and waits until the gateway has welcomed it.
    pub fn attach(gateway: SocketAddr, key: &str, instance: &str) -> Worker {
        Self::attach_for("kitchen", gateway, key, instance)
    }

    /// The same for a backend of another name.
    pub fn attach_for(backend: &str, gateway: SocketAddr, key: &str, instance: &str) -> Worker {
        let worker = Self::begin(backend, gateway, key, instance, Arc::default());
        let welcomed = eventually(PATIENCE, || worker.memory().welcome.is_some());
        assert!(welcomed, "the worker was not welcomed");
        worker
    }

    fn begin(
        backend: &str,
        gateway: SocketAddr,
        key: &str,
        instance: &str,
        memory: Arc<Mutex<Memory>>,
    ) -> Worker {
        let (orders, wishes) = channel(1_024);
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (shared, key) = (Arc::clone(&memory), key.to_owned());
        let names = (backend.to_owned(), instance.to_owned());
        let thread = std::thread::spawn(move || {
            let life = async {
                tokio::select! {
                    ended = live(gateway, &key, names, &shared, wishes) => {
                        if let Err(status) = ended {
                            eprintln!("worker: {status}");
                            lock(&shared).fault = Some(status);
                        }
                    }
                    _ = stopped => {}
                }
            };
            runtime().block_on(life);
        });
        Worker {
            memory,
            orders,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    /// Cuts the link; the process lives on, and attaches again with what it remembers.
    pub fn cut_and_return(self, gateway: SocketAddr, key: &str, instance: &str) -> Worker {
        let memory = Arc::clone(&self.memory);
        drop(self);
        lock(&memory).welcome = None;
        Self::begin("kitchen", gateway, key, instance, memory)
    }

    /// Ends it in the middle of whatever it does; what it had handled until then.
    pub fn die(self) -> Vec<Handled> {
        let memory = Arc::clone(&self.memory);
        drop(self);
        lock(&memory).handled.clone()
    }

    pub fn say(&self, order: Order) {
        self.wish(Wish::Say(order));
    }

    /// Whatever it does from now on is not covered by `handled`.
    pub fn hold(&self) {
        self.memory().holds = true;
    }

    pub fn leave(&self) {
        self.wish(Wish::Leave);
    }

    /// Returns when it has begun to handle nothing.
    pub fn freeze(&self) {
        self.wish(Wish::Freeze);
        assert!(eventually(PATIENCE, || self.memory().frozen), "it goes on");
    }

    fn wish(&self, wish: Wish) {
        assert!(self.orders.blocking_send(wish).is_ok(), "the worker ended");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the worker's thread");
        }
    }
}

fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime")
}

/// The first message of a worker.
pub fn introduced(backend: &str, instance: &str) -> FromWorker {
    let hello = Hello {
        backend: backend.to_owned(),
        instance: instance.to_owned(),
        version: 1,
        ..Hello::default()
    };
    FromWorker {
        hello: Some(hello),
        ..FromWorker::default()
    }
}

/// Messages of the gateway.
#[derive(Debug)]
pub enum Messages {
    Grpc(Streaming<ToWorker>),
    Frames(framing::Messages),
}

impl Messages {
    pub async fn message(&mut self) -> Result<Option<ToWorker>, Status> {
        match self {
            Self::Grpc(stream) => stream.message().await,
            Self::Frames(frames) => frames.message().await,
        }
    }
}

/// Opens a link. The error is what the gateway says.
pub async fn open(
    gateway: SocketAddr,
    key: &str,
    first: FromWorker,
) -> Result<(Sender<FromWorker>, Messages), Status> {
    let by_grpc = std::env::var("WORKERS_FRAMING").is_ok_and(|framing| framing == "grpc");
    if by_grpc {
        let (frames, messages) = open_grpc(gateway, key, first).await?;
        return Ok((frames, Messages::Grpc(messages)));
    }
    let (frames, messages) = framing::open(gateway, key, first).await?;
    Ok((frames, Messages::Frames(messages)))
}

async fn open_grpc(
    gateway: SocketAddr,
    key: &str,
    first: FromWorker,
) -> Result<(Sender<FromWorker>, Streaming<ToWorker>), Status> {
    let endpoint = Endpoint::from_shared(format!("http://{gateway}")).expect("an address");
    let connected = endpoint.connect().await;
    let channel_ = connected.map_err(|error| Status::unavailable(error.to_string()))?;
    let mut grpc = tonic::client::Grpc::new(channel_).max_decoding_message_size(64 << 20);
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let (frames, outgoing): (_, Receiver<FromWorker>) = channel(64);
    let mut request = Request::new(ReceiverStream::new(outgoing));
    let bearer = format!("Bearer {key}").parse().expect("metadata");
    request.metadata_mut().insert("authorization", bearer);
    frames.send(first).await.expect("room");
    let codec = tonic_prost::ProstCodec::<FromWorker, ToWorker>::default();
    let path = PathAndQuery::from_static("/sockeye.worker.v1.Workers/Attach");
    let response = grpc.streaming(request, path, codec).await?;
    Ok((frames, response.into_inner()))
}

async fn live(
    gateway: SocketAddr,
    key: &str,
    (backend, instance): (String, String),
    memory: &Mutex<Memory>,
    mut wishes: Receiver<Wish>,
) -> Result<(), Status> {
    let (received, resumes) = {
        let memory = lock(memory);
        (memory.received, memory.known)
    };
    let hello = Hello {
        backend,
        instance,
        received,
        weight: 1,
        away: false,
        resumes,
        version: 1,
        ..Hello::default()
    };
    let first = FromWorker {
        hello: Some(hello),
        ..FromWorker::default()
    };
    let (frames, mut messages) = open(gateway, key, first).await?;
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let (mut frozen, mut leaving) = (false, false);
    loop {
        let orders = tokio::select! {
            message = messages.message(), if !frozen => {
                let Some(message) = message? else { return Ok(()) };
                take(memory, message)
            }
            wish = wishes.recv() => match wish {
                Some(Wish::Say(order)) => vec![order],
                Some(Wish::Leave) => { leaving = true; Vec::new() }
                Some(Wish::Freeze) => { frozen = true; lock(memory).frozen = true; Vec::new() }
                None => return Ok(()),
            },
            _ = ticks.tick() => Vec::new(),
        };
        if lock(memory).goodbye {
            return Ok(());
        }
        let frame = frame(memory, orders, leaving);
        if frames.send(frame).await.is_err() {
            // The gateway has ended it. Its reason may still be on the way.
            while messages.message().await?.is_some() {}
            return Ok(());
        }
    }
}

/// What was handled, and what came of it.
fn frame(memory: &Mutex<Memory>, orders: Vec<Order>, leaving: bool) -> FromWorker {
    let mut memory = lock(memory);
    let first = memory.commands + 1;
    let mut commands = Vec::new();
    for order in orders {
        memory.commands += 1;
        let number = memory.commands;
        let command = Command {
            what: Some(order),
            ..proto::Command::default()
        };
        memory.unconfirmed.push((number, command.clone()));
        commands.push(command);
    }
    FromWorker {
        handled: if memory.holds { 0 } else { memory.received },
        first,
        commands,
        leaving,
        ..FromWorker::default()
    }
}

fn take(memory: &Mutex<Memory>, message: ToWorker) -> Vec<Order> {
    let mut orders = Vec::new();
    let mut memory = lock(memory);
    let mut confirmed = message.commands;
    if let Some(welcome) = message.welcome {
        confirmed = welcome.commands;
        // What the gateway has not got is said again, under the same numbers.
        let again = memory.unconfirmed.drain(..);
        let again: Vec<_> = again.filter(|(number, _)| *number > confirmed).collect();
        memory.commands = confirmed;
        orders.extend(again.into_iter().filter_map(|(_, command)| command.what));
        memory.welcome = Some(welcome);
        memory.known = true;
    }
    memory.unconfirmed.retain(|(number, _)| *number > confirmed);
    memory.goodbye |= message.goodbye;
    for (item, number) in message.items.into_iter().zip(message.first..) {
        assert_eq!(number, memory.received + 1, "a gap in the items");
        memory.received = number;
        orders.extend(handle(&mut memory, item));
    }
    orders
}

// ---- the kitchen --------------------------------------------------------------------------------------------------------------

fn handle(memory: &mut Memory, item: Item) -> Vec<Order> {
    match item.what.expect("an item") {
        What::Connect(connect) => {
            memory.connects.push(proto::Connect::clone(&connect));
            admit(&connect)
        }
        What::Resume(resume) => {
            memory.resumed.push(*resume);
            Vec::new()
        }
        What::Event(event) => on_event(memory, &event, item.redelivered),
        What::Gone(gone) => {
            memory.gone.push(gone);
            Vec::new()
        }
        What::Answers(answers) => {
            let said = answers.answers.iter();
            let said = said
                .map(|answer| elements(&answer.args))
                .collect::<Vec<_>>();
            vec![emit(
                &["kitchen"],
                "answered",
                &json!([said, answers.missing]),
            )]
        }
        What::Found(found) => {
            memory.found.push(found.clone());
            let mut found: Vec<_> = found
                .sockets
                .into_iter()
                .map(|socket| json!([socket.socket, socket.rooms, elements_of(&socket.data)]))
                .collect();
            found.sort_by_key(ToString::to_string);
            vec![emit(&["kitchen"], "who", &json!([found]))]
        }
        What::Failed(failed) => {
            memory.failed.push(failed);
            Vec::new()
        }
        What::Upgraded(upgraded) => {
            memory.upgraded.push(upgraded);
            Vec::new()
        }
        What::NodeGone(lost) => {
            memory.nodes_gone.push(lost.node);
            Vec::new()
        }
        // The library's tests ask for these.
        What::Told(_) | What::Counted(_) | What::Opening(_) | What::Moved(_) | What::Part(_) => {
            Vec::new()
        }
    }
}

fn admit(connect: &proto::Connect) -> Vec<Order> {
    let auth: Value = serde_json::from_slice(&connect.auth).expect("JSON of a client");
    if auth["bad"] == true {
        return vec![Order::Decision(proto::Decision {
            socket: connect.socket.clone(),
            admit: false,
            message: "not you".to_owned(),
            data: r#"{"code":7}"#.to_owned(),
        })];
    }
    if auth["never"] == true {
        return Vec::new();
    }
    let socket = connect.socket.as_str();
    vec![
        Order::Decision(proto::Decision {
            socket: socket.to_owned(),
            admit: true,
            ..proto::Decision::default()
        }),
        join(socket, "kitchen"),
        Order::SetData(proto::SetData {
            socket: socket.to_owned(),
            data: r#"{"cook":true}"#.to_owned(),
        }),
        emit(&[socket], "hello", &json!([socket])),
    ]
}

fn on_event(memory: &mut Memory, event: &proto::Event, redelivered: bool) -> Vec<Order> {
    let socket = event.socket.as_str();
    let args = elements(&event.args);
    match event.event.as_str() {
        "echo" => vec![answer(event)],
        "count" => {
            memory.handled.push(Handled {
                socket: socket.to_owned(),
                number: args[0].as_u64().expect("a number"),
                redelivered,
            });
            let counts = event.ack != 0;
            counts.then(|| answer(event)).into_iter().collect()
        }
        "news" => vec![emit(&["kitchen"], "news", &Value::from(args))],
        "survey" => vec![Order::Ask(Box::new(proto::Ask {
            query: 7,
            emit: Some(as_emit(&["kitchen"], "question", &json!([1]))),
            timeout_ms: 5_000,
        }))],
        "who" => vec![Order::Fetch(proto::Fetch {
            query: 8,
            of: Some(target(&[])),
            timeout_ms: 5_000,
        })],
        "kick" => vec![Order::Disconnect(proto::Disconnect {
            of: Some(target(&[socket])),
            close: false,
            drop: false,
        })],
        "mute" => Vec::new(),
        // A frame that was not parsed: everybody gets it.
        "message" => vec![Order::Emit(Box::new(proto::Emit {
            to: Some(target(&["kitchen"])),
            event: event.event.clone(),
            args: event.args.clone(),
            attachments: event.attachments.clone(),
            volatile: false,
        }))],
        other => panic!("the kitchen does not know {other:?}"),
    }
}

fn answer(event: &proto::Event) -> Order {
    Order::Ack(proto::Ack {
        socket: event.socket.clone(),
        ack: event.ack,
        args: event.args.clone(),
        attachments: event.attachments.clone(),
    })
}

fn elements(args: &[u8]) -> Vec<Value> {
    serde_json::from_slice(&[b"[", args, b"]"].concat()).expect("JSON elements")
}

fn elements_of(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

pub fn target(rooms: &[&str]) -> proto::Target {
    proto::Target {
        namespace: "/".to_owned(),
        rooms: rooms.iter().map(|room| (*room).to_owned()).collect(),
        all: rooms.is_empty(),
        ..proto::Target::default()
    }
}

fn as_emit(rooms: &[&str], event: &str, args: &Value) -> proto::Emit {
    let args = args.to_string();
    proto::Emit {
        to: Some(target(rooms)),
        event: event.to_owned(),
        args: args[1..args.len() - 1].to_owned().into(),
        attachments: Vec::new(),
        volatile: false,
    }
}

pub fn emit(rooms: &[&str], event: &str, args: &Value) -> Order {
    Order::Emit(as_emit(rooms, event, args).into())
}

fn join(socket: &str, room: &str) -> Order {
    Order::Join(proto::Membership {
        of: Some(target(&[socket])),
        rooms: vec![room.to_owned()],
    })
}
