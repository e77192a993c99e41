//! Order: what one publisher sends to a room arrives in that order at every member, nothing is lost, nothing comes twice.

use super::application::Application;
use super::client::{Event, SocketIo};
use super::crowd::lab;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const PUBLISHERS: usize = 5;
const ROOMS: [&str; 3] = ["a", "b", "c"];
/// Events of each publisher.
const EVENTS: u64 = 300;
/// Events that a polling publisher puts into one request.
const BATCH: u64 = 25;

/// Event `n` of a publisher goes to this room.
fn room_of(publisher: usize, n: u64) -> &'static str {
    ROOMS[(publisher as u64 + n) as usize % ROOMS.len()]
}

/// Rooms of a member: one, two or all three.
fn rooms_of(member: usize) -> &'static [&'static str] {
    &ROOMS[..=member % ROOMS.len()]
}

fn publish(mut client: SocketIo, publisher: usize) -> SocketIo {
    for first in (0..EVENTS).step_by(BATCH as usize) {
        let batch = first..(first + BATCH).min(EVENTS);
        let events: Vec<(&str, Vec<Value>)> = batch
            .map(|n| {
                let room = room_of(publisher, n);
                (
                    "in",
                    vec![
                        room.into(),
                        "seq".into(),
                        publisher.into(),
                        n.into(),
                        room.into(),
                    ],
                )
            })
            .collect();
        client.emit_all(&events);
    }
    client
}

/// Reads what a member is due and says what came: per publisher the numbers, in the order of arrival.
fn follow(client: &mut SocketIo, member: usize) -> BTreeMap<u64, Vec<u64>> {
    let mut came: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for event in until_all_are_done(client) {
        let [publisher, n, room] = &event.args[..] else {
            panic!("{event:?}")
        };
        assert!(
            rooms_of(member).contains(&room.as_str().expect("a room")),
            "{event:?}"
        );
        came.entry(publisher.as_u64().expect("number"))
            .or_default()
            .push(n.as_u64().expect("number"));
    }
    came
}

/// Events until each publisher has sent its mark to everyone, behind all else.
fn until_all_are_done(client: &mut SocketIo) -> Vec<Event> {
    (0..PUBLISHERS).flat_map(|_| client.until("done")).collect()
}

#[test]
fn every_member_sees_every_publishers_order_completely() {
    let application = Application::start();
    let addr = application.addr;
    let mut members = lab(addr, 2, |_| json!({}));
    members.extend((0..3).map(|_| SocketIo::polling(addr, "/lab", json!({}))));
    for (n, member) in members.iter_mut().enumerate() {
        rooms_of(n)
            .iter()
            .for_each(|room| drop(member.ask("join", &[(*room).into()])));
    }
    let mut publishers = lab(addr, 1, |_| json!({}));
    publishers.push(SocketIo::polling(addr, "/lab", json!({})));
    assert_eq!(publishers.len(), PUBLISHERS);

    let publishing = publishers
        .into_iter()
        .enumerate()
        .map(|(publisher, client)| {
            std::thread::spawn(move || {
                let mut client = publish(client, publisher);
                client.emit("all", &["done".into()]);
                client
            })
        });
    let publishing: Vec<_> = publishing.collect();
    let following = members.into_iter().enumerate().map(|(member, mut client)| {
        std::thread::spawn(move || (member, follow(&mut client, member)))
    });
    let following: Vec<_> = following.collect();
    let publishers: Vec<SocketIo> = publishing
        .into_iter()
        .map(|thread| thread.join().expect("publisher"))
        .collect();
    for thread in following {
        let (member, came) = thread.join().expect("member");
        for publisher in 0..PUBLISHERS {
            let due: Vec<u64> = (0..EVENTS)
                .filter(|n| rooms_of(member).contains(&room_of(publisher, *n)))
                .collect();
            assert_eq!(
                came[&(publisher as u64)],
                due,
                "member {member}, publisher {publisher}"
            );
        }
        assert_eq!(came.len(), PUBLISHERS);
    }
    drop(publishers);
}
