//! Rounds with numbers that nobody can have, and rounds without room.

use super::*;
use crate::books::ledger::{Ledger, Stock};
use crate::bounds::ROUND_BYTES_MAX;
use crate::cluster::letter::Next;

/// Two servers of another kind that said such numbers stopped a shard, or made a partial result look whole.
#[test]
fn numbers_of_other_servers_that_nobody_can_have_do_not_overflow() {
    let me = Identity {
        node: 1,
        shard: 0,
        shards: 1,
    };
    let account = Ledger::default().open(Stock::Rounds, ROUND_BYTES_MAX);
    let mut rounds = Rounds::new(me, account);
    let mut counts = Counts::default();
    let id = rounds.open((Answers::acks(), 7), 1, true);
    let posted = Tidings::Posted {
        round: id,
        nodes: vec![2],
    };
    assert!(rounds.on_tidings(&posted).is_empty());
    for node in [1, 2, 2, 2] {
        let response = Response::Delivered {
            asked: u64::MAX,
            undelivered: u64::MAX,
        };
        let reply = Reply {
            number: id,
            node,
            parts: 3,
            response,
        };
        assert!(rounds.respond(&reply, &mut counts).is_none());
    }
    let Some(Told::Collected { collected, .. }) = rounds.due(id) else {
        panic!("the result")
    };
    assert_eq!(collected.timed_out, u64::MAX);
    assert!(!collected.complete);
}

/// The page of one shard was under way when that of another found no room: nobody asked for its next one, and the round waited.
#[test]
fn a_round_without_room_waits_for_no_further_pages() {
    let me = Identity {
        node: 1,
        shard: 0,
        shards: 1,
    };
    let account = Ledger::default().open(Stock::Rounds, 1_000);
    let mut rounds = Rounds::new(me, account);
    let mut counts = Counts::default();
    let id = rounds.open((Answers::sockets(), 7), 1, true);
    let posted = Tidings::Posted {
        round: id,
        nodes: vec![2],
    };
    assert!(rounds.on_tidings(&posted).is_empty());
    let mut respond = |node, response| {
        let reply = Reply {
            number: id,
            node,
            parts: 2,
            response,
        };
        rounds.respond(&reply, &mut counts)
    };
    let page = |shard, bytes| {
        let socket = Fetched {
            id: "id".to_owned(),
            rooms: Vec::new(),
            data: "x".repeat(bytes),
        };
        let (sockets, next) = (vec![socket], Some(Next { shard, list: 3 }));
        Response::Page(Page { sockets, next })
    };
    assert!(respond(1, Response::Sockets(Found::default())).is_none());
    assert!(respond(2, page(0, 100)).is_none());
    assert!(respond(2, page(1, 2_000)).is_none(), "no room");
    let Some(Told::Found { found, .. }) = respond(2, page(0, 100)) else {
        panic!("the result")
    };
    assert_eq!((found.sockets.len(), found.complete), (2, false));
}
