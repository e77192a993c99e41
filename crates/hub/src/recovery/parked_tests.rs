//! Records: claims on them, commands, bounds.

use super::*;
use crate::recovery::journal;
use crate::recovery::record::Life;
use crate::tables::id::{Identity, Ids};

const NODE: u16 = 1;

fn place(shard: u16) -> Place {
    Place { node: NODE, shard }
}

fn claim(shard: u16, number: u64) -> Claim {
    let by = place(shard);
    Claim { by, number }
}

struct Shard {
    ids: Ids,
    parked: Parked,
    journal: Journal,
}

fn shard_with(records_max: usize, bytes_max: usize) -> Shard {
    let me = Identity {
        node: NODE,
        shard: 0,
        shards: 3,
    };
    let mut dice = fastrand::Rng::with_seed(5);
    let mut ids = Ids::new(me, Box::new(move |bytes| dice.fill(bytes)));
    let bounds = Bounds {
        records_max,
        bytes_max,
        rooms_max: 3,
        claim_ms: 100,
    };
    let journal = Journal::new(
        &mut ids,
        journal::Bounds {
            window_ms: 60_000,
            bytes_max: 1 << 20,
        },
    );
    Shard {
        ids,
        parked: Parked::new(bounds),
        journal,
    }
}

fn shard() -> Shard {
    shard_with(100, 1 << 20)
}

impl Shard {
    fn record(&mut self, rooms: &[&str]) -> Record {
        let rooms = rooms.iter().map(|name| Membership::new(Kind::Room, name));
        let others = [(Kind::Everyone, ""), (Kind::User, "ann")];
        let others = others.map(|(kind, name)| Membership::new(kind, name));
        Record {
            pid: Pid::draw(&mut self.ids),
            socket: self.ids.socket(1_800_000_000_000),
            namespace: "/".into(),
            members: rooms.chain(others).collect(),
            uid: Some("ann".into()),
            data: None,
            life: Life::default(),
        }
    }

    /// Parks one until then.
    fn park(&mut self, rooms: &[&str], deadline_ms: u64) -> Pid {
        let record = self.record(rooms);
        let pid = record.pid;
        self.parked.park(record, deadline_ms);
        pid
    }

    fn claim(&mut self, pid: Pid, claim: Claim) -> Result<(), NotRecovered> {
        let around = (vec![place(1), place(2)], None);
        let uid = Some("ann");
        self.parked
            .claim(Asked { pid, uid, claim }, around, 0, |_| 0)
    }

    fn pass(&mut self, pid: Pid, claim: Claim, round: u32, by: u16) -> Fenced {
        let pass = Pass {
            claim,
            round,
            by: place(by),
        };
        self.parked.fenced(pid, pass)
    }

    fn command(&mut self, rooms: &[&str], action: &Action) -> Vec<Claim> {
        let aim = Aim {
            namespace: "/",
            rooms,
            ..Aim::default()
        };
        let moment = Moment {
            now_ms: 1,
            stamp: None,
            kept: false,
            number: 0,
        };
        let journal = &mut self.journal;
        let ended = self.parked.command(moment, &aim, action, journal);
        ended.into_iter().map(|(claim, _)| claim).collect()
    }

    fn wants(&self, room: &str) -> bool {
        self.parked.wants(Heading {
            namespace: "/",
            kind: Kind::Room,
            name: room,
        })
    }
}

fn join(room: &str) -> Action {
    Action::Join(vec![room.into()])
}

fn leave(room: &str) -> Action {
    Action::Leave(vec![room.into()])
}

#[test]
fn a_record_is_taken_once_and_by_its_user() {
    let mut shard = shard();
    let pid = shard.park(&["a"], 1_000);
    let other = shard.parked.take_here(pid, Some("bob"));
    assert_eq!(other.err(), Some(NotRecovered::OtherUser));
    let nobody = shard.parked.take_here(pid, None);
    assert_eq!(nobody.err(), Some(NotRecovered::OtherUser));
    let taken = shard
        .parked
        .take_here(pid, Some("ann"))
        .expect("it is here");
    assert_eq!(taken.pid, pid);
    let twice = shard.parked.take_here(pid, Some("ann"));
    assert_eq!(twice.err(), Some(NotRecovered::Unknown));
    assert_eq!((shard.parked.len(), shard.parked.bytes()), (0, 0));
    assert_eq!(shard.parked.wanted.len(), 0);
}

#[test]
fn a_second_claimer_is_refused_and_the_first_may_ask_again() {
    let mut shard = shard();
    let pid = shard.park(&["a"], 1_000);
    assert_eq!(shard.claim(pid, claim(1, 1)), Ok(()));
    assert_eq!(shard.claim(pid, claim(1, 1)), Ok(()));
    for other in [claim(1, 2), claim(2, 1)] {
        assert_eq!(shard.claim(pid, other), Err(NotRecovered::Claimed));
        assert!(shard.parked.confirmed(pid, other).is_none());
        shard.parked.released(pid, other);
    }
    let here = shard.parked.take_here(pid, Some("ann"));
    assert_eq!(here.err(), Some(NotRecovered::Claimed));
    shard.parked.released(pid, claim(1, 1));
    assert_eq!(shard.claim(pid, claim(2, 1)), Ok(()));
    assert!(shard.parked.confirmed(pid, claim(2, 1)).is_some());
    assert_eq!(shard.claim(pid, claim(2, 1)), Err(NotRecovered::Unknown));
}

/// The claimer may have let its client in: nobody else gets the socket.
#[test]
fn a_claim_whose_confirmation_is_lost_is_given_to_nobody() {
    let mut shard = shard();
    let pid = shard.park(&["a"], 1_000);
    assert_eq!(shard.claim(pid, claim(1, 1)), Ok(()));
    assert_eq!(shard.pass(pid, claim(1, 1), 0, 1), Fenced::Waits);
    assert_eq!(shard.pass(pid, claim(1, 1), 0, 2), Fenced::Complete(0));
    assert_eq!(shard.parked.expire(999), 0);
    assert_eq!(shard.claim(pid, claim(2, 1)), Err(NotRecovered::Claimed));
    assert_eq!(shard.parked.expire(1_000), 1);
    assert_eq!(shard.claim(pid, claim(2, 1)), Err(NotRecovered::Unknown));
}

/// Its claimer went over to another process, or its messages were lost: the record was kept for it until it ended, and was nobody's.
#[test]
fn a_claim_that_was_handed_nothing_outlived_its_time() {
    let mut shard = shard();
    let pid = shard.park(&["a"], 1_000);
    assert_eq!(shard.claim(pid, claim(1, 1)), Ok(()));
    assert_eq!(shard.pass(pid, claim(1, 1), 0, 1), Fenced::Waits);
    assert_eq!(shard.parked.next_deadline_ms(), Some(100));
    assert_eq!(shard.parked.expire(99), 0);
    assert_eq!(shard.claim(pid, claim(2, 1)), Err(NotRecovered::Claimed));
    assert_eq!(shard.parked.expire(100), 0);
    assert!(shard.parked.claimed(pid, claim(1, 1)).is_none());
    // What was still to come for the first one is nothing now.
    assert_eq!(shard.claim(pid, claim(2, 1)), Ok(()));
    assert_eq!(shard.pass(pid, claim(1, 1), 0, 2), Fenced::Waits);
    shard.parked.released(pid, claim(2, 1));
    assert_eq!(shard.parked.next_deadline_ms(), Some(1_000), "as before");
    assert_eq!(shard.parked.expire(1_000), 1);
}

#[test]
fn a_claim_at_the_last_moment_has_its_time() {
    let mut shard = shard();
    let pid = shard.park(&["a"], 50);
    assert_eq!(shard.claim(pid, claim(1, 1)), Ok(()));
    assert_eq!(shard.parked.next_deadline_ms(), Some(100));
    assert_eq!(shard.parked.expire(99), 0);
    assert!(shard.parked.confirmed(pid, claim(1, 1)).is_some());
    assert_eq!(shard.parked.next_deadline_ms(), None);
}

#[test]
fn commands_apply_to_those_who_are_away() {
    let mut shard = shard();
    let pid = shard.park(&["a"], 1_000);
    let other = shard.park(&["b"], 1_000);
    shard.parked.take_news();
    shard.command(&["a"], &join("c"));
    assert!(shard.wants("c"));
    shard.command(&["a"], &join("d"));
    shard.command(&["a"], &join("e"));
    assert!(!shard.wants("e"), "it is in as many rooms as it may be");
    shard.command(&["c"], &leave("a"));
    assert!(!shard.wants("a"));
    let news = shard.parked.take_news();
    let news: Vec<(bool, &str)> = news
        .iter()
        .map(|news| (news.came, &*news.member.name))
        .collect();
    assert_eq!(news, [(true, "c"), (true, "d"), (false, "a")]);
    shard.command(&["d"], &Action::Disconnect);
    let gone = shard.parked.take_here(pid, Some("ann"));
    assert_eq!(gone.err(), Some(NotRecovered::Unknown));
    let record = shard.parked.take_here(other, Some("ann")).expect("here");
    assert!(record.members.has(Kind::Room, "b") && record.members.rooms() == 1);
    assert_eq!((shard.parked.bytes(), shard.parked.wanted.len()), (0, 0));
}

#[test]
fn whoever_claims_a_disconnected_socket_is_told() {
    let mut shard = shard();
    let pid = shard.park(&["a"], 1_000);
    assert_eq!(shard.claim(pid, claim(1, 7)), Ok(()));
    assert_eq!(shard.command(&["a"], &leave("b")), []);
    assert_eq!(shard.command(&["a"], &Action::Disconnect), [claim(1, 7)]);
    assert_eq!(shard.pass(pid, claim(1, 7), 0, 1), Fenced::Waits);
}

/// The claimer is not listed for a room that the socket joined after the offer.
#[test]
fn a_room_that_was_joined_after_the_offer_is_offered() {
    let mut shard = shard();
    let (pid, own) = (shard.park(&["a"], 1_000), claim(1, 1));
    assert_eq!(shard.claim(pid, own), Ok(()));
    assert_eq!(shard.pass(pid, own, 0, 1), Fenced::Waits);
    assert_eq!(shard.pass(pid, own, 0, 1), Fenced::Waits, "once for each");
    shard.command(&["a"], &join("b"));
    assert_eq!(shard.pass(pid, own, 0, 2), Fenced::Again);
    let (offered, round, _) = shard.parked.claimed(pid, own).expect("it stands");
    assert!(offered.members.has(Kind::Room, "b") && round == 1);
    assert_eq!(
        shard.pass(pid, own, 0, 2),
        Fenced::Waits,
        "of the first round"
    );
    assert_eq!(shard.pass(pid, own, 1, 2), Fenced::Waits);
    shard.command(&["a"], &leave("b"));
    assert_eq!(shard.pass(pid, own, 1, 1), Fenced::Complete(0));
}

/// The owner took commands for the claimer's, and the claimer gave the record back.
#[test]
fn a_record_that_is_given_back_has_carried_out_all_commands() {
    let mut shard = shard();
    let (pid, own) = (shard.park(&["a"], 1_000), claim(1, 1));
    assert_eq!(shard.claim(pid, own), Ok(()));
    assert_eq!(shard.pass(pid, own, 0, 1), Fenced::Waits);
    assert_eq!(shard.pass(pid, own, 0, 2), Fenced::Complete(0));
    shard.command(&["a"], &join("b"));
    shard.parked.released(pid, own);
    assert_eq!(shard.claim(pid, claim(2, 1)), Ok(()));
    let (record, round, _) = shard.parked.claimed(pid, claim(2, 1)).expect("free");
    assert!(record.members.has(Kind::Room, "b") && round == 0);
    assert_eq!(shard.pass(pid, claim(2, 1), 0, 1), Fenced::Waits);
    assert_eq!(shard.pass(pid, claim(2, 1), 0, 2), Fenced::Complete(0));
    // The claimer hears of it by itself.
    assert_eq!(shard.command(&["b"], &Action::Disconnect), []);
    assert!(shard.parked.confirmed(pid, claim(2, 1)).is_none());
}

#[test]
fn what_may_be_for_a_socket_on_its_way_here_is_kept() {
    let mut shard = shard();
    let (record, own) = (shard.record(&["a"]), claim(0, 1));
    let (pid, members) = (record.pid, record.members.clone());
    shard.parked.expect(record, own, 5, 1_000);
    let before = shard.journal.head();
    shard.command(&["a"], &join("b"));
    shard.command(&["a"], &leave("a"));
    shard.command(&["a"], &Action::Disconnect);
    assert_eq!(shard.journal.head(), before + 3, "to be looked at later");
    assert!(shard.wants("a") && shard.wants("b"));
    let here = shard.parked.take_here(pid, Some("ann"));
    assert_eq!(here.err(), Some(NotRecovered::Claimed));
    assert!(shard.parked.arrived(pid, claim(0, 2)).is_none());
    let (since, wants) = shard.parked.arrived(pid, own).expect("it came");
    assert!(since == 5 && wants.holds(&members) && wants.has(Kind::Room, "b"));
    assert!(!shard.wants("a") && shard.parked.bytes() == 0);
}

#[test]
fn records_are_bounded_in_number_and_bytes() {
    let mut shard = shard_with(3, 1 << 20);
    let pids: Vec<Pid> = (0..5).map(|n| shard.park(&["a"], 100 - n)).collect();
    assert_eq!((shard.parked.len(), shard.parked.take_crowded()), (3, 2));
    // The last ones would end first.
    for (pid, stays) in pids.iter().zip([true, true, true, false, false]) {
        assert_eq!(shard.parked.find(*pid).is_some(), stays);
    }
    let mut small = shard_with(100, 4_096);
    for n in 0..50 {
        small.park(&[&"x".repeat(n), "a"], 100);
        assert!(small.parked.bytes() <= 4_096, "{}", small.parked.bytes());
    }
    assert!(small.parked.len() > 1);
    let huge = small.park(&[&"x".repeat(5_000)], 200);
    assert!(small.parked.find(huge).is_none(), "it does not fit");
    assert_eq!((small.parked.len(), small.parked.bytes()), (0, 0));
}

/// Nobody knows what its clients were told.
#[test]
fn claims_of_a_node_that_is_gone_end_with_their_records() {
    let mut shard = shard();
    let (mine, theirs) = (shard.park(&["a"], 1_000), shard.park(&["a"], 1_000));
    let far = Claim {
        by: Place { node: 9, shard: 0 },
        number: 1,
    };
    assert_eq!(shard.claim(mine, claim(1, 1)), Ok(()));
    assert_eq!(shard.claim(theirs, far), Ok(()));
    shard.parked.forget_claims_of(9);
    assert!(shard.parked.claimed(mine, claim(1, 1)).is_some());
    assert_eq!(shard.claim(theirs, claim(2, 1)), Err(NotRecovered::Unknown));
}
