//! Orders of messages that random histories seldom have.

use super::*;
use crate::recovery::stamp::ShardLife;

const OWNER: usize = 0;
const CLAIMER: usize = 1;

struct Pair {
    shards: Vec<Recovery>,
    record: Record,
    /// Under way, by sender.
    posts: Vec<VecDeque<Message>>,
}

impl Pair {
    /// A socket is parked at the one, and its client comes back to the other.
    fn new() -> Self {
        let mut shards = Vec::new();
        let mut record = None;
        for shard in 0..2 {
            let me = Identity {
                node: 1,
                shard,
                shards: 2,
            };
            let mut dice = Rng::with_seed(u64::from(shard));
            let mut ids = Ids::new(me, Box::new(move |bytes| dice.fill(bytes)));
            shards.push(Recovery::new(&mut ids, large()));
            let socket = ids.socket(1_800_000_000_000);
            let names = [(Kind::Everyone, ""), (Kind::Room, &socket.to_string())];
            let names = names.map(|(kind, name)| Membership::new(kind, name));
            record.get_or_insert(Record {
                pid: Pid::draw(&mut ids),
                socket,
                namespace: NAMESPACE.into(),
                members: names.into_iter().collect(),
                uid: None,
                data: None,
                life: Life::default(),
            });
        }
        let record = record.expect("of the first");
        shards[OWNER].parked.park(record.clone(), 1_000);
        let comer = Comer {
            pid: record.pid,
            offset: None,
            number: None,
            uid: None,
        };
        shards[CLAIMER].ask(comer, None, 1).expect("asked");
        let posts = (0..2).map(|_| VecDeque::new()).collect();
        Self {
            shards,
            record,
            posts,
        }
    }

    /// The next message of a shard arrives at the other.
    fn pass(&mut self, from: usize) -> Option<Verdict> {
        let new = self.shards[from].ways.take_posts();
        self.posts[from].extend(new.into_iter().map(|post| post.message));
        let message = self.posts[from].pop_front().expect("a message");
        self.shards[1 - from].hear(sender(place(from)), message, 1)
    }

    /// The claimer publishes to a room that it has other sockets in, and the owner none.
    fn say(&mut self, args: &str) {
        let claimer = &mut self.shards[CLAIMER];
        let moment = Moment {
            now_ms: 1,
            stamp: Some(claimer.stamps.give(None)),
            kept: false,
            number: 0,
        };
        let aim = Aim {
            namespace: NAMESPACE,
            rooms: &["a"],
            ..Aim::default()
        };
        claimer.say(moment, &aim, &Emit::new("e", args), |_| true);
    }

    /// An event of another node for the socket arrives at a shard.
    fn hear(&mut self, shard: usize, stamp: Stamp, args: &str) {
        let moment = Moment {
            now_ms: 1,
            stamp: Some(stamp),
            kept: false,
            number: 0,
        };
        let socket = self.record.socket.to_string();
        let aim = Aim {
            namespace: NAMESPACE,
            rooms: &[&socket],
            ..Aim::default()
        };
        self.shards[shard].say(moment, &aim, &Emit::new("e", args), |_| true);
    }

    /// The owner lets the socket join that room. Both are listed for its id.
    fn join(&mut self) {
        let moment = Moment {
            now_ms: 1,
            stamp: Some(self.shards[OWNER].stamps.give(None)),
            kept: false,
            number: 0,
        };
        let socket = self.record.socket.to_string();
        let aim = Aim {
            namespace: NAMESPACE,
            rooms: &[&socket],
            ..Aim::default()
        };
        for shard in &mut self.shards {
            shard.command(moment, &aim, &Action::Join(vec!["a".into()]));
        }
    }
}

/// The claimer has what was said to others in the room before, and the owner never heard of it.
#[test]
fn what_was_said_before_a_join_was_taken_for_missed() {
    let mut pair = Pair::new();
    assert!(pair.pass(CLAIMER).is_none(), "the claim");
    assert!(pair.pass(OWNER).is_none(), "the offer");
    let fence = pair.shards[CLAIMER].ways.take_posts();
    pair.posts[CLAIMER].extend(fence.into_iter().map(|post| post.message));
    pair.say("before");
    pair.join();
    assert!(pair.pass(CLAIMER).is_none(), "the fence");
    assert!(pair.pass(OWNER).is_none(), "the offer of the new room");
    assert!(pair.pass(CLAIMER).is_none(), "its fence");
    pair.say("later");
    let verdict = pair.pass(OWNER).expect("the handover");
    let back = verdict.result.expect("recovered");
    assert!(back.record.members.has(Kind::Room, "a"));
    let missed = back.missed.iter().map(|(_, said)| said.event().args);
    let missed: Vec<&str> = missed.collect();
    assert_eq!(missed, ["later"]);
    assert!(pair.pass(CLAIMER).is_none(), "the confirmation");
    assert_eq!(pair.shards[OWNER].parked.len(), 0);
}

/// The record stayed with that process, and the claimer waited until its time was over.
#[test]
fn a_claim_waited_for_an_owner_in_whose_place_another_process_was() {
    let mut pair = Pair::new();
    assert!(pair.pass(CLAIMER).is_none(), "the claim");
    assert!(pair.pass(OWNER).is_none(), "the offer");
    pair.shards[OWNER] = Pair::new().shards.swap_remove(OWNER);
    pair.shards[OWNER].parked.remove(pair.record.pid);
    assert!(pair.pass(CLAIMER).is_none(), "the fence");
    let verdict = pair.pass(OWNER).expect("it has nothing");
    assert_eq!(verdict.result.err(), Some(NotRecovered::Unknown));
    assert_eq!(pair.shards[CLAIMER].parked.len(), 0);
}

/// Its node came back under its number while the socket was taken. Its clock was behind that of its life before.
#[test]
fn what_a_node_said_in_its_next_life_was_dropped_while_a_socket_was_taken() {
    let mut pair = Pair::new();
    let node = Place { node: 2, shard: 0 };
    let said = |life, number| Stamp {
        from: node,
        life: ShardLife(life),
        number,
    };
    pair.hear(OWNER, said(1, 1_000), "of the life before");
    assert!(pair.pass(CLAIMER).is_none(), "the claim");
    assert!(pair.pass(OWNER).is_none(), "the offer");
    pair.hear(CLAIMER, said(1, 1_000), "of the life before");
    pair.hear(CLAIMER, said(2, 1), "of the next life");
    assert!(pair.pass(CLAIMER).is_none(), "the fence");
    let verdict = pair.pass(OWNER).expect("the handover");
    let back = verdict.result.expect("recovered");
    let missed = back.missed.iter().map(|(_, said)| said.event().args);
    let missed: Vec<&str> = missed.collect();
    assert_eq!(missed, ["of the life before", "of the next life"]);
}

/// Its offset was a place in this journal, and from before its socket came here again with what another shard had not told it.
#[test]
fn a_client_got_once_more_what_it_had_here_in_a_former_life() {
    let mut pair = Pair::new();
    let shard = &mut pair.shards[CLAIMER];
    let name = pair.record.socket.to_string();
    let said = [7, 8].map(|number| Arc::new(Said::new(&Emit::new("e", "")).numbered(number)));
    let had = shard.journal.tell(1, NAMESPACE, &name, &said[0]);
    let head = shard.journal.head();
    let life = Life::from_parts(head, head, Vec::new()).expect("a life");
    for said in &said {
        shard.journal.tell(1, NAMESPACE, &name, said);
    }
    let record = Record {
        life,
        ..pair.record.clone()
    };
    let comer = Comer {
        pid: record.pid,
        offset: Some(shard.journal.position(had)),
        number: Some(7),
        uid: None,
    };
    shard.parked.park(record, 1_000);
    let back = shard.take(comer).expect("it is here");
    let missed: Vec<_> = back.missed.iter().map(|(_, said)| said.number()).collect();
    assert_eq!(missed, [Some(8)]);
}
