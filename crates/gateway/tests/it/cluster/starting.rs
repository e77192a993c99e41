//! Nodes that start while Redis is not there, has lost its keys, or does not let them in; and nodes that go on without it.

use super::{all_up, all_up_of, closed, config, is_ready, member, number, numbers};
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use serde_json::{Value, json};
use servers::Redis;
use std::process::Command;
use std::time::Duration;

fn get(addr: std::net::SocketAddr, path: &str) -> (u16, String, Value) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let response = RawConn::exchange(addr, request);
    let body = serde_json::from_str(&response.body).unwrap_or_default();
    (response.status, response.head, body)
}

fn key(number: u64) -> String {
    format!("sockeye:{{nodes}}:{number}")
}

/// They hear each other.
fn speak(from: &Gateway, to: &Gateway) {
    let (mut here, mut there) = (member(from, "room"), member(to, "room"));
    assert_eq!(here.ask("n", &[json!(7)]), [] as [Value; 0]);
    assert_eq!(numbers(&mut there, 1), [7]);
}

/// What a Redis without keys does to nodes that live, and to those that start in that moment.
fn a_redis_without_keys(lose: impl Fn(&mut Redis)) {
    let mut redis = Redis::start();
    let settings = config(&redis, "");
    let mut old: [Gateway; 2] = super::nodes(&redis);
    // The impolite one insists on a number that is taken.
    let taken = number(&old[0]);
    let same = settings.replace("shards = 2", &format!("shards = 2\nnode = {taken}"));
    lose(&mut redis);
    let insists = Gateway::start_waiting(&same);
    let new: [Gateway; 2] = std::array::from_fn(|_| Gateway::start(&settings));
    let all: Vec<&Gateway> = old.iter().chain(&new).collect();
    all_up_of(&all);
    let mut numbers: Vec<u64> = all.iter().map(|node| number(node)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4, "each has its own: {numbers:?}");
    speak(&old[0], &new[1]);
    speak(&new[0], &old[1]);
    let holder = || redis.ask(&["GET", &key(taken)]);
    assert!(eventually(PATIENCE, || !holder().trim().is_empty()));
    assert!(!is_ready(&insists), "it does not get that number");
    assert!(old.iter_mut().all(Gateway::is_alive));
    let lost: f64 = old
        .iter()
        .map(|node| node.metric("sockeye_cluster_lost_total"))
        .sum();
    assert_eq!(lost, 0.0);
}

/// A newcomer took the lowest number, which a living node had: that one sent its clients away and ended.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_flushed_redis_and_a_node_that_started_ended_a_healthy_node() {
    a_redis_without_keys(|redis| {
        assert_eq!(redis.ask(&["FLUSHALL"]).trim(), "OK");
    });
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_redis_that_came_back_empty_and_a_node_that_started_ended_a_healthy_node() {
    a_redis_without_keys(Redis::restart);
}

/// Redis had lost the last epoch, and the clock was behind the one that a dead node had: others went on waiting for that one, for 15 seconds, and
/// the clients of its successor were sent nothing.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_successor_with_an_earlier_epoch_was_not_heard() {
    let redis = Redis::start();
    let here = Gateway::start(&config(&redis, ""));
    // So far ahead is the clock of the node that dies.
    let ahead = ["SET", "sockeye:{nodes}:epoch", "4000000000000000"];
    assert_eq!(redis.ask(&ahead).trim(), "OK");
    let other = (number(&here) + 1) % 1_000;
    let settings = config(&redis, "");
    let settings = settings.replace("shards = 2", &format!("shards = 2\nnode = {other}"));
    let mut dies = Gateway::start(&settings);
    all_up_of(&[&here, &dies]);
    dies.kill();
    assert_eq!(redis.ask(&["FLUSHALL"]).trim(), "OK");
    let successor = Gateway::start(&settings);
    all_up_of(&[&here, &successor]);
    speak(&here, &successor);
    speak(&successor, &here);
}

/// The process ended after 65 ms, and supervisors gave up.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_redis_that_started_later_than_the_gateway_ended_it() {
    let mut redis = Redis::start();
    redis.kill();
    let mut node = Gateway::start_waiting(&config(&redis, ""));
    assert!(node.logged("waiting for the cluster", PATIENCE));
    // For longer than it would have lived.
    for _ in 0..20 {
        assert_eq!(get(node.addr, "/health").0, 200);
        assert_eq!(get(node.admin, "/health").0, 200);
        for addr in [node.addr, node.admin] {
            let (status, _, body) = get(addr, "/ready");
            assert_eq!((status, &body["cluster"]), (503, &json!("joining")));
        }
        let sid = "/socket.io/?EIO=4&transport=polling&sid=AAAAAAAAAAAAAAAAAAAA";
        for path in ["/socket.io/?EIO=4&transport=polling", sid, "/", "/ws"] {
            let (status, head, _) = get(node.addr, path);
            assert_eq!(status, 503, "{path}: {head}");
            assert!(head.to_lowercase().contains("\r\nretry-after: "), "{head}");
        }
        assert_eq!(get(node.admin, "/v1/nodes").0, 503);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(node.metric("sockeye_ready"), 0.0);
    redis.restart();
    assert!(eventually(PATIENCE, || is_ready(&node)), "{:?}", node.log());
    let other = Gateway::start(&config(&redis, ""));
    all_up_of(&[&node, &other]);
    speak(&node, &other);
    assert!(node.is_alive());
    let (_, _, body) = get(node.addr, "/ready");
    assert_eq!(body["cluster"], json!("connected"));
}

/// Machines that power up together: Redis is there after supervisors had given up, and after a minute of loading its data.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_redis_that_was_90_seconds_late_found_no_gateway() {
    let mut redis = Redis::start();
    redis.kill();
    let mut nodes = [(); 2].map(|()| Gateway::start_waiting(&config(&redis, "")));
    std::thread::sleep(Duration::from_secs(90));
    for node in &mut nodes {
        assert!(node.is_alive(), "{:?}", node.log());
        assert_eq!(get(node.addr, "/health").0, 200);
    }
    redis.restart();
    all_up(&nodes);
    speak(&nodes[0], &nodes[1]);
}

/// A server that says a word of its own to whatever it is asked.
fn answers(word: &'static str) -> std::net::SocketAddr {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("its address");
    // It ends with the test's process.
    std::thread::spawn(move || {
        for mut conn in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut room = [0; 4096];
                while let Ok(1..) = conn.read(&mut room) {
                    if conn.write_all(word.repeat(8).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

/// It is there and not ready, or its name is not known yet: that is no wrong configuration.
#[test]
fn a_redis_that_loads_its_data_or_has_no_name_yet_ended_the_gateway() {
    let loading = answers("-LOADING Redis is loading the dataset in memory\r\n");
    let cut_off = answers("-MASTERDOWN Link with MASTER is down\r\n");
    for addr in [
        loading.to_string(),
        cut_off.to_string(),
        "no-such-host.invalid:6379".to_owned(),
    ] {
        let url = format!("redis://{addr}");
        let settings = format!(
            "profile = \"socket.io\"\n[server]\nshards = 1\n[cluster]\nadapter = \"redis\"\nurls = [{url:?}]\nsecret = \"s\"\n"
        );
        let mut node = Gateway::start_waiting(&settings);
        assert!(
            node.logged("waiting for the cluster", PATIENCE),
            "{addr}: {:?}",
            node.log()
        );
        for _ in 0..10 {
            assert_eq!(get(node.addr, "/health").0, 200);
            assert_eq!(get(node.addr, "/ready").0, 503);
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(node.is_alive(), "{addr}");
        node.terminate();
        let status = node.exit_status(PATIENCE);
        assert!(
            status.is_some_and(|status| status.success()),
            "{addr}: {status:?}"
        );
    }
}

/// Whoever wants a supervisor to try again says so.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_is_not_to_wait_ends_at_once() {
    let mut redis = Redis::start();
    redis.kill();
    let mut node = Gateway::start_waiting(&config(&redis, "start = \"fail\""));
    let status = node.exit_status(PATIENCE).and_then(|status| status.code());
    assert_eq!(status, Some(1), "{:?}", node.log());
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_waits_for_redis_stops_when_it_is_told_to() {
    let mut redis = Redis::start();
    redis.kill();
    let mut node = Gateway::start_waiting(&config(&redis, ""));
    node.terminate();
    let status = node.exit_status(PATIENCE);
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_waited_for_too_long_says_so_and_ends() {
    let mut redis = Redis::start();
    redis.kill();
    let mut node = Gateway::start_waiting(&config(&redis, "start_timeout = \"1s\""));
    let status = node.exit_status(PATIENCE).and_then(|status| status.code());
    assert_eq!(status, Some(1));
    assert!(node.logged("cluster.start_timeout", PATIENCE));
}

/// Waiting mends neither a wrong password nor a missing right.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_redis_that_lets_nobody_in_is_not_waited_for() {
    let redis = Redis::prepare(|_| {}, &["--requirepass", "right"], &["-a", "right"]);
    let user = ["ACL", "SETUSER", "few", "on", ">right", "+ping", "+info"];
    assert_eq!(redis.ask(&user).trim(), "OK");
    for (login, why) in [
        ("", "NOAUTH"),
        ("password = \"wrong\"", "WRONGPASS"),
        ("user = \"few\"\npassword = \"right\"", "NOPERM"),
    ] {
        let mut node = Gateway::start_waiting(&config(&redis, login));
        let status = node.exit_status(PATIENCE).and_then(|status| status.code());
        assert_eq!(status, Some(1), "{login}");
        assert!(node.logged(why, PATIENCE), "{login}: {:?}", node.log());
    }
}

/// All pods of a Service were not ready while Redis was away, so that nobody served anybody.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn redis_that_was_away_took_every_node_out_of_service() {
    let mut redis = Redis::start();
    let mut nodes: [Gateway; 2] = super::nodes(&redis);
    redis.kill();
    let cut_off = |node: &Gateway| {
        assert!(
            node.metric_settles("sockeye_cluster_up", |up| up == 0.0)
                .is_ok()
        );
        // The process looks at it several times a second.
        let told = || {
            let (status, _, body) = get(node.addr, "/ready");
            assert_eq!(status, 200);
            body["cluster"] == json!("cut off")
        };
        assert!(eventually(PATIENCE, told), "cut off");
        assert_eq!(node.metric("sockeye_ready"), 1.0);
    };
    nodes.iter().for_each(cut_off);
    // Newcomers are served.
    drop(member(&nodes[0], "room"));
    for flag in [None, Some("--ready")] {
        let mut command = Command::new(super::BINARY);
        command.args(["health", "--admin", &nodes[0].admin.to_string()]);
        let told = command.args(flag).output().expect("run sockeye");
        assert!(told.status.success(), "{told:?}");
    }
    redis.restart();
    all_up(&nodes);
    assert!(nodes.iter_mut().all(Gateway::is_alive));
}

/// Whoever could write to Redis could end a node, although there was a secret.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_key_that_a_stranger_wrote_ended_a_node() {
    let redis = Redis::start();
    let mut nodes: [Gateway; 2] = super::nodes(&redis);
    let key = key(number(&nodes[0]));
    let own = redis.ask(&["GET", &key]);
    let card = own.split_once(' ').expect("an epoch").1.trim();
    let later = format!("9999999999999999 {card}");
    for forged in ["9999999999999999 another", &later, "", &"x".repeat(100_000)] {
        redis.ask(&["SET", &key, forged]);
        let restored = || {
            let value = redis.ask(&["GET", &key]);
            value.split(' ').next() == own.split(' ').next()
        };
        assert!(eventually(PATIENCE, restored), "{}", forged.len());
    }
    redis.ask(&["DEL", &key]);
    redis.ask(&["RPUSH", &key, "a list"]);
    let restored = || redis.ask(&["TYPE", &key]).trim() == "string";
    assert!(eventually(PATIENCE, restored));
    assert!(nodes.iter_mut().all(Gateway::is_alive));
    assert!(nodes[0].logged("without cluster.secret", PATIENCE));
    speak(&nodes[0], &nodes[1]);
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    })
}

/// A heartbeat of a node that nobody has.
fn heartbeat(node: u16) -> Vec<u8> {
    // Version and kind.
    let mut frame = vec![2, 2];
    frame.extend_from_slice(&node.to_le_bytes());
    // Its epoch, its first heartbeat, nothing flooded; it hears.
    for number in [7_u64, 1, 0] {
        frame.extend_from_slice(&number.to_le_bytes());
    }
    frame.push(1);
    let crc = crc32c(&frame);
    frame.extend_from_slice(&crc.to_le_bytes());
    frame
}

/// A thousand invented nodes held a cluster without a secret up for three seconds, three thousand for ninety.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn heartbeats_of_nodes_that_nobody_has_held_the_others_up() {
    use std::io::{Read, Write};
    let redis = Redis::start();
    // A busy machine is no stall.
    let open = config(&redis, "join_wait = \"5s\"").replace("secret = \"s\"\n", "");
    let nodes = [(); 2].map(|()| Gateway::start(&open));
    all_up(&nodes);
    let mut commands = Vec::new();
    for node in 0..3_000 {
        let frame = heartbeat(node);
        let head = format!(
            "*3\r\n$7\r\nPUBLISH\r\n$13\r\nsockeye:{{all}}\r\n${}\r\n",
            frame.len()
        );
        commands.extend_from_slice(head.as_bytes());
        commands.extend_from_slice(&frame);
        commands.extend_from_slice(b"\r\n");
    }
    let mut stranger = std::net::TcpStream::connect(redis.addr()).expect("Redis");
    stranger.write_all(&commands).expect("published");
    // Two nodes hear each of them.
    let mut answers = vec![0; 3_000 * b":2\r\n".len()];
    stranger.read_exact(&mut answers).expect("answers");
    assert!(answers.starts_with(b":2\r\n"));
    speak(&nodes[0], &nodes[1]);
    let heard = nodes[0].reaches("sockeye_cluster_strangers_total", 2_998.0);
    assert!(heard >= 2_998.0, "{heard}");
    for node in &nodes {
        assert_eq!(node.metric("sockeye_cluster_peers"), 1.0);
        assert_eq!(node.metric("sockeye_cluster_joins_unconfirmed_total"), 0.0);
    }
}

/// With a secret, whoever could publish to Redis still reached all clients, by the channels of Node's adapters.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_emitter_without_the_secret_reached_all_clients() {
    let redis = Redis::start();
    let node = Gateway::start(&closed(&redis, ""));
    all_up_of(&[&node]);
    let mut client = member(&node, "room");
    // ["emitter", {"type": 2, "data": ["forged"], "nsp": "/"}, {"rooms": [], "except": [], "flags": {}}] in MessagePack.
    let packet = b"\x93\xa7emitter\x83\xa4type\x02\xa4data\x91\xa6forged\xa3nsp\xa1/\x83\xa5rooms\x90\xa6except\x90\xa5flags\x80";
    let told = || {
        redis.publish("PUBLISH", "socket.io#/#", packet);
        node.logged("compat.enabled = true", Duration::from_millis(100))
    };
    assert!(eventually(PATIENCE, told), "{:?}", node.log());
    let mut other = member(&node, "room");
    other.emit("n", &[json!(1)]);
    let heard = client.next();
    assert_eq!(
        (heard.name.as_str(), &heard.args[..]),
        ("n", &[json!(1)][..])
    );
    let lines = node.log();
    let told = lines.iter().filter(|line| line.contains("compat.enabled"));
    assert_eq!(told.count(), 1, "{lines:?}");
}
