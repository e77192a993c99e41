//! Stores that outlive the process: what was acknowledged as stored is there after each kind of end, once.

use super::{all, call, config, is_stored, join, page, publish, say, soon};
use crate::harness::Gateway;
use crate::harness::PATIENCE;
use serde_json::json;
use servers::{Postgres, Redis, Sentinels};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn on_disk(folder: &Path, sync: &str) -> String {
    config(
        &format!("store = \"disk\"\nfolder = {folder:?}\nsync = {sync:?}"),
        "",
        "",
    )
}

/// Killed in the middle of writing, ten times, or as often as `KILLS` says.
#[test]
fn what_was_acknowledged_survives_kill_and_is_there_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let kills = std::env::var("KILLS").ok();
    let kills = kills.and_then(|kills| kills.parse().ok()).unwrap_or(10);
    let mut acknowledged = Vec::new();
    for life in 0..=kills {
        let mut node = Gateway::start(&on_disk(folder.path(), "always"));
        let stored = all(&node, "on-a");
        let missing = acknowledged.iter().find(|n| !stored.contains(n));
        assert_eq!(missing, None, "life {life}: {stored:?}");
        let grows = stored.windows(2).all(|two| two[0] < two[1]);
        assert!(
            grows,
            "life {life}: in order, and nothing twice: {stored:?}"
        );
        let mut client = join(&node, "on-a");
        for n in 1_000 * life..1_000 * life + 5 {
            assert_eq!(publish(&node, "on-a", n), is_stored());
            acknowledged.push(n);
        }
        // Nobody waits for these: some of them are on their way when it ends.
        for n in 1_000 * life + 5..1_000 * life + 55 + life {
            client.emit("say", &[json!({"room": "on-a", "n": n})]);
        }
        std::thread::sleep(Duration::from_millis(life % 10));
        node.kill();
    }
}

/// An orderly end stores what waits.
#[test]
fn an_orderly_end_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut node = Gateway::start(&on_disk(folder.path(), "os"));
    let mut client = join(&node, "on-a");
    for n in 0..200 {
        client.emit("say", &[json!({"room": "on-a", "n": n})]);
    }
    while client.next_named("say").args[0]["n"] != 199 {}
    node.terminate();
    assert!(
        node.exit_status(PATIENCE)
            .is_some_and(|status| status.success())
    );
    drop(node);
    let node = Gateway::start(&on_disk(folder.path(), "os"));
    assert_eq!(all(&node, "on-a"), (0..200).collect::<Vec<_>>());
}

/// Two processes with one folder: the second says so and ends.
#[test]
fn a_folder_has_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = on_disk(folder.path(), "os");
    let _first = Gateway::start(&text);
    let said = fails_to_start(&text);
    assert!(said.contains("history"), "{said}");
}

/// What a gateway says that ends at once.
fn fails_to_start(config: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sockeye.toml");
    std::fs::write(&file, config).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--config",
    ]);
    let output = command.arg(&file).output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    said
}

/// A server that stops and comes back: events wait, programs that wait are told, and nothing is there twice.
fn outage(mut stop: impl FnMut(), mut start: impl FnMut(), history: &str) {
    let node = Gateway::start(&config(history, "", ""));
    let mut client = join(&node, "on-a");
    say(&mut client, "on-a", 0);
    soon("the first is stored", || all(&node, "on-a") == [0]);
    stop();
    for n in 1..50 {
        // Members get it all the same.
        say(&mut client, "on-a", n);
    }
    let began = Instant::now();
    let (status, answer) = publish(&node, "on-a", 50);
    assert_eq!(status, 504, "{answer}");
    assert!(
        answer["detail"]
            .to_string()
            .contains("not known to be stored"),
        "{answer}"
    );
    assert!(began.elapsed() < Duration::from_secs(30));
    assert!(node.metric("sockeye_history_waiting_bytes") > 0.0);
    start();
    let expected: Vec<u64> = (0..=50).collect();
    soon("what waited is stored", || {
        let (status, _) = call(&node, "GET", "/v1/history?room=on-a", &json!(null));
        status == 200 && all(&node, "on-a") == expected
    });
    assert!(node.metric("sockeye_history_failures_total") > 0.0);
    soon("it is not away any more", || {
        node.metric("sockeye_history_away_seconds") == 0.0
    });
    assert_eq!(
        page(&node, "room=on-a&limit=1")["events"][0]["args"][0]["n"],
        50
    );
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn redis_may_stop_and_come_back() {
    let redis = std::cell::RefCell::new(Redis::start_with(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ]));
    let url = redis.borrow().url();
    let history = format!("store = \"redis\"\nurl = {url:?}");
    outage(
        || redis.borrow_mut().kill(),
        || redis.borrow_mut().restart(),
        &history,
    );
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test foreign"]
fn postgres_may_stop_and_come_back() {
    let postgres = std::cell::RefCell::new(Postgres::start());
    let url = postgres.borrow().url();
    let history = format!("store = \"postgres\"\nurl = {url:?}");
    outage(
        || postgres.borrow_mut().kill(),
        || postgres.borrow_mut().restart(),
        &history,
    );
}

/// A failover takes nothing that was acknowledged, and nothing is there twice.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn sentinels_may_choose_another_master() {
    let mut set = Sentinels::start(1_000);
    let urls: Vec<String> = set
        .addrs()
        .iter()
        .map(|addr| format!("redis://{addr}"))
        .collect();
    let (urls, master) = (urls.join(","), set.name());
    let history = format!(
        "store = \"redis\"\nurl = {urls:?}\n[history.redis]\nmode = \"sentinel\"\nmaster = {master:?}"
    );
    let node = Gateway::start(&config(&history, "", ""));
    for n in 0..50 {
        assert_eq!(publish(&node, "on-a", n), is_stored());
    }
    // What nobody acknowledged is tried again until the new master and its replica have it.
    set.servers[0].kill();
    for n in 50..60 {
        let (status, answer) = publish(&node, "on-a", n);
        assert!(matches!(status, 202 | 504), "{status} {answer}");
    }
    set.servers[0].restart();
    soon("all is stored", || {
        let (status, _) = call(&node, "GET", "/v1/history?room=on-a", &json!(null));
        status == 200 && all(&node, "on-a") == (0..60).collect::<Vec<_>>()
    });
    assert_eq!(set.master(), Some(1));
}

/// Over TLS, with certificates of both sides.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn redis_is_reached_over_tls() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
    let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let prepare = |folder: &Path| {
        std::fs::write(folder.join("c.pem"), &pem).expect("write");
        std::fs::write(folder.join("c.key"), &key).expect("write");
    };
    let redis = Redis::prepare_tls(prepare, "c.pem", "c.key");
    let url = format!("rediss://{}", redis.addr());
    let (pem, key) = (redis.folder().join("c.pem"), redis.folder().join("c.key"));
    let history = |more: &str| format!("store = \"redis\"\nurl = {url:?}\n{more}");
    let files = format!("[history.redis]\ntls_ca = {pem:?}\ntls_cert = {pem:?}\ntls_key = {key:?}");
    let node = Gateway::start(&config(&history(&files), "", ""));
    assert_eq!(publish(&node, "on-a", 7), is_stored());
    assert_eq!(all(&node, "on-a"), [7]);
    let said = fails_to_start(&config(&history(""), "", ""));
    assert!(
        said.contains("history.store") && said.contains("TLS"),
        "{said}"
    );
}

/// Without the server nothing starts, and the reason is named.
#[test]
fn a_store_that_cannot_be_reached_at_the_start_is_named() {
    let [port] = servers::free_ports();
    for store in ["redis", "postgres"] {
        let url = format!("{store}://127.0.0.1:{port}");
        let said = fails_to_start(&config(
            &format!("store = {store:?}\nurl = {url:?}"),
            "",
            "",
        ));
        assert!(said.contains("history.store"), "{store}: {said}");
    }
}
