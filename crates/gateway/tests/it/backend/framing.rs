//! Links without HTTP/2: a client for tests, and strangers at the same port.

use super::worker::{introduced, runtime};
use super::{KEY, Kitchen};
use crate::harness::{PATIENCE, SocketIo, eventually};
use backend::proto::{FromWorker, ToWorker};
use prost::Message;
use serde_json::json;
use std::io::{Read, Write};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::{Code, Status};

const MAGIC: &[u8] = b"SOCKEYE1";
const MESSAGE: u8 = 0;
const END: u8 = 1;
const PING: u8 = 2;
const PONG: u8 = 3;
const KEY_SHOWN: u8 = 4;

fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let len = u32::try_from(content.len()).expect("small").to_be_bytes();
    [&[kind][..], &len, content].concat()
}

/// The first message of a worker.
fn opening(key: &str, first: &FromWorker) -> Vec<u8> {
    let hello = frame(MESSAGE, &first.encode_to_vec());
    [MAGIC, &frame(KEY_SHOWN, key.as_bytes()), &hello].concat()
}

/// The gateway's side of a link.
#[derive(Debug)]
pub struct Messages {
    /// A task of its own reads whole frames: a wait for the next one may end in the middle, and its bytes would be lost.
    frames: Receiver<(u8, Vec<u8>)>,
    first: Option<ToWorker>,
}

impl Messages {
    fn read(mut from: OwnedReadHalf, first: ToWorker) -> Self {
        let (read, frames) = channel(1);
        tokio::spawn(async move {
            while let Some(frame) = next(&mut from).await
                && read.send(frame).await.is_ok()
            {}
        });
        let first = Some(first);
        Self { frames, first }
    }

    /// The next message; `None`: the connection ended.
    pub async fn message(&mut self) -> Result<Option<ToWorker>, Status> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        loop {
            let Some((kind, content)) = self.frames.recv().await else {
                return Ok(None);
            };
            match kind {
                MESSAGE => return Ok(Some(ToWorker::decode(&content[..]).expect("a message"))),
                END => return Err(status(&content)),
                other => assert_eq!(other, PONG, "a frame of another kind"),
            }
        }
    }
}

fn status(content: &[u8]) -> Status {
    let (code, text) = content.split_first().expect("a code");
    let text = std::str::from_utf8(text).expect("a text");
    Status::new(Code::from_i32((*code).into()), text)
}

async fn next(from: &mut OwnedReadHalf) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    from.read_exact(&mut head).await.ok()?;
    let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    let mut content = vec![0; len as usize];
    from.read_exact(&mut content).await.ok()?;
    Some((head[0], content))
}

/// Opens a link. The error is what the gateway says.
pub async fn open(
    gateway: SocketAddr,
    key: &str,
    first: FromWorker,
) -> Result<(Sender<FromWorker>, Messages), Status> {
    let (mut from, mut to) = connect(gateway).await?;
    let broken = |error: std::io::Error| Status::unavailable(error.to_string());
    to.write_all(&opening(key, &first)).await.map_err(broken)?;
    let mut magic = [0; MAGIC.len()];
    from.read_exact(&mut magic).await.map_err(broken)?;
    assert_eq!(magic, MAGIC);
    let (kind, content) = next(&mut from)
        .await
        .ok_or_else(|| Status::unavailable("the connection ended"))?;
    if kind == END {
        return Err(status(&content));
    }
    let welcome = ToWorker::decode(&content[..]).expect("a message");
    let (frames, mut outgoing) = channel::<FromWorker>(64);
    tokio::spawn(async move {
        while let Some(message) = outgoing.recv().await {
            let message = frame(MESSAGE, &message.encode_to_vec());
            if to.write_all(&message).await.is_err() {
                return;
            }
        }
    });
    Ok((frames, Messages::read(from, welcome)))
}

async fn connect(gateway: SocketAddr) -> Result<(OwnedReadHalf, OwnedWriteHalf), Status> {
    let stream = TcpStream::connect(gateway).await;
    let stream = stream.map_err(|error| Status::unavailable(error.to_string()))?;
    stream.set_nodelay(true).expect("an option");
    Ok(stream.into_split())
}

/// All that the gateway says to these bytes until it closes.
async fn told(gateway: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let (mut from, mut to) = connect(gateway).await.expect("a connection");
    // It may be closed already.
    let _ = to.write_all(bytes).await;
    let mut told = Vec::new();
    let read = tokio::time::timeout(PATIENCE, from.read_to_end(&mut told)).await;
    read.expect("it closes").expect("it is not reset");
    told
}

/// The reason at the end of what it says.
fn reason(told: &[u8]) -> Status {
    let rest = told.strip_prefix(MAGIC).expect("it greets");
    assert_eq!(rest[0], END, "{rest:?}");
    let len = u32::from_be_bytes([rest[1], rest[2], rest[3], rest[4]]);
    assert_eq!(rest.len(), 5 + len as usize, "and no more");
    status(&rest[5..])
}

#[test]
fn bytes_that_are_no_link_are_told_what_is_wrong_with_them() {
    let kitchen = Kitchen::open("");
    let _worker = kitchen.worker("a");
    let mut client = kitchen.client();
    let hello = introduced("kitchen", "b");
    let opened = |key: &str| opening(key, &hello);
    let behind = |frame: &[u8]| [&opened(&KEY.0)[..], frame].concat();
    let too_long = [&[MESSAGE][..], &((16_u32 << 20) + 1).to_be_bytes()].concat();
    let longest = [&[KEY_SHOWN][..], &u32::MAX.to_be_bytes()].concat();
    let wrong = [
        (
            opened("sockeye_wrong"),
            Code::Unauthenticated,
            "has this key",
        ),
        (opened("line\nbreak"), Code::Unauthenticated, "has this key"),
        (opened(""), Code::Unauthenticated, "has this key"),
        ([MAGIC, &longest].concat(), Code::InvalidArgument, "1024"),
        (
            [MAGIC, &frame(MESSAGE, &hello.encode_to_vec())].concat(),
            Code::InvalidArgument,
            "send a key",
        ),
        (
            [
                MAGIC,
                &frame(KEY_SHOWN, KEY.0.as_bytes()),
                &frame(MESSAGE, &[]),
            ]
            .concat(),
            Code::InvalidArgument,
            "no `hello`",
        ),
        (
            [MAGIC, &frame(KEY_SHOWN, KEY.0.as_bytes()), &too_long].concat(),
            Code::OutOfRange,
            "16777217 bytes",
        ),
    ];
    for (bytes, code, text) in &wrong {
        let told = reason(&runtime().block_on(told(kitchen.workers, bytes)));
        assert_eq!(told.code(), *code, "{told}");
        assert!(told.message().contains(text), "{told}");
    }
    // Behind a hello: the reason comes after the welcome.
    for (bytes, text) in [
        (behind(&too_long), "16777217 bytes"),
        (behind(&frame(9, b"x")), "kind 9"),
        (behind(&frame(PING, b"x")), "kind 2"),
        (behind(&frame(MESSAGE, &[0xff])), "cannot read a message"),
        // It was ignored, and its worker waited for a second welcome.
        (
            behind(&frame(MESSAGE, &hello.encode_to_vec())),
            "`hello` stands in the first message",
        ),
    ] {
        let all = runtime().block_on(told(kitchen.workers, &bytes));
        let text_of_all = String::from_utf8_lossy(&all);
        assert!(text_of_all.contains(text), "{text}: {text_of_all}");
    }
    assert_eq!(client.ask(1, &json!(["echo", 1])), json!([1]));
}

#[test]
fn a_link_that_comes_byte_by_byte_is_one() {
    let kitchen = Kitchen::open("");
    let hello = introduced("kitchen", "slow");
    runtime().block_on(async {
        let (mut from, mut to) = connect(kitchen.workers).await.expect("a connection");
        let ping = frame(PING, &[]);
        for byte in [opening(&KEY.0, &hello), ping].concat() {
            to.write_all(&[byte]).await.expect("written");
            tokio::task::yield_now().await;
        }
        let mut magic = [0; MAGIC.len()];
        from.read_exact(&mut magic).await.expect("it greets");
        // The answer to the ping does not wait for that to the introduction.
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let (kind, content) = next(&mut from).await.expect("a frame");
            match kind {
                MESSAGE => {
                    let message = ToWorker::decode(&content[..]).expect("a message");
                    assert!(message.welcome.is_some());
                }
                _ => assert_eq!(content, b""),
            }
            kinds.push(kind);
        }
        kinds.sort_unstable();
        assert_eq!(kinds, [MESSAGE, PONG]);
    });
}

/// Each at another place: before the first byte, within the magic word, the key, the head of a message.
#[test]
fn strangers_that_stop_in_the_middle_keep_nobody_out_and_take_no_memory() {
    let kitchen = Kitchen::open_with("conns_max = 24", "");
    let worker = kitchen.worker("a");
    let mut client = kitchen.client();
    let before = kitchen.gateway.own_memory();
    let whole = [
        MAGIC,
        &frame(KEY_SHOWN, KEY.0.as_bytes()),
        &[MESSAGE],
        &(16_u32 << 20).to_be_bytes(),
        b"x",
    ]
    .concat();
    let strangers: Vec<std::net::TcpStream> = runtime().block_on(async {
        let mut strangers = Vec::new();
        for at in (0..=whole.len()).step_by(7).cycle().take(128) {
            let (from, mut to) = connect(kitchen.workers).await.expect("a connection");
            let _ = to.write_all(&whole[..at]).await;
            strangers.push((from, to));
        }
        strangers
            .into_iter()
            .map(|(from, to)| from.reunite(to).expect("one").into_std().expect("a stream"))
            .collect()
    });
    for number in 0..20 {
        assert_eq!(
            client.ask(number, &json!(["echo", number])),
            json!([number])
        );
    }
    let grown = kitchen.gateway.own_memory().saturating_sub(before);
    assert!(grown < 24 << 20, "{grown}");
    assert!(
        kitchen.metric("sockeye_displaced_total") > 0.0,
        "there were more than places"
    );
    // Those with the key and a message that never comes whole are sent away by then.
    let again = kitchen.worker("b");
    drop((again, strangers));
    assert_eq!(worker.memory().fault.as_ref().map(Status::code), None);
}

/// Its connection stays open, and nothing comes by it any more.
#[test]
fn a_half_open_link_is_given_up_and_its_client_gets_another_worker() {
    let kitchen = Kitchen::open("silent_after = \"2s\"");
    let hello = introduced("kitchen", "half-open");
    let mut link = std::net::TcpStream::connect(kitchen.workers).expect("a connection");
    link.write_all(&opening(&KEY.0, &hello)).expect("written");
    link.read_exact(&mut [0; MAGIC.len()]).expect("it greets");
    let attached = || kitchen.metric("sockeye_backend_workers") >= 1.0;
    assert!(eventually(PATIENCE, attached));
    let mut client = SocketIo::open(kitchen.gateway.addr);
    client.send("40{}");
    let lost = "sockeye_backend_workers_lost_total";
    assert!(eventually(PATIENCE, || kitchen.metric(lost) >= 1.0));
    let _other = kitchen.worker("b");
    let reply = client.packet();
    assert!(reply.starts_with("40{"), "the other one let it in: {reply}");
    // It is told why, and the connection closes.
    let mut told = Vec::new();
    link.read_to_end(&mut told).expect("it closes");
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("said nothing for `silent_after`"), "{told}");
}
