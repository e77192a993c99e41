//! Every transcript against the real binary over TCP: a gateway each, with the transcript's own settings, and time that
//! really passes.

use crate::harness::{Beside, Gateway, PATIENCE};
use crate::player::{Profile, Received, Script, Settings, World, play};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

/// Transcripts played at once: most of their time they wait.
const PLAYERS: usize = 6;
/// How long what nobody expects is waited for.
const SILENCE: Duration = Duration::from_millis(50);

/// The rules that transcripts call `lab`.
const LAB: &str = r#"
[namespaces."/"]
client_joins = true
auto_join = ["hall"]
[namespaces."/".default]
action = "reply"
[namespaces."/".events.shout]
action = "rooms"
room = "hall"
echo = true
[namespaces."/".events.tell]
action = "rooms"
[namespaces."/".events.void]
action = "drop"
[namespaces."/".events.few]
action = "reply"
rate = "2/s"
[namespaces."/lab".default]
action = "reply"
[plain.raw]
path = "/raw"
"#;

struct Tcp {
    gateway: Gateway,
    conns: BTreeMap<String, TcpStream>,
}

impl World for Tcp {
    fn open(&mut self, conn: &str) {
        let stream = TcpStream::connect(self.gateway.addr).expect("connect");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        self.conns.insert(conn.to_owned(), stream);
    }

    fn send(&mut self, conn: &str, bytes: &[u8]) {
        self.conns[conn]
            .try_clone()
            .and_then(|mut stream| stream.write_all(bytes))
            .expect("send");
    }

    fn end(&mut self, conn: &str) {
        self.conns[conn]
            .shutdown(Shutdown::Write)
            .expect("end the client's side");
    }

    fn receive(&mut self, conn: &str, patient: bool) -> Received {
        let mut stream = &self.conns[conn];
        let time = if patient { PATIENCE } else { SILENCE };
        stream.set_read_timeout(Some(time)).expect("a read timeout");
        let mut buf = [0; 4096];
        match stream.read(&mut buf) {
            Ok(0) => Received::End,
            Ok(n) => Received::Bytes(buf[..n].to_vec()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Received::Nothing
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Received::End,
            Err(error) => panic!("{conn} cannot read: {error}"),
        }
    }

    fn pass(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn drain(&mut self) {
        self.gateway.terminate();
    }

    fn is_exact(&self) -> bool {
        false
    }
}

/// The gateway's configuration file for a transcript's settings.
fn toml(settings: &Settings) -> String {
    let ms = |time: Duration| format!("\"{}ms\"", time.as_millis());
    let (profile, rules) = match settings.profile {
        Profile::Lab => ("socket.io", LAB),
        Profile::Chat => ("chat", ""),
    };
    format!(
        "profile = \"{profile}\"\n\
         [server]\nshards = {}\npin = false\ndrain_window = {}\n\
         [socketio]\nping_interval = {}\nping_timeout = {}\nconnect_timeout = {}\n\
         upgrade_timeout = {}\nmax_http_buffer_size = \"{}B\"\ncors = {}\nallow_eio3 = {}\n\
         [plain]\nenabled = true\nping_interval = {}\nmax_payload = \"{}B\"\n\
         [limits]\nmessage_timeout = {}\n{rules}",
        settings.shards,
        ms(settings.drain_window),
        ms(settings.ping_interval),
        ms(settings.ping_timeout),
        ms(settings.connect_timeout),
        ms(settings.upgrade_timeout),
        settings.max_payload,
        if settings.cors { "[\"*\"]" } else { "[]" },
        settings.eio3,
        ms(settings.plain_ping_interval),
        settings.plain_max_payload,
        ms(settings.message_timeout),
    )
}

fn play_over_tcp(script: &Script) -> Result<(), String> {
    let gateway = Gateway::start(&toml(&script.settings));
    play(
        script,
        &mut Tcp {
            gateway,
            conns: BTreeMap::new(),
        },
    )
}

#[test]
fn every_transcript_holds_for_the_gateway() {
    let _beside = Beside::wait();
    let waiting = Mutex::new(crate::player::all());
    let problems = Mutex::new(Vec::new());
    let next = || waiting.lock().expect("no player panics").pop();
    std::thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                while let Some(script) = next() {
                    if let Err(problem) = play_over_tcp(&script) {
                        problems.lock().expect("no player panics").push(problem);
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().expect("no player panics");
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
