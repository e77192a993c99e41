//! A session of WebTransport: the request of a client, its streams, and its end in words.
//!
//! The library has a session, too, which leaves a client a tenth of a second to read how it ended, and ends the connection then: a client that got
//! no time just then heard of a lost connection (ADR 61).

use crate::quic::H3_NO_ERROR;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use web_transport_quinn::http::StatusCode;
use web_transport_quinn::proto::{
    Capsule, ConnectRequest, ConnectResponse, Frame, Http3CapsuleReader, Settings, VarInt as Number,
};
use web_transport_quinn::quinn::{Connection, RecvStream, SendStream, VarInt};

/// A client that has read how its session ended has so long to end the connection by itself.
const GOING: Duration = Duration::from_millis(100);

/// Why there is no session.
pub(crate) type Fault = Box<dyn Error + Send + Sync>;

/// The stream of the request, by which the client hears of the end. It is taken then.
type Words = Arc<Mutex<Option<SendStream>>>;

/// A client that asks for a session.
pub(crate) struct Asking {
    pub(crate) request: ConnectRequest,
    conn: Connection,
    /// HTTP/3 ends with these.
    settings: (SendStream, RecvStream),
    send: SendStream,
    recv: RecvStream,
}

impl Asking {
    /// Both sides say what they can do, and the client asks (RFC 9114 §3.2).
    pub(crate) async fn hear(conn: Connection) -> Result<Self, Fault> {
        let settings = tokio::try_join!(say_settings(&conn), hear_settings(&conn))?;
        let (send, mut recv) = conn.accept_bi().await?;
        let request = ConnectRequest::read(&mut recv).await?;
        Ok(Self {
            request,
            conn,
            settings,
            send,
            recv,
        })
    }

    pub(crate) async fn grant(mut self) -> Result<Session, Fault> {
        ConnectResponse::OK.write(&mut self.send).await?;
        let id = VarInt::from(self.send.id()).into_inner();
        let words: Words = Arc::new(Mutex::new(Some(self.send)));
        tokio::spawn(follow(self.conn.clone(), self.recv, Arc::clone(&words)));
        Ok(Session {
            request: self.request,
            conn: self.conn,
            id,
            words,
            _settings: self.settings,
        })
    }

    pub(crate) async fn refuse(mut self, status: StatusCode) -> Result<(), Fault> {
        ConnectResponse::new(status).write(&mut self.send).await?;
        self.send.finish()?;
        Ok(())
    }
}

async fn say_settings(conn: &Connection) -> Result<SendStream, Fault> {
    let mut settings = Settings::default();
    settings.enable_webtransport(1);
    let mut send = conn.open_uni().await?;
    settings.write(&mut send).await?;
    Ok(send)
}

async fn hear_settings(conn: &Connection) -> Result<RecvStream, Fault> {
    let mut recv = conn.accept_uni().await?;
    let settings = Settings::read(&mut recv).await?;
    match settings.supports_webtransport() {
        0 => Err("the client has no WebTransport".into()),
        _ => Ok(recv),
    }
}

/// Reads to the end of the session, which its client says by a capsule or by the end of the stream. A client that was told of the end says so
/// when it has read it.
async fn follow(conn: Connection, recv: RecvStream, words: Words) {
    let mut capsules = Http3CapsuleReader::new(recv);
    let is_end = |capsule: &Capsule| matches!(capsule, Capsule::CloseWebTransportSession { .. });
    while matches!(capsules.read().await, Ok(Some(capsule)) if !is_end(&capsule)) {}
    let is_told = lock(&words).is_none();
    if is_told {
        let _ = timeout(GOING, conn.closed()).await;
    }
    conn.close(VarInt::from_u32(H3_NO_ERROR), b"");
}

/// A session that was granted.
pub(crate) struct Session {
    request: ConnectRequest,
    conn: Connection,
    /// Its streams name it.
    id: u64,
    words: Words,
    _settings: (SendStream, RecvStream),
}

impl Session {
    pub(crate) fn request(&self) -> &ConnectRequest {
        &self.request
    }

    /// The client's next stream of this session; `None`: it has gone.
    pub(crate) async fn accept(&self) -> Option<(SendStream, RecvStream)> {
        loop {
            let (send, mut recv) = self.conn.accept_bi().await.ok()?;
            if self.owns(&mut recv).await {
                return Some((send, recv));
            }
        }
    }

    /// Whether a stream begins as one of this session's.
    async fn owns(&self, recv: &mut RecvStream) -> bool {
        let kind = read_number(recv).await.map(Frame);
        kind == Some(Frame::WEBTRANSPORT)
            && read_number(recv).await.map(Number::into_inner) == Some(self.id)
    }

    /// Tells the client how the session ended; only the first end counts. Whoever has the connection waits until the client has read it.
    pub(crate) fn close(&self, code: u32, reason: &[u8]) {
        let Some(mut send) = lock(&self.words).take() else {
            return;
        };
        let words = last_words(code, String::from_utf8_lossy(reason).into_owned());
        tokio::spawn(async move {
            // It fails where the client has gone.
            if send.write_all(&words).await.is_ok() {
                let _ = send.finish();
            }
        });
    }

    /// Returns when the connection has ended.
    pub(crate) async fn closed(&self) {
        self.conn.closed().await;
    }
}

/// Capsules are in frames (RFC 9297 §3.2).
fn last_words(code: u32, reason: String) -> Vec<u8> {
    let (mut capsule, mut words) = (Vec::new(), Vec::new());
    Capsule::CloseWebTransportSession { code, reason }.encode(&mut capsule);
    Frame::DATA.encode(&mut words);
    // Reasons are short: those of close frames, and refusals, which are cut.
    Number::from_u32(capsule.len() as u32).encode(&mut words);
    words.extend_from_slice(&capsule);
    words
}

/// RFC 9000 §16.
async fn read_number(recv: &mut RecvStream) -> Option<Number> {
    let mut bytes = [0; Number::MAX_SIZE];
    recv.read_exact(&mut bytes[..1]).await.ok()?;
    let len = 1 << (bytes[0] >> 6);
    recv.read_exact(&mut bytes[1..len]).await.ok()?;
    Number::decode(&mut &bytes[..len]).ok()
}

/// A panic elsewhere leaves nothing half-done in what it guards.
fn lock(words: &Words) -> MutexGuard<'_, Option<SendStream>> {
    words.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_a_capsule_in_a_frame() {
        let words = last_words(1001, "bye".to_owned());
        // DATA, its length; the capsule 0x2843 (draft-ietf-webtrans-http3 §5), its length, the code and the reason.
        let expected = [&[0, 10, 0x68, 0x43, 7, 0, 0, 3, 0xe9][..], b"bye"].concat();
        assert_eq!(words, expected);
    }
}
