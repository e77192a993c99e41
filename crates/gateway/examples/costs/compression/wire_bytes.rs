//! Bytes of the same messages to one user by every transport, requests and answers, with HTTP heads, without TCP and IP.
//! Every message is read and compared with what was sent.

use super::client::{Link, Offer, Publisher};
use super::{CONFIG, chat};
use crate::gateway::Gateway;
use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use wire::websocket::deflate::Inflater;

const ROOM: &str = "one";
/// What socket.io-client sends from Node, and what Chrome adds on the page's own site.
const NODE: &str = "User-Agent: node-XMLHttpRequest\r\nAccept: */*\r\nConnection: keep-alive\r\n";
const CHROME: &str = "Connection: keep-alive\r\nsec-ch-ua: \"Chromium\";v=\"142\", \"Google Chrome\";v=\"142\", \
    \"Not_A Brand\";v=\"99\"\r\nsec-ch-ua-mobile: ?0\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 \
    (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\nAccept: */*\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: \
    cors\r\nSec-Fetch-Dest: empty\r\nReferer: https://chat.example.org/\r\nAccept-Language: en-GB,en;q=0.9\r\n";
const GZIP: &str = "Accept-Encoding: gzip, deflate, br, zstd\r\n";

pub fn report(messages: usize, bytes: usize) -> anyhow::Result<()> {
    let usual = Gateway::start(CONFIG)?;
    let keeping = Gateway::start(&format!("{CONFIG}server_takeover = true\n"))?;
    println!("{messages} chat messages of {bytes} B to one user, bytes on the wire both ways:\n");
    println!("| transport | bytes | below polling | gateway CPU per message, us |");
    println!("|---|---:|---:|---:|");
    let mut base = 0;
    for (name, headers) in [
        ("polling, Node's headers", NODE.to_owned()),
        ("polling, Node's headers, gzip", format!("{NODE}{GZIP}")),
        ("polling, Chrome's headers, gzip", format!("{CHROME}{GZIP}")),
    ] {
        let before = usual.cpu()?;
        let polled = by_polling(usual.addr, &headers, messages, bytes)?;
        base = if base == 0 { polled } else { base };
        row(
            name,
            polled,
            base,
            (usual.cpu()? - before) / messages as u32,
        );
    }
    for (name, gateway, offer) in [
        ("WebSocket", &usual, Offer::None),
        ("WebSocket, compressed", &usual, Offer::Deflate),
        (
            "WebSocket, compressed, window kept",
            &keeping,
            Offer::Deflate,
        ),
    ] {
        let before = gateway.cpu()?;
        let sent = by_websocket(gateway, offer, messages, bytes)?;
        row(
            name,
            sent,
            base,
            (gateway.cpu()? - before) / messages as u32,
        );
    }
    println!();
    Ok(())
}

fn row(name: &str, bytes: u64, base: u64, cpu: Duration) {
    let below = 100.0 - bytes as f64 * 100.0 / base as f64;
    println!(
        "| {name} | {bytes} | {below:.1} % | {:.0} |",
        cpu.as_secs_f64() * 1e6
    );
}

fn by_websocket(
    gateway: &Gateway,
    offer: Offer,
    messages: usize,
    bytes: usize,
) -> anyhow::Result<u64> {
    let mut link = Link::join(gateway.addr, ROOM, offer)?;
    let mut publisher = Publisher::join(gateway.addr, ROOM)?;
    // One inflater reads both: a window that nobody refers to does no harm.
    let mut inflater = Inflater::default();
    for n in 0..messages {
        let message = chat(n, bytes);
        publisher.publish(std::iter::once(message.clone()))?;
        let frame = link.frame()?;
        let mut text = Vec::new();
        if frame.compressed {
            let read = inflater.inflate_next(&frame.payload, bytes * 2, &mut text);
            read.map_err(|error| anyhow::anyhow!("message {n}: {error:?}"))?;
        } else {
            text = frame.payload;
        }
        ensure!(
            text == format!("42[\"say\",{message}]").into_bytes(),
            "message {n} is another"
        );
    }
    Ok(link.bytes)
}

fn by_polling(
    addr: SocketAddr,
    headers: &str,
    messages: usize,
    bytes: usize,
) -> anyhow::Result<u64> {
    let mut poller = Poller::open(addr, headers)?;
    poller.post("40")?;
    poller.poll()?;
    poller.post(&format!("421[\"join\",\"{ROOM}\"]"))?;
    poller.poll()?;
    let mut publisher = Publisher::join(addr, ROOM)?;
    for n in 0..messages {
        let message = chat(n, bytes);
        poller.ask()?;
        publisher.publish(std::iter::once(message.clone()))?;
        ensure!(
            poller.answer()? == format!("42[\"say\",{message}]").into_bytes(),
            "message {n} is another"
        );
    }
    Ok(poller.bytes)
}

/// A polling client with one connection that is kept alive.
struct Poller {
    stream: BufReader<TcpStream>,
    addr: SocketAddr,
    headers: String,
    sid: String,
    bytes: u64,
    inflater: Inflater,
}

impl Poller {
    fn open(addr: SocketAddr, headers: &str) -> anyhow::Result<Poller> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut poller = Poller {
            stream: BufReader::new(stream),
            addr,
            headers: headers.to_owned(),
            sid: String::new(),
            bytes: 0,
            inflater: Inflater::default(),
        };
        let open = String::from_utf8(poller.poll()?)?;
        let at = open.find("\"sid\":\"").context("no open packet")? + 7;
        let sid = open.get(at..at + 20).context("no session id")?;
        poller.sid = format!("&sid={sid}");
        Ok(poller)
    }

    fn poll(&mut self) -> anyhow::Result<Vec<u8>> {
        self.ask()?;
        self.answer()
    }

    fn ask(&mut self) -> anyhow::Result<()> {
        self.request("GET", "")
    }

    fn post(&mut self, body: &str) -> anyhow::Result<()> {
        self.request("POST", body)?;
        ensure!(self.answer()? == b"ok", "the post was refused");
        Ok(())
    }

    fn request(&mut self, method: &str, body: &str) -> anyhow::Result<()> {
        let (addr, headers, sid) = (self.addr, &self.headers, &self.sid);
        let length = match body {
            "" => String::new(),
            body => format!(
                "Content-Type: text/plain;charset=UTF-8\r\nContent-Length: {}\r\n",
                body.len()
            ),
        };
        // The client adds `t`, against caches.
        let text = format!(
            "{method} /socket.io/?EIO=4&transport=polling&t=k3x9q2ab{sid} HTTP/1.1\r\nHost: {addr}\r\n{headers}{length}\r\n{body}"
        );
        self.bytes += text.len() as u64;
        Ok(self.stream.get_mut().write_all(text.as_bytes())?)
    }

    /// The next answer's body, decoded.
    fn answer(&mut self) -> anyhow::Result<Vec<u8>> {
        let (mut length, mut gzip) = (0, false);
        loop {
            let mut line = String::new();
            self.bytes += self.stream.read_line(&mut line)? as u64;
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse()?;
            }
            gzip |= line == "content-encoding: gzip";
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        self.bytes += length as u64;
        if !gzip {
            return Ok(body);
        }
        // Ten bytes of head without options, eight of checksum.
        let raw = body.get(10..length - 8).context("a short gzip body")?;
        let mut text = Vec::new();
        let read = self.inflater.inflate(raw, 1 << 20, &mut text);
        read.map_err(|error| anyhow::anyhow!("gzip: {error:?}"))?;
        Ok(text)
    }
}
