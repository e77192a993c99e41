//! What the tester costs per delivery beside the gateway that it loads, and beside the least that a process can spend to have the same
//! messages: one epoll, one read for all that is there, and no look at the bytes. All three in the same run, on the loads of
//! `benchmarks/tester`.

use crate::client::{await_text, frame, join};
use crate::gateway::{Gateway, built};
use anyhow::{Context, Result, ensure};
use bench::clock::own_cpu_ns;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};
use toml::{Table, Value};

const SPAN: Duration = Duration::from_secs(8);
/// Messages sent per second, by scenario: from what a gateway serves at ease to what fills its core.
const LOADS: [(&str, &[u32]); 2] = [
    ("rooms-of-50", &[6_000, 20_000, 60_000]),
    ("one-room", &[4_000, 16_000]),
];
/// A reader that lets messages gather, and says of each that it came so much later.
const PAUSE: Duration = Duration::from_millis(5);
const EVENTS_PER_TURN: usize = 1024;
/// Looks often enough at the clock to send in time and to end.
const WAIT_MAX: Duration = Duration::from_millis(5);
const SETTLE: Duration = Duration::from_millis(500);

/// A scenario of `benchmarks/tester` at one rate.
struct Load {
    name: &'static str,
    rate: u32,
    connections: usize,
    members: usize,
    payload: String,
    scenario: String,
}

impl Load {
    fn read(name: &'static str, rate: u32) -> Result<Load> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/tester");
        let text = std::fs::read_to_string(format!("{folder}/{name}.toml"))?;
        let mut scenario: Table = text.parse()?;
        let phase = &mut scenario["phases"][0];
        let connections = phase["connections"].as_integer().context("connections")? as usize;
        phase["rate"] = Value::String(format!("{rate}/s"));
        phase["duration"] = Value::String(format!("{}s", SPAN.as_secs()));
        let variables = scenario.get("variables");
        let members = variables.and_then(|variables| variables.get("members"));
        let members = members.and_then(Value::as_integer);
        let size = scenario["payloads"]["chat"]["size"].as_str();
        let size = size.and_then(|size| size.trim_end_matches('B').parse().ok());
        Ok(Load {
            name,
            rate,
            connections,
            members: members.map_or(connections, |members| members as usize),
            payload: "x".repeat(size.context("size of the payload")?),
            scenario: scenario.to_string(),
        })
    }

    /// Rooms in turn, and in each its members in turn.
    fn sender(&self, number: usize) -> usize {
        let rooms = self.connections / self.members;
        number % rooms * self.members + number / rooms % self.members
    }
}

/// Processor time per delivery, in microseconds.
struct Costs {
    gateway: f64,
    client: f64,
}

impl Costs {
    fn of(gateway: Duration, client: Duration, deliveries: u64) -> Costs {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / deliveries as f64;
        Costs {
            gateway: each(gateway),
            client: each(client),
        }
    }

    fn ratio(&self) -> f64 {
        self.client / self.gateway
    }
}

/// Sockets of one process that reads and forgets.
struct Reader {
    epoll: rustix::fd::OwnedFd,
    clients: Vec<TcpStream>,
    buf: Vec<u8>,
    events: Vec<Event>,
    bytes: u64,
}

impl Reader {
    fn join(gateway: &Gateway, load: &Load) -> Result<Reader> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut clients = Vec::with_capacity(load.connections);
        for member in 0..load.connections {
            let mut client = join(gateway.addr, "")?;
            let room = member / load.members;
            client.write_all(&frame(&format!("421[\"join\",\"bare-{room}\"]")))?;
            await_text(&mut client, b"431[")?;
            client.set_nonblocking(true)?;
            // As the tester does: an acknowledgement for every second segment.
            rustix::net::sockopt::set_tcp_quickack(&client, false)?;
            let flags = EventFlags::IN | EventFlags::ET;
            epoll::add(&epoll, &client, EventData::new_u64(member as u64), flags)?;
            clients.push(client);
        }
        Ok(Reader {
            epoll,
            clients,
            buf: vec![0; 256 * 1024],
            events: Vec::with_capacity(EVENTS_PER_TURN),
            bytes: 0,
        })
    }

    /// Waits, and reads all that is there.
    fn turn(&mut self, wait: Duration) -> Result<()> {
        let mut wait = wait;
        loop {
            let wait_max = wait.try_into()?;
            let events = rustix::buffer::spare_capacity(&mut self.events);
            epoll::wait(&self.epoll, events, Some(&wait_max))?;
            let is_full = self.events.len() == EVENTS_PER_TURN;
            for event in self.events.drain(..) {
                match self.clients[event.data.u64() as usize].read(&mut self.buf) {
                    Ok(count) => self.bytes += count as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if !is_full {
                return Ok(());
            }
            wait = Duration::ZERO;
        }
    }

    /// Plays a load, with a pause before each turn; counts deliveries by their bytes.
    fn play(&mut self, gateway: &Gateway, load: &Load, pause: Duration) -> Result<Costs> {
        let message = frame(&format!("42[\"message\",\"{}\"]", load.payload));
        let delivery_bytes = message.len() - 4;
        let (before, own_before) = (gateway.cpu()?, own_cpu_ns());
        let (began, mut sent, mut slept) = (Instant::now(), 0, Instant::now());
        self.bytes = 0;
        while began.elapsed() < SPAN {
            let due = (began.elapsed().as_secs_f64() * f64::from(load.rate)) as usize;
            for number in sent..due {
                self.clients[load.sender(number)].write_all(&message)?;
            }
            sent = due;
            let next = Duration::from_secs_f64((sent + 1) as f64 / f64::from(load.rate));
            let wait = next.saturating_sub(began.elapsed()).min(WAIT_MAX);
            if pause.is_zero() {
                self.turn(wait)?;
            } else {
                std::thread::sleep(pause.saturating_sub(slept.elapsed()));
                slept = Instant::now();
                self.turn(Duration::ZERO)?;
            }
        }
        let deliveries = (sent * load.members) as u64;
        let costs = Costs::of(
            gateway.cpu()? - before,
            Duration::from_nanos(own_cpu_ns() - own_before),
            deliveries,
        );
        let settled = Instant::now();
        while settled.elapsed() < SETTLE {
            self.turn(WAIT_MAX)?;
        }
        let came = self.bytes / delivery_bytes as u64;
        ensure!(came == deliveries, "{came} of {deliveries} deliveries came");
        Ok(costs)
    }
}

/// What the tester makes of the load, with one worker.
fn test(gateway: &Gateway, load: &Load) -> Result<Costs> {
    let folder = tempfile::tempdir()?;
    let (scenario, result) = (
        folder.path().join("load.toml"),
        folder.path().join("out.json"),
    );
    std::fs::write(&scenario, &load.scenario)?;
    let output = Command::new(built("sockeye-bench")?)
        .arg("run")
        .arg(&scenario)
        .args(["--url", &format!("http://{}", gateway.addr)])
        .args(["--pid", &gateway.pid().to_string(), "--workers", "1"])
        .arg("--json")
        .arg(&result)
        .output()?;
    let text = std::fs::read(&result)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let told: serde_json::Value = serde_json::from_slice(&text)?;
    ensure!(
        told["totals"]["lost"] == 0,
        "lost: {}",
        told["totals"]["lost"]
    );
    let phase = &told["phases"][0];
    let seconds = |field: &str| phase[field].as_f64().map(Duration::from_secs_f64);
    let received = phase["received"].as_u64().context("received")?;
    Ok(Costs::of(
        seconds("server_cpu_s").context("server_cpu_s")?,
        seconds("generator_cpu_s").context("generator_cpu_s")?,
        received,
    ))
}

pub fn report() -> Result<()> {
    let base = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../benchmarks/scenarios.toml"
    );
    let rules = std::fs::read_to_string(base)?.replace("level = \"warn\"", "");
    // Who reads and forgets answers no ping.
    let gateway = Gateway::start(&format!("{rules}\n[socketio]\nping_interval = \"300s\""))?;
    println!(
        "| deliveries/s | gateway us | tester us | tester ÷ gateway | bare reads us | ÷ gateway | every 5 ms us | ÷ gateway |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|"
    );
    for (name, rates) in LOADS {
        let mut reader = Reader::join(&gateway, &Load::read(name, rates[0])?)?;
        for rate in rates {
            let load = Load::read(name, *rate)?;
            let bare = reader.play(&gateway, &load, Duration::ZERO)?;
            let seldom = reader.play(&gateway, &load, PAUSE)?;
            let tester = test(&gateway, &load)?;
            println!(
                "| `{}`, {} | {:.3} | {:.3} | {:.2} | {:.3} | {:.2} | {:.3} | {:.2} |",
                load.name,
                load.rate as usize * load.members,
                tester.gateway,
                tester.client,
                tester.ratio(),
                bare.client,
                bare.ratio(),
                seldom.client,
                seldom.ratio(),
            );
        }
    }
    Ok(())
}
