//! All bounds of this crate that no setting changes. Those that a setting changes are the caller's, which passes them in.

// ---- HTTP -------------------------------------------------------------------------------------------------------------------

/// Bytes of a request head, its blank line included. A longer one gets 431 (RFC 6585 §5).
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Header lines of a request. One with more gets 431 (RFC 6585 §5).
pub const HEADERS_MAX: usize = 64;
/// Bytes of a request target. A longer one gets 414. RFC 9112 §3 recommends 8,000 for a whole request line.
pub const TARGET_BYTES_MAX: usize = 8 * 1024;
/// Bytes of a request line: target, method, version and the blanks between.
pub(crate) const REQUEST_LINE_BYTES_MAX: usize = TARGET_BYTES_MAX + 64;
/// Bytes of a method. The longest registered one is UPDATEREDIRECTREF, 17.
pub(crate) const METHOD_BYTES_MAX: usize = 24;
/// Bytes of a chunk-size line with its extensions, which RFC 9112 §7.1.1 wants to be bounded, and of a trailer line.
pub const CHUNK_LINE_BYTES_MAX: usize = 256;
/// Trailer lines of a chunked body (RFC 9112 §7.1.2). They are dropped.
pub const TRAILERS_MAX: u8 = 16;
/// The last second of the year 9999, since 1970: a date of HTTP has four digits for it (RFC 9110 §5.6.7).
pub(crate) const DATE_SECONDS_MAX: u64 = 253_402_300_799;

// ---- the PROXY protocol -----------------------------------------------------------------------------------------------------

/// Bytes of a header. Version 2 has room for 65,535 bytes of extensions, of which proxies in use send a few hundred (a certificate's
/// name, an endpoint's id).
pub const PROXY_HEADER_BYTES_MAX: usize = 4096;
/// Bytes of the line of version 1: `UNKNOWN` with two long IPv6 addresses and ports, CRLF included (section 2.1).
pub(crate) const PROXY_LINE_BYTES_MAX: usize = 107;

// ---- WebSocket, and Engine.IO on WebTransport -------------------------------------------------------------------------------

/// Bytes of the payload of a control frame (RFC 6455 §5.5).
pub const CONTROL_PAYLOAD_MAX: usize = 125;
/// Bytes of the reason in a close frame: such a payload without the code (RFC 6455 §5.5.1).
pub(crate) const REASON_BYTES_MAX: usize = CONTROL_PAYLOAD_MAX - 2;
/// Bytes of a frame's header: two, a length of eight, and the mask of four (RFC 6455 §5.2).
pub(crate) const FRAME_HEADER_BYTES_MAX: usize = 2 + 8 + 4;
/// Ends of a deflate stream within one message. One is allowed (RFC 7692 §7.2.3.5); each costs a reset, so a message of nothing else must
/// not become many.
pub const DEFLATE_ENDS_MAX: u32 = 16;
/// Bytes of the header of a frame without a mask, as a server writes it. A packet's on a stream of WebTransport has one less.
pub(crate) const UNMASKED_HEADER_BYTES_MAX: usize = FRAME_HEADER_BYTES_MAX - 4;
/// Bytes of the packet that opens such a stream: a session id in JSON has a third of it.
pub const OPENING_BYTES_MAX: usize = 120;

// ---- packets and messages ---------------------------------------------------------------------------------------------------

/// Digits of the length of a packet in a payload of Engine.IO 3: the bound of a body has fewer.
pub(crate) const LENGTH_DIGITS_MAX: usize = 10;
/// Attachments of one packet or message (socket.io-parser since 4.2.6). A setting may lower it for packets.
pub const ATTACHMENTS_MAX: usize = 10;
/// Digits of an attachment's number: beyond these it exists nowhere.
pub(crate) const INDEX_DIGITS_MAX: usize = 9;
/// The largest ack id, and the largest whole double that becomes an integer: above it JavaScript cannot tell a number from the next one
/// (`Number.MAX_SAFE_INTEGER`).
pub(crate) const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;
/// Containers of JSON or MessagePack inside each other: the bound of serde_json, which handlers may use on what passed here.
pub const DEPTH_MAX: usize = 127;
/// A day of a JavaScript Date, in ms: it knows no leap seconds (ECMA-262 §21.4.1.1).
pub(crate) const DAY_MS: i64 = 86_400_000;
/// The furthest that a Date reaches from 1970, both ways, in ms: a hundred million days (ECMA-262 §21.4.1.1).
pub(crate) const DATE_MS_MAX: i64 = 100_000_000 * DAY_MS;

// ---- memory -----------------------------------------------------------------------------------------------------------------

/// Up to so many bytes a buffer grows fourfold, then by this much: one that holds so large a message never holds much more.
pub(crate) const FOURFOLD_BYTES_MAX: usize = 16 * 1024 * 1024;
