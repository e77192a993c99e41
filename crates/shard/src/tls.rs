//! TLS of one connection: records in, plaintext out, and back. A session owns rustls' state and nothing else while it is idle; what
//! is read is decrypted in buffers that all connections of a shard share, and only an incomplete record, or ciphertext that the
//! kernel did not take, is kept by its connection until it is complete or sent.
//!
//! Allocates: rustls' state when a connection opens; one vector per record received and one per record sent, inside rustls, gone
//! within the turn; what is kept.

mod buffers;
mod failure;
mod stream;

use crate::bounds::RECORD_BYTES_MAX;
pub(crate) use buffers::Buffers;
pub use stream::SecureStream;

use failure::failure;
use hub::Written;
use hub::tls::{TlsCells, TlsFailure, TlsHandshake};
use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

/// Plaintext encrypted before it is offered to the kernel: two records, and the most that may have to be kept.
const CHUNK_BYTES: usize = 2 * 16_384;
/// Header, content type, tag and explicit nonce of one record, generously.
const RECORD_OVERHEAD_BYTES: usize = 64;
/// Heap of rustls' connection in its final state, as measured by what many of them take (docs/performance.md, TLS).
const RUSTLS_BYTES: usize = 2_400;

/// What somebody gets who speaks HTTP to a port that speaks TLS.
const NOT_TLS: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 47\r\n\
    Connection: close\r\n\r\nThis port speaks TLS: use https:// or wss:// .\n";

/// The TLS side of one connection.
pub struct Tls {
    conn: UnbufferedServerConnection,
    phase: Phase,
    /// Ciphertext of a record that is not complete; rustls may have worked on it already.
    incoming: Vec<u8>,
    /// Ciphertext that the kernel has not taken, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    /// The sending side shall be shut when `outgoing` is out.
    closing: bool,
    truncation_counted: bool,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing was received yet.
    Fresh,
    Handshake,
    /// Application data flows both ways.
    Open,
    /// The peer has sent close_notify; we may still send.
    PeerClosed,
    /// Over, and counted.
    Failed,
}

/// What a read brought, beside the plaintext in the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// The kernel may have more.
    pub(crate) more: bool,
    /// The kernel had nothing.
    pub(crate) blocked: bool,
    pub(crate) end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// No more from the peer.
    Eof,
    /// The connection is of no use any more; an alert, or a line in plain HTTP, is on its way.
    Broken,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("phase", &self.phase)
            .field("incoming", &self.incoming.len())
            .field("outgoing", &(self.outgoing.len() - self.sent))
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// `None` if rustls cannot (no randomness, no clock).
    pub(crate) fn new(config: &Arc<ServerConfig>) -> Option<Box<Self>> {
        let conn = UnbufferedServerConnection::new(Arc::clone(config)).ok()?;
        Some(Box::new(Self {
            conn,
            phase: Phase::Fresh,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
            closing: false,
            truncation_counted: false,
        }))
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.phase, Phase::Fresh | Phase::Handshake)
    }

    /// The peer will send nothing any more, and has said so.
    pub(crate) fn is_ended(&self) -> bool {
        self.phase == Phase::PeerClosed
    }

    /// What each connection holds, busy or not.
    pub(crate) const STATE_BYTES: usize = size_of::<Self>() + RUSTLS_BYTES;

    /// What it holds beyond, for a while.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.incoming.capacity() + self.outgoing.capacity()
    }

    // ---- reading ----------------------------------------------------------------------------------------------------------

    /// Reads once; the plaintext is in `buffers.plain` afterwards.
    pub(crate) fn receive(
        &mut self,
        stream: &mut (impl Read + Write),
        buffers: &mut Buffers,
        cells: &TlsCells,
    ) -> Received {
        buffers.plain.clear();
        let kept = self.incoming.len();
        buffers.cipher[..kept].copy_from_slice(&self.incoming);
        let room = &mut buffers.cipher[kept..];
        let size = room.len();
        let (read, end) = match read(stream, room) {
            Ok(0) => (0, Some(self.on_eof(cells))),
            Ok(read) => (read, None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (0, None),
            Err(_) => (0, Some(End::Broken)),
        };
        if read == 0 {
            return Received {
                more: false,
                blocked: end.is_none(),
                end,
            };
        }
        let end = self.take(stream, kept + read, buffers, cells);
        Received {
            more: read == size,
            blocked: false,
            end,
        }
    }

    fn on_eof(&mut self, cells: &TlsCells) -> End {
        if self.phase == Phase::Open && !self.truncation_counted {
            self.truncation_counted = true;
            cells.failure(TlsFailure::Truncated);
        }
        End::Eof
    }

    /// Works on `filled` bytes of ciphertext.
    fn take(
        &mut self,
        stream: &mut (impl Read + Write),
        filled: usize,
        buffers: &mut Buffers,
        cells: &TlsCells,
    ) -> Option<End> {
        if self.phase == Phase::Fresh {
            // No content type of TLS is a letter; every method of HTTP begins with one.
            if buffers.cipher[0].is_ascii_uppercase() {
                self.fail(TlsFailure::NotTls, cells);
                // Best effort: the buffer of a new connection takes it.
                let _ = stream.write(NOT_TLS);
                return Some(End::Broken);
            }
            self.phase = Phase::Handshake;
        }
        if self.phase == Phase::Failed {
            return Some(End::Broken);
        }
        let Buffers {
            cipher, plain, out, ..
        } = buffers;
        out.clear();
        let began = self.is_handshaking();
        let outcome = self.digest(&mut cipher[..filled], plain, out);
        let failed = match outcome {
            Ok(used) if filled - used <= RECORD_BYTES_MAX => {
                self.keep(&cipher[used..filled]);
                None
            }
            Ok(_) => Some(TlsFailure::Malformed),
            Err(failure) => Some(failure),
        };
        // Counted before the peer can know.
        let failed = self.count_handshake(began, cells).or(failed);
        if let Some(failure) = failed {
            self.fail(failure, cells);
        }
        let sent = self.send(stream, out);
        if failed.is_some() || sent.is_err() {
            return Some(End::Broken);
        }
        (self.phase == Phase::PeerClosed).then_some(End::Eof)
    }

    /// Feeds records to rustls until it wants more; plaintext goes to `plain`, what rustls says to `out`. Returns how many bytes
    /// are done with: the others come again, at the front and as rustls left them.
    fn digest(
        &mut self,
        records: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<usize, TlsFailure> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.conn.process_tls_records(&mut records[used..]);
            let mut wants_more = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|error| failure(&error))?;
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    buffers::append(out, RECORD_OVERHEAD_BYTES, |room| {
                        encoded(data.encode(room))
                    })?;
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.phase = Phase::PeerClosed,
                Ok(_) => wants_more = true,
                Err(error) => {
                    self.alert(&mut records[used + discard..], out);
                    return Err(failure(&error));
                }
            }
            used += discard;
            if wants_more {
                // What follows a close_notify is nobody's (RFC 8446 §6.1).
                let closed = self.phase == Phase::PeerClosed;
                return Ok(if closed { records.len() } else { used });
            }
        }
    }

    /// Takes the alert that rustls has for the peer after an error.
    fn alert(&mut self, rest: &mut [u8], out: &mut Vec<u8>) {
        while let Ok(ConnectionState::EncodeTlsData(mut data)) =
            self.conn.process_tls_records(rest).state
        {
            let encode = |room: &mut [u8]| encoded(data.encode(room));
            if buffers::append(out, RECORD_OVERHEAD_BYTES, encode).is_err() {
                return;
            }
        }
    }

    /// Keeps what is incomplete; an idle connection keeps nothing.
    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            self.incoming = Vec::new();
        } else {
            self.incoming.clear();
            self.incoming.reserve_exact(rest.len());
            self.incoming.extend_from_slice(rest);
        }
    }

    /// Sees whether the handshake that was under way is over. A peer that says goodbye in the middle of it has failed.
    fn count_handshake(&mut self, began: bool, cells: &TlsCells) -> Option<TlsFailure> {
        if !began {
            return None;
        }
        if self.conn.is_handshaking() {
            let gone = self.phase == Phase::PeerClosed;
            self.phase = Phase::Handshake;
            return gone.then_some(TlsFailure::Unfinished);
        }
        if self.phase == Phase::Handshake {
            self.phase = Phase::Open;
        }
        cells.handshake(match self.conn.handshake_kind() {
            Some(rustls::HandshakeKind::Resumed) => TlsHandshake::Resumed,
            _ => TlsHandshake::Full,
        });
        None
    }

    fn fail(&mut self, failure: TlsFailure, cells: &TlsCells) {
        if self.is_handshaking() {
            cells.handshake(TlsHandshake::Failed);
        }
        self.phase = Phase::Failed;
        cells.failure(failure);
    }

    /// The connection is being dropped: an unfinished handshake counts as one that failed.
    pub(crate) fn dropped(&mut self, cells: &TlsCells) {
        if self.is_handshaking() {
            self.fail(TlsFailure::Unfinished, cells);
        }
    }

    // ---- writing ----------------------------------------------------------------------------------------------------------

    /// Encrypts and writes; says how much of the plaintext is taken, as a socket would.
    pub(crate) fn write(
        &mut self,
        stream: &mut (impl Read + Write),
        slices: &[IoSlice<'_>],
        buffers: &mut Buffers,
    ) -> Written {
        if !matches!(self.phase, Phase::Open | Phase::PeerClosed) {
            return Written::Gone;
        }
        match self.resume(stream) {
            Ok(true) => {}
            Ok(false) => return Written::WouldBlock,
            Err(_) => return Written::Gone,
        }
        let total = slices.iter().map(|slice| slice.len()).sum();
        let mut at = 0;
        while at < total {
            let chunk = buffers::chunk(slices, at, CHUNK_BYTES, &mut buffers.gathered);
            at += chunk.len();
            buffers.out.clear();
            if self.seal(chunk, &mut buffers.out).is_err() {
                return Written::Gone;
            }
            match self.send(stream, &buffers.out) {
                Ok(true) => {}
                Ok(false) => return Written::Held(at),
                Err(_) => return Written::Gone,
            }
        }
        Written::Bytes(total)
    }

    /// Appends `plain` as records.
    fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsFailure> {
        let room = plain.len() + (plain.len() / 16_384 + 1) * RECORD_OVERHEAD_BYTES;
        self.with_traffic(out, room, |traffic, out| {
            encrypted(traffic.encrypt(plain, out))
        })
    }

    /// Brings rustls to where it takes application data, and appends what `write` makes of it.
    fn with_traffic(
        &mut self,
        out: &mut Vec<u8>,
        room: usize,
        mut write: impl FnMut(
            &mut rustls::unbuffered::WriteTraffic<'_, rustls::server::ServerConnectionData>,
            &mut [u8],
        ) -> Result<usize, buffers::Short>,
    ) -> Result<(), TlsFailure> {
        loop {
            // The same bytes as at the last read: rustls remembers what of them it has seen.
            let UnbufferedStatus { discard, state } =
                self.conn.process_tls_records(&mut self.incoming);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    buffers::append(out, RECORD_OVERHEAD_BYTES, |room| {
                        encoded(data.encode(room))
                    })?;
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    return buffers::append(out, room, |room| write(&mut traffic, room));
                }
                Ok(_) => return Err(TlsFailure::Other),
                Err(error) => return Err(failure(&error)),
            }
            self.incoming.drain(..discard);
        }
    }

    /// Writes ciphertext behind what waits already; `false` if some of it is kept.
    fn send(&mut self, stream: &mut impl Write, out: &[u8]) -> io::Result<bool> {
        if !self.resume(stream)? {
            self.outgoing.extend_from_slice(out);
            return Ok(false);
        }
        let mut at = 0;
        while at < out.len() {
            match write(stream, &out[at..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => at += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.outgoing = out[at..].to_vec();
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Records wait for the kernel.
    pub(crate) fn has_output(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Writes what waits; `true` if nothing waits any more.
    pub(crate) fn resume(&mut self, stream: &mut impl Write) -> io::Result<bool> {
        while self.has_output() {
            match write(stream, &self.outgoing[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.outgoing = Vec::new();
        self.sent = 0;
        Ok(true)
    }

    /// Says that nothing more will come; `true` when that is out.
    pub(crate) fn close(&mut self, stream: &mut impl Write, buffers: &mut Buffers) -> bool {
        if !std::mem::replace(&mut self.closing, true)
            && matches!(self.phase, Phase::Open | Phase::PeerClosed)
        {
            buffers.out.clear();
            let closed =
                self.with_traffic(&mut buffers.out, RECORD_OVERHEAD_BYTES, |traffic, out| {
                    encrypted(traffic.queue_close_notify(out))
                });
            return closed.is_ok() && matches!(self.send(stream, &buffers.out), Ok(true));
        }
        matches!(self.resume(stream), Ok(true))
    }

    /// The sending side is to be shut as soon as nothing waits.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }
}

fn encoded(result: Result<usize, EncodeError>) -> Result<usize, buffers::Short> {
    result.map_err(|error| match error {
        EncodeError::InsufficientSize(size) => buffers::Short::By(size.required_size),
        EncodeError::AlreadyEncoded => buffers::Short::Never,
    })
}

fn encrypted(result: Result<usize, EncryptError>) -> Result<usize, buffers::Short> {
    result.map_err(|error| match error {
        EncryptError::InsufficientSize(size) => buffers::Short::By(size.required_size),
        EncryptError::EncryptExhausted => buffers::Short::Never,
    })
}

fn read(stream: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn write(stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match stream.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
