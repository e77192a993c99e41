//! A driver on the engine in memory.

use super::*;
use crate::cluster::card::Card as Description;
use crate::cluster::member::{Member, Settings};
use crate::cluster::memory::Broker;
use crate::health::Readiness;
use crate::vitals::Vitals;
use hub::{Inbox, Naming, Process};
use std::sync::atomic::AtomicBool;

const PATIENCE: Duration = Duration::from_secs(60);

fn eventually(is: impl Fn() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while !is() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

fn member(broker: &Broker, gauges: &Arc<Gauges>) -> Member {
    let settings = Settings {
        prefix: "test:".to_owned(),
        number: Some(7),
        card: Description::default(),
        secret: Some("secret".to_owned()),
        frame_letters: 64,
        ring_bytes: 1 << 20,
        queue_bytes: 1 << 20,
        flood_always: false,
        join_wait: Duration::from_millis(50),
        naming: Naming::Nothing,
    };
    let broker = broker.clone();
    let open = || async move { Ok(broker.open()) };
    let mut member = Member::join(
        settings,
        Arc::clone(gauges),
        Vitals::default().pulse("the cluster"),
        open,
    )
    .expect("joined");
    member.open(Office {
        inbox: Inbox::new(&Process::default(), 7, 1),
        shards: 1,
        deliver: Box::new(|_, _| {}),
        sessions: Box::new(|| 0),
        readiness: Readiness::default(),
        gone: Box::new(|_, _| {}),
        foreign: None,
    });
    member
}

/// While messages came faster than they were read, nothing else was looked at: the node did not renew its lease, and did not leave.
#[test]
fn a_flood_of_messages_kept_a_node_from_leaving() {
    let (broker, gauges) = (Broker::default(), Arc::new(Gauges::default()));
    let mut member = member(&broker, &gauges);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let (engine, _feed) = broker.open();
    let message = Publish {
        kind: Kind::Classic,
        channel: b"test:{all}".as_slice().into(),
        body: vec![0; 64 * 1024].into(),
    };
    let has_lease = || {
        let keys = number::keys("test:");
        let holders = runtime.block_on(engine.holders(&keys)).expect("leases");
        holders.iter().any(Option::is_some)
    };
    assert!(has_lease());
    let over = Arc::new(AtomicBool::new(false));
    let floods = [0; 2].map(|_| {
        let (engine, message, over) = (engine.clone(), message.clone(), Arc::clone(&over));
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                drop(engine.publish(std::slice::from_ref(&message)));
            }
        })
    });
    // More than may wait for a node: from now on some always do.
    let flooded = || gauges.unreadable.load(Ordering::Relaxed) > 2_000;
    let flooded = eventually(flooded);
    member.leave();
    let left = eventually(|| !has_lease());
    over.store(true, Ordering::Relaxed);
    for flood in floods {
        flood.join().expect("a flood");
    }
    assert!(flooded && left, "flooded: {flooded}, left: {left}");
}
