//! The directory in Redis: what programs outside read is what clients are, also after a node or Redis was away.

use super::{all_up, all_up_of, closed};
use crate::harness::{Gateway, PATIENCE, SocketIo as Brief, eventually};
use crate::upgrade::chain::Chain;
use client::OpCode;
use client::full::SocketIo;
use serde_json::{Value, json};
use servers::{Cluster, Redis, Sentinels};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

const SECRET: &str = "a-secret-of-more-than-thirty-two-bytes";

/// Tables of a node that writes a directory.
fn tables() -> String {
    format!(
        "[cluster.directory]\nenabled = true\ndocuments = [\"doc:*\"]\n[auth]\nsecret = \"{SECRET}\"\n"
    )
}

fn start(redis: &Redis, more: &str) -> Gateway {
    Gateway::start(&closed(redis, &format!("{more}\n{}", tables())))
}

fn token(uid: &str) -> String {
    let mut command = Command::new(super::BINARY);
    command.args(["token", "--secret", SECRET, "--uid", uid]);
    let output = command.output().expect("sockeye token runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.trim().to_owned()
}

/// A client of a user, and the id of its socket.
fn client(node: &Gateway, uid: &str, rooms: &[&str]) -> (SocketIo, String) {
    let auth = json!({"token": token(uid)});
    let mut client = SocketIo::websocket(node.addr, "/", auth);
    for room in rooms {
        client.ask("join", &[json!(room)]);
    }
    let id = client.id.clone();
    (client, id)
}

fn lines(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

fn user(redis: &Redis, uid: &str) -> BTreeSet<String> {
    lines(&redis.ask(&["ZRANGE", &format!("ws:user:clients:{uid}"), "0", "-1"]))
}

fn document(redis: &Redis, name: &str) -> BTreeSet<String> {
    lines(&redis.ask(&["ZRANGE", &format!("ws:guid:clients:{name}"), "0", "-1"]))
}

fn field(redis: &Redis, socket: &str, name: &str) -> String {
    let key = format!("ws:client:{socket}");
    redis.ask(&["HGET", &key, name]).trim_end().to_owned()
}

fn clients(redis: &Redis) -> BTreeSet<String> {
    lines(&redis.ask(&["KEYS", "ws:client:*"]))
}

/// All keys of the directory.
fn keys(redis: &Redis) -> BTreeSet<String> {
    lines(&redis.ask(&["KEYS", "ws:*"]))
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// Waits until something is so; what it was at last.
fn settles<T: PartialEq + std::fmt::Debug>(what: impl Fn() -> T, wanted: &T) {
    let mut last = None;
    let is_so = eventually(PATIENCE, || {
        let now = what();
        let is_so = now == *wanted;
        last = Some(now);
        is_so
    });
    assert!(is_so, "{last:?} is not {wanted:?}");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn programs_outside_read_who_is_where() {
    let redis = Redis::start();
    let nodes = [start(&redis, ""), start(&redis, "")];
    all_up(&nodes);
    let (mut ada, first) = client(&nodes[0], "ada", &["doc:1", "hall"]);
    let (other, second) = client(&nodes[1], "ada", &["doc:1"]);
    let (_eve, third) = client(&nodes[1], "eve", &[]);
    settles(|| user(&redis, "ada"), &set([&first, &second]));
    settles(|| user(&redis, "eve"), &set([&third]));
    settles(|| document(&redis, "doc:1"), &set([&first, &second]));
    let rooms: Value = serde_json::from_str(&field(&redis, &first, "rooms")).expect("JSON");
    let rooms = rooms.as_array().expect("a list").iter();
    let rooms: BTreeSet<_> = rooms.map(|room| room.as_str().expect("a name")).collect();
    assert_eq!(rooms, ["doc:1", "hall"].into());
    assert_eq!(field(&redis, &first, "uid"), "ada");
    assert_eq!(field(&redis, &first, "namespace"), "/");
    let number = super::number(&nodes[0]).to_string();
    assert_eq!(field(&redis, &first, "node"), number);
    let connected: u64 = field(&redis, &first, "connected").parse().expect("a time");
    let seen = redis.ask(&["ZSCORE", "ws:user:clients:ada", &first]);
    let seen: f64 = seen.trim().parse().expect("a score");
    // Both are milliseconds since 1970, of one clock.
    assert!(seen >= connected as f64 && seen < connected as f64 + 600e3);
    // It goes on to another document.
    ada.ask("leave", &[json!("doc:1")]);
    ada.ask("join", &[json!("doc:2")]);
    settles(|| document(&redis, "doc:1"), &set([&second]));
    settles(|| document(&redis, "doc:2"), &set([&first]));
    drop(other);
    settles(|| user(&redis, "ada"), &set([&first]));
    settles(|| document(&redis, "doc:1"), &set([]));
    drop(ada);
    settles(|| clients(&redis).len(), &1);
    let expected = [
        format!("ws:client:{third}"),
        "ws:user:clients:eve".to_owned(),
    ];
    settles(|| keys(&redis), &expected.into());
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn without_the_key_nothing_is_written() {
    let redis = Redis::start();
    let node = Gateway::start(&closed(&redis, ""));
    all_up(std::slice::from_ref(&node));
    let mut client = super::member(&node, "doc:1");
    client.ask("leave", &[json!("doc:1")]);
    assert_eq!(keys(&redis), set([]));
    assert_eq!(lines(&redis.ask(&["KEYS", "*directory*"])), set([]));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn odd_names_and_keys_of_others_harm_nobody() {
    let redis = Redis::start();
    let node = start(&redis, "");
    // Keys of others stand where ours would.
    redis.ask(&["SET", "ws:user:clients:eve", "a text"]);
    redis.ask(&["LPUSH", "ws:guid:clients:doc:taken", "a list"]);
    let odd = "{a} b:\"c\" *?[d] ü😀";
    let (_one, first) = client(&node, odd, &[&format!("doc:{odd}")]);
    let (_two, second) = client(&node, "bob", &["doc:7"]);
    let (_three, third) = client(&node, "eve", &["doc:taken"]);
    let (_four, fourth) = client(&node, "ada", &[]);
    settles(|| user(&redis, odd), &set([&first]));
    settles(|| document(&redis, &format!("doc:{odd}")), &set([&first]));
    settles(|| document(&redis, "doc:7"), &set([&second]));
    settles(|| field(&redis, &third, "uid"), &"eve".to_owned());
    settles(|| user(&redis, "ada"), &set([&fourth]));
    assert_eq!(redis.ask(&["GET", "ws:user:clients:eve"]).trim(), "a text");
    assert!(node.reaches("sockeye_directory_strangers_total", 2.0) >= 2.0);
    // They stay as they are, and for as long as their owner wants.
    for key in ["ws:user:clients:eve", "ws:guid:clients:doc:taken"] {
        assert_eq!(redis.ask(&["PTTL", key]).trim(), "-1");
    }
    assert!(node.logged("another program keeps something else", PATIENCE));
    assert!(keys(&redis).iter().all(|key| key.len() < 200));
}

/// Redis is killed, and comes back with nothing; clients came, went and moved meanwhile.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_empty_redis_gets_everything_again() {
    let mut redis = Redis::start();
    let node = start(&redis, "");
    let (mut ada, first) = client(&node, "ada", &["doc:1"]);
    let (gone, second) = client(&node, "bob", &["doc:1"]);
    settles(|| document(&redis, "doc:1"), &set([&first, &second]));
    redis.kill();
    drop(gone);
    ada.ask("leave", &[json!("doc:1")]);
    let (_eve, third) = client(&node, "eve", &["doc:2"]);
    // Nobody waits for the directory.
    assert!(node.reaches("sockeye_directory_failures_total", 1.0) >= 1.0);
    redis.restart();
    settles(|| user(&redis, "eve"), &set([&third]));
    settles(|| user(&redis, "ada"), &set([&first]));
    settles(|| document(&redis, "doc:2"), &set([&third]));
    settles(|| clients(&redis).len(), &2);
    assert_eq!(
        (user(&redis, "bob"), document(&redis, "doc:1")),
        (set([]), set([]))
    );
    // It loses everything while it answers: nobody notices but by the node's own sign.
    redis.ask(&["FLUSHALL"]);
    settles(|| user(&redis, "ada"), &set([&first]));
    settles(|| clients(&redis).len(), &2);
}

/// Redis stands still with all that it has: what ended meanwhile is deleted when it goes on.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn what_ended_while_redis_stood_still_is_deleted() {
    let redis = Redis::start();
    let node = start(&redis, "");
    let (gone, first) = client(&node, "ada", &["doc:1", "doc:2"]);
    let (mut stays, second) = client(&node, "bob", &["doc:1", "doc:2"]);
    settles(|| document(&redis, "doc:2"), &set([&first, &second]));
    redis.freeze();
    drop(gone);
    stays.ask("leave", &[json!("doc:2")]);
    assert!(node.reaches("sockeye_directory_failures_total", 1.0) >= 1.0);
    redis.thaw();
    settles(|| document(&redis, "doc:1"), &set([&second]));
    settles(|| clients(&redis), &set([&format!("ws:client:{second}")]));
    settles(|| user(&redis, "ada"), &set([]));
    settles(|| document(&redis, "doc:2"), &set([]));
}

/// The others clean up after a node that was killed: within half a minute, and nobody else's.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_killed_node_is_cleaned_away_by_the_others() {
    let redis = Redis::start();
    let mut nodes = [start(&redis, ""), start(&redis, ""), start(&redis, "")];
    all_up(&nodes);
    let crowd: Vec<_> = (0..20)
        .map(|n| client(&nodes[n % 3], "ada", &["doc:1"]))
        .collect();
    settles(|| document(&redis, "doc:1").len(), &20);
    let staying = crowd.iter().enumerate().filter(|(n, _)| n % 3 != 0);
    let staying: BTreeSet<String> = staying.map(|(_, (_, id))| id.clone()).collect();
    let killed = Instant::now();
    nodes[0].kill();
    settles(|| document(&redis, "doc:1"), &staying);
    println!("cleaned after {:?}", killed.elapsed());
    settles(|| user(&redis, "ada"), &staying);
    settles(|| clients(&redis).len(), &staying.len());
    let indexes = || lines(&redis.ask(&["KEYS", "sockeye:directory:*.*"])).len();
    settles(indexes, &2);
}

/// A node that is alone cleans up after its former life.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_starts_anew_cleans_up_after_itself() {
    let redis = Redis::start();
    let mut node = start(&redis, "");
    let (_ada, first) = client(&node, "ada", &[]);
    settles(|| user(&redis, "ada"), &set([&first]));
    node.kill();
    let node = start(&redis, "");
    let (_ada, second) = client(&node, "ada", &[]);
    settles(|| user(&redis, "ada"), &set([&second]));
    settles(|| clients(&redis).len(), &1);
}

/// A node that leaves in peace leaves nothing.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_leaves_takes_its_entries_along() {
    let redis = Redis::start();
    let mut node = start(&redis, "");
    let (_ada, first) = client(&node, "ada", &["doc:1"]);
    settles(|| user(&redis, "ada"), &set([&first]));
    node.terminate();
    let status = node.exit_status(PATIENCE).expect("it ends");
    assert!(status.success());
    assert_eq!(keys(&redis), set([]));
    assert_eq!(lines(&redis.ask(&["KEYS", "*directory*"])), set([]));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_redis_cluster_and_sentinels_carry_the_directory() {
    let cluster = Cluster::start();
    let urls: Vec<String> = cluster.nodes.iter().map(Redis::url).collect();
    let six = format!(
        "profile = \"socket.io\"\n[cluster]\nadapter = \"redis\"\nmode = \"cluster\"\nurls = {urls:?}\nsecret = \"s\"\n{}",
        tables()
    );
    let node = Gateway::start(&six);
    let uids: Vec<String> = (0..12).map(|n| format!("user {n}")).collect();
    let crowd = uids.iter().map(|uid| client(&node, uid, &["doc:1"]));
    let mut crowd: Vec<_> = crowd.collect();
    let ask = |command: &[&str]| {
        let all = cluster.nodes.iter().take(3);
        let all = all.map(|master| lines(&master.ask(command)));
        all.flatten()
            .filter(|line| !line.starts_with("MOVED"))
            .collect()
    };
    let members = || -> BTreeSet<String> { ask(&["ZRANGE", "ws:guid:clients:doc:1", "0", "-1"]) };
    settles(|| members().len(), &12);
    let found = || -> BTreeSet<String> { ask(&["KEYS", "ws:user:clients:*"]) };
    settles(|| found().len(), &12);
    crowd.truncate(3);
    settles(|| found().len(), &3);
    settles(|| members().len(), &3);

    let sentinels = Sentinels::start(1_000);
    let urls: Vec<String> = sentinels.sentinels.iter().map(Redis::url).collect();
    let watched = format!(
        "profile = \"socket.io\"\n[cluster]\nadapter = \"redis\"\nmode = \"sentinel\"\nmaster = {:?}\nurls = {urls:?}\nsecret = \"s\"\n{}",
        sentinels.name(),
        tables()
    );
    let node = Gateway::start(&watched);
    let (_ada, first) = client(&node, "ada", &[]);
    settles(|| user(&sentinels.servers[0], "ada"), &set([&first]));
}

/// The number of times that Redis carried out each of these commands so far.
fn calls<const N: usize>(redis: &Redis, verbs: [&str; N]) -> [u64; N] {
    let stats = redis.ask(&["INFO", "commandstats"]);
    verbs.map(|verb| {
        let of = format!("cmdstat_{verb}:calls=");
        let line = stats.lines().find_map(|line| line.strip_prefix(&of));
        let count = line.and_then(|rest| rest.split(',').next()?.parse().ok());
        count.unwrap_or(0)
    })
}

fn difference<const N: usize>(now: [u64; N], before: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| now[at] - before[at])
}

/// What a thousand clients cost, by `INFO commandstats`, before and after. `DIRECTORY_CROWD=10000 DIRECTORY_SECONDS=60` shows what so
/// many cost in a minute in which nothing happens, with `DIRECTORY_RENEW=5m`.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_thousand_connects_are_few_commands_in_few_batches() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let count = number("DIRECTORY_CROWD").unwrap_or(1_000);
    let renew = std::env::var("DIRECTORY_RENEW").unwrap_or("5m".to_owned());
    let redis = Redis::start();
    let tables = tables().replace(
        "enabled = true\n",
        &format!("enabled = true\nrenew = {renew:?}\n"),
    );
    // Nobody reads here, so nobody is to be pinged.
    let tables = format!("{tables}[socketio]\nping_interval = \"1h\"\n");
    let node = Gateway::start(&closed(&redis, &tables));
    const VERBS: [&str; 8] = [
        "hset", "pexpire", "zadd", "zrem", "sadd", "srem", "del", "zrange",
    ];
    let counted = || calls(&redis, VERBS);
    let (before, memory) = (counted(), node.own_memory());
    let auth = json!({"token": token("ada")});
    let began = Instant::now();
    let crowd: Vec<SocketIo> = (0..count)
        .map(|_| SocketIo::websocket(node.addr, "/", auth.clone()))
        .collect();
    settles(|| user(&redis, "ada").len() as u64, &count);
    settles(|| node.metric("sockeye_directory_waiting"), &0.0);
    // A batch a second at most, and one before and after.
    let seconds = began.elapsed().as_secs() + 2;
    let came = difference(counted(), before);
    println!(
        "{count} connects in {seconds} s: {VERBS:?} {came:?}; memory {}",
        node.own_memory().saturating_sub(memory)
    );
    if let Some(quiet) = number("DIRECTORY_SECONDS") {
        let before = counted();
        std::thread::sleep(Duration::from_secs(quiet));
        println!("{quiet} s: {VERBS:?} {:?}", difference(counted(), before));
        return;
    }
    let [hset, pexpire, zadd, zrem, sadd, ..] = came;
    // One entry and one name each; the node's own sign comes on top.
    assert_eq!((hset, pexpire, zrem), (count, 2 * count, 0));
    assert!((count..count + seconds).contains(&zadd), "{zadd}");
    assert!(sadd <= 2 * seconds, "{sadd} batches in {seconds} s");
    let before = counted();
    let began = Instant::now();
    drop(crowd);
    settles(|| node.metric("sockeye_directory_sockets"), &0.0);
    settles(|| keys(&redis), &set([]));
    let seconds = began.elapsed().as_secs() + 2;
    let [hset, _, _, zrem, _, srem, del, _] = difference(counted(), before);
    assert_eq!((hset, zrem, del), (0, count, count));
    assert!(srem <= 2 * seconds, "{srem} batches in {seconds} s");
}

/// Another process goes on with a node: those who go over stay listed, and those who are sent away are listed as they come back.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_whose_process_changes_stays_in_the_directory() {
    let redis = Redis::start();
    let text = closed(&redis, &tables());
    let mut chain = Chain::start(&text);
    let other = start(&redis, "");
    all_up_of(&[&chain.first, &other]);
    let (mut ada, first) = client(&chain.first, "ada", &["doc:1"]);
    let (_eve, second) = client(&other, "eve", &["doc:1"]);
    // In the middle of a fragmented message it does not go over.
    let mut stays = Brief::connect(chain.first.addr);
    stays.conn.send_frame(false, OpCode::Text, "42[");
    settles(|| clients(&redis).len(), &3);
    let before = clients(&redis);
    chain.upgrade();
    // It is never away, not for a moment.
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert_eq!(user(&redis, "ada"), set([&first]));
        std::thread::sleep(Duration::from_millis(20));
    }
    ada.ask("join", &[json!("doc:2")]);
    settles(|| document(&redis, "doc:2"), &set([&first]));
    // What the process before listed and did not hand over goes, some time later.
    let expected = set([
        &format!("ws:client:{first}"),
        &format!("ws:client:{second}"),
    ]);
    let is_so = eventually(2 * PATIENCE, || clients(&redis) == expected);
    assert!(is_so, "{:?}; before: {before:?}", clients(&redis));
    drop(ada);
    settles(|| user(&redis, "ada"), &set([]));
}
