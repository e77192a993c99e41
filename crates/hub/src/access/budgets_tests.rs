//! Rates and places of a limit that all nodes keep: what a shard gives out of its share.

use super::*;
use crate::access::meters::{Meters, Sender};
use crate::books::config::{ClusterScope, Rate};
use std::time::Duration;

const NOW: u64 = 1_000_000_000;
const SECOND: u64 = 1_000_000;

fn config() -> Config {
    let mut config = Config::default();
    config.limits.conns_per_address_max = 20;
    config.rates.user = Some(Rate::new(60, Duration::from_secs(60)));
    config.cluster_scope = ClusterScope {
        conns_per_address: true,
        user: true,
        ..ClusterScope::default()
    };
    config
}

/// One node's limits.
fn node() -> (Arc<Budgets>, Meters) {
    let (config, addresses) = (config(), Arc::default());
    let table = Arc::new(Shared::new(&config.rates));
    let budgets = Budgets::new(&config, &addresses, &table).map(Arc::new);
    let meters = Meters::new(&config.rates, table).sharing(budgets.clone());
    (budgets.expect("shared limits"), meters)
}

fn passed(meters: &Meters, tries: u32, now_us: u64) -> usize {
    let sender = Sender {
        user: Some("ann"),
        address: [127, 0, 0, 1].into(),
    };
    let tries = (0..tries).map(|_| meters.book(sender, now_us, 0));
    tries.filter(Result::is_ok).count()
}

#[test]
fn only_what_is_asked_for_is_shared() {
    let (budgets, _) = node();
    let kinds = budgets.kinds();
    assert_eq!(kinds[..2], [(20, false); 2]);
    assert_eq!(kinds[2..6], [(0, false); 4]);
    assert_eq!(kinds[6], (60, true));
    let alone = Budgets::new(&Config::default(), &Arc::default(), &Arc::default());
    assert!(alone.is_none());
}

#[test]
fn an_address_near_its_rest_share_is_marked_once() {
    let (budgets, _) = node();
    budgets.set_rest(0, 6);
    budgets.set_rest(1, 6);
    let four: IpAddr = "::ffff:10.0.0.1".parse().expect("an address");
    let same: IpAddr = "10.0.0.1".parse().expect("an address");
    let six: IpAddr = "2001:db8:1:2::1".parse().expect("an address");
    let neighbour: IpAddr = "2001:db8:1:2:ffff::9".parse().expect("an address");
    for (address, count) in [
        (four, 1),
        (four, 3),
        (four, 4),
        (same, 5),
        (six, 4),
        (neighbour, 5),
    ] {
        assert_eq!(budgets.conns_of(address, count), Some(6));
    }
    let mut marks = budgets.take_marks();
    marks.sort_unstable();
    assert_eq!(marks, [(0, 0x0a00_0001), (1, 0x2001_0db8_0001_0002)]);
    assert_eq!(budgets.take_marks(), []);
    // With a share of its own it is marked no more, and whom it has no room for is counted.
    budgets.set_share((0, 0x0a00_0001), 8, NOW);
    assert_eq!(budgets.conns_of(same, 9), Some(8));
    budgets.addresses.enter(same);
    assert_eq!(budgets.usage((0, 0x0a00_0001), NOW), (1, 1));
    assert_eq!(budgets.usage((0, 0x0a00_0001), NOW), (1, 0));
    budgets.forget((0, 0x0a00_0001), NOW);
    assert_eq!(budgets.conns_of(same, 9), Some(6));
}

/// `0.0.0.0/8` of IPv4 and the first /64 of IPv6 have the same number.
#[test]
fn addresses_of_both_families_never_are_one() {
    let (budgets, _) = node();
    let (four, six) = ([0, 0, 0, 1].into(), Ipv6Addr::LOCALHOST.into());
    assert_ne!(of_address(CONNS, four), of_address(CONNS, six));
    for address in [four, six, "fe80::1".parse().expect("an address")] {
        assert_eq!(
            address_of(of_address(CONNS, address)),
            Some(holder(address))
        );
    }
    // Whatever a stranger names is at most nobody's.
    for key in [(0, u64::MAX), (6, 1), (7, 1), (99, 1), (255, u64::MAX)] {
        assert_eq!(budgets.usage(key, NOW), (0, 0), "{key:?}");
    }
}

#[test]
fn a_share_of_a_rate_grows_and_shrinks_without_a_gift_or_a_loss() {
    let (budgets, meters) = node();
    let key = budgets.user_key("ann").expect("a key");
    budgets.set_rest(USER, 20);
    assert_eq!(passed(&meters, 100, NOW), 20);
    assert_eq!(budgets.take_marks(), [key]);
    assert_eq!(budgets.usage(key, NOW).0, 20);
    // The other two thirds come here: as many more, and not a whole rate.
    budgets.set_share(key, 60, NOW);
    assert_eq!(budgets.usage(key, NOW).0, 20);
    assert_eq!(passed(&meters, 100, NOW), 40);
    assert_eq!(budgets.usage(key, NOW), (60, 60));
    // It comes back one a second, of which another node gets half.
    assert_eq!(passed(&meters, 100, NOW + 10 * SECOND), 10);
    budgets.set_share(key, 30, NOW + 30 * SECOND);
    let used = budgets.usage(key, NOW + 30 * SECOND).0;
    assert_eq!(
        used, 40,
        "more than its share: it waits until some has come back"
    );
    assert_eq!(passed(&meters, 100, NOW + 30 * SECOND), 0);
    assert_eq!(passed(&meters, 100, NOW + 51 * SECOND), 0);
    assert_eq!(passed(&meters, 100, NOW + 53 * SECOND), 1);
    assert_eq!(passed(&meters, 100, NOW + 63 * SECOND), 5);
    // Another node has all of it.
    budgets.set_share(key, 0, NOW + 63 * SECOND);
    assert_eq!(passed(&meters, 100, NOW + 64 * SECOND), 0);
    assert_eq!(budgets.usage(key, NOW + 64 * SECOND).1, 494);
    // Nobody names it any more.
    budgets.forget(key, NOW + 600 * SECOND);
    assert_eq!(passed(&meters, 100, NOW + 600 * SECOND), 20);
}

/// 41 messages of 40 passed: the one that was booked while the key got its own share was lost, and so was a part of one that was booked while the
/// share grew.
#[test]
fn what_is_booked_while_a_share_comes_and_grows_counts() {
    for round in 0..1_000 {
        let (budgets, meters) = node();
        let key = budgets.user_key("ann").expect("a key");
        budgets.set_rest(USER, 15);
        let begun = AtomicBool::new(false);
        let all = std::thread::scope(|scope| {
            let booked = scope.spawn(|| {
                begun.store(true, Ordering::Release);
                passed(&meters, 300, NOW)
            });
            while !begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            for share in [20, 30, 45, 60] {
                for _ in 0..round % 40 {
                    std::hint::spin_loop();
                }
                budgets.set_share(key, share, NOW);
            }
            booked.join().expect("a shard")
        });
        assert!(all + passed(&meters, 100, NOW) <= 60, "{all}");
    }
}

#[test]
fn marks_have_a_bound() {
    let (budgets, _) = node();
    for n in 0..100_000_u32 {
        budgets.conns_of(IpAddr::V4(n.into()), 20);
    }
    assert_eq!(budgets.take_marks().len(), MARKS);
}
