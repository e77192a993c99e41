//! From a client's stream to the socket pair and back, for the life of a session. Both sides wait for each other: what a slow client does
//! not take stays in the shard's outbox, which has a bound and a policy, and what a shard does not read is not read from the client.

use crate::answer::{self, Answer};
use crate::house::{Client, House, Newcomer};
use crate::request;
use crate::session::Session;
use std::any::Any;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::unix::net::UnixStream as Pair;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, timeout};
use web_transport_quinn::proto::error_to_http3;
use web_transport_quinn::quinn::{RecvStream, SendStream, VarInt};
use wire::engineio::webtransport::{Goodbye, ToClient, ToHub};

/// What is read at once, bytes. Nothing is kept of it while nothing comes.
const READ_BYTES: usize = 16 * 1024;
/// A shard decides about a request in the time that a request may take; its answer comes behind that.
const ANSWER_SLACK: Duration = Duration::from_secs(3);
/// How often it is looked whether the shard has given up a client that takes nothing.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Browsers tell a page of the end by another way than of what was said last, and sooner: a client that closes by itself has read it.
const READ_TIME: Duration = Duration::from_millis(100);
/// So many streams beside the session's are refused, one by one; then the session is.
const SECOND_STREAMS_MAX: usize = 16;
/// What a session is closed with that the process has no room for, or that no shard answers.
const FULL: (u32, &str) = (503, "Server is full");
const BUSY: (u32, &str) = (503, "Server is busy");

/// The way a session ended.
enum End {
    /// The shard said so, or closed its end.
    Hub(Goodbye),
    /// The client went, or its stream has no sense.
    Client(&'static str),
}

/// Carries a session until one of both sides ends it, and tells the other. The session comes back: it is to live until its last word is out.
pub(crate) async fn carry(
    house: &House,
    client: Client,
    peer: IpAddr,
    newcomer: &mut Newcomer<'_>,
) -> Box<Session> {
    let Client {
        session,
        mut send,
        recv,
        opening,
        read,
    } = client;
    let Some((hub, _place)) = pair(house, peer) else {
        house.counts.full.one();
        session.close(FULL.0, FULL.1.as_bytes());
        return session;
    };
    let _open = house.counts.open.while_held();
    house.counts.opened.one();
    let asked = request::write(session.request(), opening.sid.as_deref());
    let (mut from_hub, mut to_hub) = hub.into_split();
    let answer = Box::pin(ask(&mut from_hub, &mut to_hub, asked));
    let limit = house.settings.opening_timeout + ANSWER_SLACK;
    let first = match timeout(limit, answer).await {
        Ok(Ok(Asked::Open(first))) => first,
        refused => {
            house.counts.refused.one();
            let (code, why) = match refused {
                Ok(Ok(Asked::Refused(status, text))) => (status.into(), text),
                _ => (BUSY.0, BUSY.1.to_owned()),
            };
            session.close(code, why.as_bytes());
            return session;
        }
    };
    *newcomer = None;
    let end = {
        let up = pin!(up(house, recv, to_hub, &read[opening.len..]));
        talk(house, &session, (&mut send, &mut from_hub), up, first).await
        // The shard sees the end of its pair now.
    };
    match end {
        End::Hub(goodbye) => {
            // It fails where the client has gone.
            let _ = send.finish();
            let _ = timeout(house.settings.close_timeout, send.stopped()).await;
            let _ = timeout(READ_TIME, session.closed()).await;
            let code = goodbye.code.map_or(0, u32::from);
            session.close(code, goodbye.reason.as_bytes());
        }
        End::Client(why) => session.close(0, why.as_bytes()),
    }
    session
}

/// Both directions until one has ended; then what the client said before is still brought to the shard, whose words nobody hears any more.
async fn talk(
    house: &House,
    session: &Session,
    (send, from_hub): (&mut SendStream, &mut OwnedReadHalf),
    mut up: Pin<&mut impl Future<Output = Result<(), &'static str>>>,
    first: Vec<u8>,
) -> End {
    let mut has_said_all = false;
    let why = {
        let mut down = pin!(down(house, send, from_hub, first));
        let mut others = pin!(refuse_others(house, session));
        loop {
            tokio::select! {
                biased;
                said = &mut up, if !has_said_all => {
                    has_said_all = true;
                    // Its end of the pair is shut: the shard ends the session.
                    if let Err(why) = said {
                        break why;
                    }
                }
                end = &mut down => match end {
                    End::Client(why) => break why,
                    end => return end,
                },
                why = &mut others => break why,
            }
        }
    };
    // A fault is told while the shard still reads; who has gone hears nothing.
    session.close(0, why.as_bytes());
    let said = async {
        if !has_said_all {
            // It ends with what came before the end.
            let _ = up.await;
        }
        std::future::pending::<()>().await;
    };
    let heard = async { while matches!(some(from_hub, |_| {}).await, Ok(1..)) {} };
    // A shard that has closed its end reads no more.
    let rest = async {
        tokio::select! { () = heard => {}, () = said => {} }
    };
    let _ = timeout(house.settings.close_timeout, rest).await;
    End::Client(why)
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

/// From the shard to the client.
async fn down(
    house: &House,
    send: &mut SendStream,
    from_hub: &mut OwnedReadHalf,
    first: Vec<u8>,
) -> End {
    let mut translator = ToClient::default();
    let mut out = Vec::new();
    let mut said = translator.translate(&first, &mut out);
    drop(first);
    loop {
        if !out.is_empty() {
            house.counts.sent_bytes.add(out.len());
            if let Err(why) = deliver(house, send, from_hub, &out).await {
                return End::Client(why);
            }
        }
        match said {
            Ok(None) => {}
            Ok(Some(goodbye)) => return End::Hub(goodbye),
            Err(violation) => return End::Client(violation.text()),
        }
        out = Vec::new();
        said = Ok(None);
        let read = some(from_hub, |bytes| {
            said = translator.translate(bytes, &mut out)
        });
        match read.await {
            Ok(0) | Err(_) => return End::Hub(Goodbye::default()),
            Ok(_) => {}
        }
    }
}

/// A client may take as long as a heartbeat may last, and less once the shard has given it up.
async fn deliver(
    house: &House,
    send: &mut SendStream,
    from_hub: &OwnedReadHalf,
    out: &[u8],
) -> Result<(), &'static str> {
    let mut written = pin!(send.write_all(out));
    let mut deadline = Instant::now() + house.settings.idle_timeout;
    let mut is_given_up = false;
    loop {
        match timeout(LOOK_INTERVAL, &mut written).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(_)) => return Err("the client takes nothing more"),
            Err(_) if Instant::now() >= deadline => {
                house.counts.stalled.one();
                return Err("too slow");
            }
            Err(_) if !is_given_up && is_closed(from_hub).await => {
                is_given_up = true;
                deadline = deadline.min(Instant::now() + house.settings.close_timeout);
            }
            Err(_) => {}
        }
    }
}

/// Whether the shard has closed its end; there may be bytes before that.
async fn is_closed(from_hub: &OwnedReadHalf) -> bool {
    tokio::select! {
        biased;
        ready = from_hub.ready(Interest::READABLE) => ready.is_ok_and(|ready| ready.is_read_closed()),
        () = std::future::ready(()) => false,
    }
}

/// A session has one stream (engine.io's server reads no other): others are told so.
async fn refuse_others(house: &House, session: &Session) -> &'static str {
    for _ in 0..SECOND_STREAMS_MAX {
        let Some((mut send, mut recv)) = session.accept().await else {
            return "the client has gone";
        };
        house.counts.second_streams.one();
        // What has ended needs not be told.
        let code = VarInt::from_u64(error_to_http3(0)).unwrap_or_default();
        let _ = send.reset(code);
        let _ = recv.stop(code);
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
