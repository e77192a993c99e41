//! A node with a crowd is killed. The others know within 15 s, their counts are exact after it, and everybody is back on another node
//! by two proxies that remember nothing.
//!
//! `DEATH_CROWD=10000 DEATH_STOCK=34` plays it with so many sessions on the killed node and six times so many stock clients.

use super::relay::{know_addresses, relaying};
use super::{all_up_of, config};
use crate::edges::server::Server;
use crate::harness::{Gateway, PATIENCE, eventually, generator};
use serde_json::json;
use servers::{Language, Redis, Roamers, free_addr};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn from_environment(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Asks the nodes in turns; one that refuses is passed over.
fn haproxy(nodes: &[SocketAddr]) -> Server {
    let args = |folder: &Path| {
        let config = folder.join("config").display().to_string();
        ["-db", "-f", &config].map(str::to_owned).to_vec()
    };
    let servers = nodes.iter().enumerate();
    let servers: String = servers
        .map(|(n, addr)| format!("    server node{n} {addr}\n"))
        .collect();
    Server::start("haproxy", args, |_, addr| {
        format!(
            "global\n    maxconn 8000\n    nbthread 1\n\
             defaults\n    mode tcp\n    balance roundrobin\n    option redispatch 1\n    retries 3\n    \
             timeout connect 5s\n    timeout client 120s\n    timeout server 120s\n\
             listen public\n    bind {addr}\n{servers}"
        )
    })
}

/// Clients of the load generator that come back when they lose their connection.
struct Crowd {
    child: Child,
    _files: TempDir,
}

impl Crowd {
    fn start(clients: u64, addr: SocketAddr) -> Crowd {
        let files = tempfile::tempdir().expect("a folder");
        let scenario = files.path().join("crowd.toml");
        let text = format!(
            "name = \"crowd\"\nabout = \"come back\"\nprotocol = \"socket.io\"\n\
             [[phases]]\nname = \"here\"\nconnections = {clients}\nduration = \"300s\"\n\
             [flows.user]\non_loss = \"restart\"\nsteps = [{{ connect = true }}, {{ join = \"crowd-${{user / 100}}\" }}]\n"
        );
        std::fs::write(&scenario, text).expect("write the scenario");
        let mut command = Command::new(generator());
        command.arg("run").arg(&scenario);
        command.args(["--url", &format!("http://{addr}")]);
        command
            .current_dir(&files)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("start sockeye-bench");
        Crowd {
            child,
            _files: files,
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sockets(nodes: &[&Gateway]) -> f64 {
    nodes
        .iter()
        .map(|node| node.metric("sockeye_sockets"))
        .sum()
}

fn until(what: &str, within: Duration, done: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    assert!(eventually(within, done), "{what}");
    began.elapsed()
}

/// Some stock clients of each kind, at both proxies.
fn stock_clients(proxies: &[Server; 2], of_each: u64) -> Vec<Roamers> {
    let languages = [Language::JavaScript, Language::Python].into_iter();
    let kinds = languages.flat_map(|language| {
        ["polling", "upgrade", "websocket"].map(|transport| (language, transport))
    });
    let start = |((language, transport), proxy): ((Language, &str), &Server)| {
        Roamers::start(
            language,
            &format!("http://{}", proxy.addr),
            transport,
            of_each,
        )
    };
    let mut all: Vec<Roamers> = kinds.zip(proxies.iter().cycle()).map(start).collect();
    all.iter_mut().for_each(Roamers::all_connected);
    all
}

#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn a_crowd_is_back_after_the_death_of_its_node_and_counted_exactly() {
    let (crowd, stock) = (
        from_environment("DEATH_CROWD", 200),
        from_environment("DEATH_STOCK", 2),
    );
    let redis = Redis::start();
    let [mut dying]: [Gateway; 1] = relaying(&redis, "");
    let late = [free_addr(), free_addr()];
    let behind = [dying.addr, late[0], late[1]];
    let proxies = [haproxy(&behind), haproxy(&behind)];
    // The others come when the crowd is there, so that the whole of it is on one node.
    let _crowds = [0, 1].map(|at| Crowd::start(crowd / 2, proxies[at].addr));
    until("the crowd is there", 10 * PATIENCE, || {
        sockets(&[&dying]) == crowd as f64
    });
    let start = |addr: SocketAddr| {
        Gateway::start_with(&config(&redis, ""), &["--listen", &addr.to_string()])
    };
    let [one, two] = late.map(start);
    all_up_of(&[&dying, &one, &two]);
    know_addresses(&[&dying, &one, &two]);
    let mut stock = stock_clients(&proxies, stock);
    let clients = crowd as f64
        + stock
            .iter_mut()
            .map(|some| some.connected() as f64)
            .sum::<f64>();
    until("all are there", PATIENCE, || {
        sockets(&[&dying, &one, &two]) == clients
    });

    let there = sockets(&[&dying]);
    dying.kill();
    let killed = Instant::now();
    let live = [&one, &two];
    let back = until("all are back", 4 * PATIENCE, || sockets(&live) >= clients);
    let known = until("the others know", 4 * PATIENCE, || {
        live.iter()
            .all(|node| node.metric("sockeye_cluster_peers") == 1.0)
    });
    let (back, known) = (back, back + known);
    stock.iter_mut().for_each(Roamers::all_connected);
    let exact = until("the count is exact", 4 * PATIENCE, || {
        sockets(&live) == clients
    });
    eprintln!(
        "{there} sockets of {clients} on the killed node: back after {back:?}, known after {known:?}, exact {exact:?} later"
    );
    for some in &mut stock {
        let served = eventually(3 * PATIENCE, || some.ask(3) == json!([]));
        let report = some.report();
        assert!(served, "{report:?}");
        let unknown = report.errors.to_string().matches("unknown").count();
        assert!(
            unknown <= 1 && report.connects.iter().all(|connects| *connects <= 3),
            "{report:?}"
        );
    }
    assert!(killed.elapsed() > known && sockets(&live) == clients);
}
