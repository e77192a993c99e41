//! Clients by the thousand in one thread. Each says numbers at its own pace, whatever the answers, and notes when each was due and when
//! it was answered.

use client::conn::{masked, upgrade_request};
use client::{Frame, OpCode};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval_at, timeout};

/// Handshakes at the same time.
const HANDSHAKES: usize = 200;
/// At the end answers are waited for so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most of [`HANDSHAKES`] clients enter in a moment.
const ENTRY: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Enter,
    Speak,
    End,
}

/// How many clients, and what they do.
#[derive(Clone, Debug)]
pub struct Manners {
    pub addr: SocketAddr,
    pub namespace: &'static str,
    pub clients: u32,
    /// Events of all together.
    pub per_second: u32,
    pub event: &'static str,
}

impl Manners {
    /// What stands between the type and the rest of a packet.
    fn address(&self) -> String {
        match self.namespace {
            "/" => String::new(),
            other => format!("{other},"),
        }
    }
}

/// One event of a client.
#[derive(Clone, Debug)]
pub struct Said {
    pub client: u32,
    pub number: u32,
    pub due: Instant,
    /// When the answer came, and what it was if it was an error.
    pub answered: Option<(Instant, Option<String>)>,
}

/// What became of a client.
#[derive(Debug, Default)]
pub struct Life {
    pub said: Vec<Said>,
    /// How its connection was ended.
    pub lost: Option<String>,
}

pub struct Crowd {
    stage: watch::Sender<Stage>,
    here: watch::Receiver<u32>,
    clients: u32,
    thread: JoinHandle<Vec<Life>>,
}

impl Crowd {
    /// Returns when everybody is in.
    pub fn enter(manners: Manners) -> Crowd {
        let (stage, stages) = watch::channel(Stage::Enter);
        let (arrived, here) = watch::channel(0);
        let clients = manners.clients;
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let (manners, arrived) = (Arc::new(manners), Arc::new(arrived));
                let doors = Arc::new(Semaphore::new(HANDSHAKES));
                let live = |client| {
                    let (manners, doors) = (Arc::clone(&manners), Arc::clone(&doors));
                    let (stages, arrived) = (stages.clone(), Arc::clone(&arrived));
                    tokio::spawn(async move {
                        let door = doors.acquire().await.expect("open");
                        let line = Line::enter(&manners).await;
                        drop(door);
                        arrived.send_modify(|here| *here += 1);
                        Client::new(client, line, &manners).live(stages).await
                    })
                };
                let lives: Vec<_> = (0..clients).map(live).collect();
                let mut all = Vec::with_capacity(lives.len());
                for life in lives {
                    all.push(life.await.expect("a client"));
                }
                all
            })
        });
        let crowd = Crowd {
            stage,
            here,
            clients,
            thread,
        };
        let all = || *crowd.here.borrow() == crowd.clients || crowd.thread.is_finished();
        assert!(client::eventually(ENTRY, all), "everybody is in");
        crowd
    }

    pub fn speak(&self) {
        self.stage.send_replace(Stage::Speak);
    }

    /// Stops, waits for the answers that are missing, and returns what became of everybody.
    pub fn end(self) -> Vec<Life> {
        self.stage.send_replace(Stage::End);
        self.thread.join().expect("the clients' thread")
    }
}

/// A WebSocket in a namespace.
struct Line {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Line {
    async fn enter(manners: &Manners) -> Line {
        let stream = TcpStream::connect(manners.addr).await.expect("connect");
        stream.set_nodelay(true).expect("a socket");
        let mut line = Line {
            stream,
            unread: Vec::new(),
        };
        let request = upgrade_request("/socket.io/?EIO=4&transport=websocket", "");
        line.stream.write_all(&request).await.expect("send");
        let head = loop {
            line.fill().await.expect("an answer to the handshake");
            if let Some(at) = line.unread.windows(4).position(|end| end == b"\r\n\r\n") {
                break line.unread.drain(..at + 4).collect::<Vec<u8>>();
            }
        };
        assert!(
            head.starts_with(b"HTTP/1.1 101"),
            "{}",
            String::from_utf8_lossy(&head)
        );
        let open = line.packet().await.expect("an open packet");
        assert!(open.starts_with('0'), "{open}");
        let connect = format!("40{}", manners.address());
        line.send(&connect).await.expect("send");
        let admitted = line.packet().await.expect("a CONNECT");
        assert!(admitted.starts_with("40"), "{admitted}");
        line
    }

    async fn fill(&mut self) -> Result<(), String> {
        match self.stream.read_buf(&mut self.unread).await {
            Ok(0) => Err("end of the connection".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The next packet that is not a heartbeat. May be dropped at any time.
    async fn packet(&mut self) -> Result<String, String> {
        loop {
            let Some(frame) = Frame::take(&mut self.unread, false) else {
                self.fill().await?;
                continue;
            };
            match frame.opcode {
                OpCode::Text if frame.payload == b"2" => self.send("3").await?,
                OpCode::Text => return Ok(frame.text().to_owned()),
                _ => return Err(format!("{:?} {:?}", frame.opcode, frame.close_code())),
            }
        }
    }

    async fn send(&mut self, packet: &str) -> Result<(), String> {
        let frame = masked(true, OpCode::Text, packet);
        let sent = self.stream.write_all(&frame).await;
        sent.map_err(|error| error.to_string())
    }
}

struct Client {
    name: u32,
    line: Line,
    address: String,
    event: &'static str,
    period: Duration,
    /// Its share of the period, so that they do not all speak at once.
    phase: Duration,
    life: Life,
    /// Where in `said` those are that wait for an answer.
    open: BTreeMap<u32, usize>,
}

impl Client {
    fn new(name: u32, line: Line, manners: &Manners) -> Client {
        let period = Duration::from_secs(1) * manners.clients / manners.per_second;
        Client {
            name,
            line,
            address: manners.address(),
            event: manners.event,
            period,
            phase: period * name / manners.clients,
            life: Life::default(),
            open: BTreeMap::new(),
        }
    }

    async fn live(mut self, mut stages: watch::Receiver<Stage>) -> Life {
        if let Err(lost) = self.talk(&mut stages).await {
            self.life.lost = Some(lost);
        }
        self.life
    }

    async fn talk(&mut self, stages: &mut watch::Receiver<Stage>) -> Result<(), String> {
        let speaks = tokio::select! {
            speaks = stages.wait_for(|stage| *stage != Stage::Enter) => speaks.is_ok(),
            said = self.line.packet() => return Err(format!("early {said:?}")),
        };
        assert!(speaks, "the crowd is there");
        let begin = tokio::time::Instant::now() + self.phase;
        let mut ticks = interval_at(begin, self.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while *stages.borrow_and_update() == Stage::Speak {
            tokio::select! {
                due = ticks.tick() => self.say(due.into_std()).await?,
                packet = self.line.packet() => self.hear(&packet?)?,
                _ = stages.changed() => {}
            }
        }
        let rest = async {
            while !self.open.is_empty() {
                let packet = self.line.packet().await?;
                self.hear(&packet)?;
            }
            Ok(())
        };
        timeout(PATIENCE, rest).await.unwrap_or(Ok(()))
    }

    async fn say(&mut self, due: Instant) -> Result<(), String> {
        let number = u32::try_from(self.life.said.len()).expect("not so many") + 1;
        let Client {
            address,
            event,
            name,
            ..
        } = &*self;
        let packet = format!("42{address}{number}[\"{event}\",{name},{number}]");
        self.open.insert(number, self.life.said.len());
        self.life.said.push(Said {
            client: self.name,
            number,
            due,
            answered: None,
        });
        self.line.send(&packet).await
    }

    /// An answer has the number that it is for; an error has words. Errors also come as events.
    fn hear(&mut self, packet: &str) -> Result<(), String> {
        let event = format!("42{}[\"error\",", self.address);
        if packet.starts_with(&event) {
            return Ok(());
        }
        let answer = packet.strip_prefix("43");
        let answer = answer.and_then(|answer| answer.strip_prefix(&self.address));
        let answer = answer.ok_or_else(|| format!("told {packet}"))?;
        let at = answer.find('[').expect("an answer has a list");
        let (id, args) = answer.split_at(at);
        let id: u32 = id.parse().expect("a number of an answer");
        let at = self
            .open
            .remove(&id)
            .unwrap_or_else(|| panic!("twice: {packet}"));
        let args: Value = serde_json::from_str(args).expect("JSON");
        let error = (args[0] != id && !args[0].is_null()).then(|| args[0].to_string());
        self.life.said[at].answered = Some((Instant::now(), error));
        Ok(())
    }
}
