//! Lists of sockets and rooms that other servers ask for.

use super::{ask, hear, plane};
use compat::classic::Publish;
use compat::plane::{Part, Plane, Task, Way};
use compat::refused::Refused;
use compat::verb::{Fetched, Selection, Verb, own_uid};

#[test]
fn a_classic_server_that_lists_rooms_gets_those_of_our_sockets() {
    let mut plane = plane();
    let request = "qF_JZn".to_owned();
    hear(&mut plane, Verb::Rooms { request }, 10);
    let tasks = plane.take();
    let [
        Task::Carry {
            question: Some(number),
            letter,
        },
    ] = &tasks[..]
    else {
        panic!("{tasks:?}")
    };
    assert!(matches!(letter.verb, Verb::Fetch { .. }));
    let socket = |rooms: &[&str]| Fetched {
        id: rooms[0].to_owned(),
        rooms: rooms.iter().map(|room| (*room).to_owned()).collect(),
        data: "{}".to_owned(),
    };
    let sockets = vec![socket(&["a", "r1"]), socket(&["b", "r1"])];
    let complete = true;
    plane.answered(
        *number,
        Part::Found {
            sockets,
            parts: 1,
            complete,
        },
    );
    let tasks = plane.take();
    let [Task::Publish(Publish { channel, body })] = &tasks[..] else {
        panic!("{tasks:?}")
    };
    let expected = r#"{"requestId":"qF_JZn","rooms":["a","b","r1"]}"#;
    assert_eq!(String::from_utf8_lossy(body), expected);
    // In the common channel all nodes and servers got it.
    assert_eq!(channel, "socket.io-response#/lab#3J1VvJ#");
}

/// Letters between nodes waited while a node read lists of megabytes that servers had for each other.
#[test]
fn a_list_for_another_server_was_read() {
    let mut plane = plane();
    let sockets = vec![r#"{"id":"a","rooms":["a"],"data":{}}"#; 1_000].join(",");
    let mut hear = |body: String, why: Refused| {
        let before = plane.tally().refused[why as usize];
        plane.heard(
            Way::Channel,
            "socket.io-response#/lab#",
            body.as_bytes(),
            10,
        );
        plane.tally().refused[why as usize] - before
    };
    let list = |id: &str| format!(r#"{{"requestId":"{id}","sockets":[{sockets}]"#);
    // A fault at its end is not found.
    assert_eq!(hear(list("qF_JZn"), Refused::Elsewhere), 1);
    let ours = format!("{}-1", own_uid(1, 1));
    assert_eq!(hear(list(&ours), Refused::Garbage), 1);
    let named_last = format!(r#"{{"sockets":[{sockets}],"requestId":"{ours}""#);
    assert_eq!(hear(named_last, Refused::Garbage), 1);
}

/// A part looked like all, and a message of many megabytes cut off all who heard it.
#[test]
fn a_list_that_is_too_large_or_incomplete_is_not_sent() {
    let mut plane = plane();
    let socket = Fetched {
        id: "Zc7f0ch5oTBIRcgBAAAA".to_owned(),
        rooms: vec!["Zc7f0ch5oTBIRcgBAAAA".to_owned()],
        data: "{}".to_owned(),
    };
    let mut answers = |verb: Verb, each: usize, complete: bool| {
        hear(&mut plane, verb, 10);
        let tasks = plane.take();
        let [Task::Carry { question, .. }] = &tasks[..] else {
            panic!("{tasks:?}")
        };
        for _ in 0..2 {
            let part = Part::Found {
                sockets: vec![socket.clone(); each],
                parts: 2,
                complete,
            };
            plane.answered(question.expect("a question"), part);
        }
        (plane.take().len(), plane.tally().cut)
    };
    let request = || "qF_JZn".to_owned();
    let fetch = || Verb::Fetch {
        request: request(),
        of: Selection::default(),
    };
    assert_eq!(answers(fetch(), 1, true), (1, 0));
    assert_eq!(answers(fetch(), 2, true), (0, 1));
    assert_eq!(answers(fetch(), 1, false), (0, 2));
    // The names of rooms are few, however many sockets have them.
    let rooms = || Verb::Rooms { request: request() };
    assert_eq!(answers(rooms(), 100, true), (1, 2));
    // What was too large takes no place.
    assert_eq!(answers(fetch(), 1, true), (1, 2));
}

#[test]
fn a_shard_that_is_silent_does_not_make_other_servers_wait_in_vain() {
    let mut plane = plane();
    let request = "qF_JZn".to_owned();
    let of = Selection::default();
    hear(&mut plane, Verb::Fetch { request, of }, 10);
    plane.take();
    plane.tick(4_009);
    assert!(
        !plane
            .take()
            .iter()
            .any(|task| matches!(task, Task::Publish(_)))
    );
    plane.tick(4_010);
    assert!(
        plane
            .take()
            .iter()
            .any(|task| matches!(task, Task::Publish(_)))
    );
}

/// Above this number they were answered "nobody", so the server that asked believed that all had answered.
#[test]
fn questions_above_the_bound_were_answered_as_if_nobody_were_here() {
    let mut plane = plane();
    let question = |plane: &mut Plane| {
        hear(plane, ask(), 1);
        plane.take()
    };
    let carried = (0..65_536).filter(|_| !question(&mut plane).is_empty());
    assert_eq!(carried.count(), 65_536);
    assert_eq!(question(&mut plane), [], "its server reports a timeout");
    assert_eq!(plane.tally().unasked, [1, 0]);
}
