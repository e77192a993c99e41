//! Backends beside each other of which some decide about requests for sessions.

use super::KEY;
use super::intake::{crowded, said_by};
use super::worker::{introduced, open, runtime};
use crate::harness::{Alone, Gateway, PATIENCE, RawConn, Stop, eventually};
use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, Command, FromWorker, ToWorker};
use client::full::SocketIo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tonic::Status;

type Key = (String, String);

static KEYS: LazyLock<[Key; 2]> = LazyLock::new(|| {
    let cellar = identity::keys::generate("cellar", &[]);
    [KEY.clone(), cellar.expect("a key")]
});

/// The targets and the connects that a worker saw.
#[derive(Debug, Default)]
struct Seen {
    openings: Vec<proto::Opening>,
    connects: Vec<proto::Connect>,
}

/// A worker that wants to decide: it lets in whoever does not have `no=BACKEND` in the query, with a header line of its own.
struct Doorkeeper {
    seen: Arc<Mutex<Seen>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Doorkeeper {
    fn attach(workers: SocketAddr, at: usize, wants: bool) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let (stop, stopped) = oneshot::channel();
        let (welcomed, welcome) = oneshot::channel();
        let shared = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            runtime().block_on(async {
                tokio::select! {
                    ended = keep(workers, at, wants, &shared, welcomed) => ended.expect("no error"),
                    _ = stopped => {}
                }
            });
        });
        welcome.blocking_recv().expect("welcomed");
        Self {
            seen,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn openings(&self) -> usize {
        self.seen.lock().unwrap().openings.len()
    }
}

impl Drop for Doorkeeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn keep(
    workers: SocketAddr,
    at: usize,
    wants: bool,
    seen: &Mutex<Seen>,
    welcomed: oneshot::Sender<()>,
) -> Result<(), Status> {
    let name = ["kitchen", "cellar"][at];
    let hello = introduced(name, "a");
    let (frames, mut messages) = open(workers, &KEYS[at].0, hello).await?;
    let mut said = FromWorker {
        openings: wants,
        ..FromWorker::default()
    };
    frames.send(said.clone()).await.expect("room");
    let mut welcomed = Some(welcomed);
    while let Some(message) = messages.message().await? {
        welcomed.take().map(|welcomed| welcomed.send(()));
        let commands = answers(name, message, &mut said.handled, seen);
        said.first += said.commands.len() as u64;
        said.first = said.first.max(1);
        said.commands = commands;
        frames.send(said.clone()).await.expect("room");
    }
    Ok(())
}

fn answers(name: &str, message: ToWorker, handled: &mut u64, seen: &Mutex<Seen>) -> Vec<Command> {
    let mut seen = seen.lock().unwrap();
    let mut commands = Vec::new();
    for item in message.items {
        *handled += 1;
        let what = match item.what {
            Some(What::Opening(opening)) => {
                let verdict = verdict(name, &opening);
                seen.openings.push(opening);
                Order::Verdict(verdict)
            }
            Some(What::Connect(connect)) => {
                let decision = proto::Decision {
                    socket: connect.socket.clone(),
                    admit: true,
                    ..proto::Decision::default()
                };
                seen.connects.push(*connect);
                Order::Decision(decision)
            }
            _ => continue,
        };
        commands.push(Command {
            what: Some(what),
            ..Command::default()
        });
    }
    commands
}

fn verdict(name: &str, opening: &proto::Opening) -> proto::Verdict {
    let is_large = opening.target.contains(&format!("large={name}"));
    let line = proto::Header {
        name: format!("X-{name}"),
        value: "here".repeat(if is_large { 15_000 } else { 1 }).into(),
    };
    proto::Verdict {
        opening: opening.opening,
        admit: !opening.target.contains(&format!("no={name}")),
        message: format!("not in the {name}"),
        headers: vec![line],
        ..proto::Verdict::default()
    }
}

/// `kitchen` and `cellar`: keys of these backends.
fn house(kitchen: &str, cellar: &str) -> (Gateway, SocketAddr) {
    let config = format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[limits]\nhandshake_timeout = \"60s\"\n\
         [workers]\nlisten = \"127.0.0.1:0\"\n[namespaces.\"/\"]\nbackend = \"kitchen\"\n[namespaces.\"/cellar\"]\nbackend = \"cellar\"\n\
         [backends.kitchen]\napi_keys = [{:?}]\n{kitchen}\n[backends.cellar]\napi_keys = [{:?}]\n{cellar}\n",
        KEYS[0].1, KEYS[1].1
    );
    let gateway = Gateway::start(&config);
    let log = gateway.log();
    let line = log.iter().find(|line| line.contains("\"listening\""));
    let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    let workers = line["workers"].as_str().expect("an address");
    let workers = workers.parse().expect("an address");
    (gateway, workers)
}

fn get(gateway: &Gateway, query: &str) -> client::conn::Response {
    let mut client = RawConn::connect(gateway.addr);
    client.send(format!(
        "GET /socket.io/?EIO=4&transport=polling{query} HTTP/1.1\r\nHost: a\r\nCookie: a=1\r\n\r\n"
    ));
    client.response()
}

/// Each handshake of the gateway went to it, with tokens and cookies of clients that have nothing to do with it.
#[test]
fn a_worker_decided_about_all_clients_because_it_wanted_to() {
    let (gateway, workers) = house("", "");
    let keeper = Doorkeeper::attach(workers, 1, true);
    let told = || {
        let log = gateway.log();
        log.iter()
            .filter(|line| line.contains("backends.cellar.openings"))
            .count()
    };
    assert!(eventually(PATIENCE, || told() == 1), "{}", told());
    assert_eq!(get(&gateway, "&no=cellar").status, 200);
    assert_eq!(keeper.openings(), 0);
    drop(keeper);
    assert_eq!(get(&gateway, "&no=cellar").status, 200);
    assert_eq!(told(), 1);
}

/// One was asked, and the other had no say.
#[test]
fn of_two_backends_that_decide_one_was_asked() {
    let (gateway, workers) = house("openings = true", "openings = true");
    let keepers = [0, 1].map(|at| Doorkeeper::attach(workers, at, true));
    for (query, status, body) in [
        ("", 200, "\"sid\""),
        ("&no=kitchen", 403, "not in the kitchen"),
        ("&no=cellar", 403, "not in the cellar"),
    ] {
        let answer = get(&gateway, query);
        assert_eq!(answer.status, status, "{query}");
        assert!(answer.body.contains(body), "{query}: {}", answer.body);
        let lines = ["X-kitchen", "X-cellar"].map(|name| answer.header(name).is_some());
        assert_eq!(lines, [status == 200; 2], "{query}: of both or of none");
    }
    for keeper in &keepers {
        assert!(eventually(PATIENCE, || keeper.openings() == 3));
    }
    // Each knows its client again, by the request that it let in.
    let _kitchen = SocketIo::websocket(gateway.addr, "/", json!({}));
    let _cellar = SocketIo::websocket(gateway.addr, "/cellar", json!({}));
    for keeper in &keepers {
        let seen = keeper.seen.lock().unwrap();
        assert_eq!((seen.openings.len(), seen.connects.len()), (5, 1));
        let number = seen.connects[0].opening;
        let known = seen
            .openings
            .iter()
            .any(|opening| opening.opening == number);
        assert!(known, "{number}");
    }
}

/// While one backend is silent, header lines of another waited for 16,384 requests of each shard, however long they were.
#[test]
fn verdicts_that_waited_were_counted_and_not_weighed() {
    const STORM: usize = 700;
    // Of both shards.
    const ROOM_FOR: usize = 2 * rules::bounds::VERDICTS_BYTES_MAX / 60_000;
    let (gateway, workers) = house("openings = true", "openings = true");
    let kitchen = Doorkeeper::attach(workers, 0, true);
    let get = "GET /socket.io/?EIO=4&transport=polling&large=kitchen HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut clients = Vec::new();
    while clients.len() < STORM {
        let mut client = RawConn::connect(gateway.addr);
        client.send(get);
        clients.push(client);
        // A message of a worker is bounded, too.
        if clients.len().is_multiple_of(50) {
            assert!(eventually(PATIENCE, || kitchen.openings() == clients.len()));
        }
    }
    let admitted = "sockeye_backend_openings_total{outcome=\"admitted\"}";
    assert_eq!(gateway.reaches(admitted, STORM as f64), STORM as f64);
    let _cellar = Doorkeeper::attach(workers, 1, true);
    let answers: Vec<_> = clients.iter_mut().map(RawConn::response).collect();
    let (opened, refused): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 200);
    assert!(opened.len() <= ROOM_FOR, "{} waited", opened.len());
    assert!(opened.len() >= ROOM_FOR / 4, "only {} waited", opened.len());
    for answer in opened {
        let line = answer.header("X-kitchen").map(str::len);
        assert_eq!(line, Some(60_000));
        assert_eq!(answer.header("X-cellar"), Some("here"));
    }
    for answer in refused {
        assert_eq!(answer.status, 503, "{}", answer.head);
        assert!(answer.header("Retry-After").is_some(), "{}", answer.head);
    }
}

/// All newcomers waited, and nobody was told why.
#[test]
fn openings_that_no_worker_answers_were_not_named() {
    let (gateway, workers) = house("openings = true", "");
    let _mute = Doorkeeper::attach(workers, 0, false);
    let mut client = RawConn::connect(gateway.addr);
    client.send("GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\n\r\n");
    let told = || {
        let log = gateway.log();
        let mut lines = log.iter();
        lines.any(|line| line.contains("remove backends.kitchen.openings"))
    };
    assert!(eventually(PATIENCE, told));
    let _keeper = Doorkeeper::attach(workers, 0, true);
    assert_eq!(client.response().status, 200);
}

/// One event for millions of rooms stopped the workers of all backends for more than a second.
#[test]
fn a_worker_of_another_backend_stopped_newcomers() {
    let _alone = Alone::wait();
    let (gateway, workers) = house("", "");
    let _cellar = Doorkeeper::attach(workers, 1, false);
    let over = AtomicBool::new(false);
    let ((longest, came), heard) = std::thread::scope(|threads| {
        let _stop = Stop(&over);
        let newcomers = threads.spawn(|| {
            let (mut longest, mut came) = (Duration::ZERO, 0);
            while !over.load(Ordering::SeqCst) {
                let began = Instant::now();
                drop(SocketIo::websocket(gateway.addr, "/cellar", json!({})));
                longest = longest.max(began.elapsed());
                came += 1;
            }
            (longest, came)
        });
        let heard =
            [1_000_000, 5_000_000].map(|rooms| said_by(&gateway, workers, 1, &crowded(rooms)).1);
        over.store(true, Ordering::SeqCst);
        (newcomers.join().expect("newcomers"), heard)
    });
    assert_eq!(heard, [[Ok(1)], [Ok(1)]]);
    assert!(came > 10, "{came} came");
    assert!(longest < Duration::from_secs(1), "{longest:?}");
}
