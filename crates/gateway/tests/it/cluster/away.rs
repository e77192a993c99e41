//! What happens to a socket while its client is away, at both levels of recovery: orders, keys that are taken away, clocks that jump, claims
//! that come to nothing.

use super::chronicle::{call, hears_up_to};
use super::clocks::{Clock, HOUR};
use super::{all_up, closed};
use crate::e2e::recovery::{Client, is_refused};
use crate::harness::{Beside, Gateway, PATIENCE, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use servers::{Cable, Redis};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(super) const LEVELS: [&str; 2] = ["node", "cluster"];

fn recovers(level: &str) -> String {
    format!(
        "[namespaces.\"/\"]\nclient_joins = true\n[namespaces.\"/\".recovery]\nlevel = {level:?}\n\
         [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\n\
         [namespaces.\"/\".events.echo]\naction = \"reply\"\n"
    )
}

/// A Redis, and what nodes at it need.
pub(super) struct Stage {
    pub(super) redis: Redis,
    key: String,
    pub(super) config: String,
}

impl Stage {
    pub(super) fn new(level: &str, more: &str) -> Self {
        let redis = Redis::start();
        let (key, entry) = identity::keys::generate("ci", &[]).expect("a key");
        let tables = format!(
            "[admin]\napi_keys = [{entry:?}]\n{more}\n{}",
            recovers(level)
        );
        Self {
            config: closed(&redis, &tables),
            redis,
            key,
        }
    }

    pub(super) fn nodes<const N: usize>(&self) -> [Gateway; N] {
        started([&self.config; N])
    }

    fn orders(&self, node: &Gateway, path: &str, body: &Value) {
        assert_eq!(call(node, &self.key, path, body), 202, "{path} {body}");
    }

    pub(super) fn says(&self, node: &Gateway, room: &str, n: u64) {
        let body = json!({ "event": "say", "rooms": [room], "args": [{ "n": n }] });
        self.orders(node, "/v1/emit", &body);
    }
}

/// Nodes that join at once: each takes its time.
pub(super) fn started<const N: usize>(configs: [&String; N]) -> [Gateway; N] {
    // The place is the test's: threads of it take none, and it would wait for one later, while its clients are away.
    drop(Beside::wait());
    let nodes = std::thread::scope(|scope| {
        let starting = configs.map(|config| scope.spawn(|| Gateway::start(config)));
        starting.map(|node| node.join().expect("a node"))
    });
    all_up(&nodes);
    nodes
}

/// Members of a room at a node whose connections are cut, and which it keeps; their ids, and what they come back with.
pub(super) fn away<const N: usize>(node: &Gateway, auth: &Value) -> ([String; N], [Value; N]) {
    let mut clients = [(); N].map(|()| Client::comes_back(node, auth.clone()));
    clients.iter_mut().for_each(|client| client.join("room"));
    let ids = clients.each_ref().map(|client| client.sid.clone());
    let lost = clients.map(Client::lose);
    let parked = node.metric_settles("sockeye_parked_sockets", |parked| parked == N as f64);
    assert_eq!(parked, Ok(N as f64));
    (ids, lost)
}

/// So many events, whichever node spoke first.
fn hears(client: &mut Client, count: usize) -> Vec<u64> {
    let mut heard = Vec::new();
    let came = eventually(PATIENCE, || {
        heard.extend(client.hears());
        heard.len() >= count
    });
    assert!(came, "{heard:?}");
    heard.sort_unstable();
    heard
}

/// The orders come from another node, to which the clients come back.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn orders_to_sockets_whose_clients_are_away_count() {
    for level in LEVELS {
        let stage = Stage::new(level, "");
        let [there, here]: [Gateway; 2] = stage.nodes();
        let (ids, lost) = away::<3>(&there, &json!({}));
        let to = |at: usize, name: &str, value: Value| {
            let mut body = json!({ "sockets": [ids[at]] });
            body[name] = value;
            body
        };
        stage.says(&here, "room", 1);
        stage.orders(&here, "/v1/disconnect", &to(0, "close", json!(true)));
        stage.orders(&here, "/v1/leave", &to(1, "leave", json!(["room"])));
        stage.orders(&here, "/v1/join", &to(2, "join", json!(["late"])));
        stage.says(&here, "room", 2);
        stage.says(&here, "late", 3);
        let [kicked, left, joined] = lost;
        assert_ne!(Client::comes_back(&here, kicked).sid, ids[0], "{level}");
        let says_so = here.logged("came back, and is a new socket", PATIENCE);
        assert!(says_so, "{level}");
        let mut left = Client::comes_back(&here, left);
        assert_eq!(left.sid, ids[1], "{level}");
        assert_eq!(hears_up_to(&mut left, 1), [1], "{level}");
        let mut joined = Client::comes_back(&here, joined);
        assert_eq!(joined.sid, ids[2], "{level}");
        assert_eq!(hears_up_to(&mut joined, 3), [1, 2, 3], "{level}");
        stage.says(&here, "room", 4);
        assert_eq!(hears_up_to(&mut joined, 4), [4], "{level}");
        assert_eq!(left.hears(), [0; 0], "{level}: it is not there any more");
    }
}

/// A pair of keys in this folder; the public one.
fn key(folder: &Path, name: &str) -> Value {
    sockeye(folder, &["token", "key", "--alg", "ES256", "--kid", name]);
    let set = fs::read_to_string(folder.join(format!("{name}.jwks.json"))).expect("a file");
    let mut set: Value = serde_json::from_str(&set).expect("JSON");
    set["keys"][0].take()
}

fn sockeye(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new(super::BINARY);
    let output = command.args(words).current_dir(folder).output();
    let output = output.expect("sockeye runs");
    assert!(output.status.success(), "{words:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.trim().to_owned()
}

/// Its client comes with a token of the key that is no more, and then with one of the key that is left.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_key_that_was_taken_away_lets_nobody_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = ["old", "new"].map(|name| key(folder.path(), name));
    let tokens = ["old", "new"].map(|name| {
        let file = format!("{name}.pem");
        let words = ["token", "--uid", "ann", "--key", &file, "--kid", name];
        json!({ "token": sockeye(folder.path(), &words) })
    });
    let file = folder.path().join("keys.json");
    let write = |keys: &[Value]| {
        fs::write(&file, json!({ "keys": keys }).to_string()).expect("write");
    };
    let auth = format!("[auth]\nrequired = true\nalgorithms = [\"ES256\"]\njwks_file = {file:?}");
    for level in LEVELS {
        write(&keys);
        let stage = Stage::new(level, &auth);
        let [mut there, here]: [Gateway; 2] = stage.nodes();
        let ([id], [lost]) = away(&there, &tokens[0]);
        stage.says(&here, "room", 1);
        if level == "cluster" {
            there.kill();
        }
        write(&keys[1..]);
        here.reload(&stage.config);
        let shows = |token: &Value| {
            let mut auth = lost.clone();
            auth["token"] = token["token"].clone();
            auth
        };
        let is_gone = || is_refused(&here, &tokens[0]);
        assert!(eventually(PATIENCE, is_gone), "{level}");
        assert!(is_refused(&here, &shows(&tokens[0])), "{level}");
        let mut back = Client::comes_back(&here, shows(&tokens[1]));
        assert_eq!(back.sid, id, "{level}");
        assert_eq!(hears_up_to(&mut back, 1), [1], "{level}");
    }
}

/// All that is kept ends by clocks that nobody sets; only tokens end by the time of day.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn clocks_that_jump_lose_nothing_and_keep_nothing_for_longer() {
    const DAY: i64 = 24 * HOUR;
    let secret = "a-secret-of-more-than-thirty-two-bytes";
    let words = [
        "token",
        "--secret",
        secret,
        "--uid",
        "ann",
        "--expires",
        "1h",
    ];
    let token = sockeye(Path::new("."), &words);
    for level in LEVELS {
        let auth = format!("[auth]\nsecret = {secret:?}");
        let stage = Stage::new(level, &auth);
        let clocks = [(); 2].map(|()| Clock::shifted(0));
        let nodes = clocks.each_ref().map(|clock| clock.start(&stage.config));
        all_up(&nodes);
        let mut client = Client::comes_back(&nodes[0], json!({ "token": token }));
        client.join("room");
        let id = client.sid.clone();
        let (mut said, mut at) = (0, 0);
        for (jumps, to) in [([DAY, 0], 1), ([-DAY, 9 * DAY], 1), ([0, -HOUR], 0)] {
            stage.says(&nodes[0], "room", said);
            let mut auth = client.lose();
            // A token that ends is no connection that is cut.
            let live = nodes[at].metric_settles("sockeye_sockets", |live| live == 0.0);
            assert_eq!(live, Ok(0.0), "{level} {jumps:?}");
            for (clock, jump) in clocks.iter().zip(jumps) {
                clock.jump(jump);
            }
            stage.says(&nodes[1], "room", said + 1);
            // An hour is over there.
            auth["token"] = json!(token);
            if jumps[to] > HOUR {
                let is_late = || is_refused(&nodes[to], &json!({ "token": token }));
                assert!(eventually(PATIENCE, is_late), "{level} {jumps:?}");
                clocks[to].jump(0);
                let is_back = || !is_refused(&nodes[to], &json!({ "token": token }));
                assert!(eventually(PATIENCE, is_back), "{level} {jumps:?}");
            }
            client = Client::comes_back(&nodes[to], auth);
            assert_eq!(client.sid, id, "{level} {jumps:?}");
            assert_eq!(hears(&mut client, 2), [said, said + 1], "{level} {jumps:?}");
            (said, at) = (said + 2, to);
        }
    }
}

/// A node whose clock was a day ahead told the store after a failover that nobody knows what clients have until that day.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_clock_that_was_ahead_made_all_clients_new_after_a_failover() {
    let mut stage = Stage::new("cluster", "");
    let clock = Clock::shifted(24 * HOUR);
    let mut nodes = [clock.start(&stage.config), Gateway::start(&stage.config)];
    all_up(&nodes);
    let mut client = Client::new(&nodes[0]);
    client.join("room");
    stage.says(&nodes[1], "room", 1);
    assert_eq!(hears_up_to(&mut client, 1), [1]);
    stage.redis.restart();
    for node in &nodes {
        assert!(node.logged("Redis failed over or was restarted", 3 * PATIENCE));
    }
    let say = |n: u64| {
        let body = json!({ "event": "say", "rooms": ["room"], "args": [{ "n": n }] });
        call(&nodes[1], &stage.key, "/v1/emit", &body) == 202
    };
    assert!(eventually(3 * PATIENCE, || say(2)));
    assert!(hears_up_to(&mut client, 2).contains(&2));
    stage.says(&nodes[1], "room", 3);
    assert_eq!(hears_up_to(&mut client, 3), [3]);
    // It is stored anew before this is answered.
    client.join("more");
    let (id, lost) = (client.sid.clone(), client.lose());
    nodes[0].kill();
    stage.says(&nodes[1], "room", 4);
    let mut back = Client::comes_back(&nodes[1], lost);
    assert_eq!(back.sid, id);
    assert_eq!(hears_up_to(&mut back, 4), [4]);
}

/// Two connections show one secret to two nodes at once. Level `cluster` has a test of its own.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn of_two_claimers_at_two_nodes_one_has_the_socket() {
    let stage = Stage::new("node", "");
    let nodes: [Gateway; 3] = stage.nodes();
    for round in 0..4 {
        let ([id], [lost]) = away(&nodes[0], &json!({}));
        stage.says(&nodes[0], "room", round);
        let claims = std::thread::scope(|scope| {
            let claims = [1, 2].map(|at| {
                let (node, lost) = (&nodes[at], lost.clone());
                scope.spawn(move || Client::comes_back(node, lost))
            });
            claims.map(|claim| claim.join().expect("an answer"))
        });
        let heirs = claims.iter().filter(|client| client.sid == id).count();
        assert!(heirs >= 1, "round {round}: one of them is recovered");
        // If both are, one had it after the other: its connection was closed.
        let live = || {
            let sockets = nodes.iter().map(|node| node.metric("sockeye_sockets"));
            sockets.sum::<f64>()
        };
        let left = (3 - heirs) as f64;
        assert!(eventually(PATIENCE, || live() == left), "{} live", live());
        let mut heir = claims.into_iter().filter(|client| client.sid == id);
        if let (Some(mut heir), 1) = (heir.next(), heirs) {
            assert_eq!(hears(&mut heir, 1), [round]);
        }
        drop(heir);
        assert!(eventually(PATIENCE, || live() == 0.0), "all went");
    }
}

/// From A to B to C and back to A, which was killed meanwhile and has begun anew under its number.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_socket_comes_back_to_where_it_began_although_that_node_was_killed() {
    let stage = Stage::new("node", "");
    let fifth = stage.config.replace("shards = 2", "shards = 2\nnode = 5");
    let mut nodes = started([&fifth, &stage.config, &stage.config]);
    let mut client = Client::new(&nodes[0]);
    client.join("room");
    let id = client.sid.clone();
    let mut said = 0;
    for to in [1, 2, 0] {
        let lost = client.lose();
        if to == 0 {
            nodes[0].kill();
            // As if its lease had ended.
            stage.redis.ask(&["DEL", "sockeye:{nodes}:5"]);
            nodes[0] = Gateway::start(&fifth);
            all_up(&nodes);
            // The others know that it is another one.
            let comes = || {
                let other = Client::new(&nodes[2]);
                let id = other.sid.clone();
                Client::comes_back(&nodes[0], other.lose()).sid == id
            };
            assert!(eventually(2 * PATIENCE, comes));
        }
        for speaker in &nodes {
            stage.says(speaker, "room", said);
            said += 1;
        }
        client = Client::comes_back(&nodes[to], lost);
        assert_eq!(client.sid, id, "to {to}");
        assert_eq!(
            hears(&mut client, 3),
            [said - 3, said - 2, said - 1],
            "to {to}"
        );
    }
    stage.says(&nodes[1], "room", said);
    assert_eq!(hears_up_to(&mut client, said), [said]);
}

/// An offset is no secret: it shows nobody what was for others, and one from before its own beginning is that beginning.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_offset_of_another_session_shows_nothing_of_it() {
    for level in LEVELS {
        let stage = Stage::new(level, "");
        let [there, here]: [Gateway; 2] = stage.nodes();
        let mut other = Client::new(&there);
        other.join("theirs");
        stage.says(&here, "theirs", 100);
        assert_eq!(hears_up_to(&mut other, 100), [100]);
        let early = other.offset();
        let ([id, second], [lost, next]) = away(&there, &json!({}));
        stage.says(&here, "room", 1);
        stage.says(&here, "theirs", 101);
        assert_eq!(hears_up_to(&mut other, 101), [101]);
        let late = other.offset();
        stage.says(&here, "room", 2);
        let with = |lost: Value, offset: &Value| {
            let mut lost = lost;
            lost["offset"] = offset.clone();
            lost
        };
        let mut back = Client::comes_back(&here, with(lost, &early));
        assert_eq!(back.sid, id, "{level}");
        assert_eq!(hears_up_to(&mut back, 2), [1, 2], "{level}");
        // One that skips skips its own.
        let mut back = Client::comes_back(&here, with(next, &late));
        assert_eq!(back.sid, second, "{level}");
        let heard = hears_up_to(&mut back, 2);
        assert!(heard == [2] || heard == [1, 2], "{level}: {heard:?}");
    }
}

/// The claimer has told its client, and its word to the owner is lost with it: nobody else gets the socket, or what was told there twice.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_socket_whose_confirmation_was_lost_is_nobodys() {
    let stage = Stage::new("node", "");
    // What it says is so long under way that the cut comes first.
    let cable = Cable::far(stage.redis.port(), Duration::from_millis(40));
    let far = stage.config.replace(&stage.redis.addr(), &cable.addr());
    let mut nodes = started([&stage.config, &far, &stage.config]);
    let ([id], [lost]) = away(&nodes[0], &json!({}));
    (1..4).for_each(|n| stage.says(&nodes[2], "room", n));
    let mut back = Client::comes_back(&nodes[1], lost);
    cable.cut();
    assert_eq!(back.sid, id);
    assert_eq!(back.hears(), [1, 2, 3]);
    let lost = back.lose();
    nodes[1].kill();
    // To the owner, and to one that has nothing of it.
    for at in [0, 2] {
        let mut next = Client::comes_back(&nodes[at], lost.clone());
        assert_ne!(next.sid, id, "node {at}");
        assert_eq!(next.hears(), [0; 0], "node {at}");
    }
}

/// Its node stands still when the client comes to another one, and wakes up behind that: it lets go of what it has not any more.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_stood_still_kept_a_socket_that_went_on_elsewhere() {
    let stage = Stage::new("cluster", "");
    let nodes: [Gateway; 2] = stage.nodes();
    let mut client = Client::new(&nodes[0]);
    client.join("room");
    let id = client.sid.clone();
    nodes[0].freeze();
    // It has not seen that the connection is over.
    let lost = client.lose();
    (1..4).for_each(|n| stage.says(&nodes[1], "room", n));
    let mut back = Client::comes_back(&nodes[1], lost);
    assert_eq!(back.sid, id);
    assert_eq!(hears_up_to(&mut back, 3), [1, 2, 3]);
    nodes[0].signal(Signal::CONT);
    let live = |node: &Gateway| node.metric_settles("sockeye_sockets", |live| live == 0.0);
    assert_eq!(live(&nodes[0]), Ok(0.0));
    stage.says(&nodes[1], "room", 4);
    assert_eq!(hears_up_to(&mut back, 4), [4]);
    assert_eq!(nodes[1].metric("sockeye_sockets"), 1.0);
    // What the other one has of it is nothing that it could come back to.
    let lost = back.lose();
    stage.says(&nodes[1], "room", 5);
    let mut again = Client::comes_back(&nodes[0], lost);
    assert_eq!(again.sid, id);
    assert_eq!(hears_up_to(&mut again, 5), [5]);
}
