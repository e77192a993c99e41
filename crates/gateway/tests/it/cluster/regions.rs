//! Nodes at several servers of NATS: two regions with a long way between them, a cluster of three servers, and one behind TLS.

use super::{all_up, member, numbers};
use crate::harness::{Gateway, PATIENCE, eventually};
use client::full::SocketIo;
use serde_json::{Value, json};
use servers::{Cable, Nats, free_ports};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// From one region to the other.
const WAY: Duration = Duration::from_millis(80);

fn config(urls: &[String], more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[cluster]\nadapter = \"nats\"\nurls = {urls:?}\nsecret = \"s\"\n{more}"
    )
}

/// Two servers with a node each; the second one is a leaf node of the first.
struct Regions {
    cable: Cable,
    _servers: [Nats; 2],
    nodes: [Gateway; 2],
}

impl Regions {
    fn start(more: &str) -> Regions {
        let [leaves] = free_ports();
        let listen = format!("leafnodes {{ listen: \"127.0.0.1:{leaves}\" }}");
        let hub = Nats::with_domain("hub", &listen);
        let more = format!("jetstream_domain = \"hub\"\n{more}");
        let cable = Cable::far(leaves, WAY);
        let leaf = Nats::leaf_of(cable.port());
        let nodes = [&hub, &leaf].map(|server| Gateway::start(&config(&[server.url()], &more)));
        all_up(&nodes);
        Regions {
            cable,
            _servers: [hub, leaf],
            nodes,
        }
    }
}

/// Says numbers for so long, each after a pause; how many.
fn say(client: &mut SocketIo, from: u64, time: Duration) -> u64 {
    let (began, mut n) = (Instant::now(), from);
    while began.elapsed() < time {
        client.emit("n", &[json!(n)]);
        n += 1;
        sleep(Duration::from_millis(10));
    }
    n
}

/// A cut of 30 s is longer than the others wait before they give a node up.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn two_regions_heal_after_a_cut_of_half_a_minute_with_nothing_lost() {
    let regions = Regions::start("[socketio]\nping_timeout = \"60s\"\n");
    let mut clients = [0, 1].map(|at| member(&regions.nodes[at], "room"));
    let at = Instant::now();
    clients[0].emit("n", &[json!(0)]);
    assert_eq!(numbers(&mut clients[1], 1), [0]);
    assert!(at.elapsed() >= WAY);
    let [here, there] = &mut clients;
    let first = say(here, 1, Duration::from_secs(1));
    regions.cable.cut();
    let last = say(here, first, Duration::from_secs(30));
    // The other direction, while nobody hears it.
    there.emit("n", &[json!(1_000_000)]);
    regions.cable.mend();
    let last = say(here, last, Duration::from_secs(2));
    assert_eq!(numbers(there, last - 1), (1..last).collect::<Vec<u64>>());
    assert_eq!(numbers(here, 1), [1_000_000]);
    all_up(&regions.nodes);
    for node in &regions.nodes {
        assert_eq!(node.metric("sockeye_cluster_lost_total"), 0.0);
        assert_eq!(node.metric("sockeye_cluster_resyncs_total"), 0.0);
    }
}

/// The ring holds less than the cut lasts: what is missing is told to the letter.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn what_two_regions_cannot_repair_is_told() {
    let regions = Regions::start("ring_bytes = \"64KiB\"\n[socketio]\nping_timeout = \"60s\"\n");
    let mut clients = [0, 1].map(|at| member(&regions.nodes[at], "room"));
    let [here, there] = &mut clients;
    regions.cable.cut();
    let last = say(here, 0, Duration::from_secs(30));
    regions.cable.mend();
    all_up(&regions.nodes);
    // It comes behind all that is still to come.
    here.emit("last", &[]);
    let came = there.until("last").len() as u64;
    let node = &regions.nodes[1];
    let told = || {
        let lost = node.metric("sockeye_cluster_lost_total");
        lost >= (last - came) as f64 || node.metric("sockeye_cluster_resyncs_total") > 0.0
    };
    assert!(came < last, "{came} of {last}");
    assert!(eventually(PATIENCE, told), "{came} of {last}");
    assert!(node.logged("letters of a node are lost", PATIENCE));
}

/// Each node goes to another server when its own one dies.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn nodes_go_on_when_a_server_of_three_dies() {
    let mut servers = Nats::cluster();
    let urls: Vec<String> = servers.iter().map(Nats::url).collect();
    let nodes = [0, 1].map(|at| {
        let mut urls = urls.clone();
        urls.rotate_left(at);
        Gateway::start(&config(&urls, ""))
    });
    all_up(&nodes);
    let (mut here, mut there) = (member(&nodes[0], "room"), member(&nodes[1], "room"));
    let events: Vec<(&str, Vec<Value>)> = (0..100).map(|n| ("n", vec![json!(n)])).collect();
    for server in &mut servers {
        server.kill();
        here.emit_all(&events);
        assert_eq!(numbers(&mut there, 100), (0..100).collect::<Vec<u64>>());
        server.restart();
        all_up(&nodes);
    }
    for node in &nodes {
        assert_eq!(node.metric("sockeye_cluster_lost_total"), 0.0);
    }
}

/// The server shows a certificate, and asks for one.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn nodes_share_nats_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]);
    let made = made.expect("a certificate");
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let cert = file("cert.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    let tls = format!(
        "tls {{ cert_file: {cert:?}, key_file: {key:?}, ca_file: {cert:?}, verify: true }}"
    );
    let nats = Nats::with(&tls);
    let urls = [format!("tls://localhost:{}", nats.port())];
    let more = format!("tls_ca = {cert:?}\ntls_cert = {cert:?}\ntls_key = {key:?}\n");
    let nodes = [(); 2].map(|()| Gateway::start(&config(&urls, &more)));
    all_up(&nodes);
    let (mut here, mut there) = (member(&nodes[0], "room"), member(&nodes[1], "room"));
    here.emit("n", &[json!(1)]);
    assert_eq!(numbers(&mut there, 1), [1]);
    // Without its own certificate, a node is not let in.
    let stranger = Gateway::start_waiting(&config(&urls, &format!("tls_ca = {cert:?}\n")));
    assert!(stranger.logged("cannot connect to NATS", PATIENCE));
}
