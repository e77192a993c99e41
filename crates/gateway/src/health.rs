//! `sockeye health`: asks the gateway of this configuration whether it lives, or whether it wants clients. For containers whose image has
//! no other program.

use crate::config::{self, Request};
use crate::print;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// For connecting, and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The status line and what may stand before the end of a small answer.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

pub fn run(request: &Request, ready: bool) -> Result<()> {
    let loaded = config::load(request).map_err(|problems| anyhow::anyhow!("{problems}"))?;
    let server = loaded.resolved.server;
    let public = server.listen.first().copied();
    let addr = server.admin.or(public).context(
        "cannot ask a gateway that listens on no TCP port: set server.admin or server.listen",
    )?;
    let addr = reachable(addr);
    let (path, word) = match ready {
        true => ("/ready", "ready"),
        false => ("/health", "healthy"),
    };
    let status = status(addr, path).with_context(|| format!("cannot ask http://{addr}{path}"))?;
    if status != "200" {
        bail!("http://{addr}{path} answers {status}: it is starting or stopping");
    }
    print::line(word)
}

/// A listener on every address of the machine is reached by loopback.
pub fn reachable(mut addr: SocketAddr) -> SocketAddr {
    match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => addr.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => addr.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    addr
}

fn status(addr: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).context("the answer is not HTTP")?;
    Ok(status.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_the_machine_is_asked_by_loopback() {
        let asked = |addr: &str| reachable(addr.parse().expect(addr)).to_string();
        assert_eq!(asked("0.0.0.0:9090"), "127.0.0.1:9090");
        assert_eq!(asked("[::]:9090"), "[::1]:9090");
        assert_eq!(asked("10.0.0.1:9090"), "10.0.0.1:9090");
    }
}
