//! What waits for a slow client, entry by entry.

use super::*;
use crate::output::piece::Pool;

const COST: usize = ENTRY_BYTES + 2;

fn unit(text: &str, fate: Fate) -> Unit {
    let pool = Pool::new(Default::default());
    Unit::of(Piece::new(text.as_bytes(), &pool), fate)
}

fn event(policy: SlowConsumer, key: u64) -> Fate {
    Fate::Event { policy, key }
}

fn texts(backlog: &Backlog) -> String {
    let texts = backlog
        .units
        .iter()
        .map(|unit| std::str::from_utf8(unit.bytes()).expect("text"));
    texts.collect::<Vec<_>>().join(" ")
}

#[test]
fn at_the_bound_each_policy_drops_what_it_says_and_counts_it() {
    for (policy, expected) in [
        (SlowConsumer::DropOldest, "!! 03 04 05 06 07 08 09"),
        (SlowConsumer::DropNewest, "!! 00 01 02 03 04"),
        (SlowConsumer::Conflate, "!! 03 04 05 06 07 08 09"),
    ] {
        let (mut backlog, mut dropped) = (Backlog::default(), Losses::default());
        let mut push = |text: &str, fate| {
            let pushed = backlog.push(unit(text, fate), Bound::strict(8 * COST), &mut dropped);
            pushed.expect("events are dropped");
        };
        push("!!", Fate::Fixed);
        (0..10).for_each(|n| push(&format!("{n:02}"), event(policy, n)));
        assert_eq!(texts(&backlog), expected, "{policy:?}");
        let held = backlog.units.len() as u64 - 1;
        assert_eq!(dropped[policy as usize], 10 - held, "{policy:?}");
    }
}

#[test]
fn answers_find_room_where_new_events_do_not() {
    let (mut backlog, mut dropped) = (Backlog::default(), Losses::default());
    for n in 0..20 {
        let newest = unit(&format!("{n:02}"), event(SlowConsumer::DropNewest, 0));
        backlog
            .push(newest, Bound::strict(8 * COST), &mut dropped)
            .expect("dropped");
    }
    for _ in 0..2 {
        backlog
            .push(
                unit("!!", Fate::Fixed),
                Bound::strict(8 * COST),
                &mut dropped,
            )
            .expect("room for an answer");
    }
    let third = backlog.push(
        unit("!!", Fate::Fixed),
        Bound::strict(8 * COST),
        &mut dropped,
    );
    assert_eq!(third, Err(Overflow));
}

#[test]
fn only_the_newest_of_a_key_waits_in_the_place_of_the_oldest() {
    let (mut backlog, mut dropped) = (Backlog::default(), Losses::default());
    for (text, key) in [
        ("a1", 1),
        ("b1", 2),
        ("a2", 1),
        ("c1", 3),
        ("a3", 1),
        ("b2", 2),
    ] {
        let unit = unit(text, event(SlowConsumer::Conflate, key));
        backlog
            .push(unit, Bound::strict(100 * COST), &mut dropped)
            .expect("room");
    }
    assert_eq!(texts(&backlog), "a3 b2 c1");
    assert_eq!(dropped[SlowConsumer::Conflate as usize], 3);
    // A unit whose beginning is out stays; the newer one waits behind the others.
    backlog.advance(1);
    let newer = unit("a4", event(SlowConsumer::Conflate, 1));
    backlog
        .push(newer, Bound::strict(100 * COST), &mut dropped)
        .expect("room");
    assert_eq!(texts(&backlog), "a3 b2 c1 a4");
    backlog.advance(1);
    let newer = unit("a5", event(SlowConsumer::Conflate, 1));
    backlog
        .push(newer, Bound::strict(100 * COST), &mut dropped)
        .expect("room");
    assert_eq!(texts(&backlog), "b2 c1 a5");
}

#[test]
fn keys_lead_to_their_units_also_after_older_ones_were_dropped() {
    let (mut backlog, mut dropped) = (Backlog::default(), Losses::default());
    for n in 0..20 {
        let unit = unit(&format!("{n:02}"), event(SlowConsumer::Conflate, n));
        backlog
            .push(unit, Bound::strict(8 * COST), &mut dropped)
            .expect("room");
    }
    let newest = unit("!!", event(SlowConsumer::Conflate, 19));
    backlog
        .push(newest, Bound::strict(8 * COST), &mut dropped)
        .expect("room");
    assert!(texts(&backlog).ends_with("18 !!"), "{}", texts(&backlog));
}

#[test]
fn one_larger_unit_waits_beside_the_bound() {
    let bound = Bound::beside_one(4 * COST);
    let larger = "x".repeat(5 * COST);
    let mut dropped = Losses::default();
    let mut push = |backlog: &mut Backlog, text: &str| {
        backlog.push(unit(text, Fate::Fixed), bound, &mut dropped)
    };
    for begun in [false, true] {
        let mut backlog = Backlog::default();
        match begun {
            true => backlog.begin(unit(&larger, Fate::Fixed), 5 * COST - 1, bound),
            false => push(&mut backlog, &larger).expect("one"),
        }
        for text in ["01", "02", "03", "04"] {
            push(&mut backlog, text).expect("as many as without it");
        }
        assert_eq!(push(&mut backlog, "05"), Err(Overflow));
        assert_eq!(push(&mut backlog, &larger), Err(Overflow));
        // It has left: the next one may wait.
        backlog.pop();
        push(&mut backlog, &larger).expect("another one");
        backlog.pop();
        push(&mut backlog, "05").expect("room");
        assert_eq!(backlog.counted(), 4 * COST);
    }
    let strict = Bound::strict(4 * COST);
    let pushed = Backlog::default().push(unit(&larger, Fate::Fixed), strict, &mut dropped);
    assert_eq!(pushed, Err(Overflow));
}

#[test]
fn whatever_is_pushed_and_taken_the_sums_agree() {
    let mut seed = 7u32;
    let mut roll = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    let (mut backlog, mut dropped) = (Backlog::default(), Losses::default());
    for _ in 0..20_000 {
        let fate = match roll(5) {
            0 => Fate::Fixed,
            1 => event(SlowConsumer::Disconnect, 0),
            2 => event(SlowConsumer::DropOldest, 0),
            3 => event(SlowConsumer::DropNewest, 0),
            _ => event(SlowConsumer::Conflate, roll(4).into()),
        };
        // Now and then, one is larger than all that may wait.
        let bytes = if roll(50) == 0 {
            3_000
        } else {
            1 + roll(200) as usize
        };
        let unit = unit(&"x".repeat(bytes), fate);
        let pushed = backlog.push(unit, Bound::beside_one(2_000), &mut dropped);
        if pushed.is_err() {
            backlog.discard_unstarted();
        }
        backlog.advance(roll(150) as usize);
        let cost: usize = backlog.units.iter().map(Unit::cost).sum();
        let yields = backlog.units.iter().filter(|unit| unit.fate.yields());
        assert_eq!(backlog.cost, cost);
        assert_eq!(backlog.yielding, yields.map(Unit::cost).sum::<usize>());
        let most = 2_000 + 3_000 + ENTRY_BYTES;
        let (all, counted) = (backlog.cost(), backlog.counted());
        assert!(
            all <= most && counted <= 2_000,
            "{all} {counted} {backlog:?}"
        );
    }
    assert!(dropped[1..].iter().all(|count| *count > 100), "{dropped:?}");
}
