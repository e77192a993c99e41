//! The log under pressure: nobody reads it, or strangers want to fill it.

use crate::harness::client::SOCKETIO;
use crate::harness::{Ended, Gateway, PATIENCE, Plain, RawConn, SocketIo, eventually};
use serde_json::{Value, json};
use std::time::Duration;

const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 2\npin = false\n\
    [namespaces.\"/\".events.echo]\naction = \"reply\"\n";

/// Clients notice nothing, the loss is counted, and told once somebody reads again.
#[test]
fn a_log_that_nobody_reads_costs_lines_and_nothing_else() {
    let gateway = Gateway::start(CONFIG);
    let mut client = SocketIo::connect(gateway.addr);
    let unread = gateway.stop_reading_the_log();
    let lost = eventually(Duration::from_secs(60), || {
        for _ in 0..500 {
            drop(Plain::connect(gateway.addr));
        }
        // Each question is answered within the harness' patience, or this panics.
        assert_eq!(client.ask(1, &json!(["echo", "here"])), json!(["here"]));
        gateway.metric("sockeye_log_lines_dropped_total") > 100.0
    });
    assert!(
        lost,
        "{} lines lost",
        gateway.metric("sockeye_log_lines_dropped_total")
    );
    drop(unread);
    assert!(
        gateway.logged("log lines dropped", PATIENCE),
        "nobody was told"
    );
    let told: f64 = gateway.log().iter().filter_map(|line| told(line)).sum();
    assert!(told > 100.0, "{told}");
    for line in gateway.log() {
        let parsed = serde_json::from_str::<Value>(&line);
        assert!(parsed.is_ok(), "{line}");
    }
}

fn told(line: &str) -> Option<f64> {
    let line: Value = serde_json::from_str(line).ok()?;
    let message = line["message"].as_str()?;
    message
        .ends_with("lines dropped")
        .then(|| line["count"].as_f64())?
}

const STRANGERS: usize = 2_000;

/// Attack A11: whoever is refused again and again gets a hundred lines a second, and then a number.
#[test]
fn a_flood_of_refusals_is_counted_instead_of_logged() {
    let gateway = Gateway::start(CONFIG);
    // Sessions without a socket that will speak nonsense, all at once: far more than a hundred a second on any machine.
    let mut strangers: Vec<_> = (0..STRANGERS)
        .map(|_| RawConn::websocket(gateway.addr, SOCKETIO))
        .collect();
    let started = std::time::Instant::now();
    for stranger in &mut strangers {
        stranger.try_send(b"\x81\x01x");
    }
    for stranger in &mut strangers {
        assert_ne!(stranger.ended(PATIENCE), Ended::Open);
    }
    let refused = |gateway: &Gateway| {
        let log = gateway.log();
        log.iter()
            .filter(|line| line.contains("\"refused\"") && line.contains("peer"))
            .count()
    };
    let settled = eventually(PATIENCE, || {
        let suppressed = gateway.metric("sockeye_log_lines_suppressed_total");
        refused(&gateway) as f64 + suppressed == STRANGERS as f64
    });
    let lines = refused(&gateway);
    let suppressed = gateway.metric("sockeye_log_lines_suppressed_total");
    assert!(settled, "{lines} lines, {suppressed} suppressed");
    let seconds = started.elapsed().as_secs() as usize + 2;
    assert!(lines <= 100 * seconds, "{lines} lines in {seconds} s");
    assert!(lines < STRANGERS / 2, "{lines} lines of {STRANGERS}");
    assert!(
        gateway.logged("\"suppressed\"", PATIENCE),
        "nobody was told"
    );
}
