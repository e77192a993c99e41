//! Lives of a node that follow each other.

mod common;

use cluster::frame::{self, Epoch, Frame, NodeId, Peer};
use cluster::interest::Address;
use cluster::node::{Event, Limits, Node};
use cluster::numbers::Newcomer;
use cluster::outlet::{Channel, Publish};
use common::{record, run};

fn node(number: u16, epoch: u64) -> Node {
    limited(number, epoch, Limits::default())
}

fn limited(number: u16, epoch: u64, limits: Limits) -> Node {
    let me = Peer {
        node: NodeId(number),
        epoch: Epoch(epoch),
    };
    Node::new(me, limits)
}

fn peers(node: &Node) -> Vec<u64> {
    node.neighbours().up().map(|peer| peer.epoch.0).collect()
}

/// Epochs are the time of day. A process that took the number of one that had left, on a machine whose clock is behind, was never
/// heard by the others.
#[test]
fn a_number_that_was_given_back_may_be_taken_on_a_machine_whose_clock_is_behind() {
    let (mut here, mut first, mut now_us) = (node(1, 100), node(2, 200), 0);
    run(&mut [&mut here, &mut first], &mut now_us, 1_000_000);
    assert_eq!(peers(&here), [200]);
    first.leave();
    run(&mut [&mut here, &mut first], &mut now_us, 10_000);
    run(&mut [&mut here], &mut now_us, 100_000);
    assert_eq!(peers(&here), []);
    let mut second = node(2, 150);
    run(&mut [&mut here, &mut second], &mut now_us, 1_000_000);
    assert_eq!((peers(&here), peers(&second)), (vec![150], vec![100]));
    let key = [7];
    second.hold(7);
    run(&mut [&mut here, &mut second], &mut now_us, 1_000_000);
    assert_eq!(here.send(&key, b"hello"), [NodeId(2)]);
    run(&mut [&mut here, &mut second], &mut now_us, 100_000);
    let got = second
        .events()
        .any(|event| matches!(event, Event::Letter { letter, .. } if *letter == *b"hello"));
    assert!(got);
}

/// The first join of a room waited its whole time for a node that had died, until that was given up.
#[test]
fn a_silent_node_does_not_hold_up_joins() {
    let (mut here, mut there, mut dying, mut now_us) = (node(1, 1), node(2, 1), node(3, 1), 0);
    run(
        &mut [&mut here, &mut there, &mut dying],
        &mut now_us,
        1_000_000,
    );
    here.hold(7);
    let position = here.told().expect("room");
    assert!(!here.is_confirmed(position), "nobody knows yet");
    run(&mut [&mut here, &mut there], &mut now_us, 300_000);
    assert!(!here.is_confirmed(position), "one may only be slow");
    run(&mut [&mut here, &mut there], &mut now_us, 2_000_000);
    assert_eq!(here.neighbours().up().count(), 2, "it is not given up");
    assert!(here.is_confirmed(position));
    here.hold(8);
    let position = here.told().expect("room");
    assert!(!here.is_confirmed(position), "the other one is asked still");
    run(&mut [&mut here, &mut there], &mut now_us, 100_000);
    assert!(here.is_confirmed(position));
}

/// The channel of all was away and the node's own was not: all others passed for silent, and for dead after 15 seconds.
#[test]
fn all_were_given_up_when_only_the_channel_of_all_was_away() {
    let (mut here, mut there, mut now_us) = (node(1, 1), node(2, 1), 0);
    run(&mut [&mut here, &mut there], &mut now_us, 1_000_000);
    here.hold(7);
    let position = here.told().expect("room");
    for _ in 0..2_000 {
        now_us += 10_000;
        let mut batch = Vec::new();
        here.begin(now_us);
        here.take(&mut batch);
        let is_own = |frame: &Publish| frame.channel == Channel::Inbox(NodeId(1));
        let own: Vec<bool> = batch.iter().map(is_own).collect();
        for (frame, _) in batch.iter().zip(&own).filter(|(_, own)| **own) {
            here.arrived(frame.frame.to_vec());
        }
        if !batch.is_empty() {
            here.ended(batch, |at| own[at]);
        }
    }
    assert!(here.neighbours().up().count() == 1 && !here.is_confirmed(position));
}

/// Behind a message to all, a join waited for the next heartbeats.
#[test]
fn a_join_waited_for_messages_that_were_said_behind_it() {
    let limits = Limits {
        flood_always: true,
        ..Limits::default()
    };
    let (mut here, mut now_us) = (limited(1, 1, limits), 0);
    let mut there = node(2, 1);
    there.hold(5);
    run(&mut [&mut here, &mut there], &mut now_us, 1_000_000);
    here.hold(7);
    here.send(&[5], b"hello");
    let position = here.told().expect("room");
    run(&mut [&mut here, &mut there], &mut now_us, 20_000);
    assert!(here.is_confirmed(position));
}

/// Rooms that were left are told of a quarter of a second later, and joins waited for that.
#[test]
fn a_join_waited_until_the_leaves_before_it_were_told() {
    let (mut here, mut there, mut now_us) = (node(1, 1), node(2, 1), 0);
    here.hold(7);
    run(&mut [&mut here, &mut there], &mut now_us, 1_000_000);
    here.hold(8);
    here.release(7);
    let position = here.told().expect("it is told");
    run(&mut [&mut here, &mut there], &mut now_us, 40_000);
    assert!(here.is_confirmed(position));
    assert!(
        there.send(&[7], b"late").contains(&NodeId(1)),
        "not yet told"
    );
    // It comes back before that, and goes for good.
    here.hold(7);
    here.release(7);
    here.release(8);
    assert!(here.told().is_some());
    run(&mut [&mut here, &mut there], &mut now_us, 500_000);
    assert_eq!(there.send(&[7, 8], b"nobody"), []);
}

/// Others do not wait for a node that stands still. When it went on, it sent past those who had joined meanwhile.
#[test]
fn a_node_that_stood_still_sent_past_those_who_joined_meanwhile() {
    let (mut here, mut frozen, mut now_us) = (node(1, 1), node(2, 1), 0);
    run(&mut [&mut here, &mut frozen], &mut now_us, 1_000_000);
    assert!(frozen.may_send());
    here.hold(7);
    let position = here.told().expect("room");
    let missed = record(&mut [&mut here], &mut now_us, 2_000_000);
    assert!(here.is_confirmed(position), "it is not waited for");
    // It goes on: what was said meanwhile lies before it, and its own heartbeat behind that.
    frozen.begin(now_us);
    assert!(!frozen.may_send(), "it may miss something");
    missed
        .iter()
        .for_each(|frame| frozen.arrived(frame.clone()));
    run(&mut [&mut here, &mut frozen], &mut now_us, 20_000);
    assert!(frozen.may_send());
    assert_eq!(frozen.send(&[7], b"hello"), [NodeId(1)]);
}

/// A node that stood still while another one started got nothing of what that one said, and nobody counted it. So did one whose letters
/// were heard, but no heartbeat yet.
#[test]
fn a_node_that_stood_still_while_another_one_started_missed_what_it_said() {
    for is_heard in [false, true] {
        let (mut frozen, mut now_us) = (node(1, 1), 0);
        frozen.hold(7);
        let said = record(&mut [&mut frozen], &mut now_us, 1_000_000);
        let mut newcomer = node(2, 2);
        let mut missed = record(&mut [&mut newcomer], &mut now_us, 2_000_000);
        if is_heard {
            let is_letters =
                |said: &&Vec<u8>| matches!(frame::read(said), Ok((_, Frame::Letters(_))));
            let letters = said.iter().find(is_letters).expect("its key");
            newcomer.arrived(letters.clone());
            assert_eq!(peers(&newcomer), [], "no heartbeat came");
        }
        let silent = Peer {
            node: NodeId(1),
            epoch: Epoch(1),
        };
        newcomer.owe(silent);
        for n in 0..100_u8 {
            // Nobody is known to be there, and it is kept all the same.
            assert_eq!(newcomer.send(&[7], &[n]), []);
            missed.extend(record(&mut [&mut newcomer], &mut now_us, 10_000));
        }
        missed.extend(record(&mut [&mut newcomer], &mut now_us, 300_000));
        frozen.begin(now_us);
        missed
            .iter()
            .for_each(|frame| frozen.arrived(frame.clone()));
        run(&mut [&mut frozen, &mut newcomer], &mut now_us, 2_000_000);
        newcomer.send(&[7], &[100]);
        run(&mut [&mut frozen, &mut newcomer], &mut now_us, 200_000);
        let letters = frozen.events().filter_map(|event| match event {
            Event::Letter { letter, .. } => Some(letter[0]),
            Event::Lost { letters, .. } => panic!("{letters:?} are lost"),
            _ => None,
        });
        assert_eq!(
            letters.collect::<Vec<_>>(),
            (0..=100).collect::<Vec<_>>(),
            "{is_heard}"
        );
    }
}

/// Messages for it are kept as long as the ring holds them, and counted after that. A later life of it is owed nothing.
#[test]
fn what_is_owed_to_a_silent_node_has_a_bound() {
    let mut limits = Limits::default();
    limits.outlet.ring_bytes = 20_000;
    let (mut frozen, mut now_us) = (node(1, 1), 0);
    run(&mut [&mut frozen], &mut now_us, 1_000_000);
    let mut newcomer = limited(2, 2, limits);
    run(&mut [&mut newcomer], &mut now_us, 2_000_000);
    for number in [1, 3] {
        newcomer.owe(Peer {
            node: NodeId(number),
            epoch: Epoch(1),
        });
    }
    for _ in 0..100 {
        newcomer.send(&[7], &[0; 1_000]);
        run(&mut [&mut newcomer], &mut now_us, 10_000);
    }
    let mut later = node(3, 9);
    run(
        &mut [&mut frozen, &mut newcomer, &mut later],
        &mut now_us,
        2_000_000,
    );
    let lost = |node: &mut Node| {
        let events = node.events();
        let lost = events.map(|event| match event {
            Event::Lost { letters, .. } => letters.expect("they are counted"),
            _ => 0,
        });
        lost.sum::<u64>()
    };
    assert_eq!((lost(&mut frozen), lost(&mut later)), (100, 0));
}

/// A peer that says nothing holds nobody up when the engine is back: it is sent everything.
#[test]
fn a_node_that_stood_still_waited_for_one_that_is_dead() {
    let (mut here, mut frozen, mut now_us) = (node(1, 1), node(2, 1), 0);
    run(&mut [&mut here, &mut frozen], &mut now_us, 1_000_000);
    now_us += 2_000_000;
    frozen.begin(now_us);
    assert!(!frozen.may_send());
    run(&mut [&mut frozen], &mut now_us, 900_000);
    assert!(!frozen.may_send(), "the other one may speak soon");
    run(&mut [&mut frozen], &mut now_us, 200_000);
    assert!(frozen.may_send());
    assert_eq!(frozen.send(&[7], b"hello"), [NodeId(1)]);
    assert!(frozen.counts().interest_misses > 0, "that is counted");
}

/// While the engine is away, nobody knows what others hold; a node that is alone needs no one.
#[test]
fn letters_went_past_those_who_joined_while_the_engine_was_away() {
    let (mut here, mut there, mut now_us) = (node(1, 1), node(2, 1), 0);
    run(&mut [&mut here], &mut now_us, 1_000_000);
    here.begin(now_us + 10_000_000);
    assert!(here.may_send(), "nobody else is there");
    now_us += 10_000_000;
    run(&mut [&mut here, &mut there], &mut now_us, 1_000_000);
    assert_eq!(here.send(&[7], b"nobody"), []);
    // Nothing is taken from now on. What was made leaves late, and says nothing new.
    let mut late = Vec::new();
    for _ in 0..60 {
        now_us += 10_000;
        [&mut here, &mut there]
            .into_iter()
            .for_each(|node| node.begin(now_us));
        there.take(&mut late);
    }
    assert!(!here.may_send());
    there.hold(7);
    now_us += 1_000_000;
    here.begin(now_us);
    late.iter().for_each(|one| here.arrived(one.frame.to_vec()));
    let mut batch = Vec::new();
    here.take(&mut batch);
    here.ended(batch, |_| true);
    assert!(!here.may_send(), "an old heartbeat says nothing");
    assert_eq!(
        here.send(&[7], b"news"),
        [NodeId(2)],
        "whoever asks all the same"
    );
    run(&mut [&mut here, &mut there], &mut now_us, 400_000);
    assert!(here.may_send());
    assert_eq!(here.send(&[7], b"news"), [NodeId(2)]);
    assert_eq!(here.send(&[8], b"nobody"), []);
}

/// An order goes to one process and changes no members.
#[test]
fn an_order_reaches_the_node_that_it_is_for() {
    let (mut here, mut there, mut other, mut now_us) = (node(1, 1), node(2, 1), node(3, 1), 0);
    run(
        &mut [&mut here, &mut there, &mut other],
        &mut now_us,
        1_000_000,
    );
    here.order(NodeId(2), b"drain");
    run(
        &mut [&mut here, &mut there, &mut other],
        &mut now_us,
        100_000,
    );
    let ordered = |node: &mut Node| {
        let is_order =
            |event: &Event| matches!(event, Event::Order { order, .. } if **order == *b"drain");
        node.events().filter(is_order).count()
    };
    assert_eq!([&mut here, &mut there, &mut other].map(ordered), [0, 1, 0]);
}

/// Nodes whose engine loses what the second one does not hear, and the letters that came there.
fn cut_off(ring_bytes: usize, for_us: u64) -> (Vec<u8>, u64, u64) {
    let mut limits = Limits::default();
    limits.outlet.ring_bytes = ring_bytes;
    let (mut here, mut other) = (limited(1, 1, limits), node(3, 1));
    let (mut cut, mut now_us) = (node(2, 1), 0);
    cut.hold(7);
    run(
        &mut [&mut here, &mut cut, &mut other],
        &mut now_us,
        1_000_000,
    );
    let (mut said, until_us) = (0, now_us + for_us);
    while now_us < until_us {
        // One for all that hold a key, one for a room that a member comes to meanwhile.
        here.send(&[7, 8], &[said]);
        said += 1;
        run(&mut [&mut here, &mut other], &mut now_us, 100_000);
        cut.begin(now_us);
    }
    let gone = here
        .events()
        .any(|event| matches!(event, Event::Down(peer) if peer.node == NodeId(2)));
    assert!(gone, "it was given up");
    here.send(&[9], &[said]);
    run(
        &mut [&mut here, &mut cut, &mut other],
        &mut now_us,
        5_000_000,
    );
    let (mut came, mut lost, mut unknown) = (Vec::new(), 0, 0);
    for event in cut.events() {
        match event {
            Event::Letter { letter, .. } => came.extend(letter.iter()),
            Event::Lost {
                letters: Some(letters),
                ..
            } => lost += letters,
            Event::Lost { letters: None, .. } => unknown += 1,
            _ => {}
        }
    }
    assert_eq!(here.neighbours().up().count(), 2);
    assert_eq!(here.send(&[7], b"again"), [NodeId(2)]);
    (came, lost, unknown)
}

/// It lost all of the 25 seconds, and nobody said how much, though the ring still held them.
#[test]
fn a_node_that_was_cut_off_for_longer_than_it_takes_to_be_given_up_lost_everything() {
    let (came, lost, unknown) = cut_off(64 << 20, 25_000_000);
    assert_eq!((came, lost, unknown), ((0..=250).collect(), 0, 0));
}

/// What the ring does not hold any more is counted, also while the node is given up.
#[test]
fn what_a_node_missed_after_it_was_given_up_is_counted() {
    let (came, lost, unknown) = cut_off(2_000, 25_000_000);
    // What is in the rest came, in order; the nodes' own letters are counted, too.
    let missed = 251 - came.len() as u64;
    assert!((missed..missed + 10).contains(&lost), "{lost} of {missed}");
    assert!(missed > 200 && unknown == 0 && came.is_sorted());
}

/// The engine lost its counter of lives, and the clock went back while the node was away: nobody heard it again.
#[test]
fn a_node_that_died_and_came_back_with_a_lower_epoch_was_never_heard() {
    let (mut here, mut first, mut now_us) = (node(1, 100), node(2, 200), 0);
    run(&mut [&mut here, &mut first], &mut now_us, 1_000_000);
    let mut second = node(2, 150);
    run(&mut [&mut here, &mut second], &mut now_us, 1_000_000);
    assert_eq!(peers(&here), [200], "the first one may live");
    run(&mut [&mut here], &mut now_us, 20_000_000);
    assert_eq!(peers(&here), []);
    run(&mut [&mut here, &mut second], &mut now_us, 1_000_000);
    assert_eq!(peers(&here), [150]);
}

/// Frames of a life that is over come late: the present life is not given up for them.
#[test]
fn a_frame_of_an_earlier_life_changes_nothing() {
    let (mut here, mut first, mut now_us) = (node(1, 100), node(2, 200), 0);
    let mut late = Vec::new();
    first.begin(1);
    first.take(&mut late);
    let mut second = node(2, 300);
    run(&mut [&mut here, &mut second], &mut now_us, 1_000_000);
    late.iter().for_each(|one| here.arrived(one.frame.to_vec()));
    run(&mut [&mut here, &mut second], &mut now_us, 100_000);
    assert_eq!(peers(&here), [300]);
}

fn letters(node: &mut Node) -> usize {
    let letters = node
        .events()
        .filter(|event| matches!(event, Event::Letter { .. }));
    letters.count()
}

/// A program that recorded what a node said, and repeats it after the node went, made it come back and its letters arrive again.
#[test]
fn a_node_that_went_came_back_by_a_recording() {
    let (mut here, mut first, mut now_us) = (node(1, 100), node(2, 200), 0);
    here.hold(7);
    run(&mut [&mut here, &mut first], &mut now_us, 1_000_000);
    first.send(&[7], b"hello");
    let mut said = record(&mut [&mut here, &mut first], &mut now_us, 500_000);
    assert_eq!(letters(&mut here), 1);
    first.leave();
    said.extend(record(&mut [&mut here, &mut first], &mut now_us, 20_000));
    run(&mut [&mut here], &mut now_us, 100_000);
    assert_eq!(peers(&here), []);
    // Another process has the number meanwhile, on a machine whose clock is behind, and goes again.
    let mut second = node(2, 150);
    run(&mut [&mut here, &mut second], &mut now_us, 1_000_000);
    assert_eq!(peers(&here), [150]);
    let repeat = |here: &mut Node, epochs: &[u64]| {
        said.iter().for_each(|frame| here.arrived(frame.clone()));
        assert_eq!((peers(here), letters(here)), (epochs.to_vec(), 0));
    };
    repeat(&mut here, &[150]);
    second.leave();
    run(&mut [&mut here, &mut second], &mut now_us, 20_000);
    run(&mut [&mut here], &mut now_us, 100_000);
    assert_eq!(peers(&here), []);
    repeat(&mut here, &[]);
}

/// The same for one that was killed: repeated heartbeats kept it alive.
#[test]
fn a_dead_node_lived_on_by_repeated_heartbeats() {
    let (mut here, mut first, mut now_us) = (node(1, 100), node(2, 200), 0);
    let said = record(&mut [&mut here, &mut first], &mut now_us, 1_000_000);
    assert_eq!(peers(&here), [200]);
    for _ in 0..200 {
        run(&mut [&mut here], &mut now_us, 100_000);
        said.iter().for_each(|frame| here.arrived(frame.clone()));
    }
    assert_eq!(peers(&here), []);
}

/// What had gathered while a batch was under way stayed behind.
#[test]
fn a_node_that_left_took_its_last_letters_with_it() {
    let (mut here, mut there, mut now_us) = (node(1, 1), node(2, 1), 0);
    run(&mut [&mut here, &mut there], &mut now_us, 1_000_000);
    there.hold(7);
    run(&mut [&mut here, &mut there], &mut now_us, 100_000);
    let mut said = Vec::new();
    for letter in [b"first", b"later"] {
        assert_eq!(here.send(&[7], letter), [NodeId(2)]);
        here.take(&mut said);
    }
    here.leave();
    here.take(&mut said);
    said.iter()
        .for_each(|one| there.arrived(one.frame.to_vec()));
    there.begin(now_us);
    let told: Vec<Event> = there.events().collect();
    let is_letter = |event: &&Event| matches!(event, Event::Letter { .. });
    assert_eq!(told.iter().filter(is_letter).count(), 2, "{told:?}");
    assert!(matches!(told.last(), Some(Event::Down(_))), "{told:?}");
}

/// Where everything goes to all nodes, answers did so too: a node with a question of the same number took them for its own.
#[test]
fn an_answer_to_one_node_went_to_all() {
    let (mut there, mut other, mut now_us) = (node(2, 1), node(3, 1), 0);
    let me = Peer {
        node: NodeId(1),
        epoch: Epoch(1),
    };
    let limits = Limits {
        flood_always: true,
        ..Limits::default()
    };
    let mut here = Node::new(me, limits);
    let mut pass = |here: &mut Node, there: &mut Node, other: &mut Node| {
        run(&mut [here, there, other], &mut now_us, 1_000_000);
        [letters(there), letters(other)]
    };
    there.hold(7);
    pass(&mut here, &mut there, &mut other);
    let send = |here: &mut Node, keys: &[u64], nodes: &[NodeId], without: &[NodeId]| {
        let to = Address {
            keys,
            nodes,
            without,
        };
        here.send_to(&to, b"letter")
    };
    assert_eq!(send(&mut here, &[7], &[], &[]), [NodeId(2), NodeId(3)]);
    assert_eq!(pass(&mut here, &mut there, &mut other), [1, 1]);
    assert_eq!(send(&mut here, &[], &[NodeId(2)], &[]), [NodeId(2)]);
    assert_eq!(pass(&mut here, &mut there, &mut other), [1, 0]);
    assert_eq!(send(&mut here, &[7], &[], &[NodeId(2)]), []);
    assert_eq!(pass(&mut here, &mut there, &mut other), [0, 0]);
}

/// The engine had lost the last epoch, and the clock of a newcomer was behind: it let clients in, and for 15 seconds others sent what was for
/// those to the dead life that they still waited for.
#[test]
fn an_earlier_life_than_the_one_that_others_wait_for_served_clients_that_were_sent_nothing() {
    let (mut here, mut first, mut now_us) = (node(1, 100), node(2, 200), 0);
    run(&mut [&mut here, &mut first], &mut now_us, 1_000_000);
    // It stands still while the first one dies and the next one listens.
    let mut second = node(2, 150);
    run(&mut [&mut second], &mut now_us, 1_000_000);
    run(&mut [&mut here, &mut second], &mut now_us, 300_000);
    let is_told = |event| matches!(event, Event::Superseded(by) if by.epoch == Epoch(200));
    assert!(second.events().any(is_told));
}

/// Others did not hear a newcomer with an epoch below the last one of its number.
#[test]
fn a_newcomer_is_above_all_lives_that_heartbeats_tell_of() {
    let (mut here, mut dead, mut now_us) = (node(1, 100), node(2, 200), 0);
    run(&mut [&mut here, &mut dead], &mut now_us, 1_000_000);
    let mut newcomer = Newcomer::new(None);
    let said = record(&mut [&mut here], &mut now_us, 300_000);
    said.iter().for_each(|frame| newcomer.reads(frame, 1));
    let others: Vec<u64> = newcomer.others(1).map(|peer| peer.epoch.0).collect();
    assert_eq!(others, [100]);
    assert_eq!(newcomer.first_epoch(150), 201);
    assert_eq!(newcomer.first_epoch(300), 300);
    // An invented life leaves no room for those after it.
    let mut invented = node(3, u64::MAX);
    let said = record(&mut [&mut invented], &mut now_us, 300_000);
    said.iter().for_each(|frame| newcomer.reads(frame, 1));
    assert_eq!(newcomer.first_epoch(150), 201);
}
