//! A build that is later than this one, as its neighbours see it: it knows a higher version of the record, and each message and each record
//! of it has a field that they do not know. It is this build with somebody between the two processes who adds that.

use super::chain::Chain;
use handoff::backend::Piece;
use handoff::bounds::DESCRIPTORS_MAX;
use handoff::{Batch, Hello, Kind, VERSION};
use prost::Message;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Field 500, three bytes.
const UNKNOWN: [u8; 6] = [0xa2, 0x1f, 3, 1, 2, 3];
const SPACE: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));
const PATIENCE: Duration = Duration::from_secs(30);

/// A [`Batch`] whose records are bytes.
#[derive(Clone, PartialEq, Message)]
struct Loose {
    #[prost(uint32, tag = "1")]
    shard: u32,
    #[prost(bytes = "vec", repeated, tag = "2")]
    sessions: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    listeners: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "4")]
    visitors: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    marks: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "10")]
    limiters: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "11")]
    counters: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "12")]
    shares: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "13")]
    rests: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    keepsakes: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "15")]
    calls: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "16")]
    callers: Vec<Vec<u8>>,
}

/// A later build takes over from the process that serves, and is the one that serves then.
pub fn takes_over(chain: &mut Chain) {
    takes_over_as(chain, altered);
}

/// A build that takes no more than the first ones did.
pub fn takes_over_as_of_old(chain: &mut Chain) {
    takes_over_as(chain, |kind, body| match kind {
        Kind::Hello => Hello {
            takes: 0,
            ..Hello::decode(body).expect("a hello")
        }
        .encode_to_vec(),
        Kind::Sessions => {
            let batch = Batch::decode(body).expect("a batch");
            assert!(batch.keepsakes.is_empty());
            body.to_vec()
        }
        _ => body.to_vec(),
    });
}

/// What somebody between the two processes makes of a message.
type Alter = fn(Kind, &[u8]) -> Vec<u8>;

fn takes_over_as(chain: &mut Chain, alter: Alter) {
    let socket = chain.socket();
    let real = socket.with_extension("real");
    std::fs::rename(&socket, &real).expect("another place");
    let between = UnixListener::bind(&socket).expect("its place");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    let addresses = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    command.args(addresses).args(["--take-over", "--config"]);
    command.arg(chain.folder().join("sockeye.toml"));
    let mut child = command.stderr(Stdio::null()).spawn().expect("a successor");
    chain.note_successor(child.id());
    std::thread::spawn(move || child.wait());
    let (taker, _) = between.accept().expect("it comes");
    let giver = UnixStream::connect(&real).expect("the process");
    let (tell, told) = channel();
    for (from, to) in [(&taker, &giver), (&giver, &taker)] {
        let (from, to) = (copy(from), copy(to));
        let tell = tell.clone();
        std::thread::spawn(move || pass(from, to, alter, &tell));
    }
    let serves = told.recv_timeout(PATIENCE);
    let log = chain.first.log();
    assert!(
        serves.is_ok(),
        "{:?}",
        log.iter().rev().take(3).collect::<Vec<_>>()
    );
    std::fs::remove_file(&real).expect("no longer there");
}

fn copy(stream: &UnixStream) -> UnixStream {
    stream.try_clone().expect("a copy")
}

/// Passes on what one says to the other, until it ends; tells when it serves.
fn pass(mut from: UnixStream, mut to: UnixStream, alter: Alter, tell: &Sender<()>) {
    let mut header = [0; 5];
    while from.read_exact(&mut header).is_ok() {
        let [kind, len @ ..] = header;
        let mut body = vec![0; u32::from_be_bytes(len) as usize];
        from.read_exact(&mut body).expect("a body");
        let kind = Kind::of(kind).expect("a kind");
        if kind == Kind::Serving {
            // The process before may have gone.
            let _ = tell.send(());
        }
        let said = alter(kind, &body);
        let mut bytes = vec![kind as u8];
        bytes.extend_from_slice(&(said.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&said);
        if to.write_all(&bytes).is_err() {
            return;
        }
        if descriptors(kind, &body) > 0 {
            pass_descriptors(&from, &to);
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

fn altered(kind: Kind, body: &[u8]) -> Vec<u8> {
    let mut said = match kind {
        Kind::Hello => Hello {
            newest: VERSION + 1,
            ..Hello::decode(body).expect("a hello")
        }
        .encode_to_vec(),
        Kind::Sessions => {
            let mut batch = Loose::decode(body).expect("a batch");
            let records = batch.sessions.iter_mut().chain(&mut batch.visitors);
            let records = records.chain(&mut batch.marks).chain(&mut batch.keepsakes);
            let records = records.chain(&mut batch.calls).chain(&mut batch.callers);
            records.for_each(|record| record.extend_from_slice(&UNKNOWN));
            batch.encode_to_vec()
        }
        Kind::Backend | Kind::Place => {
            let mut piece = Piece::decode(body).expect("a piece");
            if piece.ends {
                piece.bytes.extend_from_slice(&UNKNOWN);
            }
            piece.encode_to_vec()
        }
        _ => body.to_vec(),
    };
    said.extend_from_slice(&UNKNOWN);
    said
}

/// How many follow.
pub fn descriptors(kind: Kind, body: &[u8]) -> usize {
    if !matches!(kind, Kind::Listeners | Kind::Sessions) {
        return 0;
    }
    let batch = Batch::decode(body).expect("a batch");
    let carried = batch.sessions.iter().map(|one| one.conns().count());
    batch.listeners.len() + carried.sum::<usize>() + batch.visitors.len()
}

fn pass_descriptors(from: &UnixStream, to: &UnixStream) {
    let (mut space, mut byte) = ([MaybeUninit::uninit(); SPACE], [0]);
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(from, &mut slices, &mut ancillary, flags).expect("descriptors");
    let mut sockets: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            sockets.extend(more);
        }
    }
    let borrowed: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)));
    let sent = sendmsg(
        to,
        &[IoSlice::new(&[0])],
        &mut ancillary,
        SendFlags::empty(),
    );
    sent.expect("descriptors");
}
