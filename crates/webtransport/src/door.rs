//! The door: from a client's first packet to its session's stream, within a time and within bounds.

use crate::bridge;
use crate::house::{Client, House};
use crate::openings::Place;
use crate::quic::{Ends, H3_NO_ERROR};
use crate::session::{Asking, Session};
use std::fmt::Display;
use std::sync::Arc;
use tokio::time::{Instant, timeout, timeout_at};
use web_transport_quinn::http::StatusCode;
use web_transport_quinn::quinn::{Endpoint, Incoming, VarInt};
use wire::engineio::webtransport::{OPENING_BYTES_MAX, read_opening};

/// Lets clients in until the endpoint ends.
pub(crate) async fn serve(endpoint: Endpoint, house: Arc<House>) {
    while let Some(incoming) = endpoint.accept().await {
        let address = incoming.remote_address().ip();
        if !incoming.remote_address_validated() && house.openings.want_proof(address) {
            // It comes again with what it is told.
            let _ = incoming.retry();
            continue;
        }
        match house.openings.enter(address) {
            Some(place) => drop(tokio::spawn(welcome(Arc::clone(&house), incoming, place))),
            None => {
                house.counts.refused_busy.one();
                incoming.refuse();
            }
        }
    }
}

async fn welcome(house: Arc<House>, incoming: Incoming, place: Place) {
    let mut newcomer = Some((place, house.counts.opening.while_held()));
    let deadline = Instant::now() + house.settings.opening_timeout;
    let conn = timeout_at(deadline, async { incoming.await }).await;
    let conn = match conn {
        Ok(Ok(conn)) => conn,
        Ok(Err(error)) => {
            tracing::debug!(%error, "no QUIC handshake");
            return house.counts.wrong.one();
        }
        Err(_) => return house.counts.too_slow.one(),
    };
    let peer = conn.remote_address().ip();
    let ends = Ends(conn);
    // Boxed: for the life of the session, nothing is to be left of it.
    let opened = timeout_at(deadline, Box::pin(open(&house, &ends))).await;
    // The session lives until the connection has ended: without it, HTTP/3 would end before the last word is out.
    let _session = match opened {
        Ok(Ok(client)) => Some(bridge::carry(&house, client, peer, &mut newcomer).await),
        Ok(Err(Wrong { why, session })) => {
            tracing::debug!(%peer, why, "no session of WebTransport");
            house.counts.wrong.one();
            session
        }
        Err(_) => {
            house.counts.too_slow.one();
            ends.0.close(VarInt::from_u32(H3_NO_ERROR), b"too slow");
            None
        }
    };
    // What was said last, such as a refusal, is read first: whoever has read it goes. Until then a newcomer keeps its place.
    let _ = timeout(house.settings.close_timeout, ends.0.closed()).await;
}

/// A client that opens no session.
struct Wrong {
    why: String,
    session: Option<Box<Session>>,
}

impl<E: Display> From<E> for Wrong {
    fn from(error: E) -> Self {
        Self {
            why: error.to_string(),
            session: None,
        }
    }
}

/// The request and the session's stream with its opening.
async fn open(house: &House, ends: &Ends) -> Result<Client, Wrong> {
    let asking = Asking::hear(ends.0.clone()).await?;
    let path = asking.request.url.path();
    let paths = &house.settings.paths;
    if !paths.iter().any(|prefix| path.starts_with(prefix.as_str())) {
        let why = format!("no session is opened at {path:?}");
        let _ = asking.refuse(StatusCode::NOT_FOUND).await;
        return Err(why.into());
    }
    let session = Box::new(asking.grant().await?);
    let streams = session.accept().await;
    let (send, mut recv) = streams.ok_or("the client has gone")?;
    let mut read = Vec::new();
    loop {
        match read_opening(&read) {
            Ok(Some(opening)) => {
                return Ok(Client {
                    session,
                    send,
                    recv,
                    opening,
                    read,
                });
            }
            Ok(None) => {}
            Err(violation) => {
                session.close(0, violation.text().as_bytes());
                return Err(Wrong {
                    why: violation.text().to_owned(),
                    session: Some(session),
                });
            }
        }
        match recv.read_chunk(OPENING_BYTES_MAX, true).await? {
            Some(chunk) => read.extend_from_slice(&chunk.bytes),
            None => return Err("the stream ended before its opening".into()),
        }
    }
}
