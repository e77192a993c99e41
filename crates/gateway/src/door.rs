//! A call of the operators' listener of the gateway that a configuration describes.

use crate::config::{self, Request};
use crate::health::reachable;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// For connecting, and for each part of the answer: longer than the gateway waits for its own parts.
const PATIENCE: Duration = Duration::from_secs(15);
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
const HEAD_BYTES_MAX: u64 = 64 * 1024;

/// A caller's credentials.
#[derive(Debug, Default, Args)]
pub struct Key {
    /// An API key of the gateway (`sockeye api-key`).
    #[arg(
        long,
        value_name = "KEY",
        env = "SOCKEYE_API_KEY",
        hide_env_values = true
    )]
    key: Option<String>,
}

impl Key {
    /// For what no gateway does without one.
    pub fn needed(&self, deed: &str) -> Result<&Self> {
        match self.key {
            Some(_) => Ok(self),
            None => bail!(
                "cannot {deed} without an API key: set SOCKEYE_API_KEY, or --key; `sockeye api-key` makes one"
            ),
        }
    }
}

#[derive(Debug)]
pub struct Door<'a> {
    addr: SocketAddr,
    key: Option<&'a str>,
    patience: Duration,
}

impl<'a> Door<'a> {
    pub fn of(request: &Request, key: &'a Key) -> Result<Self> {
        let loaded = config::load(request).map_err(|problems| anyhow::anyhow!("{problems}"))?;
        let admin = loaded.resolved.server.admin;
        let addr = admin
            .context("cannot ask a gateway without an operators' listener: set server.admin")?;
        Ok(Self {
            addr: reachable(addr),
            key: key.key.as_deref(),
            patience: PATIENCE,
        })
    }

    /// Answers may take so much longer.
    pub fn patient(self, more: Duration) -> Self {
        let patience = self.patience + more;
        Self { patience, ..self }
    }

    /// The answer, if it is a success.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        self.answered(method, path, body, |status| status.starts_with('2'))
    }

    /// The answer, whatever its status.
    pub fn call_whatever(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        self.answered(method, path, body, |_| true)
    }

    fn answered(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        is_good: impl Fn(&str) -> bool,
    ) -> Result<Value> {
        let url = format!("http://{}{path}", self.addr);
        let answer = self.exchange(method, path, body);
        let answer = answer
            .with_context(|| format!("cannot ask {url} (server.admin of this configuration; --admin names another gateway)"))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let line = head.lines().next().unwrap_or_default();
        let status = line.split(' ').nth(1).unwrap_or_default();
        if !is_good(status) {
            bail!("{url} answers {status}: {}", reason(body));
        }
        serde_json::from_str(body).with_context(|| format!("cannot read what {url} answers"))
    }

    /// The lines of an answer that goes on and on. HTTP/1.0: they come as they are, and the connection ends behind the last.
    pub fn stream(&self, path: &str) -> Result<BufReader<TcpStream>> {
        let url = format!("http://{}{path}", self.addr);
        let opened = || -> Result<(String, BufReader<TcpStream>)> {
            let mut stream = self.connect()?;
            let key = self.key_line();
            let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{key}\r\n");
            stream.write_all(request.as_bytes())?;
            let mut lines = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                let read = (&mut lines).take(HEAD_BYTES_MAX).read_line(&mut head)?;
                if read == 0 || head.len() as u64 > HEAD_BYTES_MAX {
                    bail!("the answer has no head");
                }
            }
            Ok((head, lines))
        };
        let opened = opened();
        let (head, mut lines) = opened
            .with_context(|| format!("cannot ask {url} (server.admin of this configuration; --admin names another gateway)"))?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            let mut body = String::new();
            let _ = (&mut lines).take(HEAD_BYTES_MAX).read_to_string(&mut body);
            bail!("{url} answers {status}: {}", reason(&body));
        }
        Ok(lines)
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.addr, PATIENCE)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn key_line(&self) -> String {
        let line = |key| format!("Authorization: Bearer {key}\r\n");
        self.key.map(line).unwrap_or_default()
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> Result<String> {
        let mut stream = self.connect()?;
        let key = self.key_line();
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            key,
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// A name for a terminal: names come from clients, and control characters in them would move the cursor.
pub fn plain(name: &str) -> String {
    let shown = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    name.chars().map(shown).collect()
}

/// The text of a problem (RFC 9457), or the body as it is.
fn reason(body: &str) -> String {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let text = |name: &str| problem[name].as_str();
    match (text("detail").or(text("message")), text("field")) {
        (Some(detail), Some(field)) => format!("{field}: {detail}"),
        (Some(detail), None) => detail.to_owned(),
        (None, _) => body.trim().to_owned(),
    }
}

/// A name as part of a path or query (RFC 3986 §2.1).
pub fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte))
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_part_of_a_path_whatever_it_holds() {
        assert_eq!(escaped("a b/é?~"), "a%20b%2F%C3%A9%3F~");
    }

    #[test]
    fn a_problem_is_told_with_its_field() {
        assert_eq!(
            reason(r#"{"detail":"too long","field":"join[0]"}"#),
            "join[0]: too long"
        );
        assert_eq!(reason("no JSON\n"), "no JSON");
    }
}
