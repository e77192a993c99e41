//! HTTP/1.1 on realtime paths: request heads in, whole responses out. Bodies, pipelining and
//! timeouts belong to the connection that owns the bytes.

mod chunked;
mod date;
mod encoding;
mod forwarded;
mod head;
mod query;
mod response;

pub use crate::bounds::{
    CHUNK_LINE_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX, TRAILERS_MAX,
};
pub use chunked::{ChunkError, Chunked};
pub use date::Date;
pub use encoding::Encoding;
pub use forwarded::{forwarded, x_forwarded_for};
pub use head::is_token;
pub(crate) use head::is_token_byte;
pub use head::{Expectation, Head, HeadError, Method, parse_head};
pub use query::{query_pairs, query_param, undecodable_param};
pub use response::{CONTINUE, Response, reason};
