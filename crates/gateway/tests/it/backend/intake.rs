//! Large messages of workers, whole and in parts.

use super::worker::{introduced, open, runtime, target};
use super::{KEY, Kitchen};
use crate::harness::{Gateway, PATIENCE, eventually};
use backend::proto::command::What as Order;
use backend::proto::{self, Command, FromWorker, ToWorker};
use prost::Message;
use prost::bytes::Bytes;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tonic::codegen::http::Request;

const LARGEST: usize = 16 << 20;

/// A message of this size, with one command that no gateway knows.
fn of_bytes(bytes: usize) -> FromWorker {
    let command = Command {
        traceparent: "x".repeat(bytes - 64),
        what: None,
    };
    FromWorker {
        first: 1,
        commands: vec![command],
        ..FromWorker::default()
    }
}

fn framed(message: &FromWorker) -> Bytes {
    let message = message.encode_to_vec();
    let len = (message.len() as u32).to_be_bytes();
    [&[0][..], &len, &message].concat().into()
}

/// A worker's stream, as HTTP/2 carries it.
struct Link {
    up: h2::SendStream<Bytes>,
    down: h2::client::ResponseFuture,
    /// To be sent.
    rest: Bytes,
}

impl Link {
    async fn attach(workers: SocketAddr, instance: &str, rest: Bytes) -> Link {
        let mut client = connect(workers).await;
        let request = Request::post("http://gateway/sockeye.worker.v1.Workers/Attach")
            .header("authorization", format!("Bearer {}", KEY.0))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let request = request.body(()).expect("a request");
        let (down, mut up) = client.send_request(request, false).expect("a stream");
        up.send_data(framed(&introduced("kitchen", instance)), false)
            .expect("sent");
        Link { up, down, rest }
    }

    /// Sends all but so many bytes, or what is taken until nothing moves any more.
    async fn send_but(&mut self, left: usize) {
        while self.rest.len() > left {
            let len = (self.rest.len() - left).min(256 << 10);
            self.up.reserve_capacity(len);
            let room = std::future::poll_fn(|cx| self.up.poll_capacity(cx));
            let Ok(room) = tokio::time::timeout(Duration::from_secs(2), room).await else {
                return;
            };
            let room = room.expect("open").expect("no error").min(len);
            self.up
                .send_data(self.rest.split_to(room), false)
                .expect("sent");
        }
    }

    /// Sends a part; `false`: the stream has ended.
    async fn send_some(&mut self) -> bool {
        let len = self.rest.len().min(256 << 10);
        self.up.reserve_capacity(len);
        let room = std::future::poll_fn(|cx| self.up.poll_capacity(cx)).await;
        let Some(Ok(room)) = room else { return false };
        let part = self.rest.split_to(room.min(len));
        self.up.send_data(part, false).is_ok()
    }

    /// How many commands the gateway has taken in, when it says so.
    async fn confirmed(self) -> u64 {
        let mut body = self.down.await.expect("an answer").into_body();
        let mut bytes = Vec::new();
        loop {
            let data = body.data().await.expect("more").expect("no error");
            let _ = body.flow_control().release_capacity(data.len());
            bytes.extend_from_slice(&data);
            while let Some(head) = bytes.get(1..5) {
                let end = 5 + u32::from_be_bytes(head.try_into().expect("four")) as usize;
                let Some(message) = bytes.get(5..end) else {
                    break;
                };
                let message = ToWorker::decode(message).expect("a message");
                if message.commands > 0 {
                    return message.commands;
                }
                bytes.drain(..end);
            }
        }
    }
}

pub async fn connect(workers: SocketAddr) -> h2::client::SendRequest<Bytes> {
    let stream = TcpStream::connect(workers).await.expect("a connection");
    let (client, conn) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(conn);
    client
}

/// Without a key.
pub fn strangers_request() -> Request<()> {
    let request = Request::post("http://gateway/sockeye.worker.v1.Workers/Attach")
        .header("content-type", "application/grpc");
    request.body(()).expect("a request")
}

/// Opens streams without a key on one connection, one after the other; how many were refused.
pub async fn strangers(workers: SocketAddr, count: usize) -> usize {
    let mut client = connect(workers).await.ready().await.expect("ready");
    let mut refused = 0;
    for _ in 0..count {
        let (answer, _) = client
            .send_request(strangers_request(), true)
            .expect("a stream");
        let answer = answer.await.expect("an answer");
        let unauthenticated = (tonic::Code::Unauthenticated as i32).to_string();
        refused += usize::from(answer.headers()["grpc-status"] == *unauthenticated);
        client = client.ready().await.expect("ready");
    }
    refused
}

/// 64 of them might wait, of 16 MiB each, and one of each link besides.
#[test]
fn messages_of_workers_were_bounded_in_number_and_not_in_bytes() {
    const LINKS: usize = 9;
    let kitchen = Kitchen::open("silent_after = \"60s\"");
    let before = kitchen.gateway.own_memory();
    let large = framed(&of_bytes(LARGEST));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let mut links = Vec::new();
        for n in 0..LINKS {
            links.push(Link::attach(kitchen.workers, &n.to_string(), large.clone()).await);
        }
        let sending = links.into_iter().map(|mut link| {
            tokio::spawn(async move {
                link.send_but(1).await;
                link
            })
        });
        let mut links = Vec::new();
        for link in sending.collect::<Vec<_>>() {
            links.push(link.await.expect("sent"));
        }
        let took = kitchen.gateway.own_memory() - before;
        assert!(took < 6 * LARGEST as u64, "{took} bytes for nine messages");
        // All of them are taken in as soon as there is room.
        let finishing = links.into_iter().map(|mut link| {
            tokio::spawn(async move {
                while !link.rest.is_empty() {
                    link.send_but(0).await;
                }
                link.confirmed().await
            })
        });
        for confirmed in finishing.collect::<Vec<_>>() {
            let confirmed = tokio::time::timeout(3 * PATIENCE, confirmed).await;
            assert_eq!(confirmed.expect("in time").expect("no panic"), 1);
        }
    });
    // The allocator gives freed memory back when its thread next turns to it.
    let left = || kitchen.gateway.own_memory().saturating_sub(before);
    assert!(
        eventually(PATIENCE, || left() < 6 * LARGEST as u64),
        "{} bytes are kept",
        left()
    );
}

/// Its stream ended, and it came back with the same message for ever.
#[test]
fn a_worker_that_said_too_much_at_once_was_not_told_so() {
    let kitchen = Kitchen::open("");
    let told = runtime().block_on(async {
        let opened = open(kitchen.workers, &KEY.0, introduced("kitchen", "a")).await;
        let (frames, mut messages) = opened.expect("attached");
        frames.send(of_bytes(LARGEST + 65_536)).await.expect("sent");
        loop {
            match messages.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status),
            }
        }
    });
    let told = told.expect("a reason");
    assert_eq!(told.code(), tonic::Code::OutOfRange, "{told}");
    assert!(kitchen.gateway.logged("send fewer commands", PATIENCE));
}

/// As a message of a stream.
fn framed_raw(message: &[u8]) -> Bytes {
    let len = (message.len() as u32).to_be_bytes();
    [&[0][..], &len, message].concat().into()
}

/// Commands without content: each takes two bytes on its way.
fn empty_commands(bytes: usize) -> Vec<u8> {
    // Field 4 with no bytes.
    [0x22, 0].repeat(bytes / 2)
}

/// An event for so many rooms, each of one letter.
pub fn crowded(rooms: usize) -> Vec<u8> {
    let to = proto::Target {
        namespace: "/".to_owned(),
        rooms: vec!["a".to_owned(); rooms],
        ..proto::Target::default()
    };
    let emit = proto::Emit {
        to: Some(to),
        event: "x".to_owned(),
        ..proto::Emit::default()
    };
    let command = Command {
        what: Some(Order::Emit(emit.into())),
        ..Command::default()
    };
    let said = FromWorker {
        first: 1,
        commands: vec![command],
        ..FromWorker::default()
    };
    said.encode_to_vec()
}

/// How the gateway ends a stream, or that it has taken in a command.
async fn verdict(link: Link) -> Result<u64, String> {
    let answer = link.down.await.expect("an answer");
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.expect("no error");
        let _ = body.flow_control().release_capacity(data.len());
        bytes.extend_from_slice(&data);
        while let Some(head) = bytes.get(1..5) {
            let end = 5 + u32::from_be_bytes(head.try_into().expect("four")) as usize;
            let Some(message) = bytes.get(5..end) else {
                break;
            };
            let commands = ToWorker::decode(message).expect("a message").commands;
            bytes.drain(..end);
            if commands > 0 {
                return Ok(commands);
            }
        }
    }
    let trailers = body.trailers().await.expect("no error").expect("trailers");
    Err(trailers["grpc-message"].to_str().expect("text").to_owned())
}

/// Sends it by so many links at once; how much the most was that the process had more than before, and what each heard.
pub fn said_by(
    gateway: &Gateway,
    workers: SocketAddr,
    links: usize,
    message: &[u8],
) -> (u64, Vec<Result<u64, String>>) {
    let before = gateway.own_memory();
    let message = framed_raw(message);
    let heard = runtime().block_on(async {
        let mut opened = Vec::new();
        for n in 0..links {
            opened.push(Link::attach(workers, &n.to_string(), message.clone()).await);
        }
        let mut sending = tokio::task::JoinSet::new();
        for mut link in opened {
            sending.spawn(async move {
                // A stream that is ended takes no more.
                while !link.rest.is_empty() && link.send_some().await {}
                verdict(link).await
            });
        }
        let heard = tokio::time::timeout(3 * PATIENCE, sending.join_all());
        heard.await.expect("in time")
    });
    (gateway.peak_memory().saturating_sub(before), heard)
}

/// 16 MiB of two bytes each took 1.4 GiB.
#[test]
fn commands_without_content_took_ninety_times_their_bytes() {
    let kitchen = Kitchen::open("silent_after = \"60s\"");
    let own = kitchen.gateway.peak_memory() - kitchen.gateway.own_memory();
    let (grew, heard) = said_by(
        &kitchen.gateway,
        kitchen.workers,
        1,
        &empty_commands(LARGEST),
    );
    let told = heard[0].as_ref().expect_err("it is sent away");
    // Percent-encoded.
    assert!(told.contains("16384"), "{told}");
    assert!(
        grew.saturating_sub(own) < 4 * LARGEST as u64,
        "{grew} bytes for one message"
    );
}

/// 64 KiB by each of 200 links took 451 MiB.
#[test]
fn many_links_with_many_commands_took_what_one_may_not() {
    const LINKS: usize = 200;
    for (bytes, is_refused) in [(64 << 10, true), (32 << 10, false)] {
        let kitchen = Kitchen::open("silent_after = \"60s\"");
        let own = kitchen.gateway.peak_memory() - kitchen.gateway.own_memory();
        let message = empty_commands(bytes);
        let (grew, heard) = said_by(&kitchen.gateway, kitchen.workers, LINKS, &message);
        if is_refused {
            let refused = heard.iter().filter_map(|heard| heard.as_ref().err());
            let refused = refused.filter(|why| why.contains("16384"));
            assert_eq!(refused.count(), LINKS, "{heard:?}");
        }
        let grew = grew.saturating_sub(own);
        eprintln!("{bytes} bytes by each of {LINKS} links: {grew} bytes");
        assert!(grew < 12 * LARGEST as u64, "{grew} bytes");
    }
}

/// Sockets of a test, and the bytes of their data.
const SOCKETS: usize = 200;
const DATA: usize = 15_000;

/// A worker that asks for lists and reads none of them: each was kept, however many there were.
#[test]
fn lists_for_a_worker_that_reads_none_were_kept_without_bound() {
    let kitchen = Kitchen::open("silent_after = \"60s\"\nqueue_max = \"16MiB\"");
    let worker = kitchen.worker("a");
    let clients: Vec<_> = (0..SOCKETS).map(|_| kitchen.client()).collect();
    for client in &clients {
        let data = format!("{:?}", "x".repeat(DATA));
        let socket = client.sid.clone();
        worker.say(Order::SetData(proto::SetData { socket, data }));
    }
    let fetch = |query| proto::Fetch {
        of: Some(target(&[])),
        query,
        timeout_ms: 20_000,
    };
    worker.say(Order::Fetch(fetch(1)));
    let whole = || {
        worker.memory().found.iter().any(|found| {
            let bytes: usize = found.sockets.iter().map(|socket| socket.data.len()).sum();
            bytes >= SOCKETS * DATA
        })
    };
    assert!(eventually(PATIENCE, whole), "all data is set");
    let own = kitchen.gateway.peak_memory() - kitchen.gateway.own_memory();
    let commands = (2..202).map(|query| Command {
        what: Some(Order::Fetch(fetch(query))),
        ..Command::default()
    });
    let said = FromWorker {
        first: 1,
        commands: commands.collect(),
        ..FromWorker::default()
    };
    let before = kitchen.gateway.own_memory();
    runtime().block_on(async {
        let message = framed_raw(&said.encode_to_vec());
        let mut link = Link::attach(kitchen.workers, "reads nothing", message).await;
        while !link.rest.is_empty() && link.send_some().await {}
        // Until no more comes of it.
        let mut quiet = 0;
        while quiet < 10 {
            let peak = kitchen.gateway.peak_memory();
            tokio::time::sleep(Duration::from_millis(100)).await;
            quiet = match kitchen.gateway.peak_memory() == peak {
                true => quiet + 1,
                false => 0,
            };
        }
    });
    let grew = kitchen.gateway.peak_memory().saturating_sub(before);
    let grew = grew.saturating_sub(own);
    eprintln!("200 lists of {} bytes: {grew} bytes", SOCKETS * DATA);
    assert!(grew < 12 * LARGEST as u64, "{grew} bytes for 200 lists");
}

/// Each name became a text of its own on its way to each shard, and everybody waited for that.
#[test]
fn an_event_for_a_million_rooms_was_taken() {
    let kitchen = Kitchen::open("silent_after = \"60s\"");
    let worker = kitchen.worker("a");
    let own = kitchen.gateway.peak_memory() - kitchen.gateway.own_memory();
    for rooms in [1_000_000, 5_000_000] {
        let (grew, heard) = said_by(&kitchen.gateway, kitchen.workers, 1, &crowded(rooms));
        assert_eq!(
            heard,
            [Ok(1)],
            "the command has failed, and the worker stays"
        );
        assert!(
            grew.saturating_sub(own) < 4 * LARGEST as u64,
            "{grew} bytes for {rooms} rooms"
        );
    }
    let emit = Order::Emit(
        proto::Emit {
            to: Some(target(&vec!["a"; 1_001])),
            event: "x".to_owned(),
            ..proto::Emit::default()
        }
        .into(),
    );
    worker.say(emit);
    assert!(eventually(PATIENCE, || worker.memory().failed.len() == 1));
    let failed = worker.memory().failed[0].message.clone();
    assert!(failed.contains("more than 1000 members"), "{failed}");
}
