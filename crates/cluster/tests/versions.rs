//! Nodes beside nodes of the build before, which reads and writes frames of version 1 alone.

use cluster::frame::{Epoch, NEWEST, NodeId, Peer, VERSION};
use cluster::node::{Event, Limits, Node};

const HEARTBEAT: u8 = 1;
/// Version, kind, publisher; then number, flood and `hears`.
const HEAD: usize = 12 + 17;
/// What version 2 says of a peer; version 1 says all but the last eight bytes.
const KNOWN: usize = 46;

struct Member {
    node: Node,
    is_old: bool,
    refused: u32,
}

impl Member {
    fn new(number: u16, is_old: bool) -> Self {
        let me = Peer {
            node: NodeId(number),
            epoch: Epoch(1),
        };
        Self {
            node: Node::new(me, Limits::default()),
            is_old,
            refused: 0,
        }
    }

    /// As its build writes it; `None`: its build does not.
    fn writes(&self, frame: &[u8]) -> Option<Vec<u8>> {
        if !self.is_old {
            return Some(frame.to_vec());
        }
        match (frame[0], frame[1]) {
            (NEWEST, HEARTBEAT) => Some(as_before(frame)),
            (VERSION, HEARTBEAT) => None,
            (version, _) => {
                assert_eq!(version, VERSION, "all else is as it was");
                Some(frame.to_vec())
            }
        }
    }

    fn arrived(&mut self, frame: &[u8]) {
        match self.is_old && frame[0] != VERSION {
            true => self.refused += 1,
            false => self.node.arrived(frame.to_vec()),
        }
    }

    fn letters(&mut self) -> Vec<(u16, Vec<u8>)> {
        let letters = self.node.events().filter_map(|event| match event {
            Event::Letter { from, letter } => Some((from.node.0, letter.to_vec())),
            _ => None,
        });
        letters.collect()
    }
}

/// A heartbeat of version 1.
fn as_before(frame: &[u8]) -> Vec<u8> {
    let (body, _) = frame.split_at(frame.len() - 4);
    let mut out = body[..HEAD].to_vec();
    out[0] = VERSION;
    for known in body[HEAD..].chunks_exact(KNOWN) {
        out.extend_from_slice(&known[..KNOWN - 8]);
    }
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Time goes by; every `loses`th frame reaches nobody (0: all arrive).
fn run(members: &mut [Member], now_us: &mut u64, for_us: u64, loses: u32) {
    let (until_us, mut said) = (*now_us + for_us, 0);
    while *now_us < until_us {
        *now_us += 10_000;
        for at in 0..members.len() {
            let mut batch = Vec::new();
            members[at].node.begin(*now_us);
            members[at].node.take(&mut batch);
            for one in &batch {
                said += 1;
                let frame = members[at].writes(&one.frame);
                let Some(frame) = frame.filter(|_| loses == 0 || said % loses > 0) else {
                    continue;
                };
                members.iter_mut().for_each(|to| to.arrived(&frame));
            }
            if !batch.is_empty() {
                members[at].node.ended(batch, |_| true);
            }
        }
    }
}

/// What each sends to a key arrives once and in order at all others that hold it, also where frames get lost.
fn all_hear_each_other(members: &mut [Member], now_us: &mut u64, loses: u32) {
    const WORDS: u8 = 20;
    members.iter_mut().for_each(|member| member.node.hold(7));
    run(members, now_us, 3_000_000, 0);
    members.iter_mut().for_each(|member| {
        member.letters();
    });
    for word in 0..WORDS {
        for member in &mut *members {
            member.node.send(&[7], &[word]);
        }
        run(members, now_us, 20_000, loses);
    }
    run(members, now_us, 5_000_000, 0);
    let count = members.len() as u16;
    for at in 0..count {
        let letters = members[usize::from(at)].letters();
        for from in (0..count).filter(|from| *from != at) {
            let words: Vec<&[u8]> = letters
                .iter()
                .filter(|(node, _)| *node == from)
                .map(|(_, letter)| letter.as_slice())
                .collect();
            let all: Vec<[u8; 1]> = (0..WORDS).map(|word| [word]).collect();
            assert_eq!(words, all, "from {from} to {at}");
        }
    }
}

fn cluster(old: [bool; 3]) -> Vec<Member> {
    (0..)
        .zip(old)
        .map(|(number, is_old)| Member::new(number, is_old))
        .collect()
}

/// A node that wrote version 2 only was never heard by those before it, and each side served its own clients alone.
#[test]
fn nodes_of_two_versions_hear_each_other() {
    for old in [
        [true, false, false],
        [true, true, false],
        [false, true, false],
    ] {
        for loses in [0, 3] {
            let (mut members, mut now_us) = (cluster(old), 0);
            run(&mut members, &mut now_us, 1_000_000, 0);
            all_hear_each_other(&mut members, &mut now_us, loses);
        }
    }
}

/// A join beside an old node is confirmed: nobody waits for a word that it does not know.
#[test]
fn a_join_is_confirmed_by_an_old_node() {
    let (mut members, mut now_us) = (cluster([false, true, false]), 0);
    run(&mut members, &mut now_us, 2_000_000, 0);
    members[0].node.hold(9);
    let position = members[0].node.told().expect("room");
    assert!(!members[0].node.is_confirmed(position), "nobody knows yet");
    run(&mut members, &mut now_us, 600_000, 0);
    assert!(members[0].node.is_confirmed(position));
}

/// The old one goes, and a minute later heartbeats are said once again.
#[test]
fn heartbeats_of_version_1_end_with_the_last_that_needs_them() {
    let (mut members, mut now_us) = (cluster([false, true, false]), 0);
    run(&mut members, &mut now_us, 2_000_000, 0);
    assert!(members[1].refused > 0, "they are said in both");
    let heard = members[1].node.neighbours().up().count();
    assert_eq!(heard, 2);
    let mut gone = members.remove(1);
    gone.node.leave();
    let mut batch = Vec::new();
    gone.node.take(&mut batch);
    for one in &batch {
        let Some(frame) = gone.writes(&one.frame) else {
            continue;
        };
        members.iter_mut().for_each(|to| to.arrived(&frame));
    }
    run(&mut members, &mut now_us, 70_000_000, 0);
    let mut batch = Vec::new();
    now_us += 260_000;
    members[0].node.begin(now_us);
    members[0].node.take(&mut batch);
    let versions: Vec<u8> = batch
        .iter()
        .filter(|one| one.frame[1] == HEARTBEAT)
        .map(|one| one.frame[0])
        .collect();
    assert_eq!(versions, [NEWEST]);
}
