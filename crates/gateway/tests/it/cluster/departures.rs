//! Stock clients that ask all the time, and nodes that send them away: at their end, one after the other, or because others have fewer.

use super::relay::{know_addresses, relaying};
use super::{all_up, all_up_of, config, number};
use crate::edges::haproxy::in_foreground;
use crate::edges::server::Server;
use crate::harness::{Alone, Gateway, PATIENCE, RawConn, eventually};
use ::client::brief::SocketIo;
use ::client::full::request;
use serde_json::{Value, json};
use servers::{Answers, Askers, Manners, Redis};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A balancer whose servers are named by orders, as Kubernetes names the pods of a service: it asks nobody for health.
pub struct Service {
    proxy: Server,
    orders: PathBuf,
}

impl Service {
    /// With room for so many pods, of which none is there.
    pub fn start(pods: usize) -> Service {
        let orders = tempfile::tempdir().expect("a temporary folder").keep();
        let orders = orders.join("orders");
        let servers = (0..pods).map(|pod| format!("    server pod-{pod} 127.0.0.1:1 disabled\n"));
        let servers: String = servers.collect();
        let path = orders.display().to_string();
        let proxy = Server::start("haproxy", in_foreground, |_, addr| {
            format!(
                "global\n    maxconn 4096\n    nbthread 1\n    stats socket {path} level admin\n\
                 defaults\n    mode http\n    timeout connect 5s\n    timeout client 60s\n    timeout server 60s\n    timeout tunnel 10m\n    \
                 option redispatch\n    retries 2\n\
                 listen public\n    bind {addr}\n    balance leastconn\n{servers}"
            )
        });
        Service { proxy, orders }
    }

    fn order(&self, words: &str) {
        // It is there when the proxy has started.
        let connect = || UnixStream::connect(&self.orders).ok();
        let mut conn = servers::wait_for("the proxy's socket", connect);
        writeln!(conn, "{words}").expect("an order");
        let mut answer = String::new();
        conn.read_to_string(&mut answer).expect("an answer");
        assert!(!answer.contains("No such"), "{words}: {answer}");
    }

    pub fn add(&self, pod: usize, addr: SocketAddr) {
        let server = format!("set server public/pod-{pod}");
        self.order(&format!("{server} addr {} port {}", addr.ip(), addr.port()));
        self.order(&format!("{server} state ready"));
    }

    /// New connections go elsewhere; those that there are stay.
    pub fn remove(&self, pod: usize) {
        self.order(&format!("set server public/pod-{pod} state maint"));
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.proxy.addr
    }

    fn url(&self) -> String {
        format!("http://{}", self.proxy.addr)
    }
}

fn asking(transport: &'static str, clients: u64, pause_ms: u64) -> Manners {
    Manners {
        transport,
        clients,
        pause_ms,
        how: "steady",
        with: "nothing",
    }
}

fn all_answered(all: &mut [Askers]) -> Vec<Answers> {
    all.iter_mut().for_each(Askers::all_connected);
    let answers: Vec<Answers> = all.iter_mut().map(Askers::stop).collect();
    for some in &answers {
        assert_eq!((some.unanswered, some.refused), (0, 0), "{answers:?}");
        assert!(some.asked > some.connects.len() as u64, "{some:?}");
    }
    answers
}

/// How many have come back, each of them once.
fn moved(answers: &[Answers]) -> usize {
    let connects = answers.iter().flat_map(|some| &some.connects);
    connects.filter(|connects| **connects > 1).count()
}

fn slow(redis: &Redis, more: &str) -> String {
    let drain = "shards = 2\ndrain_window = \"3s\"\ndrain_grace = \"4s\"";
    config(redis, more).replace("shards = 2", drain)
}

/// 3 of 150 clients over WebSocket lost an answer, and 20 of 75 that asked fifty times a second. Here they pause for longer than a busy
/// proxy keeps them waiting, and read what has come before they speak: what a client says before it reads its end is lost whatever the gateway does. And
/// for less than 750 ms: a client that is silent for a quarter of the window is an idle one, which may go just before its next word.
#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn what_clients_said_while_their_node_drained_had_no_answer() {
    let _alone = Alone::or_with_a_quiet_one();
    let redis = Redis::start();
    let mut nodes: [Gateway; 2] = std::array::from_fn(|_| Gateway::start(&slow(&redis, "")));
    all_up(&nodes);
    know_addresses(&nodes.each_ref());
    let service = Service::start(2);
    nodes
        .iter()
        .enumerate()
        .for_each(|(pod, node)| service.add(pod, node.addr));
    let manners = [
        asking("websocket", 250, 500),
        asking("polling", 25, 600),
        asking("upgrade", 25, 500),
    ];
    let mut all: Vec<Askers> = manners
        .map(|manners| Askers::start(&service.url(), manners))
        .into();
    all.iter_mut().for_each(Askers::all_connected);
    std::thread::sleep(Duration::from_secs(1));
    service.remove(0);
    nodes[0].terminate();
    let status = nodes[0].exit_status(PATIENCE).expect("the process ends");
    assert_eq!(status.code(), Some(0));
    let answers = all_answered(&mut all);
    assert!((100..=200).contains(&moved(&answers)), "{answers:?}");
}

/// People who come during an update: each new connection is served.
struct Newcomers {
    over: Arc<AtomicBool>,
    thread: JoinHandle<(u32, Vec<u16>)>,
}

impl Newcomers {
    fn come(addr: SocketAddr) -> Newcomers {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let (mut came, mut refused) = (0, Vec::new());
            while !until.load(Ordering::Acquire) {
                let open = "GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                let status = RawConn::exchange(addr, open).status;
                came += 1;
                if status != 200 {
                    refused.push(status);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            (came, refused)
        });
        Newcomers { over, thread }
    }

    fn end(self) -> (u32, Vec<u16>) {
        self.over.store(true, Ordering::Release);
        self.thread.join().expect("newcomers")
    }
}

/// Kubernetes takes a pod out of its service and begins to end it at the same time; proxies hear of it a moment later. The pod waits for
/// that (`preStop`), gets SIGTERM, and has its grace. Then another takes its place.
#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn a_rolling_update_loses_no_answer_and_refuses_no_newcomer() {
    const HEARS_LATE: Duration = Duration::from_secs(1);
    const PRE_STOP: Duration = Duration::from_secs(2);
    let _alone = Alone::or_with_a_quiet_one();
    let redis = Redis::start();
    let start = || Gateway::start(&slow(&redis, ""));
    let mut pods = vec![start(), start()];
    all_up(&pods);
    know_addresses(&pods.iter().collect::<Vec<_>>());
    let service = Service::start(2);
    pods.iter()
        .enumerate()
        .for_each(|(pod, node)| service.add(pod, node.addr));
    let manners = [asking("websocket", 60, 500), asking("polling", 20, 600)];
    let mut all: Vec<Askers> = manners
        .map(|manners| Askers::start(&service.url(), manners))
        .into();
    all.iter_mut().for_each(Askers::all_connected);
    let newcomers = Newcomers::come(service.proxy.addr);
    for pod in [1, 0] {
        std::thread::sleep(HEARS_LATE);
        service.remove(pod);
        std::thread::sleep(PRE_STOP - HEARS_LATE);
        pods[pod].terminate();
        let status = pods[pod].exit_status(PATIENCE).expect("within its grace");
        assert_eq!(status.code(), Some(0));
        pods[pod] = start();
        all_up(&pods);
        know_addresses(&pods.iter().collect::<Vec<_>>());
        service.add(pod, pods[pod].addr);
    }
    let (came, refused) = newcomers.end();
    let answers = all_answered(&mut all);
    assert!(came > 100 && refused.is_empty(), "{came}: {refused:?}");
    // On one node or the other each was sent away once or twice.
    assert_eq!(moved(&answers), 80, "{answers:?}");
}

struct Key(String, String);

impl Key {
    fn new() -> Key {
        let (key, entry) = identity::keys::generate("ops", &[]).expect("a key");
        Key(key, entry)
    }

    fn call(&self, node: &Gateway, method: &str, path: &str) -> (u16, Value) {
        let headers = format!("Authorization: Bearer {}\r\n", self.0);
        let answer = request(node.admin, method, path, &headers, "");
        (
            answer.status,
            serde_json::from_str(&answer.body).unwrap_or_default(),
        )
    }

    fn config(&self, redis: &Redis) -> String {
        slow(redis, &format!("[admin]\napi_keys = [{:?}]\n", self.1))
    }
}

fn sessions(node: &Gateway) -> f64 {
    node.metric("sockeye_sessions")
}

/// Whether a node knows that one has so many sessions.
fn knows(key: &Key, node: &Gateway, sessions: u64) -> bool {
    let (_, list) = key.call(node, "GET", "/v1/nodes");
    let nodes = list["nodes"].as_array().expect("nodes");
    nodes.iter().any(|node| node["sessions"] == sessions)
}

/// What is still to go, of all nodes, as one of them knows it.
fn leaving(key: &Key, node: &Gateway) -> u64 {
    let (_, list) = key.call(node, "GET", "/v1/nodes");
    let nodes = list["nodes"].as_array().expect("nodes").iter();
    nodes.filter_map(|node| node["leaving"].as_u64()).sum()
}

#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn a_node_that_came_later_got_its_share_of_clients_and_nobody_lost_an_answer() {
    let _alone = Alone::or_with_a_quiet_one();
    let (redis, key) = (Redis::start(), Key::new());
    let first = Gateway::start(&key.config(&redis));
    let service = Service::start(2);
    service.add(0, first.addr);
    let mut all = [Askers::start(&service.url(), asking("websocket", 100, 500))];
    all[0].all_connected();
    let second = Gateway::start(&key.config(&redis));
    all_up_of(&[&first, &second]);
    assert!(
        eventually(PATIENCE, || knows(&key, &second, 100)),
        "it knows them"
    );
    service.add(1, second.addr);
    let (status, plan) = key.call(&second, "POST", "/v1/nodes/rebalance?rate=40&dry_run=true");
    let surplus: Vec<u64> = plan["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| node["surplus"].as_u64().expect("a number"))
        .collect();
    assert_eq!((status, surplus.iter().sum::<u64>()), (200, 50), "{plan}");
    assert_eq!(
        (sessions(&first), sessions(&second)),
        (100.0, 0.0),
        "that was the plan"
    );
    let (status, told) = key.call(&second, "POST", "/v1/nodes/rebalance?rate=40");
    assert_eq!((status, &told["accepted"]), (202, &json!(true)), "{told}");
    assert!(eventually(PATIENCE, || leaving(&key, &first) > 0));
    let (status, problem) = key.call(&first, "POST", "/v1/nodes/rebalance");
    assert_eq!(
        (status, &problem["type"]),
        (409, &json!("urn:sockeye:problem:conflict"))
    );
    assert!(
        eventually(PATIENCE, || leaving(&key, &first) == 0),
        "it ends"
    );
    let even = |count: f64| (45.0..=55.0).contains(&count);
    let both = || even(sessions(&first)) && even(sessions(&second));
    assert!(
        eventually(PATIENCE, both),
        "{} {}",
        sessions(&first),
        sessions(&second)
    );
    assert_eq!(
        first.closes("rebalanced") + second.closes("rebalanced"),
        first.closes("rebalanced")
    );
    let answers = all_answered(&mut all);
    assert!((45..=50).contains(&moved(&answers)), "{answers:?}");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_rebalance_is_stopped_by_an_operator_and_by_a_drain() {
    let (redis, key) = (Redis::start(), Key::new());
    let recovery = "[namespaces.\"/\".recovery]\nlevel = \"node\"\n[namespaces.\"/new\"]\n";
    let start = || Gateway::start(&format!("{}{recovery}", key.config(&redis)));
    let (mut first, second) = (start(), start());
    all_up_of(&[&first, &second]);
    let mut lasting: Vec<SocketIo> = (0..20).map(|_| SocketIo::connect(first.addr)).collect();
    let connect = |_| {
        let mut client = SocketIo::open(first.addr);
        client.join_namespace("/new", "");
        client
    };
    let others: Vec<SocketIo> = (0..40).map(connect).collect();
    let known = || knows(&key, &second, 60);
    assert!(eventually(PATIENCE, known), "the other node knows");
    let (status, plan) = key.call(&first, "GET", "/v1/node/drain");
    assert_eq!((status, &plan["node"]), (200, &json!(number(&first))));
    let of = |member: &str| plan["sessions"][member].as_u64();
    assert_eq!(
        (of("all"), of("websocket"), of("recoverable")),
        (Some(60), Some(60), Some(20)),
        "{plan}"
    );
    assert_eq!(
        (&plan["plan"]["per_second"], &plan["progress"]),
        (&json!(20), &Value::Null)
    );
    let (status, _) = key.call(&second, "POST", "/v1/nodes/rebalance?rate=5");
    assert_eq!(status, 202);
    assert!(first.closes_reach("rebalanced", 3.0) >= 3.0);
    let (status, _) = key.call(&second, "DELETE", "/v1/nodes/rebalance");
    assert_eq!(status, 202);
    assert!(eventually(PATIENCE, || leaving(&key, &first) == 0));
    let gone = first.closes("rebalanced");
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(
        (first.closes("rebalanced"), gone < 20.0),
        (gone, true),
        "those left stay"
    );
    // Those go first that lose nothing.
    let closed = |client: &mut SocketIo| {
        let frame = client.conn.frame_within(Duration::from_millis(10)).ok()?;
        frame.close_code()
    };
    let closed: Vec<u16> = lasting.iter_mut().filter_map(closed).collect();
    assert_eq!(closed, vec![1012; gone as usize]);
    let (status, _) = key.call(&second, "POST", "/v1/nodes/rebalance?rate=5");
    assert_eq!(status, 202);
    assert!(eventually(PATIENCE, || leaving(&key, &first) > 0));
    first.terminate();
    let (status, progress) = key.call(&first, "GET", "/v1/node/drain");
    assert_eq!(status, 200, "{progress}");
    let status = first.exit_status(PATIENCE).expect("the process ends");
    assert_eq!(status.code(), Some(0));
    drop(others);
}

/// Clients that react to the notice lose nothing, however they ask.
#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn clients_that_ask_without_a_pause_leave_by_themselves_or_are_told() {
    let _alone = Alone::or_with_a_quiet_one();
    let redis = Redis::start();
    let mut nodes: [Gateway; 2] = relaying(&redis, "");
    let service = Service::start(2);
    nodes
        .iter()
        .enumerate()
        .for_each(|(pod, node)| service.add(pod, node.addr));
    let asking = |with| Manners {
        how: "loop",
        with,
        ..asking("websocket", 30, 0)
    };
    let kinds = [asking("notice"), asking("retries"), asking("timeout")];
    let mut all: Vec<Askers> = kinds.map(|kind| Askers::start(&service.url(), kind)).into();
    all.iter_mut().for_each(Askers::all_connected);
    std::thread::sleep(Duration::from_secs(1));
    service.remove(0);
    nodes[0].terminate();
    let status = nodes[0].exit_status(PATIENCE).expect("the process ends");
    assert_eq!(status.code(), Some(0));
    let answers = all_answered(&mut all);
    let told: Vec<u64> = answers.iter().map(|some| some.told).collect();
    assert_eq!(told[..2], [0, 0], "{answers:?}");
    assert!(told[2] <= 30, "{answers:?}");
}
