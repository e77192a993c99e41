//! A driver on the engine in memory.

use super::*;
use crate::Start;
use crate::card::Card as Description;
use crate::member::{Joining, Member, Settings};
use crate::memory::Broker;
use cluster::frame::Epoch;
use cluster::numbers::Claim;
use hub::{Inbox, Naming, Process};
use process::health::Readiness;
use process::vitals::Vitals;
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
    member_with(broker, gauges, 7, &Readiness::default(), &Arc::default())
}

fn member_with(
    broker: &Broker,
    gauges: &Arc<Gauges>,
    number: u16,
    readiness: &Readiness,
    is_behind: &Arc<AtomicBool>,
) -> Member {
    let (readiness, is_behind) = (readiness.clone(), Arc::clone(is_behind));
    let settings = Settings {
        prefix: "test:".to_owned(),
        number: Some(number),
        card: Description::default(),
        secret: Some("secret".to_owned()),
        start: Start::Fail,
        frame_letters: 64,
        ring_bytes: 1 << 20,
        queue_bytes: 1 << 20,
        flood_always: false,
        join_wait: Duration::from_millis(50),
        naming: Naming::Nothing,
        namespaces: Vec::new(),
        succeeds: None,
    };
    let broker = broker.clone();
    let open = move || std::future::ready(Ok(broker.open()));
    let mut joining = Joining::begin(
        settings,
        Arc::clone(gauges),
        Vitals::default().pulse("the cluster"),
        open,
    )
    .expect("a thread");
    let member = joining.wait(PATIENCE).expect("no trouble");
    let mut member = member.expect("joined");
    member.open(Office {
        inbox: Inbox::new(&Process::default(), number, 1),
        shards: 1,
        deliver: Box::new(|_, _| {}),
        are_behind: Box::new(move || is_behind.load(Ordering::Relaxed)),
        sessions: Box::new(|| 0),
        readiness,
        gone: Box::new(|_, _| {}),
        foreign: None,
        shares: None,
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
        let register = Register::new("test:", &Seal::new(Some("secret")));
        let leases = runtime.block_on(register.read(&engine)).expect("leases");
        leases.iter().any(|lease| lease.claim != Claim::Free)
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

/// The next process of its number waited until its key had ended.
#[test]
fn a_node_that_ends_for_a_later_life_gives_its_number_back() {
    let broker = Broker::default();
    let mut member = member(&broker, &Arc::new(Gauges::default()));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let (engine, _feed) = broker.open();
    let seal = Seal::new(Some("secret"));
    let register = Register::new("test:", &seal);
    let claims = || runtime.block_on(register.read(&engine)).expect("leases");
    let Claim::Held(epoch) = claims()[7].claim else {
        panic!("it holds its number");
    };
    // Another node has met a later life of that number, and tells of it.
    let (entry, card) = (&claims()[8], Description::default());
    let taken = Number::take(&engine, "test:", (NodeId(8), entry), (1, &card), &seal);
    let other = runtime.block_on(taken).expect("an answer").expect("free");
    let life = |node, epoch| Peer {
        node: NodeId(node),
        epoch,
    };
    let mut later = Node::new(life(7, Epoch(epoch.0 + 1)), Limits::default());
    let mut teller = Node::new(life(8, other.epoch()), Limits::default());
    let mut ended = None;
    for step in 1..6_000 {
        for turn in 0..2 {
            let from = if turn == 0 { &mut later } else { &mut teller };
            let mut batch = Vec::new();
            from.begin(step * 10_000);
            from.take(&mut batch);
            for frame in &batch {
                if turn == 0 {
                    teller.arrived(frame.frame.to_vec());
                } else {
                    let message = Publish {
                        kind: Kind::Classic,
                        channel: b"test:{all}".as_slice().into(),
                        body: seal.close(&frame.frame),
                    };
                    drop(engine.publish(&[message]));
                }
            }
            if !batch.is_empty() {
                let from = if turn == 0 { &mut later } else { &mut teller };
                from.ended(batch, |_| true);
            }
        }
        ended = member.has_ended();
        if ended.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ended, Some(Ended::Superseded));
    assert_eq!(claims()[7].claim, Claim::Free);
    member.leave();
}

/// A shard that could not keep up with other nodes had a mailbox without end.
#[test]
fn letters_for_a_shard_that_was_behind_piled_up_in_its_mailbox() {
    let (broker, gauges) = (Broker::default(), Arc::new(Gauges::default()));
    let is_behind = Arc::new(AtomicBool::new(false));
    let mut slow = member_with(&broker, &gauges, 7, &Readiness::default(), &is_behind);
    let there = Arc::new(Gauges::default());
    let mut other = member_with(&broker, &there, 8, &Readiness::default(), &Arc::default());
    let met = |gauges: &Gauges| gauges.peers.load(Ordering::Relaxed) == 1;
    assert!(eventually(|| met(&gauges) && met(&there)));
    is_behind.store(true, Ordering::Relaxed);
    let (engine, _feed) = broker.open();
    for _ in 0..10 {
        drop(engine.publish(&[Publish {
            kind: Kind::Classic,
            channel: b"test:{n7}".as_slice().into(),
            body: b"nobody can read this".as_slice().into(),
        }]));
    }
    // Orders are looked at all the same.
    let letters = || gauges.letters.load(Ordering::Relaxed);
    let before = letters();
    slow.orders().send(Order::Drain(8)).expect("it runs");
    assert!(eventually(|| letters() > before));
    // It may have waited for one of them already.
    let taken = || gauges.unreadable.load(Ordering::Relaxed);
    assert!(taken() <= 1, "{} were taken", taken());
    is_behind.store(false, Ordering::Relaxed);
    assert!(eventually(|| taken() == 10));
    slow.leave();
    other.leave();
}

fn words(member: &Member) -> Vec<String> {
    let rows = member.roster().rows().into_iter();
    rows.map(|row| row.card.state).collect()
}

/// `sockeye nodes` listed a node as starting for up to seven seconds after it was ready: its lease was renewed, and read by others, at their
/// next round.
#[test]
fn a_node_that_was_ready_was_starting_for_others() {
    let broker = Broker::default();
    let member = |number, readiness: &Readiness| {
        let gauges = Arc::new(Gauges::default());
        member_with(&broker, &gauges, number, readiness, &Arc::default())
    };
    let mut other = member(8, &Readiness::default());
    let mut waited = Duration::ZERO;
    for number in 1..=3 {
        let readiness = Readiness::default();
        readiness.set_joining();
        let mut newcomer = member(number, &readiness);
        assert!(eventually(|| words(&other) == ["starting"]));
        let ready = Instant::now();
        readiness.set_connected(true);
        assert!(eventually(|| words(&other) == ["ready"]));
        waited += ready.elapsed();
        newcomer.leave();
        assert!(eventually(|| words(&other).is_empty()));
    }
    other.leave();
    // Each of them would have waited for its next renewal, most of five seconds later.
    assert!(waited < 2 * crate::number::RENEWAL, "{waited:?}");
}
