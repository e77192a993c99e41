//! What workers cost those beside them: slow ones, one that reads nothing, and memory for each socket.

use super::account::keep;
use super::crowd::{Crowd, Manners};
use super::{Account, Delays, Scene, ms, pause, record, setting};
use crate::harness::{Gateway, PATIENCE, eventually};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Settling, and the crowd of slow callers that comes.
const SETTLED: Duration = Duration::from_secs(2);

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_hundred_slow_calls_of_a_worker_hold_up_no_other_namespace() {
    let mut scene = Scene::open("[namespaces.\"/slow\"]\nbackend = \"kitchen\"");
    let _worker = scene.worker();
    let crowd = scene.crowd();
    crowd.speak();
    sleep(pause());
    let half = Duration::from_secs(setting("WORKERS_HALF", 2).into());
    let window = || {
        sleep(SETTLED);
        let from = Instant::now();
        sleep(half);
        from
    };
    // Alone, beside, alone, beside … alone: what changes with time is in both neighbours of each window.
    let mut alone = vec![window()];
    let mut beside = Vec::new();
    for _ in 0..setting("WORKERS_PAIRS", 1) {
        // Each asks as soon as it is answered, so a hundred are always under way.
        let slow = Crowd::enter(Manners {
            addr: scene.kitchen.gateway.addr,
            namespace: "/slow",
            clients: 100,
            per_second: 50,
            event: "slow",
        });
        slow.speak();
        beside.push(window());
        let lives = slow.end();
        assert_eq!(Account::of(&lives, &[]).unanswered, 0);
        alone.push(window());
    }
    let (account, lives) = scene.end(crowd);
    let p99 = |from: &Instant| {
        let within = |due: Instant| due >= *from && due < *from + half;
        ms(Delays::of(&lives, |said, _| within(said.due)).permille(990))
    };
    let alone: Vec<f64> = alone.iter().map(p99).collect();
    for (beside, neighbours) in beside.iter().map(p99).zip(alone.windows(2)) {
        let alone = f64::midpoint(neighbours[0], neighbours[1]);
        let numbers = [
            ("alone_p99_ms", alone),
            ("beside_p99_ms", beside),
            ("ratio", beside / alone),
            ("alone_again_ratio", neighbours[1] / neighbours[0]),
        ];
        keep("slow", &numbers);
    }
    let once = account.marked == 0 && account.refused == 0;
    assert!(account.is_clean() && once, "{account:?}");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_worker_that_reads_nothing_costs_a_bounded_amount_and_is_left_behind() {
    let mut scene = Scene::open("silent_after = \"5s\"");
    let frozen = scene.worker();
    let crowd = scene.crowd();
    let _heir = scene.worker();
    crowd.speak();
    sleep(pause());
    let gateway = &scene.kitchen.gateway;
    let before = gateway.memory();
    let moment = Instant::now();
    frozen.freeze();
    let mut kept: f64 = 0.0;
    let alone = || {
        kept = kept.max(scene.kitchen.metric("sockeye_backend_kept_bytes"));
        scene.kitchen.metric("sockeye_backend_workers") == 1.0
    };
    assert!(eventually(2 * PATIENCE, alone), "it is sent away");
    let cut_off = moment.elapsed();
    scene.all_have_workers();
    sleep(pause());
    let grown = gateway.peak_memory().saturating_sub(before);
    let moved = scene.kitchen.metric("sockeye_backend_moved_total");
    let (account, lives) = scene.end(crowd);
    let window = Duration::from_secs(5);
    record("frozen", &account, &Delays::around(&lives, moment, window));
    let numbers = [
        ("kept_bytes", kept),
        ("grown_bytes", grown as f64),
        ("moved", moved),
        ("cut_off_ms", ms(cut_off)),
    ];
    keep("frozen", &numbers);
    assert!(account.is_clean() && account.refused == 0, "{account:?}");
    assert!(
        moved >= f64::from(setting("WORKERS_CLIENTS", 200)),
        "{moved}"
    );
    assert!(kept > 0.0 && kept <= f64::from(64 << 20), "{kept}");
}

/// Bytes for each of these clients, of a gateway without a backend.
fn without_a_backend(clients: u32) -> f64 {
    let config = "profile = \"socket.io\"\n[server]\nshards = 4";
    let gateway = Gateway::start(config);
    let before = gateway.own_memory();
    let crowd = Crowd::enter(silent(&gateway, clients));
    let grown = gateway.own_memory().saturating_sub(before);
    crowd.end();
    grown as f64 / f64::from(clients)
}

fn silent(gateway: &Gateway, clients: u32) -> Manners {
    Manners {
        addr: gateway.addr,
        namespace: "/",
        clients,
        per_second: 1,
        event: "count",
    }
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_socket_of_a_worker_takes_little_memory_at_both_ends() {
    let clients = setting("WORKERS_CLIENTS", 1_000);
    let mut scene = Scene::open("");
    let worker = scene.worker();
    let gateway = &scene.kitchen.gateway;
    let (before, [heap, resident]) = (gateway.own_memory(), worker.memory());
    let crowd = Crowd::enter(silent(gateway, clients));
    let with = gateway.own_memory().saturating_sub(before) as f64 / f64::from(clients);
    let [heap_after, resident_after] = worker.memory();
    crowd.end();
    let each = |after: u64, before: u64| after.saturating_sub(before) as f64 / f64::from(clients);
    let heap = each(heap_after, heap);
    let numbers = [
        ("gateway_bytes", with),
        ("without_backend_bytes", without_a_backend(clients)),
        ("node_heap_bytes", heap),
        ("node_resident_bytes", each(resident_after, resident)),
    ];
    keep(
        "memory",
        &numbers.map(|(name, bytes)| (name, bytes.round())),
    );
    assert!(
        with < 32_768.0 && (1.0..16_384.0).contains(&heap),
        "{numbers:?}"
    );
}
