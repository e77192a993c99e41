//! The same for all four stores.

use crate::{Ground, Rig, all, append, ask, event, now_ms, numbers, page};
use history::{Ask, Batch, Event, Forget, Kind, Position, Shed, Usage, Way};

/// Makes one test for each store of each promise.
macro_rules! promises {
    ($($promise:ident),* $(,)?) => {
        promises!(@store memory: $($promise),*);
        promises!(@store disk: $($promise),*);
        promises!(@store postgres "needs PostgreSQL: cargo xtask test foreign": $($promise),*);
        promises!(@store redis "needs Redis: cargo xtask test foreign": $($promise),*);
    };
    (@store $store:ident $($needs:literal)?: $($promise:ident),*) => {
        promises!(@all $store [$($needs)?] $($promise)*);
    };
    (@all $store:ident $needs:tt $($promise:ident)*) => {
        mod $store {
            $(promises!(@one $store $needs $promise);)*
        }
    };
    (@one $store:ident [$($needs:literal)?] $promise:ident) => {
            #[tokio::test(flavor = "multi_thread")]
            $(#[ignore = $needs])?
            async fn $promise() {
                super::$promise(crate::$store().await).await;
            }
    };
}

promises! {
    pages_show_everything_once_and_in_order,
    a_batch_that_is_tried_again_is_stored_once,
    places_grow_when_the_clock_goes_back,
    names_may_be_anything,
    pages_are_bounded_in_bytes,
    a_room_keeps_what_it_may,
    what_is_too_old_goes,
    what_is_forgotten_is_gone,
    what_is_not_planned_is_refused,
    users_and_arguments_come_back_as_they_were,
    it_is_all_there_when_it_is_opened_again,
    several_writers_lose_nothing,
    the_oldest_of_a_namespace_make_way,
}

/// At every size of a page, both ways; rooms do not mix.
async fn pages_show_everything_once_and_in_order(rig: Rig) {
    let store = &*rig.store;
    assert_eq!(page(store, ask("empty")).await.events, []);
    for n in 0..40 {
        append(
            store,
            vec![event("a", 2 * n), event("b", n), event("a", 2 * n + 1)],
        )
        .await;
    }
    let expected: Vec<u64> = (0..80).collect();
    for events_max in [1, 2, 3, 31, 32, 33, 79, 80, 81, 1_000] {
        let forward = all(store, "a", Way::Forward, events_max).await;
        assert_eq!(numbers(&forward), expected, "{events_max}");
        let mut backward = all(store, "a", Way::Backward, events_max).await;
        backward.reverse();
        assert_eq!(backward, forward, "{events_max}");
    }
    let events = all(store, "a", Way::Forward, 1_000).await;
    assert!(events.is_sorted_by(|one, other| one.at < other.at));
    // Between two places, and outside of all.
    let (after, before) = (Some(events[10].at), Some(events[20].at));
    let between = page(
        store,
        Ask {
            after,
            before,
            ..ask("a")
        },
    )
    .await;
    assert_eq!(numbers(&between.events), (11..20).collect::<Vec<_>>());
    assert_eq!(between.next, None);
    let before = Some(Position::START);
    assert_eq!(page(store, Ask { before, ..ask("a") }).await.events, []);
    let way = Way::Backward;
    assert_eq!(
        page(
            store,
            Ask {
                before,
                way,
                ..ask("a")
            }
        )
        .await
        .events,
        []
    );
    let after = Some(Position::from_u64(i64::MAX as u64));
    assert_eq!(page(store, Ask { after, ..ask("a") }).await.events, []);
    // By time.
    let after = Some(Position::at_time(events[0].event.time_ms).before());
    assert_eq!(
        page(store, Ask { after, ..ask("a") }).await.events.len(),
        80
    );
}

async fn a_batch_that_is_tried_again_is_stored_once(rig: Rig) {
    let batch = Batch {
        writer: u64::MAX,
        number: 1,
        events: vec![event("a", 1), event("b", 1), event("a", 2)],
    };
    let first = rig.store.append(&batch).await.expect("stored");
    let again = rig.store.append(&batch).await.expect("stored");
    assert_eq!(first, again);
    let next = Batch {
        number: 2,
        ..batch.clone()
    };
    assert_ne!(rig.store.append(&next).await.expect("stored"), first);
    // The first attempt, given up long ago, comes late: its events are there already.
    rig.store
        .append(&batch)
        .await
        .expect_err("it came too late");
    // Another writer with the same numbers is another.
    let other = Batch { writer: 1, ..batch };
    rig.store.append(&other).await.expect("stored");
    assert_eq!(
        numbers(&all(&*rig.store, "a", Way::Forward, 100).await),
        [1, 2, 1, 2, 1, 2]
    );
}

async fn places_grow_when_the_clock_goes_back(rig: Rig) {
    let mut places = Vec::new();
    let now = now_ms();
    for time_ms in [now, now - 10_000, now, now - 500_000, now + 5] {
        let event = Event {
            time_ms,
            ..event("a", time_ms)
        };
        places.extend(append(&*rig.store, vec![event.clone(), event]).await);
    }
    assert!(places.is_sorted_by(|one, other| one < other), "{places:?}");
    let events = all(&*rig.store, "a", Way::Forward, 3).await;
    let stored: Vec<Position> = events.iter().map(|kept| kept.at).collect();
    assert_eq!(stored, places);
    assert_eq!(
        events[2].event.time_ms,
        now - 10_000,
        "its own time is kept"
    );
}

async fn names_may_be_anything(rig: Rig) {
    let long = "x".repeat(10_000);
    let names = [
        "",
        " ",
        "a",
        "ab",
        "*",
        "%",
        "_",
        "a:b",
        "{x}",
        "é😀",
        "\u{1}",
        "'; drop table x; --",
        &long,
    ];
    for (n, name) in (0..).zip(names) {
        append(&*rig.store, vec![event(name, n)]).await;
    }
    for (n, name) in (0..).zip(names) {
        assert_eq!(
            numbers(&all(&*rig.store, name, Way::Backward, 10).await),
            [n],
            "{name:.20}"
        );
    }
    let gone = Forget::Room {
        namespace: "/".to_owned(),
        room: "%".to_owned(),
    };
    assert_eq!(rig.store.forget(gone).await, Ok(1));
    assert_eq!(numbers(&all(&*rig.store, "a", Way::Forward, 10).await), [2]);
}

async fn pages_are_bounded_in_bytes(rig: Rig) {
    let large = |n| Event {
        args: format!("{n},\"{}\"", "x".repeat(10_000)),
        ..event("a", n)
    };
    for n in 0..20 {
        append(&*rig.store, vec![large(n)]).await;
    }
    for way in [Way::Forward, Way::Backward] {
        let bytes_max = 35_000;
        let first = page(
            &*rig.store,
            Ask {
                way,
                bytes_max,
                ..ask("a")
            },
        )
        .await;
        assert_eq!(first.events.len(), 3);
        assert_eq!(first.next, first.events.last().map(|kept| kept.at));
        // One is given however large it is.
        let one = page(
            &*rig.store,
            Ask {
                way,
                bytes_max: 1,
                ..ask("a")
            },
        )
        .await;
        assert_eq!((one.events.len(), one.next.is_some()), (1, true));
    }
}

async fn a_room_keeps_what_it_may(rig: Rig) {
    let store = &*rig.store;
    for n in 0..12 {
        append(store, vec![event("few-a", n), event("other", n)]).await;
    }
    append(store, (12..20).map(|n| event("few-a", n)).collect()).await;
    store.trim(now_ms()).await.expect("trimmed");
    assert_eq!(
        numbers(&all(store, "few-a", Way::Forward, 2).await),
        [15, 16, 17, 18, 19]
    );
    assert_eq!(all(store, "other", Way::Forward, 100).await.len(), 12);
    // One that is silent meanwhile is as it was.
    store.trim(now_ms()).await.expect("trimmed");
    assert_eq!(all(store, "few-a", Way::Forward, 100).await.len(), 5);
    if matches!(rig.ground, Ground::Redis(_)) {
        // It has no bound in bytes: docs/history.md says so.
        return;
    }
    let bytes = event("small-a", 0).bytes() as u64;
    for n in 0..100 {
        append(store, vec![event("small-a", n % 10)]).await;
    }
    store.trim(now_ms()).await.expect("trimmed");
    let left = all(store, "small-a", Way::Forward, 100).await;
    assert_eq!(left.len() as u64, 2_000 / bytes);
    assert_eq!(
        left.last().map(|kept| kept.event.args.clone()),
        Some(event("", 9).args)
    );
}

async fn what_is_too_old_goes(rig: Rig) {
    let store = &*rig.store;
    let at = |room: &str, n, time_ms| Event {
        time_ms,
        ..event(room, n)
    };
    let old = now_ms() - 2 * 3_600_000;
    append(store, vec![at("short-a", 1, old), at("long", 1, old)]).await;
    append(
        store,
        vec![at("short-a", 2, now_ms()), at("long", 2, now_ms())],
    )
    .await;
    for _ in 0..3 {
        store.trim(now_ms()).await.expect("trimmed");
    }
    assert_eq!(numbers(&all(store, "short-a", Way::Forward, 10).await), [2]);
    assert_eq!(numbers(&all(store, "long", Way::Forward, 10).await), [1, 2]);
}

async fn what_is_forgotten_is_gone(rig: Rig) {
    let store = &*rig.store;
    let by = |room: &str, n, user: &str| Event {
        user: Some(user.to_owned()),
        ..event(room, n)
    };
    let elsewhere = Event {
        namespace: "/other".to_owned(),
        ..by("a", 9, "ada")
    };
    append(
        store,
        vec![
            by("a", 1, "ada"),
            by("a", 2, "bob"),
            by("b", 3, "ada"),
            event("a", 4),
            by("a", 5, "adam"),
            elsewhere,
        ],
    )
    .await;
    let user = |namespace: Option<&str>, user: &str| Forget::User {
        namespace: namespace.map(str::to_owned),
        user: user.to_owned(),
    };
    let forget = async |what| store.forget(what).await.expect("forgotten");
    assert_eq!(forget(user(Some("/"), "ada")).await, 2);
    assert_eq!(forget(user(Some("/"), "ada")).await, 0);
    assert_eq!(forget(user(Some("/"), "nobody")).await, 0);
    assert_eq!(numbers(&all(store, "a", Way::Forward, 10).await), [2, 4, 5]);
    assert_eq!(all(store, "b", Way::Forward, 10).await, []);
    assert_eq!(forget(user(None, "ada")).await, 1);
    let at = all(store, "a", Way::Forward, 1).await[0].at;
    let (namespace, room) = ("/".to_owned(), "a".to_owned());
    let one = Forget::Event {
        namespace: namespace.clone(),
        room: room.clone(),
        at,
    };
    assert_eq!(forget(one.clone()).await, 1);
    assert_eq!(forget(one).await, 0);
    let last = all(store, "a", Way::Forward, 10).await[1].at;
    assert_eq!(forget(Forget::Room { namespace, room }).await, 2);
    assert_eq!(all(store, "a", Way::Backward, 10).await, []);
    // Many of one user, in more than one step; and no place is given twice.
    append(store, (0..2_500).map(|n| by("a", n, "eve")).collect()).await;
    assert!(all(store, "a", Way::Forward, 1).await[0].at > last);
    assert_eq!(forget(user(Some("/"), "eve")).await, 2_500);
    assert_eq!(all(store, "a", Way::Forward, 10).await, []);
}

async fn what_is_not_planned_is_refused(rig: Rig) {
    let stranger = Event {
        namespace: "/unknown".to_owned(),
        ..event("a", 1)
    };
    let batch = Batch {
        writer: 1,
        number: 1,
        events: vec![event("a", 1), stranger],
    };
    let refused = rig
        .store
        .append(&batch)
        .await
        .expect_err("it is not to be stored");
    assert_eq!(refused.kind(), Kind::Refused);
    assert!(refused.to_string().contains("/unknown"), "{refused}");
    assert_eq!(
        all(&*rig.store, "a", Way::Forward, 10).await,
        [],
        "all or nothing"
    );
}

async fn users_and_arguments_come_back_as_they_were(rig: Rig) {
    let mut events = vec![];
    for (n, args) in [
        (0, ""),
        (1, "1"),
        (2, "[],{\"a\":\"\\u0000é\"}"),
        (3, "\"%_'\\\\\""),
    ] {
        for user in [None, Some(""), Some("ada"), Some("é 'x'")] {
            events.push(Event {
                args: args.to_owned(),
                user: user.map(str::to_owned),
                name: format!("name {n} '"),
                ..event("a", n)
            });
        }
    }
    append(&*rig.store, events.clone()).await;
    let stored = all(&*rig.store, "a", Way::Forward, 3).await;
    let stored: Vec<Event> = stored.into_iter().map(|kept| kept.event).collect();
    assert_eq!(stored, events);
}

async fn it_is_all_there_when_it_is_opened_again(rig: Rig) {
    let Rig { ground, store } = rig;
    let batch = Batch {
        writer: 3,
        number: 9,
        events: (0..50).map(|n| event("a", n)).collect(),
    };
    let first = store.append(&batch).await.expect("stored");
    store.close().await.expect("closed");
    drop(store);
    if matches!(ground, Ground::Memory) {
        return;
    }
    let again = ground.open().await;
    assert_eq!(
        numbers(&all(&*again, "a", Way::Forward, 7).await),
        (0..50).collect::<Vec<_>>()
    );
    // Also a batch whose answer was lost with its process.
    assert_eq!(again.append(&batch).await, Ok(first.clone()));
    let later = append(&*again, vec![event("a", 50)]).await;
    assert!(later[0] > first[49]);
}

/// Two gateways on one server; two tasks on what only one process may have.
async fn several_writers_lose_nothing(rig: Rig) {
    let second = match rig.ground {
        Ground::Memory | Ground::Disk(_) => std::sync::Arc::clone(&rig.store),
        Ground::Postgres(_) | Ground::Redis(_) => rig.ground.open().await,
    };
    let write = async |store: std::sync::Arc<dyn history::Store>, writer: u64| {
        for number in 0..60 {
            // In another order of namespaces and rooms each time.
            let mut events = vec![
                event("a", writer * 1_000 + number),
                Event {
                    namespace: "/other".to_owned(),
                    ..event("a", number)
                },
            ];
            if (number + writer).is_multiple_of(2) {
                events.reverse();
            }
            let batch = Batch {
                writer,
                number,
                events,
            };
            store.append(&batch).await.expect("stored");
        }
    };
    tokio::join!(
        write(std::sync::Arc::clone(&rig.store), 1),
        write(second, 2)
    );
    let stored = all(&*rig.store, "a", Way::Forward, 50).await;
    assert!(stored.is_sorted_by(|one, other| one.at < other.at));
    for writer in [1, 2] {
        let own: Vec<u64> = numbers(&stored)
            .into_iter()
            .filter(|n| n / 1_000 == writer)
            .collect();
        assert_eq!(own, (0..60).map(|n| writer * 1_000 + n).collect::<Vec<_>>());
    }
}

/// Those of other namespaces stay. Redis does not count, and says so.
async fn the_oldest_of_a_namespace_make_way(rig: Rig) {
    let store = &*rig.store;
    let elsewhere = Event {
        namespace: "/other".to_owned(),
        ..event("a", 0)
    };
    append(store, vec![elsewhere.clone()]).await;
    for n in 0..30 {
        append(store, vec![event(["a", "b", "c"][n as usize % 3], n)]).await;
    }
    append(store, vec![event("a", 30), elsewhere.clone()]).await;
    if let Ground::Redis(_) = rig.ground {
        let fault = store.usage("/").await.expect_err("it does not count");
        assert_eq!(fault.kind(), Kind::Refused);
        return;
    }
    let sizes: Vec<u64> = (0..31).map(|n| event("a", n).bytes() as u64).collect();
    let usage = |rooms, sizes: &[u64]| Usage {
        rooms,
        bytes: sizes.iter().sum(),
    };
    let of_all = usage(3, &sizes);
    assert_eq!(store.usage("/").await, Ok(of_all));
    // Not a byte too few.
    let wanted = sizes[..4].iter().sum::<u64>() + 1;
    assert_eq!(store.shed("/", Shed::Bytes(wanted)).await, Ok(5));
    assert_eq!(store.usage("/").await, Ok(usage(3, &sizes[5..])));
    let first = all(store, "a", Way::Forward, 100).await;
    assert_eq!(numbers(&first)[0], 6);
    // `b` was silent for longest.
    let of_b = all(store, "b", Way::Forward, 100).await.len() as u64;
    assert_eq!(store.shed("/", Shed::Rooms(1)).await, Ok(of_b));
    assert!(all(store, "b", Way::Forward, 100).await.is_empty());
    assert_eq!(store.usage("/").await.map(|usage| usage.rooms), Ok(2));
    let all_of_it = Shed::Bytes(u64::MAX);
    assert!(store.shed("/", all_of_it).await.is_ok_and(|gone| gone > 0));
    assert_eq!(store.usage("/").await, Ok(Usage::default()));
    let there = 2 * elsewhere.bytes() as u64;
    assert_eq!(
        store.usage("/other").await.map(|usage| usage.bytes),
        Ok(there)
    );
}
