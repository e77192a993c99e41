//! A real Prometheus scrapes a real gateway under load; every query of dashboard and alerts must have something to say.

use super::dashboard::{dashboard, queries};
use super::exporters::Exporter;
use super::{deploy, read};
use crate::backend::receiver::{Receiver, Reply};
use crate::harness::client::poll_request;
use crate::harness::{Gateway, Plain, Poller, RawConn, SocketIo, Stop, eventually};
use serde_json::{Value, json};
use servers::Redis;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// From the first scrape to rates over several, on a machine that is busy with other tests.
const SCRAPED: Duration = Duration::from_secs(60);

/// Of Prometheus to one question.
const ANSWERED: Duration = Duration::from_secs(5);

const CONFIG: &str = r#"
profile = "socket.io"
[server]
shards = 2
pin = false
[limits]
conns_max = 12
"#;

/// A section with a certificate, whose expiry there is an alert about.
pub fn tls(folder: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let made = made.expect("a certificate");
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&cert, made.cert.pem()).expect("write the certificate");
    fs::write(&key, made.signing_key.serialize_pem()).expect("write its key");
    format!(
        "[tls]\nlisten = [\"127.0.0.1:0\"]\ncert = [{:?}]\nkey = [{:?}]\n",
        cert, key
    )
}

/// Killed when dropped.
struct Prometheus {
    child: Child,
    addr: SocketAddr,
    _files: tempfile::TempDir,
}

impl Prometheus {
    /// With the configuration that is shipped, but every second, and of this gateway.
    fn scraping(admin: SocketAddr) -> Prometheus {
        Prometheus::with(admin, |config| config)
    }

    /// Two gateways, and the jobs that are shipped as comments.
    fn scraping_all(
        [admin, other]: [SocketAddr; 2],
        machine: &Exporter,
        redis: &Exporter,
    ) -> Prometheus {
        Prometheus::with(admin, |config| {
            config
                .replace(
                    &format!("[\"{admin}\"]"),
                    &format!("[\"{admin}\", \"{other}\"]"),
                )
                .replace("  # - ", "  - ")
                .replace("  #   ", "    ")
                .replace("127.0.0.1:9100", &machine.addr.to_string())
                .replace("127.0.0.1:9121", &redis.addr.to_string())
        })
    }

    fn with(admin: SocketAddr, more: impl FnOnce(String) -> String) -> Prometheus {
        let files = tempfile::tempdir().expect("a folder");
        let config = read("prometheus/prometheus.yml");
        let config = config
            .replace("15s", "1s")
            .replace("127.0.0.1:9090", &admin.to_string());
        let config = more(config);
        let path = files.path().join("prometheus.yml");
        fs::write(&path, config).expect("write the configuration");
        let rules = deploy("prometheus/alerts.yml");
        fs::copy(rules, files.path().join("alerts.yml")).expect("copy the rules");
        let addr = servers::free_addr();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", path.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                files.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={addr}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command
            .spawn()
            .expect("run prometheus (Debian's package of that name)");
        Prometheus {
            child,
            addr,
            _files: files,
        }
    }

    /// By HTTP/1.0, whose answers come whole.
    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.addr).ok()?;
        stream.set_read_timeout(Some(ANSWERED)).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: p\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }

    /// An alert fires, or will unless its reason goes.
    fn warns_of(&self, name: &str) -> bool {
        let answer = self.get("/api/v1/alerts").unwrap_or_default();
        let alerts = answer["data"]["alerts"].as_array().cloned();
        let of_it = |alert: &Value| alert["labels"]["alertname"] == *name;
        alerts.unwrap_or_default().iter().any(of_it)
    }

    /// Values of a query now; an error if Prometheus does not understand it.
    fn query(&self, query: &str) -> Result<Vec<f64>, String> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let Some(answer) = self.get(&format!("/api/v1/query?query={escaped}")) else {
            return Ok(Vec::new());
        };
        if answer["status"] != "success" {
            return Err(answer["error"].to_string());
        }
        let results = answer["data"]["result"].as_array().expect("results").iter();
        let value = |result: &Value| result["value"][1].as_str()?.parse().ok();
        Ok(results.filter_map(value).collect())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A backend that is called, and a key for programs.
fn backend(endpoint: &Receiver, key: &str) -> String {
    format!(
        "[admin]\napi_keys = [{key:?}]\n[namespaces.\"/hook\"]\nbackend = \"hook\"\n\
         [backends.hook]\nurl = \"http://{}/\"\nprivate_addresses = true\n",
        endpoint.addr
    )
}

/// Clients of every kind that talk until told to stop, and some that come and go; a program that calls.
fn load(gateway: &Gateway, key: &str, stop: &AtomicBool) {
    let addr = gateway.addr;
    let call = format!(
        "GET /v1/rooms HTTP/1.1\r\nHost: a\r\nX-API-Key: {key}\r\nConnection: close\r\n\r\n"
    );
    let mut hooked = SocketIo::open(addr);
    hooked.join_namespace("/hook", "{}");
    let mut talker = SocketIo::connect(addr);
    talker.ask(1, &json!(["join", "r"]));
    let mut listeners: Vec<_> = (0..2).map(|_| Plain::join(addr, "r")).collect();
    let poller = Poller::connect(addr);
    poller.post("420[\"join\",\"r\"]");
    while !stop.load(Ordering::Relaxed) {
        for n in 0..20 {
            talker.emit(&json!(["news", n]));
        }
        talker.ask(2, &json!(["join", "r"]));
        for listener in &mut listeners {
            for _ in 0..20 {
                listener.expect_type("news");
            }
        }
        poller.poll();
        hooked.send("42/hook,[\"news\"]");
        let answer = RawConn::exchange(gateway.admin, call.as_str());
        assert_eq!(answer.status, 200, "{answer:?}");
        drop(Plain::connect(addr));
        // Not masked: a protocol error.
        let mut bad = RawConn::websocket(addr, "/ws");
        bad.try_send(b"\x81\x01x");
        let _ = bad.ended(Duration::from_secs(1));
        std::thread::sleep(Duration::from_millis(20));
    }
    // A polling session outlives its connections, and counts.
    poller.post("1");
}

#[test]
#[ignore = "needs Prometheus: cargo xtask test foreign"]
fn every_query_of_dashboard_and_alerts_returns_data() {
    let files = tempfile::tempdir().expect("a folder");
    let endpoint = Receiver::open(|_| Reply::empty());
    let (key, entry) = identity::keys::generate("ops", &[]).expect("a key");
    let (tls, backend) = (tls(files.path()), backend(&endpoint, &entry));
    let gateway = Gateway::start(&format!("{CONFIG}{tls}{backend}"));
    let redis = Redis::start_with(&["--maxmemory", "100mb"]);
    let (machine, store) = (Exporter::of_this_machine(), Exporter::of(&redis));
    // Recovery of level `cluster` stands beside no backend.
    let streams = Gateway::start(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 1\nnode = 9\n[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n\
         [namespaces.\"/\".recovery]\nlevel = \"cluster\"\n",
        redis.url()
    ));
    let admins = [gateway.admin, streams.admin];
    let prometheus = Prometheus::scraping_all(admins, &machine, &store);
    let stop = AtomicBool::new(false);
    let missing = std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| load(&gateway, &key, &stop));
        ask_everything(&prometheus)
    });
    assert_eq!(missing, Vec::<String>::new());
    // On a busy machine one may take longer, but not each.
    let quickest = "min_over_time(scrape_duration_seconds{job=\"sockeye\"}[5m])";
    let quickest = prometheus.query(quickest);
    let quickest = quickest.expect("a query");
    assert!(
        quickest.len() == 2 && quickest.iter().all(|took| *took < 1.0),
        "each scrape took {quickest:?} s at least"
    );
    near_the_cap(&gateway, &prometheus);
}

/// What still has no answer when patience ends. Only of publishing to Redis there is nothing to say before there is an adapter.
fn ask_everything(prometheus: &Prometheus) -> Vec<String> {
    let panels = queries(&dashboard());
    let alerts = conditions(prometheus);
    assert!(panels.len() > 70 && alerts.len() > 40, "{alerts:?}");
    let mut missing = Vec::new();
    eventually(SCRAPED, || {
        missing = panels
            .iter()
            .chain(&alerts)
            .filter(|(name, query)| {
                let values = prometheus.query(query);
                let values = values.unwrap_or_else(|error| panic!("{name}: {query}: {error}"));
                let number = values.iter().any(|value| !value.is_nan());
                !number && (!query.contains("redis_publish_lag") || values.is_empty())
            })
            .map(|(name, query)| format!("{name}: {query}"))
            .collect();
        missing.is_empty()
    });
    missing
}

/// What the alerts compare, without what they compare it with: an alert that does not fire has no data itself. From
/// Prometheus, once it has evaluated all of them without an error.
fn conditions(prometheus: &Prometheus) -> Vec<(String, String)> {
    let mut rules = Vec::new();
    let healthy = eventually(SCRAPED, || {
        let Some(answer) = prometheus.get("/api/v1/rules") else {
            return false;
        };
        let groups = answer["data"]["groups"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        rules = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default())
            .collect();
        !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok")
    });
    assert!(healthy, "{rules:#?}");
    let mut conditions = Vec::new();
    for rule in &rules {
        let name = rule["name"].as_str().expect("a name");
        for part in rule["query"].as_str().expect("a query").split(" and ") {
            let mut comparisons = [" > ", " < ", " == "].into_iter();
            let compared = comparisons.find_map(|comparison| part.rsplit_once(comparison));
            let (left, _) = compared.unwrap_or_else(|| panic!("{name}: {part}"));
            conditions.push((name.to_owned(), left.to_owned()));
        }
    }
    conditions
}

/// A node whose Redis is gone serves its clients, and only operators can see what is wrong.
#[test]
#[ignore = "needs Prometheus: cargo xtask test foreign"]
fn a_node_that_loses_redis_raises_the_alert_about_it() {
    let mut redis = Redis::start();
    let url = redis.url();
    let cluster = format!("[cluster]\nadapter = \"redis\"\nurls = [{url:?}]\nsecret = \"s\"\n");
    let gateway = Gateway::start(&format!("{CONFIG}{cluster}"));
    let prometheus = Prometheus::scraping(gateway.admin);
    let is_up = |up: f64| prometheus.query("sockeye_cluster_up") == Ok(vec![up]);
    assert!(eventually(SCRAPED, || is_up(1.0)), "it was there");
    assert!(!prometheus.warns_of("SockeyeClusterUnreachable"));
    redis.kill();
    let warned = eventually(SCRAPED, || prometheus.warns_of("SockeyeClusterUnreachable"));
    assert!(warned, "{:?}", prometheus.get("/api/v1/alerts"));
    redis.restart();
    let over = eventually(SCRAPED, || {
        is_up(1.0) && !prometheus.warns_of("SockeyeClusterUnreachable")
    });
    assert!(over, "{:?}", prometheus.get("/api/v1/alerts"));
}

/// With all places taken and newcomers refused, the two alerts about it are on their way.
fn near_the_cap(gateway: &Gateway, prometheus: &Prometheus) {
    for what in ["sockeye_sessions", "sockeye_connections"] {
        let left = gateway.metric_settles(what, |left| left == 0.0);
        assert!(left.is_ok(), "{what}: {left:?} of the load are left");
    }
    let crowd: Vec<_> = (0..12).map(|_| Plain::connect(gateway.addr)).collect();
    let raised = eventually(SCRAPED, || {
        // Refused, and so counted.
        let newcomer = RawConn::exchange(gateway.addr, poll_request(""));
        assert_eq!(newcomer.status, 503, "{newcomer:?}");
        ["SockeyeConnectionsNearLimit", "SockeyeConnectionsShed"]
            .iter()
            .all(|name| prometheus.warns_of(name))
    });
    assert!(raised, "{:?}", prometheus.get("/api/v1/alerts"));
    drop(crowd);
}
