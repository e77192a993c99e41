//! One HTTP request on a connection of its own, so that each may land on another shard.

use crate::{RawConn, Response};
use std::net::SocketAddr;

/// Sends a request with more `headers` (each line ended) and reads the whole answer.
pub fn request(addr: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Response {
    // A GET has no body, and a length of none would be one more thing to go wrong.
    let length = match body.len() {
        0 => String::new(),
        len => format!("Content-Length: {len}\r\n"),
    };
    RawConn::exchange(
        addr,
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n{headers}{length}\r\n{body}"
        ),
    )
}
