//! Compressed messages (RFC 7692) and compressed answers to polls: who agreed to what, the compressors of a hub, and the few
//! windows that connections keep for themselves.
//!
//! One compressor serves everybody: it forgets each message before the next, so a broadcast is compressed once and no message
//! can tell anything about another one.

use crate::books::config;
use crate::books::metrics::{Counts, Limit};
use crate::output::backlog::Fate;
use crate::output::log::Range;
use crate::parts::Parts;
use crate::tables::slot::ConnId;
use std::borrow::Cow;
use std::collections::HashMap;
use wire::http::{Encoding, Head};
use wire::websocket::deflate::{Deflater, InflateError, Inflater};
use wire::websocket::extension::{self, Agreed, Willing};
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
    /// With a window of its own, kept from message to message.
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
    /// Of connections that keep a window, by connection.
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
    /// Compresses those of `frames` that are worth it into `out`. `false`, and nothing appended: none was.
    fn deflate(
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
                frame::insert_header(out, at, header.opcode, true);
                gained = true;
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

impl Parts {
    /// Settles how a new WebSocket compresses; the answer goes into the handshake's response.
    pub(crate) fn agree_on_deflate(&mut self, conn: ConnId, head: &Head<'_>) -> Option<Agreed> {
        let config = &self.books.config.compression;
        if !config.websocket {
            return None;
        }
        let full =
            self.line.codecs.contexts.len() >= self.books.config.limits.takeover_contexts_max;
        let willing = Willing {
            // Frames that later ones refer to cannot be dropped.
            server_takeover: config.server_takeover && !full && !self.books.config.drops_events(),
            client_takeover: config.client_takeover && !full,
            server_window_bits: config.window_bits,
            client_window_bits: 15,
        };
        let agreed = extension::negotiate(head, &willing)?;
        if full && (config.server_takeover || config.client_takeover) {
            self.books.counts.hit(Limit::TakeoverContexts);
        }
        let window_bits = agreed.server_max_window_bits.unwrap_or(config.window_bits);
        let deflate = match agreed.server_no_context_takeover {
            false => Deflate::Own,
            true if window_bits < config.window_bits => Deflate::Small,
            true => Deflate::Shared,
        };
        let slot = self.line.conns.get_mut(conn)?;
        slot.deflate = deflate;
        slot.flags.inflates = true;
        slot.flags.inflates_own = !agreed.client_no_context_takeover;
        if deflate == Deflate::Own || slot.flags.inflates_own {
            let context = Context {
                window_bits,
                deflater: None,
                inflater: None,
            };
            self.line.codecs.contexts.insert(conn, Box::new(context));
            self.books.counts.takeover_contexts += 1;
        }
        self.books.counts.deflate_websockets += 1;
        Some(agreed)
    }

    /// The connection is gone, and its window with it.
    pub(crate) fn forget_deflate(&mut self, conn: ConnId) {
        self.books.counts.deflate_websockets -= 1;
        if self.line.codecs.contexts.remove(&conn).is_some() {
            self.books.counts.takeover_contexts -= 1;
        }
    }

    /// How a connection's messages are to be compressed.
    pub(crate) fn deflate_of(&self, conn: Option<ConnId>) -> Deflate {
        self.line
            .conns
            .get(conn)
            .map_or(Deflate::Off, |slot| slot.deflate)
    }

    /// Inflates a message of at most `bytes_max` bytes into `out`.
    pub(crate) fn inflate(
        &mut self,
        conn: ConnId,
        payload: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), InflateError> {
        let own = self
            .line
            .conns
            .get(conn)
            .is_some_and(|slot| slot.flags.inflates_own);
        let result = match self.line.codecs.contexts.get_mut(&conn).filter(|_| own) {
            Some(context) => context
                .inflater
                .get_or_insert_default()
                .inflate_next(payload, bytes_max, out),
            None => self
                .line
                .codecs
                .inflater
                .get_or_insert_default()
                .inflate(payload, bytes_max, out),
        };
        self.books.counts.inflated_messages += 1;
        self.books.counts.inflated_bytes_before += payload.len() as u64;
        self.books.counts.inflated_bytes_after += out.len() as u64;
        self.books.counts.inflate_errors += u64::from(result.is_err());
        result
    }

    /// Lets `write` append the frames of one message to the private log, compresses them if that was agreed on, and queues them.
    pub(crate) fn reply_message(
        &mut self,
        conn: impl Into<Option<ConnId>>,
        exempt: bool,
        fate: Fate,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(conn) = conn.into() else { return };
        let log = self.line.log.bytes_mut(false);
        let start = log.len();
        write(log);
        let len = log.len() - start;
        if !exempt && len >= self.books.config.compression.threshold {
            let deflate = self.deflate_of(Some(conn));
            if deflate != Deflate::Off {
                self.deflate_private(conn, deflate, start);
            }
        }
        if len > 0 {
            let range = self.line.log.close(false, start, fate);
            self.push(conn, range);
        }
    }

    /// Compresses what the private log holds since `start` in place.
    fn deflate_private(&mut self, conn: ConnId, deflate: Deflate, start: usize) {
        let mut frames = std::mem::take(&mut self.line.codecs.frames);
        let (config, out) = (
            &self.books.config.compression,
            self.line.log.bytes_mut(false),
        );
        frames.extend_from_slice(&out[start..]);
        out.truncate(start);
        if !self.line.codecs.deflate(
            config,
            (conn, deflate),
            &frames,
            out,
            &mut self.books.counts,
        ) {
            out.extend_from_slice(&frames);
        }
        self.line.codecs.recycle_frames(frames);
    }

    /// Compresses frames into the log for many or the one for one; `None` if they are better sent as they are.
    pub(crate) fn deflated_range(
        &mut self,
        conn: ConnId,
        deflate: Deflate,
        frames: &[u8],
        (shared, fate): (bool, Fate),
    ) -> Option<Range> {
        let config = &self.books.config.compression;
        if frames.len() < config.threshold {
            return None;
        }
        let out = self.line.log.bytes_mut(shared);
        let start = out.len();
        self.line
            .codecs
            .deflate(config, (conn, deflate), frames, out, &mut self.books.counts)
            .then(|| self.line.log.close(shared, start, fate))
    }

    /// A poll's answer as its client accepts it; the header line for it goes to `extra`.
    pub(crate) fn encode_body<'a>(
        &mut self,
        encoding: Option<Encoding>,
        body: &'a [u8],
        extra: &mut Vec<u8>,
    ) -> Cow<'a, [u8]> {
        let config = &self.books.config.compression;
        let Some(encoding) = encoding.filter(|_| config.polling && body.len() >= config.threshold)
        else {
            return body.into();
        };
        let deflater = self.line.codecs.shared_deflater(config);
        let mut coded = Vec::with_capacity(body.len());
        encoding.write(deflater, body, &mut coded);
        if coded.len() >= body.len() {
            return body.into();
        }
        self.books.counts.deflated_messages += 1;
        self.books.counts.deflated_bytes_before += body.len() as u64;
        self.books.counts.deflated_bytes_after += coded.len() as u64;
        for part in ["Content-Encoding: ", encoding.name(), "\r\n"] {
            extra.extend_from_slice(part.as_bytes());
        }
        coded.into()
    }
}
