//! An endpoint for tests: an HTTP server that remembers what it was told, and answers as its test wants.

use crate::harness::{PATIENCE, eventually};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One request.
#[derive(Clone, Debug)]
pub struct Told {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Told {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        let header = all.find(|(known, _)| known.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.as_str())
    }

    pub fn events(&self) -> Vec<Value> {
        let body: Value = serde_json::from_slice(&self.body).expect("JSON");
        body["events"].as_array().expect("events").clone()
    }
}

/// An answer: its status, more header lines, its body.
pub struct Reply(pub u16, pub &'static str, pub String);

impl Reply {
    pub fn empty() -> Reply {
        Reply(204, "", String::new())
    }

    pub fn json(body: &Value) -> Reply {
        Reply(200, "Content-Type: application/json\r\n", body.to_string())
    }
}

type Logic = dyn Fn(&Told) -> Reply + Send + Sync;

struct Shared {
    told: Mutex<Vec<Told>>,
    logic: Box<Logic>,
    tls: Option<Arc<ServerConfig>>,
    stop: AtomicBool,
}

/// Its port is closed when it is dropped.
pub struct Receiver {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Receiver {
    pub fn open(logic: impl Fn(&Told) -> Reply + Send + Sync + 'static) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Receiver::on(listener, None, logic)
    }

    pub fn on(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        logic: impl Fn(&Told) -> Reply + Send + Sync + 'static,
    ) -> Receiver {
        let addr = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            told: Mutex::default(),
            logic: Box::new(logic),
            tls,
            stop: AtomicBool::new(false),
        });
        let inner = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if inner.stop.load(Ordering::Relaxed) {
                    return;
                }
                let inner = Arc::clone(&inner);
                std::thread::spawn(move || inner.serve(stream));
            }
        });
        Receiver {
            addr,
            shared,
            thread: Some(thread),
        }
    }

    pub fn told(&self) -> Vec<Told> {
        self.shared.lock().clone()
    }

    /// All events that it was told, in the order in which they came.
    pub fn events(&self) -> Vec<Value> {
        self.told().iter().flat_map(Told::events).collect()
    }

    /// Waits for an event of this type.
    pub fn heard(&self, kind: &str) -> Value {
        let find = || {
            self.events()
                .into_iter()
                .find(|event| event["type"] == kind)
        };
        assert!(eventually(PATIENCE, || find().is_some()), "no {kind}");
        find().expect("an event")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.addr);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the receiver's thread");
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) {
        stream.set_nodelay(true).expect("no delay");
        // A connection that is left open does not outlive the test by much.
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).expect("a timeout");
        match &self.tls {
            None => {
                let out = stream.try_clone().expect("a second handle");
                self.talk(&mut BufReader::new(stream), out);
            }
            Some(config) => {
                let conn = ServerConnection::new(Arc::clone(config)).expect("a connection");
                self.talk_tls(BufReader::new(StreamOwned::new(conn, stream)));
            }
        }
    }

    fn talk(&self, input: &mut impl BufRead, mut out: impl Write) {
        while let Some(told) = read(input) {
            let reply = self.answer(told);
            if self.stop.load(Ordering::Relaxed) || out.write_all(&reply).is_err() {
                return;
            }
        }
    }

    fn talk_tls(&self, mut stream: BufReader<impl Read + Write>) {
        while let Some(told) = read(&mut stream) {
            let reply = self.answer(told);
            if stream.get_mut().write_all(&reply).is_err() {
                return;
            }
        }
    }

    fn answer(&self, told: Told) -> Vec<u8> {
        let Reply(status, headers, body) = (self.logic)(&told);
        self.lock().push(told);
        let length = body.len();
        format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
            .into_bytes()
    }
}

fn read(input: &mut impl BufRead) -> Option<Told> {
    let mut line = String::new();
    input.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut told = Told {
        path,
        headers,
        body: Vec::new(),
    };
    let length = told.header("content-length")?.parse().ok()?;
    told.body = vec![0; length];
    input.read_exact(&mut told.body).ok()?;
    Some(told)
}
