//! The gateway's copies of sessions: one WebSocket each, whatever transport the client has.

use crate::compare::Side;
use crate::log;
use crate::packet::{Budget, Packet};
use crate::server::Server;
use crate::sessions::{Opening, Word};
use crate::tap::{Heard, Tap};
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::timeout;
use wire::websocket::frame::{OpCode, write_masked};
use wire::websocket::handshake::write_request;

/// The gateway answers a handshake by then, and takes what it is given.
const PATIENCE: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 16 << 10;
const CHUNK_BYTES: usize = 16 << 10;

/// A copy, until the client or the gateway ends it.
pub async fn run(
    session: u64,
    server: Server,
    opening: Opening,
    packets: Receiver<Packet>,
    (words, budget): (Sender<Word>, Budget),
) {
    if let Err(error) = copy(session, &server, &opening, packets, (&words, &budget)).await {
        log::say(format!("session {session}: {error:#}"));
    }
    // The conductor ends with the process.
    let _ = words.send(Word::CopyEnded(session)).await;
}

async fn copy(
    session: u64,
    server: &Server,
    opening: &Opening,
    mut packets: Receiver<Packet>,
    (words, budget): (&Sender<Word>, &Budget),
) -> Result<()> {
    let (mut stream, early) = timeout(PATIENCE, connect(server, opening))
        .await
        .with_context(|| {
            format!("cannot open its copy: {server} did not answer within {PATIENCE:?}")
        })??;
    let (mut from, mut to) = stream.split();
    let mut tap = Tap::new(false);
    let mut heard = tap.read(&early);
    let (mut is_open, mut chunk) = (false, vec![0; CHUNK_BYTES]);
    loop {
        let parts = heard.map_err(|_| {
            anyhow::anyhow!("cannot read what {server} says: no packets of Socket.IO")
        })?;
        for part in parts {
            match part {
                Heard::Open(_) => is_open = true,
                Heard::Ping => send(&mut to, OpCode::Text, b"3").await?,
                Heard::Packet(mut packet) => {
                    let share = budget.take(packet.bytes());
                    packet.share = share.context("too much waits to be compared")?;
                    if words
                        .send(Word::Said(Side::Own, session, packet))
                        .await
                        .is_err()
                    {
                        return Ok(());
                    }
                }
                Heard::Close => return Ok(()),
                Heard::Upgrade => {}
            }
        }
        tokio::select! {
            packet = packets.recv(), if is_open => {
                let Some(packet) = packet else { return Ok(()) };
                send(&mut to, OpCode::Text, &packet.to_text()).await?;
                for bytes in &packet.attachments {
                    send(&mut to, OpCode::Binary, bytes).await?;
                }
                heard = Ok(Vec::new());
            }
            read = from.read(&mut chunk) => {
                let read = read.context("the connection of its copy broke")?;
                if read == 0 {
                    return Ok(());
                }
                heard = tap.read(&chunk[..read]);
            }
        }
    }
}

async fn send(to: &mut (impl AsyncWriteExt + Unpin), opcode: OpCode, payload: &[u8]) -> Result<()> {
    let mut frame = Vec::new();
    write_masked(
        &mut frame,
        true,
        opcode,
        payload,
        fastrand::u32(..).to_ne_bytes(),
    );
    let written = timeout(PATIENCE, to.write_all(&frame)).await;
    written
        .with_context(|| format!("its copy took nothing for {PATIENCE:?}"))?
        .context("cannot write to its copy")
}

/// An open WebSocket, and what came behind the answer.
async fn connect(server: &Server, opening: &Opening) -> Result<(TcpStream, Vec<u8>)> {
    let stream = TcpStream::connect(&server.address).await;
    let mut stream =
        stream.with_context(|| format!("cannot open its copy: cannot connect to {server}"))?;
    // A client that waits for answers sends small packets.
    let _ = stream.set_nodelay(true);
    let key = STANDARD.encode(fastrand::u128(..).to_ne_bytes());
    let key: [u8; 24] = key.into_bytes().try_into().unwrap_or([b'A'; 24]);
    let target = format!("{}?EIO=4&transport=websocket{}", server.path, opening.query);
    let mut extra = Vec::new();
    for (name, value) in &opening.headers {
        extra.extend_from_slice(format!("{name}: ").as_bytes());
        extra.extend_from_slice(value);
        extra.extend_from_slice(b"\r\n");
    }
    let mut request = Vec::new();
    write_request(&mut request, &server.address, &target, &key, &extra);
    stream
        .write_all(&request)
        .await
        .context("cannot open its copy")?;
    let mut answer = Vec::new();
    loop {
        if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&answer[..end]).into_owned();
            let first = head.lines().next().unwrap_or_default();
            if first.split(' ').nth(1) != Some("101") {
                let body = String::from_utf8_lossy(&answer[end + 4..]).into_owned();
                bail!("cannot open its copy: {server} answered {first:?} {body:?}");
            }
            return Ok((stream, answer.split_off(end + 4)));
        }
        if answer.len() > HEAD_BYTES_MAX
            || stream
                .read_buf(&mut answer)
                .await
                .context("cannot open its copy")?
                == 0
        {
            bail!("cannot open its copy: {server} did not answer as a WebSocket server does");
        }
    }
}
