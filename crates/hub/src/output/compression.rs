//! Compressed messages (RFC 7692) and compressed answers to polls: the ways that connections agreed to, the compressors of a hub, and the
//! few windows that connections keep for themselves.
//!
//! One compressor serves everybody: it forgets each message before the next, so a broadcast is compressed once and no message
//! can tell anything about another one.

use crate::books::metrics::Counts;
use crate::books::{Books, config};
use crate::tables::slot::ConnId;
use std::borrow::Cow;
use std::collections::HashMap;
use wire::http::Encoding;
use wire::websocket::deflate::{Deflater, InflateError, Inflater};
use wire::websocket::frame;

/// Window of the compressor for clients that asked for less than the usual one: the smallest zlib has suits them all.
const SMALL_WINDOW_BITS: u8 = 9;
/// Capacity that the buffer for compressing keeps between messages.
const FRAMES_KEEP_BYTES: usize = 64 * 1024;
/// Capacity that the buffer for inflating keeps: once for the shard, a large message (or a bomb) costs no more than its time.
const INFLATED_KEEP_BYTES: usize = 1024 * 1024;

/// How messages to a connection are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Deflate {
    #[default]
    Off,
    /// Each on its own, by everybody's compressor.
    Shared,
    /// The same within a small window.
    Small,
    /// The connection keeps a window of its own from message to message.
    Own,
}

/// Forms of a frame that several connections share: plain, [`Deflate::Shared`], [`Deflate::Small`].
pub(crate) const SHARED_FORMS: usize = 3;

/// Compressors and decompressors of a hub, made when first needed.
#[derive(Debug, Default)]
pub(crate) struct Codecs {
    deflater: Option<Deflater>,
    small: Option<Deflater>,
    inflater: Option<Inflater>,
    /// The windows of connections that keep one.
    contexts: HashMap<ConnId, Box<Context>>,
    /// Frames about to be compressed.
    pub(crate) frames: Vec<u8>,
    /// The message inflated last.
    pub(crate) inflated: Vec<u8>,
}

/// What one connection keeps from message to message.
#[derive(Debug)]
struct Context {
    window_bits: u8,
    deflater: Option<Deflater>,
    inflater: Option<Inflater>,
}

impl Context {
    fn heap_bytes(&self) -> usize {
        let deflater = self.deflater.as_ref().map_or(0, Deflater::heap_bytes);
        let inflater = self.inflater.as_ref().map_or(0, |_| Inflater::BYTES);
        size_of::<Self>() + deflater + inflater
    }
}

impl Codecs {
    /// Compresses those of `frames` that are worth it into `out`. `false` says that none was, and that nothing was appended.
    pub(crate) fn deflate(
        &mut self,
        config: &config::Compression,
        (conn, deflate): (ConnId, Deflate),
        frames: &[u8],
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> bool {
        let Some(deflater) = self.deflater(config, conn, deflate) else {
            return false;
        };
        let (start, mut rest, mut gained) = (out.len(), frames, false);
        while let Ok(Some(header)) = frame::parse_header(rest) {
            let len = header.len + header.payload_len as usize;
            let (Some(whole), Some(payload)) = (rest.get(..len), rest.get(header.len..len)) else {
                break;
            };
            let at = out.len();
            if payload.len() >= config.threshold && deflater.deflate(payload, out) {
                counts.deflated_messages += 1;
                counts.deflated_bytes_before += payload.len() as u64;
                counts.deflated_bytes_after += (out.len() - at) as u64;
                // The header needs the length, which is known only now.
                frame::insert_header(out, at, header.opcode, true);
                gained = true;
                // No message may tell anything about one of another client (ADR 7).
                if deflate != Deflate::Own {
                    deflater.forget();
                }
            } else {
                out.extend_from_slice(whole);
            }
            rest = rest.get(len..).unwrap_or_default();
        }
        if !gained {
            out.truncate(start);
        }
        gained
    }

    fn shared_deflater(&mut self, config: &config::Compression) -> &mut Deflater {
        let make = || Deflater::new(config.level, config.window_bits);
        self.deflater.get_or_insert_with(make)
    }

    fn deflater(
        &mut self,
        config: &config::Compression,
        conn: ConnId,
        deflate: Deflate,
    ) -> Option<&mut Deflater> {
        let (slot, window_bits) = match deflate {
            Deflate::Off => return None,
            Deflate::Shared => return Some(self.shared_deflater(config)),
            Deflate::Small => (&mut self.small, SMALL_WINDOW_BITS),
            Deflate::Own => {
                let context = self.contexts.get_mut(&conn)?;
                (&mut context.deflater, context.window_bits)
            }
        };
        Some(slot.get_or_insert_with(|| Deflater::new(config.level, window_bits)))
    }

    /// Connections that keep a window.
    pub(crate) fn windows(&self) -> usize {
        self.contexts.len()
    }

    /// A connection keeps a window from now on.
    pub(crate) fn keep_window(&mut self, conn: ConnId, window_bits: u8) {
        let context = Context {
            window_bits,
            deflater: None,
            inflater: None,
        };
        self.contexts.insert(conn, Box::new(context));
    }

    /// The connection is gone; `true` = it kept a window.
    pub(crate) fn forget_window(&mut self, conn: ConnId) -> bool {
        self.contexts.remove(&conn).is_some()
    }

    /// Inflates a message of at most `bytes_max` bytes into `out`. `own`: it may refer to earlier ones of the connection.
    pub(crate) fn inflate(
        &mut self,
        (conn, own): (ConnId, bool),
        payload: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), InflateError> {
        match self.contexts.get_mut(&conn).filter(|_| own) {
            Some(context) => {
                let inflater = context.inflater.get_or_insert_default();
                inflater.inflate_next(payload, bytes_max, out)
            }
            None => {
                let inflater = self.inflater.get_or_insert_default();
                inflater.inflate(payload, bytes_max, out)
            }
        }
    }

    /// A poll's answer as its client accepts it; the header line for it goes to `extra`.
    pub(crate) fn encode_body<'a>(
        &mut self,
        books: &mut Books,
        encoding: Option<Encoding>,
        body: &'a [u8],
        extra: &mut Vec<u8>,
    ) -> Cow<'a, [u8]> {
        let config = &books.config.compression;
        let Some(encoding) = encoding.filter(|_| config.polling && body.len() >= config.threshold)
        else {
            return body.into();
        };
        let deflater = self.shared_deflater(config);
        let mut coded = Vec::with_capacity(body.len());
        encoding.write(deflater, body, &mut coded);
        if coded.len() >= body.len() {
            return body.into();
        }
        books.counts.deflated_messages += 1;
        books.counts.deflated_bytes_before += body.len() as u64;
        books.counts.deflated_bytes_after += coded.len() as u64;
        for part in ["Content-Encoding: ", encoding.name(), "\r\n"] {
            extra.extend_from_slice(part.as_bytes());
        }
        coded.into()
    }

    /// Gives the buffer of [`Codecs::inflated`] back, unless a large message made it large.
    pub(crate) fn recycle_inflated(&mut self, mut buf: Vec<u8>) {
        buf.clear();
        buf.shrink_to(INFLATED_KEEP_BYTES);
        self.inflated = buf;
    }

    pub(crate) fn recycle_frames(&mut self, mut buf: Vec<u8>) {
        buf.clear();
        buf.shrink_to(FRAMES_KEEP_BYTES);
        self.frames = buf;
    }

    /// Panics unless just these connections keep a window.
    pub(crate) fn check_contexts(&self, conns: &[ConnId]) {
        assert_eq!(self.contexts.len(), conns.len(), "kept windows");
        for conn in conns {
            assert!(
                self.contexts.contains_key(conn),
                "conn {conn} has no window"
            );
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let shared = [&self.deflater, &self.small]
            .into_iter()
            .flatten()
            .map(Deflater::heap_bytes);
        let kept = self.contexts.values().map(|context| context.heap_bytes());
        let entry = size_of::<(ConnId, Box<Context>)>() + 1;
        shared.sum::<usize>()
            + kept.sum::<usize>()
            + self.inflater.as_ref().map_or(0, |_| Inflater::BYTES)
            + self.contexts.capacity() * entry
            + self.frames.capacity()
            + self.inflated.capacity()
    }
}
