//! The first bytes of a connection that a trusted proxy makes for a client: a PROXY protocol header. It comes before all else
//! (also before TLS), so it is taken off the stream here and the hub never sees it. Until it is whole it stays in the kernel's
//! buffer, and the deadline of the handshake is its deadline too.

use crate::effects::Hands;
use crate::read::Reader;
use crate::streams::Got;
use hub::trust::ProxyProtocol;
use hub::{ConnId, Turn};
use std::net::IpAddr;
use wire::proxy::{self, PROXY_HEADER_BYTES_MAX, ProxyError};

/// Answer for a proxy that was configured without the protocol: whoever set it up should see why.
const NO_HEADER: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 49\r\nConnection: close\r\n\r\n\
      A PROXY protocol header must come before requests";

/// What the first bytes are.
enum Preface {
    /// A header of this length, for this client or for the proxy itself.
    Header(usize, Option<IpAddr>),
    /// None, and none is needed.
    None,
    Unfinished,
    /// It can not become one any more.
    Wrong,
    Missing,
    End,
    Reset,
}

impl Reader {
    /// Reads what a proxy has to say first; `true` when all that follows is the client's.
    pub(crate) fn read_preface(&mut self, turn: &mut Turn<'_, Hands>, conn: ConnId) -> bool {
        let preface = self.peek_preface(turn, conn);
        match preface {
            Preface::Header(len, client) => {
                // It is all there: this takes it in one read.
                let taken = turn.world().streams.read(conn, &mut self.buf[..len]);
                debug_assert_eq!(taken, Got::Bytes(len));
                if let Some(client) = client {
                    turn.introduced(conn, client);
                }
            }
            Preface::None => {}
            Preface::Unfinished => {
                turn.world().streams.set_ready(conn, false);
                return false;
            }
            Preface::End => {
                turn.world().streams.set_ready(conn, false);
                turn.eof(conn);
                return false;
            }
            Preface::Reset => {
                turn.world().streams.set_ready(conn, false);
                turn.broken(conn);
                return false;
            }
            Preface::Missing | Preface::Wrong => {
                self.turn_away(turn, conn, matches!(preface, Preface::Missing));
                return false;
            }
        }
        turn.world().streams.set_preface(conn, false);
        turn.world().streams.get_mut(conn).is_some()
    }

    fn peek_preface(&mut self, turn: &mut Turn<'_, Hands>, conn: ConnId) -> Preface {
        let window = &mut self.buf[..PROXY_HEADER_BYTES_MAX];
        let len = match turn.world().streams.peek(conn, window) {
            Got::Bytes(len) => len,
            Got::Nothing => return Preface::Unfinished,
            Got::End => return Preface::End,
            Got::Broken => return Preface::Reset,
        };
        match proxy::parse(&window[..len]) {
            Ok(Some(header)) => Preface::Header(header.len, header.client),
            Ok(None) if turn.world().streams.is_ending(conn) => Preface::End,
            Ok(None) => Preface::Unfinished,
            Err(ProxyError::Absent) => match turn.hub().conn_proxy_protocol(conn) {
                ProxyProtocol::Required => Preface::Missing,
                _ => Preface::None,
            },
            Err(ProxyError::Malformed | ProxyError::TooLong) => Preface::Wrong,
        }
    }

    /// Closes without a word to whom does not keep to the protocol, with one to whom does not speak it.
    fn turn_away(&mut self, turn: &mut Turn<'_, Hands>, conn: ConnId, say_why: bool) {
        turn.world().streams.set_ready(conn, false);
        if say_why {
            // With input unread the end would be a reset, and the answer lost.
            let _ = turn.world().streams.read(conn, &mut self.buf);
            turn.world().streams.tell(conn, NO_HEADER);
        }
        turn.misintroduced(conn);
    }
}
