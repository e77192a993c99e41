//! The index and the bounds of a journal.

use super::*;
use crate::tables::id::Identity;
use proptest::prelude::*;

fn journal(window_ms: u64, bytes_max: usize) -> Journal {
    let me = Identity {
        node: 1,
        shard: 0,
        shards: 1,
    };
    let mut ids = Ids::new(me, Box::new(|bytes| bytes.fill(7)));
    let bounds = Bounds {
        window_ms,
        bytes_max,
    };
    Journal::new(&mut ids, bounds)
}

fn large() -> Journal {
    journal(60_000, 1 << 20)
}

fn at(now_ms: u64) -> Moment {
    Moment {
        now_ms,
        stamp: None,
        kept: false,
        number: 0,
    }
}

fn members(rooms: &[&str]) -> Members {
    let rooms = rooms.iter().map(|name| Membership::new(Kind::Room, name));
    let everyone = Membership::new(Kind::Everyone, "");
    rooms.chain([everyone]).collect()
}

fn to<'a>(rooms: &'a [&'a str]) -> Aim<'a> {
    Aim {
        namespace: "/",
        rooms,
        ..Aim::default()
    }
}

fn say(journal: &mut Journal, now_ms: u64, aim: &Aim<'_>, args: &str) -> u64 {
    journal.say(at(now_ms), aim, &Emit::new("e", args), |_| true)
}

fn missed(journal: &Journal, rooms: &[&str], after: u64) -> Option<Vec<String>> {
    let members = members(rooms);
    let reader = Reader {
        namespace: "/",
        socket: "me",
        members: &members,
    };
    let missed = journal.missed(reader, after)?;
    let events = missed.events.iter();
    Some(
        events
            .map(|(_, said)| said.event().args.to_string())
            .collect(),
    )
}

/// A client confirmed the place of a loss by a pong, went away, and missed the next one: it came back to all, it was told.
#[test]
fn a_second_loss_without_an_event_between_was_none() {
    let mut journal = large();
    say(&mut journal, 1, &to(&["r"]), "[1]");
    journal.breaks(2);
    let confirmed = journal.head();
    assert!(journal.is_whole_behind(confirmed));
    journal.breaks(3);
    assert!(!journal.is_whole_behind(confirmed));
    assert!(journal.is_whole_behind(journal.head()));
}

#[test]
fn a_socket_missed_what_was_for_any_of_its_names_once_and_in_order() {
    let mut journal = large();
    say(&mut journal, 1, &to(&["a"]), "1");
    say(&mut journal, 1, &to(&["b", "a", "b"]), "2");
    say(&mut journal, 1, &to(&[]), "3");
    say(&mut journal, 1, &to(&["c"]), "4");
    let said = Arc::new(Said::new(&Emit::new("e", "5")));
    journal.tell(1, "/", "me", &said);
    journal.tell(1, "/", "other", &said);
    journal.tell(1, "/x", "me", &said);
    let all = |after| missed(&journal, &["a", "b"], after);
    assert_eq!(all(0).expect("all"), ["1", "2", "3", "5"]);
    assert_eq!(all(2).expect("all"), ["3", "5"]);
    assert_eq!(all(journal.head()), Some(vec![]));
    assert_eq!(all(journal.head() + 1), None, "a place that has not come");
}

#[test]
fn those_who_are_left_out_missed_nothing() {
    let mut journal = large();
    let except = |except| Aim {
        except,
        ..to(&["a"])
    };
    say(&mut journal, 1, &except(&["me"]), "1");
    say(&mut journal, 1, &except(&["b"]), "2");
    say(&mut journal, 1, &except(&["c"]), "3");
    assert_eq!(missed(&journal, &["a", "b", "me"], 0).expect("all"), ["3"]);
}

/// One such entry ended every upgrade.
#[test]
fn what_names_somebody_whom_no_record_names_goes_over_without_that_name() {
    let mut journal = large();
    let long = "x".repeat(handoff::bounds::NAME_BYTES_MAX + 1);
    say(&mut journal, 1, &to(&["a", &long]), "1");
    say(&mut journal, 1, &to(&[&long]), "2");
    let elsewhere = Aim {
        namespace: &long,
        ..to(&["a"])
    };
    say(&mut journal, 1, &elsewhere, "3");
    journal.tells_history(1, ("/", "me"), &long);
    say(&mut journal, 1, &to(&["a"]), "4");
    let heir_of = |journal: &Journal| {
        let (first, entries) = journal.records(0, usize::MAX, 1);
        let piece = handoff::Keepsakes {
            first,
            entries,
            ..handoff::Keepsakes::default()
        };
        assert_eq!(piece.check(), Ok(()));
        let mut heir = large();
        assert!(heir.take_in(first, &piece.entries, 1));
        assert!(heir.go_on_as(&journal.word(), 1));
        heir
    };
    let heir = heir_of(&journal);
    assert_eq!(missed(&heir, &["a"], 0).expect("all"), ["1", "4"]);
    // A socket that has left such a room goes over. What was said there does not.
    let member = Membership::new(Kind::Room, &long);
    let left = journal.change(1, ("/", "me"), false, member);
    say(&mut journal, 1, &to(&["a"]), "5");
    let heir = heir_of(&journal);
    assert_eq!(missed(&heir, &["a"], left - 1), None);
    assert_eq!(missed(&heir, &["a"], left).expect("all"), ["5"]);
}

/// A join and a leave have their places among the events.
#[test]
fn nothing_is_replayed_of_before_a_join_and_after_a_leave() {
    let mut journal = large();
    let change = |journal: &mut Journal, joined, room| {
        let member = Membership::new(Kind::Room, room);
        journal.change(1, ("/", "me"), joined, member);
    };
    say(&mut journal, 1, &to(&["a"]), "before");
    change(&mut journal, true, "a");
    let joined = say(&mut journal, 1, &to(&["a"]), "1");
    say(&mut journal, 1, &to(&["b"]), "2");
    change(&mut journal, false, "a");
    say(&mut journal, 1, &to(&["a"]), "after");
    change(&mut journal, true, "a");
    say(&mut journal, 1, &to(&["a"]), "3");
    assert_eq!(
        missed(&journal, &["a", "b"], 0).expect("all"),
        ["1", "2", "3"]
    );
    assert_eq!(
        missed(&journal, &["a", "b"], joined).expect("all"),
        ["2", "3"]
    );
    change(&mut journal, false, "a");
    assert_eq!(missed(&journal, &["b"], 0).expect("all"), ["1", "2", "3"]);
}

#[test]
fn what_nobody_here_wants_takes_no_place() {
    let mut journal = large();
    let wants = |heading: Heading<'_>| heading.name == "a";
    let event = Emit::new("e", "1");
    assert_eq!(journal.say(at(1), &to(&["b"]), &event, wants), 0);
    assert_eq!(journal.say(at(1), &to(&["b", "a"]), &event, wants), 1);
    assert_eq!((journal.len(), journal.index.len()), (1, 1));
}

#[test]
fn time_and_bytes_bound_it_and_it_says_what_is_gone() {
    let mut journal = journal(1_000, 4_096);
    let first = say(&mut journal, 0, &to(&["a"]), "1");
    say(&mut journal, 1_000, &to(&["b"]), "2");
    assert_eq!(journal.floor(), 0);
    say(&mut journal, 1_001, &to(&["b"]), "3");
    assert_eq!(journal.floor(), first);
    assert_eq!(missed(&journal, &["b"], 0), None);
    assert_eq!(missed(&journal, &["b"], first).expect("all"), ["2", "3"]);
    let long = "x".repeat(3_000);
    say(&mut journal, 1_002, &to(&["b"]), &long);
    say(&mut journal, 1_003, &to(&["b"]), &long);
    assert_eq!((journal.len(), missed(&journal, &["b"], 3)), (1, None));
    // One that is larger than all is gone at once, and counted as gone.
    let huge = say(&mut journal, 1_004, &to(&["b"]), &"x".repeat(5_000));
    assert_eq!((journal.len(), journal.floor()), (0, huge));
    assert_eq!((journal.bytes(), journal.index.len()), (0, 0));
    assert_eq!(missed(&journal, &["b"], huge), Some(vec![]));
}

#[test]
fn a_pong_confirms_what_was_written_before_its_ping() {
    let mut journal = large();
    assert_eq!(journal.before(5), 0);
    let all: Vec<u64> = [1, 2, 2, 4]
        .into_iter()
        .map(|now_ms| say(&mut journal, now_ms, &to(&["a"]), "1"))
        .collect();
    // What was written in the same millisecond may have come later.
    let places = [1, 2, 3, 4, 5].map(|ms| journal.before(ms));
    assert_eq!(places, [0, all[0], all[2], all[2], all[3]]);
}

/// With 10,000 rooms, somebody in two of them reads what was said there.
#[test]
fn reading_costs_what_was_missed() {
    let mut journal = journal(60_000, 64 << 20);
    for n in 0..50_000 {
        say(&mut journal, 1, &to(&[&(n % 5_000).to_string()]), "1");
    }
    let members = members(&["7", "4999"]);
    let reader = Reader {
        namespace: "/",
        socket: "me",
        members: &members,
    };
    let missed = journal.missed(reader, 0).expect("all");
    assert_eq!((missed.events.len(), missed.read), (20, 20));
}

#[derive(Clone, Debug)]
enum Step {
    Say(Vec<usize>, Vec<usize>, usize),
    Change(bool, usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rooms = || proptest::collection::vec(0usize..4, 0..3);
    let say = (rooms(), rooms(), 0usize..200);
    let step = prop_oneof![
        4 => say.prop_map(|(rooms, except, len)| Step::Say(rooms, except, len)),
        2 => (any::<bool>(), 0usize..4).prop_map(|(joins, room)| Step::Change(joins, room)),
        1 => (0u64..300).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..80)
}

const ROOMS: [&str; 4] = ["a", "b", "c", "d"];

proptest! {
    /// Against a list of all events and of who was meant when they were said.
    #[test]
    fn what_is_read_is_what_would_have_been_delivered(steps in steps(), after in 0u64..60) {
        let mut journal = journal(1_000, 4_096);
        let mut own = members(&[]);
        let mut delivered: Vec<(u64, usize)> = Vec::new();
        let mut now_ms = 0;
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Say(rooms, except, len) => {
                    let [rooms, except] =
                        [rooms, except].map(|all| all.iter().map(|n| ROOMS[*n]).collect::<Vec<_>>());
                    let aim = Aim { except: &except, ..to(&rooms) };
                    let args = format!("{n},\"{}\"", "x".repeat(len));
                    let at = say(&mut journal, now_ms, &aim, &args);
                    if own.are_meant(&aim) {
                        delivered.push((at, n));
                    }
                }
                Step::Change(joins, room) => {
                    let room = ROOMS[room];
                    let changed = match joins {
                        true => own.join(Kind::Room, room),
                        false => own.leave(Kind::Room, room),
                    };
                    if changed {
                        let member = Membership::new(Kind::Room, room);
                        journal.change(now_ms, ("/", "me"), joins, member);
                    }
                }
                Step::Wait(ms) => now_ms += ms,
            }
            prop_assert!(journal.bytes() <= 4_096);
        }
        let counted: usize = journal.entries.iter().map(Entry::bytes).sum();
        let index = journal.entries.iter().flat_map(|entry| &entry.headings);
        let index: std::collections::BTreeSet<_> = index.collect();
        let index = index.into_iter().filter_map(|id| journal.index.heading(*id));
        prop_assert_eq!(journal.bytes(), counted + index.map(index_cost).sum::<usize>());
        let reader = Reader { namespace: "/", socket: "me", members: &own };
        let read = journal.missed(reader, after);
        let whole = (journal.floor()..=journal.head()).contains(&after);
        prop_assert_eq!(read.is_some(), whole);
        if let Some(read) = read {
            let places: Vec<u64> = read.events.iter().map(|(at, _)| *at).collect();
            let expected = delivered.iter().map(|(at, _)| *at).filter(|at| *at > after);
            prop_assert_eq!(places, expected.collect::<Vec<_>>());
        }
    }
}
