//! What clients have used of their rates is used after an upgrade, and what was counted stays counted.

use super::chain::Chain;
use super::troubles::Pair;
use crate::cluster::all_up_of;
use crate::harness::client::{Poller, SOCKETIO, SocketIo, poll_request};
use crate::harness::token::{SECRET, token};
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use serde_json::json;
use servers::Redis;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

const ECHO: &str = "[namespaces.\"/\".events.echo]\naction = \"reply\"\n";

fn config(rates: &str) -> String {
    format!("profile = \"socket.io\"\n[server]\nshards = 2\n{rates}\n{ECHO}")
}

/// How many of so many events are within the rate.
fn echoes(client: &mut SocketIo, events: usize) -> usize {
    let mut passed = 0;
    for _ in 0..events {
        client.send("421[\"echo\"]");
        passed += usize::from(client.packet_starting("431") == "431[]");
    }
    passed
}

/// The same of one that polls.
fn polled_echoes(client: &Poller, events: usize) -> usize {
    let mut passed = 0;
    for _ in 0..events {
        assert_eq!(client.post("421[\"echo\"]").status, 200);
        let mut answer = client.poll().body;
        while !answer.contains("431[") {
            // An upgrade answers a poll with nothing.
            answer = client.poll().body;
        }
        passed += usize::from(answer.contains("431[]"));
    }
    passed
}

/// Ten at once are an hour's; to join is one of them.
#[test]
fn a_session_had_a_new_burst_after_each_upgrade() {
    for rate in ["10/3600s", "10/3600s fixed"] {
        let mut chain = Chain::start(&config(&format!("[rates]\nsession = {rate:?}")));
        let mut ann = SocketIo::connect(chain.first.addr);
        let ben = Poller::connect(chain.first.addr);
        assert_eq!((echoes(&mut ann, 5), polled_echoes(&ben, 4)), (5, 4));
        chain.upgrade();
        assert_eq!((echoes(&mut ann, 2), polled_echoes(&ben, 2)), (2, 2));
        chain.upgrade();
        assert_eq!(
            (echoes(&mut ann, 9), polled_echoes(&ben, 9)),
            (2, 3),
            "{rate}"
        );
        chain.upgrade();
        assert_eq!(
            (echoes(&mut ann, 3), polled_echoes(&ben, 3)),
            (0, 0),
            "{rate}"
        );
    }
}

/// The clock of the limiters goes on: what comes back with time comes back as if nothing had been.
#[test]
fn what_was_used_comes_back_with_time() {
    let mut chain = Chain::start(&config("[rates]\nsession = \"6/12s\""));
    let mut ann = SocketIo::connect(chain.first.addr);
    // The process before has a clock that shows more.
    sleep(Duration::from_secs(2));
    let at_once = echoes(&mut ann, 6);
    assert!((5..=6).contains(&at_once), "{at_once}");
    chain.upgrade();
    sleep(Duration::from_millis(4_100));
    let later = echoes(&mut ann, 6);
    assert!((2..=4).contains(&later), "{later}");
}

#[test]
fn a_rule_had_a_new_rate_after_each_upgrade() {
    let rule = "rate = \"7/3600s\"";
    let mut chain = Chain::start(&format!("{}{rule}\n", config("")));
    let mut ann = SocketIo::connect(chain.first.addr);
    assert_eq!(echoes(&mut ann, 3), 3);
    chain.upgrade();
    assert_eq!(echoes(&mut ann, 3), 3);
    chain.upgrade();
    assert_eq!(echoes(&mut ann, 5), 1);
}

fn of_user(chain: &Chain, user: &str) -> SocketIo {
    let mut client = SocketIo::open(chain.first.addr);
    let auth = json!({ "token": token(user) });
    client.join_namespace("/", &auth.to_string());
    client
}

/// Those who come back after the upgrade find what they left.
#[test]
fn users_and_addresses_had_new_bursts_after_each_upgrade() {
    for scope in ["user", "address"] {
        for rate in ["20/3600s", "20/3600s fixed"] {
            let auth = format!("[auth]\nsecret = {SECRET:?}\n[rates]\n{scope} = {rate:?}");
            let mut chain = Chain::start(&config(&auth));
            let mut clients = [of_user(&chain, "ann"), of_user(&chain, "ann")];
            let mut passed: usize = clients.iter_mut().map(|ann| echoes(ann, 4)).sum();
            chain.upgrade();
            passed += clients.iter_mut().map(|ann| echoes(ann, 3)).sum::<usize>();
            assert_eq!(passed, 14, "{scope} {rate}");
            chain.upgrade();
            passed += clients.iter_mut().map(|ann| echoes(ann, 9)).sum::<usize>();
            // To join is a message too, before anybody knows whose it is.
            assert!((18..=20).contains(&passed), "{scope} {rate}: {passed}");
            chain.upgrade();
            let again: usize = clients.iter_mut().map(|ann| echoes(ann, 2)).sum();
            assert_eq!(again, 0, "{scope} {rate}");
            if scope == "user" {
                let [mut new, mut other] = [of_user(&chain, "ann"), of_user(&chain, "ben")];
                assert_eq!((echoes(&mut new, 2), echoes(&mut other, 2)), (0, 2));
            }
        }
    }
}

/// Large rates are booked in lots: what a session was granted and has not booked goes along.
#[test]
fn a_large_rate_holds_over_upgrades() {
    let rates = "[rates]\naddress = \"2048/3600s\"\n[limits]\nflood_rejections_max = 60000";
    let mut chain = Chain::start(&config(rates));
    let mut long = SocketIo::connect(chain.first.addr);
    let mut passed = 1;
    for _ in 0..5 {
        passed += echoes(&mut long, 500);
        chain.upgrade();
    }
    assert!((2_048..2_064).contains(&passed), "{passed}");
}

#[test]
fn connections_of_an_address_are_counted_over_upgrades() {
    let mut chain = Chain::start(&config("[limits]\nconns_per_address_max = 4"));
    let addr = chain.first.addr;
    let clients: Vec<SocketIo> = (0..4).map(|_| SocketIo::connect(addr)).collect();
    for _ in 0..2 {
        chain.upgrade();
        let mut fifth = RawConn::websocket(addr, SOCKETIO);
        assert_eq!(fifth.close_code(PATIENCE), 1008);
    }
    drop(clients);
    let left = chain
        .first
        .metric_settles("sockeye_connections", |open| open == 0.0);
    assert_eq!(left, Ok(0.0));
    SocketIo::connect(addr);
}

#[test]
fn newcomers_of_an_address_are_counted_over_upgrades() {
    let mut chain = Chain::start(&config("[rates]\nconnects = \"6/3600s\""));
    let addr = chain.first.addr;
    let come = || RawConn::exchange(addr, poll_request("")).status;
    assert_eq!([come(), come(), come(), come()], [200; 4]);
    chain.upgrade();
    assert_eq!([come(), come(), come()], [200, 200, 429]);
    chain.upgrade();
    assert_eq!(come(), 429);
}

/// Counters and histograms of a scrape; what a process counts of itself alone is left out.
fn counters(gateway: &Gateway) -> BTreeMap<String, f64> {
    let mut all = gateway.metrics();
    all.retain(|series, _| {
        let name = series.split('{').next().unwrap_or_default();
        let counts = ["_total", "_bucket", "_sum", "_count"];
        let counts = counts.iter().any(|end| name.ends_with(end));
        counts && name != "websocket_connections_total" && !name.starts_with("process_")
    });
    all
}

#[test]
fn counters_jumped_back_with_each_upgrade() {
    let mut chain = Chain::start(&config("[rates]\nsession = \"30/3600s\""));
    let mut pair = Pair::join(&chain);
    let mut ann = SocketIo::connect(chain.first.addr);
    (0..5).for_each(|_| pair.talk());
    echoes(&mut ann, 40);
    let strange =
        "GET /socket.io/?EIO=9&transport=polling HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(RawConn::exchange(chain.first.addr, strange).status, 400);
    let left = chain
        .first
        .metric_settles("sockeye_connections", |open| open == 3.0);
    assert_eq!(left, Ok(3.0));
    let gauges = |chain: &Chain| {
        ["connections", "sessions", "sockets", "rooms"]
            .map(|name| chain.first.metric(&format!("sockeye_{name}")))
    };
    let messages = |chain: &Chain| chain.first.metric("websocket_messages_total");
    assert!(
        chain
            .first
            .reaches("sockeye_rate_limited_total{scope=\"session\"}", 11.0)
            >= 11.0
    );
    let (before, there) = (messages(&chain), gauges(&chain));
    for done in 1..=3 {
        let before = counters(&chain.first);
        assert!(before.len() > 200, "{}", before.len());
        chain.upgrade();
        let after = counters(&chain.first);
        for (series, count) in &before {
            let now = after.get(series);
            assert!(
                now.is_some_and(|now| now >= count),
                "{series}: {count}, then {now:?}"
            );
        }
        let same = eventually(PATIENCE, || gauges(&chain) == there);
        assert!(
            same,
            "upgrade {done}: {:?}, then {:?}",
            there,
            gauges(&chain)
        );
        pair.talk();
    }
    // Each talk is two messages.
    let settled = chain
        .first
        .metric_settles("websocket_messages_total", |now| now == before + 6.0);
    assert_eq!(settled, Ok(before + 6.0));
    let rated = chain
        .first
        .metric("sockeye_rate_limited_total{scope=\"session\"}");
    assert_eq!(rated, 11.0);
}

/// Nodes share a rate. One that goes on in another process has no share of its own yet, and no new burst either.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_rate_of_all_nodes_holds_over_an_upgrade_of_one() {
    let redis = Redis::start();
    let text = config(&format!(
        "[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n[auth]\nsecret = {SECRET:?}\n\
         [rates]\nuser = \"40/3600s\"\nuser_scope = \"cluster\"",
        redis.url()
    ));
    let mut chain = Chain::start(&text);
    let other = Gateway::start(&text);
    all_up_of(&[&chain.first, &other]);
    let mut ann = of_user(&chain, "ann");
    let mut passed = 0;
    for _ in 0..40 {
        passed += echoes(&mut ann, 3);
        // Shares come to whoever needs them.
        sleep(Duration::from_millis(30));
    }
    assert!((15..=40).contains(&passed), "{passed}");
    chain.upgrade();
    for _ in 0..40 {
        passed += echoes(&mut ann, 1);
        sleep(Duration::from_millis(30));
    }
    assert!(passed <= 40, "{passed}");
}
