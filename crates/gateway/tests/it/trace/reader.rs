//! A program that reads the stream of a live trace, and one that reads nothing.

use crate::harness::PATIENCE;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The answer to `GET /v1/trace`, line by line.
#[derive(Debug)]
pub struct Reader {
    stream: BufReader<TcpStream>,
    pub status: u16,
    /// The rest of a chunk.
    chunk: Vec<u8>,
    /// Every line that was read, as it came.
    pub heard: Vec<String>,
}

impl Reader {
    pub fn open(admin: SocketAddr, key: &str, query: &str) -> Self {
        Self::of(admin, key, &format!("/v1/trace?{query}"))
    }

    /// The lines of another path.
    pub fn of(admin: SocketAddr, key: &str, path: &str) -> Self {
        let mut stream = TcpStream::connect(admin).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: admin\r\nAuthorization: Bearer {key}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).expect("a head"), 0, "{head}");
        }
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.expect("a status");
        if status == 200 {
            assert!(
                head.contains("content-type: application/x-ndjson\r\n"),
                "{head}"
            );
            assert!(head.contains("cache-control: no-store\r\n"), "{head}");
        }
        Self {
            stream,
            status,
            chunk: Vec::new(),
            heard: Vec::new(),
        }
    }

    /// One that is followed from now on by the shards of its node.
    pub fn begun(admin: SocketAddr, key: &str, query: &str) -> Self {
        let mut reader = Self::open(admin, key, query);
        assert_eq!(reader.status, 200);
        assert_eq!(reader.next().expect("the first line")["kind"], "begin");
        reader
    }

    /// The next line; `None`: the stream has ended in an orderly way.
    pub fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.chunk.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.chunk.drain(..=end).collect();
                let line = String::from_utf8(line).expect("UTF-8");
                let json = serde_json::from_str(&line);
                let json = json.unwrap_or_else(|error| panic!("{error}: {line}"));
                self.heard.push(line);
                return Some(json);
            }
            let mut size = String::new();
            self.stream.read_line(&mut size).expect("a chunk");
            let size = usize::from_str_radix(size.trim(), 16).expect("its size");
            let mut bytes = vec![0; size + 2];
            self.stream.read_exact(&mut bytes).expect("its bytes");
            if size == 0 {
                return None;
            }
            self.chunk.extend(&bytes[..size]);
        }
    }

    /// The next line that fits. Others are passed over.
    pub fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match self.next() {
                Some(line) if fits(&line) => return line,
                Some(_) => {}
                None => break,
            }
        }
        panic!("no {what} in {:#?}", self.heard)
    }

    /// The next thing that passed.
    pub fn line(&mut self) -> Value {
        self.until("line", |line| line["kind"] == "line")
    }

    /// The last line.
    pub fn end(mut self) -> String {
        let end = self.until("end", |line| line["kind"] == "end");
        assert_eq!(self.next(), None);
        end["why"].as_str().expect("a reason").to_owned()
    }

    /// Whether nothing passes for so long.
    pub fn is_silent(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let stream = self.stream.get_ref();
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let mut is_silent = true;
        stream
            .set_read_timeout(Some(time.max(Duration::from_millis(1))))
            .expect("a timeout");
        while is_silent && !left(until).is_zero() {
            let waiting = self.stream.fill_buf().map(<[u8]>::len);
            if !matches!(waiting, Ok(1..)) {
                break;
            }
            let line = self.next().expect("a line");
            is_silent = line["kind"] != "line";
        }
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        is_silent
    }
}
