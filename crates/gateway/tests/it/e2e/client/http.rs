//! One HTTP request on a connection of its own, so that each may land on another shard.

use super::PATIENCE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Sends a request with more `headers` (each line ended) and reads the whole answer.
pub fn request(addr: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Response {
    let mut stream = TcpStream::connect(addr).expect("connect for a request");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("read timeout");
    let length = body.len();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    // A GET has no body, and a length of none would be one more thing to go wrong.
    let text = if body.is_empty() {
        text.replace("Content-Length: 0\r\n", "")
    } else {
        text
    };
    stream.write_all(text.as_bytes()).expect("send a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("read an answer");
    let answer = String::from_utf8(answer).expect("an answer in UTF-8");
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no head: {answer:?}"));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Response {
        status: status.unwrap_or_else(|| panic!("no status: {head:?}")),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}
