//! The queue before a store: order, bounds, waiters, and a store that is away.

use crate::{Ground, all, event, numbers, postgres, redis};
use history::{Event, Figures, Intake, Kind, Memory, Plan, Store, Way};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

async fn settles(intake: &Intake, wanted: impl Fn(&Figures) -> bool) {
    for _ in 0..3_000 {
        if wanted(&intake.figures()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("waited in vain: {:?}", intake.figures());
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_stored_in_order_and_everybody_is_told() {
    let store: Arc<dyn Store> = Arc::new(Memory::new(crate::plan(), 1 << 30));
    let intake = Intake::new(Arc::clone(&store), 64 << 20, 1);
    let mut told = Vec::new();
    for n in 0..5_000 {
        let (waiter, wait) = oneshot::channel();
        intake.push(event("a", n), Some(waiter));
        told.push(wait);
    }
    let mut last = None;
    for wait in told {
        let at = wait.await.expect("told").expect("stored");
        assert!(Some(at) > last);
        last = Some(at);
    }
    assert_eq!(
        numbers(&all(&*store, "a", Way::Forward, 1_000).await),
        (0..5_000).collect::<Vec<_>>()
    );
    let figures = intake.figures();
    assert_eq!(
        (figures.stored, figures.waiting_bytes, figures.dropped),
        (5_000, 0, 0)
    );
}

/// An event that the store never takes costs no other event.
#[tokio::test(flavor = "multi_thread")]
async fn a_poison_event_is_refused_alone() {
    let store: Arc<dyn Store> = Arc::new(Memory::new(crate::plan(), 1 << 30));
    let intake = Intake::new(Arc::clone(&store), 64 << 20, 1);
    let (waiter, wait) = oneshot::channel();
    for n in 0..10 {
        intake.push(event("a", n), None);
    }
    let poison = Event {
        namespace: "/unknown".to_owned(),
        ..event("a", 10)
    };
    intake.push(poison, Some(waiter));
    for n in 11..20 {
        intake.push(event("a", n), None);
    }
    assert_eq!(
        wait.await.expect("told").expect_err("refused").kind(),
        Kind::Refused
    );
    settles(&intake, |figures| figures.stored == 19).await;
    assert_eq!(intake.figures().refused, 1);
    let expected: Vec<u64> = (0..20).filter(|n| *n != 10).collect();
    assert_eq!(
        numbers(&all(&*store, "a", Way::Forward, 100).await),
        expected
    );
}

/// Above the bound events are dropped and told so; below it the others wait.
async fn outage(mut ground: Ground) {
    let store = ground.open().await;
    let intake = Intake::new(Arc::clone(&store), 100_000, 1);
    intake.push(event("a", 0), None);
    settles(&intake, |figures| figures.stored == 1).await;
    match &mut ground {
        Ground::Postgres(server) => server.kill(),
        Ground::Redis(server) => server.kill(),
        Ground::Memory | Ground::Disk(_) => unreachable!("it has no server"),
    }
    let large = |n| Event {
        args: format!("{n},\"{}\"", "x".repeat(10_000)),
        ..event("a", n)
    };
    let mut waits = Vec::new();
    for n in 1..20 {
        let (waiter, wait) = oneshot::channel();
        intake.push(large(n), Some(waiter));
        waits.push((n, wait));
    }
    settles(&intake, |figures| figures.failures > 0).await;
    let figures = intake.figures();
    assert!(
        figures.waiting_bytes <= 100_000 && figures.dropped >= 9,
        "{figures:?}"
    );
    match &mut ground {
        Ground::Postgres(server) => server.restart(),
        Ground::Redis(server) => server.restart(),
        Ground::Memory | Ground::Disk(_) => {}
    }
    let mut expected = vec![0];
    for (n, wait) in waits {
        match wait.await.expect("told") {
            Ok(_) => expected.push(n),
            Err(fault) => assert_eq!(fault.kind(), Kind::Full, "{fault}"),
        }
    }
    assert_eq!(expected.len() as u64, 20 - figures.dropped);
    assert_eq!(
        numbers(&all(&*store, "a", Way::Forward, 100).await),
        expected
    );
    assert_eq!(intake.figures().away_seconds, 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask test foreign"]
async fn postgres_may_be_away() {
    outage(postgres().await.ground).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn redis_may_be_away() {
    outage(redis().await.ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_after_the_end_is_told() {
    let store: Arc<dyn Store> = Arc::new(Memory::new(Plan::default(), 1));
    let intake = Intake::new(store, 1 << 20, 1);
    intake.close(Duration::from_secs(1)).await;
    let (waiter, wait) = oneshot::channel();
    intake.push(event("a", 1), Some(waiter));
    assert_eq!(
        wait.await.expect("told").expect_err("closed").kind(),
        Kind::Closed
    );
}
