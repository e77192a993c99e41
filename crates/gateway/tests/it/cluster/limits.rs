//! Limits that hold for three nodes together: connections of one address that come and go where they like, a node that is killed, a
//! Redis that is away, a user that sends to all nodes, and what it costs.
//!
//! `SOCKEYE_LIMITS_SECONDS=600` plays the churn for ten minutes.

use super::{all_up, all_up_of, config};
use crate::harness::client::SOCKETIO;
use crate::harness::{Gateway, PATIENCE, RawConn, SocketIo, eventually};
use servers::Redis;
use std::process::Command;
use std::time::{Duration, Instant};

const BUDGET: usize = 20;
/// Within ten percent.
const LEAST: usize = BUDGET - BUDGET / 10;
const MOST: usize = BUDGET + BUDGET / 10;
const SECRET: &str = "a-secret-of-more-than-thirty-two-bytes";
const CONNS: &str = "[limits]\nconns_per_address_max = 20\nconns_per_address_scope = \"cluster\"\n\
                     [socketio]\nconnect_timeout = \"1h\"\nping_interval = \"1h\"\n";

/// Clients of one address that a gateway has let in.
struct Crowd {
    source: [u8; 4],
    held: Vec<(usize, RawConn)>,
    most: usize,
}

impl Crowd {
    fn of(source: [u8; 4]) -> Crowd {
        Crowd {
            source,
            held: Vec::new(),
            most: 0,
        }
    }

    /// Comes to a node, and stays if it is let in.
    fn knock(&mut self, nodes: &[&Gateway], at: usize) -> bool {
        let conn = RawConn::connect_from(self.source, nodes[at].addr);
        let mut conn = conn.upgraded(SOCKETIO, "");
        let frame = conn.frame_within(PATIENCE).expect("an answer");
        if let Some(code) = frame.close_code() {
            assert_eq!(code, 1008);
            return false;
        }
        assert!(frame.text().starts_with("0{"), "{}", frame.text());
        self.held.push((at, conn));
        self.most = self.most.max(self.held.len());
        assert!(self.held.len() <= MOST, "{:?}", self.places());
        true
    }

    /// Comes until nearly the whole budget is used.
    fn fill(&mut self, nodes: &[&Gateway], mut next: impl FnMut() -> usize) {
        // A node that was killed is given up after fifteen seconds.
        let filled = eventually(3 * PATIENCE, || {
            self.knock(nodes, next());
            self.held.len() >= LEAST
        });
        assert!(filled, "{:?}", self.places());
    }

    /// Their place.
    fn places(&self) -> [usize; 3] {
        let mut places = [0; 3];
        self.held.iter().for_each(|(at, _)| places[*at] += 1);
        places
    }

    fn go(&mut self, rng: &mut fastrand::Rng) {
        if !self.held.is_empty() {
            let (_, conn) = self.held.swap_remove(rng.usize(..self.held.len()));
            match rng.bool() {
                true => conn.reset(),
                false => drop(conn),
            }
        }
    }
}

fn three(redis: &Redis, more: &str) -> [Gateway; 3] {
    let nodes = std::array::from_fn(|_| Gateway::start(&config(redis, more)));
    all_up(&nodes);
    all_share(&nodes.each_ref());
    nodes
}

fn all_share(nodes: &[&Gateway]) {
    for node in nodes {
        let up = node.metric_settles("sockeye_budget_up", |up| up == 1.0);
        assert_eq!(up, Ok(1.0));
    }
}

/// Nobody is there, and nobody is thought to be there.
fn assert_nothing_is_left(nodes: &[&Gateway]) {
    for node in nodes {
        for metric in [
            "sockeye_connections",
            "sockeye_addresses",
            "sockeye_budget_keys",
        ] {
            let left = node.metric_settles(metric, |left| left == 0.0);
            assert_eq!(left, Ok(0.0), "{metric}");
        }
    }
}

/// Whatever was counted before: the whole budget is there, at any one node.
fn assert_all_of_it_is_there(nodes: &[&Gateway], source: [u8; 4]) {
    for at in 0..nodes.len() {
        let mut crowd = Crowd::of(source);
        crowd.fill(nodes, || at);
    }
}

fn seconds(name: &str, otherwise: u64) -> Duration {
    let text = std::env::var(name).ok();
    Duration::from_secs(text.map_or(otherwise, |text| text.parse().expect("seconds")))
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_address_has_so_many_connections_on_three_nodes_wherever_they_come() {
    let redis = Redis::start();
    let nodes = three(&redis, CONNS);
    let nodes = nodes.each_ref();
    let (mut rng, mut crowd) = (fastrand::Rng::with_seed(5), Crowd::of([127, 0, 0, 9]));
    for places in [&[0][..], &[2], &[0, 0, 0, 0, 1, 2], &[0, 1, 2], &[1]] {
        crowd.fill(&nodes, || places[rng.usize(..places.len())]);
        // More than there are, everywhere.
        for _ in 0..30 {
            crowd.knock(&nodes, rng.usize(..3));
        }
        let mut others = Crowd::of([127, 0, 0, 10]);
        assert!((0..3).all(|at| others.knock(&nodes, at)), "a neighbour");
        (0..12).for_each(|_| crowd.go(&mut rng));
    }
    churn(&nodes, &mut crowd, &mut rng);
    assert_nothing_is_left(&nodes);
    assert_all_of_it_is_there(&nodes, [127, 0, 0, 9]);
}

/// They come and go, each second somewhere else.
fn churn(nodes: &[&Gateway], crowd: &mut Crowd, rng: &mut fastrand::Rng) {
    let (began, time) = (Instant::now(), seconds("SOCKEYE_LIMITS_SECONDS", 12));
    let (mut came, mut refused, mut full) = (0_u64, 0_u64, 0_u64);
    while began.elapsed() < time {
        let places: Vec<usize> = (0..4).map(|_| rng.usize(..3)).collect();
        let greed = rng.u8(3..9);
        for _ in 0..100 {
            match rng.u8(..10) < greed {
                true if crowd.knock(nodes, places[rng.usize(..4)]) => came += 1,
                true => refused += 1,
                false => crowd.go(rng),
            }
            full += u64::from(crowd.held.len() >= LEAST);
        }
    }
    println!(
        "churn of {:?}: {came} came, {refused} were refused, at most {} at once; {full} times at least {LEAST}",
        began.elapsed(),
        crowd.most
    );
    assert!(
        came > 100 && refused > 100 && full > 100,
        "{came} {refused} {full}"
    );
    crowd.held.clear();
}

/// Its clients are gone with it: what they used is there for others as soon as these count it as gone.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_killed_node_gives_its_connections_back() {
    let redis = Redis::start();
    let mut nodes = three(&redis, CONNS);
    let mut crowd = Crowd::of([127, 0, 0, 9]);
    let mut turn = 0;
    crowd.fill(&nodes.each_ref(), || {
        turn += 1;
        turn % 3
    });
    nodes[1].kill();
    let killed = Instant::now();
    crowd.held.retain(|(at, _)| *at != 1);
    let [first, dead, third] = &nodes;
    let before = crowd.held.len();
    assert!(before < LEAST, "{before}");
    crowd.fill(&[first, dead, third], || {
        turn += 1;
        2 * (turn % 2)
    });
    println!(
        "all of its {} places were back after {:?}",
        LEAST - before,
        killed.elapsed()
    );
    // A newcomer has its part.
    let newcomer = Gateway::start(&config(&redis, CONNS));
    let nodes = [first, &newcomer, third];
    all_up_of(&nodes);
    all_share(&nodes);
    crowd.held.clear();
    assert_nothing_is_left(&nodes);
    assert_all_of_it_is_there(&nodes, [127, 0, 0, 9]);
}

/// Each node goes on with its share, and says so; nobody waits. When Redis is back without its keys, all is as before.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn while_redis_is_away_each_node_has_its_share() {
    let mut redis = Redis::start();
    let nodes = three(&redis, CONNS);
    let nodes = nodes.each_ref();
    let mut turn = 0;
    let mut known = Crowd::of([127, 0, 0, 9]);
    known.fill(&nodes, || {
        turn += 1;
        turn % 3
    });
    redis.kill();
    for node in nodes {
        assert!(node.logged("goes on with its share", PATIENCE));
        assert_eq!(node.metric("sockeye_budget_up"), 0.0);
    }
    for _ in 0..20 {
        (0..3).for_each(|at| _ = known.knock(&nodes, at));
    }
    // An address that nobody knew has an equal part everywhere.
    let mut stranger = Crowd::of([127, 0, 0, 10]);
    for _ in 0..20 {
        (0..3).for_each(|at| _ = stranger.knock(&nodes, at));
    }
    assert_eq!(stranger.places(), [BUDGET / 3; 3]);
    redis.restart();
    all_share(&nodes);
    for node in nodes {
        assert!(node.logged("divided among all nodes again", PATIENCE));
    }
    let warned = nodes[0].log().into_iter();
    let warned = warned.filter(|line| line.contains("goes on with its share"));
    assert_eq!(warned.count(), 1, "it is told once");
    stranger.fill(&nodes, || 0);
    for _ in 0..20 {
        (0..3).for_each(|at| _ = known.knock(&nodes, at));
    }
    drop((known, stranger));
    assert_nothing_is_left(&nodes);
    assert_all_of_it_is_there(&nodes, [127, 0, 0, 9]);
}

/// Whoever can write to Redis and has no secret can neither end a node nor open its limits.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn what_a_stranger_writes_unlocks_nothing() {
    let redis = Redis::start();
    let nodes = three(&redis, CONNS);
    let nodes = nodes.each_ref();
    let mut rng = fastrand::Rng::with_seed(9);
    let mut crowd = Crowd::of([127, 0, 0, 9]);
    crowd.fill(&nodes, || rng.usize(..3));
    let list = "sockeye:{limits}:nodes";
    let numbers = redis.ask(&["GET", list]);
    let numbers: Vec<String> = numbers.split_whitespace().map(str::to_owned).collect();
    assert_eq!(numbers.len(), 3, "{numbers:?}");
    let key = |number: &str| format!("sockeye:{{limits}}:{number}");
    let huge = "x".repeat(100_000);
    for round in 0..40 {
        match round % 8 {
            0 => redis.ask(&["SET", list, &"1023 ".repeat(3_000)]),
            1 => redis.ask(&["SET", list, "-1 99999 0x12 ' \" \\"]),
            2 => redis.ask(&[
                "EVAL",
                "redis.call('DEL', KEYS[1]) return redis.call('RPUSH', KEYS[1], 'a')",
                "1",
                list,
            ]),
            3 => redis.ask(&["SET", &key("1023"), &huge]),
            4 => redis.ask(&["COPY", &key(&numbers[0]), &key("1022"), "REPLACE"]),
            5 => redis.ask(&[
                "DEL",
                list,
                &key(&numbers[0]),
                &key(&numbers[1]),
                &key(&numbers[2]),
            ]),
            6 => redis.ask(&["SET", &key(&numbers[1]), "\u{b1}nonsense"]),
            _ => redis.ask(&[
                "EVAL",
                "for n = 0, 1023 do redis.call('SET', KEYS[1] .. n, string.rep('y', 20000)) end",
                "1",
                &key(""),
            ]),
        };
        crowd.knock(&nodes, rng.usize(..3));
        if round % 3 == 0 {
            crowd.go(&mut rng);
        }
    }
    // Its owner writes over it: it is written until somebody has read it.
    servers::wait_for("somebody to read nonsense", || {
        redis.ask(&["SET", &key(&numbers[1]), "nonsense"]);
        let unreadable = nodes[0].metric("sockeye_cluster_unreadable_total");
        (unreadable >= 1.0).then_some(())
    });
    crowd.fill(&nodes, || rng.usize(..3));
    // Sheets that somebody deletes all the time are those of nodes that are heard.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        redis.ask(&[
            "DEL",
            &key(&numbers[0]),
            &key(&numbers[1]),
            &key(&numbers[2]),
        ]);
        crowd.knock(&nodes, rng.usize(..3));
    }
    crowd.held.clear();
    assert_nothing_is_left(&nodes);
    assert_all_of_it_is_there(&nodes, [127, 0, 0, 9]);
}

fn token(uid: &str) -> String {
    let mut command = Command::new(super::BINARY);
    command.args(["token", "--secret", SECRET, "--uid", uid]);
    let output = command.output().expect("sockeye token runs");
    assert!(output.status.success(), "{output:?}");
    let token = String::from_utf8(output.stdout).expect("text");
    format!("{{\"token\":{:?}}}", token.trim())
}

/// Sends so many events, and returns how many were within the rate.
fn echoes(client: &mut SocketIo, messages: usize) -> usize {
    (0..messages).for_each(|_| client.send("42[\"echo\"]"));
    let answers = (0..messages).map(|_| client.packet_within(PATIENCE).expect("an answer"));
    let mut passed = 0;
    for answer in answers {
        let refused = answer.contains("Rate limit exceeded");
        assert!(refused || answer == "42[\"echo\"]", "{answer}");
        passed += usize::from(!refused);
    }
    passed
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_user_has_one_rate_on_three_nodes() {
    const RATE: f64 = 20.0;
    const BURST: f64 = 100.0;
    let redis = Redis::start();
    let more = format!(
        "[auth]\nrequired = true\nsecret = {SECRET:?}\n[rates]\nuser = \"100/5s\"\nuser_scope = \"cluster\"\n\
         [limits]\nflood_rejections_max = 60000\n[namespaces.\"/\".events.echo]\naction = \"reply\"\n"
    );
    let nodes = three(&redis, &more);
    let auth = token("ann");
    let mut clients = nodes.each_ref().map(|node| {
        let mut client = SocketIo::open(node.addr);
        client.join_namespace("/", &auth);
        client
    });
    let mut rng = fastrand::Rng::with_seed(3);
    // Joining was a message, too.
    let (began, mut passed) = (Instant::now(), 3);
    while began.elapsed() < Duration::from_secs(15) {
        // For a second here, or there, or everywhere.
        let places: Vec<usize> = (0..3).filter(|_| rng.bool()).collect();
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            for at in &places {
                passed += echoes(&mut clients[*at], 5);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let may = BURST + RATE * began.elapsed().as_secs_f64();
    println!("{passed} messages in {:?}, of {may:.0}", began.elapsed());
    assert!((passed as f64) < 1.1 * may, "{passed} of {may}");
    // On one node it has all of it again.
    let (mut all, mut there) = (0, 0);
    assert!(eventually(PATIENCE, || {
        let second = Instant::now();
        let mut passed = 0;
        while second.elapsed() < Duration::from_secs(2) {
            passed += echoes(&mut clients[1], 5);
            std::thread::sleep(Duration::from_millis(20));
        }
        (all, there) = ((2.0 * RATE) as usize, passed);
        passed * 10 >= all * 9
    }));
    println!("{there} of {all} messages in two seconds on one node");
    // Others have their own.
    let mut other = SocketIo::open(nodes[0].addr);
    other.join_namespace("/", &token("bob"));
    assert_eq!(echoes(&mut other, 20), 20);
}

/// Calls of a command since the statistics were reset.
fn calls(redis: &Redis, command: &str) -> u64 {
    let name = format!("cmdstat_{command}");
    let field = redis.field(&["INFO", "commandstats"], &name);
    let calls = field.and_then(|field| {
        let calls = field.strip_prefix("calls=")?.split(',').next()?;
        calls.parse().ok()
    });
    calls.unwrap_or(0)
}

/// `SOCKEYE_LIMITS_SESSIONS=10000` has so many sessions there.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn messages_and_sessions_cost_redis_nothing() {
    const MESSAGES: u64 = 6_000;
    let redis = Redis::start();
    let more = "[rates]\naddress = \"1000000/60s\"\naddress_scope = \"cluster\"\nconnects = \"1000000/60s\"\n\
                connects_scope = \"cluster\"\n[limits]\nconns_per_address_max = 1000000\n\
                conns_per_address_scope = \"cluster\"\n[socketio]\nconnect_timeout = \"1h\"\nping_interval = \"1h\"\n\
                [namespaces.\"/\".events.echo]\naction = \"reply\"\n";
    let nodes = three(&redis, more);
    let sessions = seconds("SOCKEYE_LIMITS_SESSIONS", 600).as_secs() as usize;
    // The time is at least as long as what is counted.
    let began = Instant::now();
    redis.ask(&["CONFIG", "RESETSTAT"]);
    let held: Vec<RawConn> = (0..sessions)
        .map(|n| {
            let source = [127, 0, (n / 200) as u8, (n % 200) as u8 + 1];
            RawConn::connect_from(source, nodes[n % 3].addr).upgraded(SOCKETIO, "")
        })
        .collect();
    let mut clients = nodes.each_ref().map(|node| SocketIo::connect(node.addr));
    for _ in 0..MESSAGES / 300 {
        for client in &mut clients {
            assert_eq!(echoes(client, 100), 100);
        }
    }
    let evals = calls(&redis, "eval");
    let took = began.elapsed();
    // Three nodes, ten exchanges a second at most, and a renewal of three leases with a look at all, every five seconds.
    let exchanges = 3 * (took.as_millis() as u64 / 100 + 2);
    let leases = 3 * 2 * (took.as_secs() / 5 + 2);
    println!(
        "{sessions} sessions and {MESSAGES} messages in {took:?}: {evals} scripts, {:.1} a second and node; publish {}, set {}, get {}, getrange {}",
        evals as f64 / took.as_secs_f64() / 3.0,
        calls(&redis, "publish"),
        calls(&redis, "set"),
        calls(&redis, "get"),
        calls(&redis, "getrange")
    );
    assert!(
        evals <= exchanges + leases,
        "{evals} of {exchanges} and {leases}"
    );
    assert!(
        calls(&redis, "set") <= 3 * evals,
        "no commands but the scripts'"
    );
    assert_eq!(
        nodes
            .each_ref()
            .map(|node| node.metric("sockeye_budget_keys")),
        [0.0; 3]
    );
    drop(held);
}
