//! From a client's stream to the socket pair and back, for the life of a session. Both sides wait for each other: what a slow client does
//! not take stays in the shard's outbox, which has a bound and a policy, and what a shard does not read is not read from the client.

use crate::answer::{self, Answer};
use crate::door::{Client, House};
use crate::request;
use std::any::Any;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::unix::net::UnixStream as Pair;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{timeout, timeout_at};
use web_transport_quinn::{RecvStream, SendStream, Session};
use wire::engineio::webtransport::{Goodbye, ToClient, ToHub};

/// What is read at once, bytes. Nothing is kept of it while nothing comes.
const READ_BYTES: usize = 16 * 1024;
/// A client that is told of the end has so long to confirm what came before.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// So many streams beside the session's are refused, one by one; then the session is.
const SECOND_STREAMS_MAX: usize = 16;
/// What a session is closed with that the process has no room for.
const FULL: (u32, &str) = (503, "Server is full");

/// The way a session ended.
enum End {
    /// The shard said so, or closed its end.
    Hub(Goodbye),
    /// The client went, or its stream has no sense.
    Client(&'static str),
}

/// Carries a session until one of both sides ends it, and tells the other.
pub(crate) async fn carry(house: &House, client: Client, peer: IpAddr) {
    let Some((hub, _place)) = pair(house, peer) else {
        house.counts.full.one();
        return client.session.close(FULL.0, FULL.1.as_bytes());
    };
    let _open = house.counts.open.while_held();
    house.counts.opened.one();
    let Client {
        session,
        mut send,
        recv,
        opening,
        read,
        deadline,
    } = client;
    let asked = session
        .request()
        .map(|asked| request::write(asked, opening.sid.as_deref()));
    let (mut from_hub, mut to_hub) = hub.into_split();
    let asked = timeout_at(
        deadline,
        ask(&mut from_hub, &mut to_hub, asked.unwrap_or_default()),
    );
    let end = match asked.await {
        Ok(Ok(Asked::Open(first))) => {
            let up = up(house, recv, to_hub, &read[opening.len..]);
            let down = down(house, &mut send, from_hub, first);
            tokio::select! {
                end = down => end,
                why = both_ways_up(up, &session) => End::Client(why),
                why = refuse_others(house, &session) => End::Client(why),
            }
        }
        Ok(Ok(Asked::Refused(status, text))) => {
            house.counts.refused.one();
            return session.close(status.into(), text.as_bytes());
        }
        Ok(Err(_)) | Err(_) => End::Hub(Goodbye::default()),
    };
    match end {
        End::Hub(goodbye) => {
            // It fails where the client has gone.
            let _ = send.finish();
            let _ = timeout(LAST_WORDS, send.stopped()).await;
            session.close(goodbye.code.map_or(0, u32::from), goodbye.reason.as_bytes());
        }
        End::Client(why) => session.close(0, why.as_bytes()),
    }
}

/// The end of a new socket pair whose other one a shard has.
fn pair(house: &House, peer: IpAddr) -> Option<(UnixStream, Box<dyn Any + Send>)> {
    let (ours, theirs) = Pair::pair().ok()?;
    ours.set_nonblocking(true).ok()?;
    let ours = UnixStream::from_std(ours).ok()?;
    let place = (house.bring)(theirs, peer.to_canonical())?;
    Some((ours, place))
}

enum Asked {
    /// These are the first frames.
    Open(Vec<u8>),
    Refused(u16, String),
}

/// Asks the shard for the session.
async fn ask(
    from_hub: &mut OwnedReadHalf,
    to_hub: &mut OwnedWriteHalf,
    request: Vec<u8>,
) -> io::Result<Asked> {
    write_all(to_hub, &request).await?;
    let mut read = Vec::new();
    let refused = loop {
        let more = some(from_hub, |bytes| read.extend_from_slice(bytes)).await?;
        match answer::read(&read) {
            Answer::Open(len) => return Ok(Asked::Open(read.split_off(len))),
            Answer::Refused(status) => break status,
            Answer::Incomplete if more > 0 => {}
            Answer::Incomplete | Answer::Broken => return Err(ErrorKind::InvalidData.into()),
        }
    };
    // A refusal comes in one piece, and the connection ends behind it or goes on; nobody waits for more.
    Ok(Asked::Refused(refused, answer::text(&read)))
}

/// From the client to the shard; returns when the client has nothing more to say.
async fn up(
    house: &House,
    mut recv: RecvStream,
    mut to_hub: OwnedWriteHalf,
    first: &[u8],
) -> Result<(), &'static str> {
    let mut translator = ToHub::default();
    let mut out = Vec::new();
    let mut translated = translator.translate(first, &mut out);
    loop {
        // What came before a fault is taken in.
        let written = write_all(&mut to_hub, &out).await;
        translated.map_err(|violation| violation.text())?;
        if written.is_err() {
            // The other direction brings the reason.
            std::future::pending::<()>().await;
        }
        out = Vec::new();
        match recv.read_chunk(READ_BYTES, true).await {
            Ok(Some(chunk)) => {
                house.counts.received_bytes.add(chunk.bytes.len());
                translated = translator.translate(&chunk.bytes, &mut out);
            }
            Ok(None) => return Ok(()),
            Err(_) => return Err("the stream was reset"),
        }
    }
}

/// A client that has said all may still hear; one whose stream broke has gone.
async fn both_ways_up(
    up: impl Future<Output = Result<(), &'static str>>,
    session: &Session,
) -> &'static str {
    match up.await {
        Err(why) => why,
        // Its end of the pair is shut: the shard ends the session.
        Ok(()) => {
            session.closed().await;
            "the client has gone"
        }
    }
}

/// From the shard to the client.
async fn down(
    house: &House,
    send: &mut SendStream,
    mut from_hub: OwnedReadHalf,
    first: Vec<u8>,
) -> End {
    let mut translator = ToClient::default();
    let mut out = Vec::new();
    let mut said = translator.translate(&first, &mut out);
    drop(first);
    loop {
        if !out.is_empty() {
            house.counts.sent_bytes.add(out.len());
            match timeout(house.settings.idle_timeout, send.write_all(&out)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return End::Client("the client takes nothing more"),
                Err(_) => {
                    house.counts.stalled.one();
                    return End::Client("too slow");
                }
            }
        }
        match said {
            Ok(None) => {}
            Ok(Some(goodbye)) => return End::Hub(goodbye),
            Err(violation) => return End::Client(violation.text()),
        }
        out = Vec::new();
        said = Ok(None);
        let read = some(&mut from_hub, |bytes| {
            said = translator.translate(bytes, &mut out)
        });
        match read.await {
            Ok(0) | Err(_) => return End::Hub(Goodbye::default()),
            Ok(_) => {}
        }
    }
}

/// A session has one stream (engine.io's server reads no other): others are told so.
async fn refuse_others(house: &House, session: &Session) -> &'static str {
    for _ in 0..SECOND_STREAMS_MAX {
        match session.accept_bi().await {
            Ok((mut send, mut recv)) => {
                house.counts.second_streams.one();
                // What has ended needs not be told.
                let _ = send.reset(0);
                let _ = recv.stop(0);
            }
            Err(_) => return "the client has gone",
        }
    }
    "too many streams"
}

/// Some bytes as they come, by a buffer that is there only for the call; 0 at the end of the stream.
async fn some(from: &mut OwnedReadHalf, mut take: impl FnMut(&[u8])) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match read_now(from, &mut take) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

fn read_now(from: &OwnedReadHalf, take: &mut impl FnMut(&[u8])) -> io::Result<usize> {
    let mut buf = [0; READ_BYTES];
    let read = from.try_read(&mut buf)?;
    take(&buf[..read]);
    Ok(read)
}

async fn write_all(to: &mut OwnedWriteHalf, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => to.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
