//! Work that no input asks for has a share of the turn: what comes due for thousands at once is done over several turns, and a client
//! that speaks meanwhile is heard in the next one.

use crate::identity::{frame, received, websocket};
use crate::rig::Rig;
use hub::bounds::CHORES_PER_TURN;
use hub::config::Config;
use hub::{ConnectRequest, Context, Decision, Event, Handler, SocketKey};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";
const CROWD: usize = 10_000;
/// Turns that a crowd takes.
const TURNS: usize = CROWD.div_ceil(CHORES_PER_TURN);

/// A handler that puts each client into a room of its own, and counts what it is told of rooms.
#[derive(Clone, Default)]
struct Loner(Arc<AtomicUsize>);

impl Handler for Loner {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        match event.ack {
            Some(ack) => cx.ack(ack, "1", &[]),
            None => assert!(cx.socket(socket).join(event.args).is_ok()),
        }
    }

    fn room_count_changed(&mut self, _: &mut Context<'_>, _: &str, _: &str, _: u64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A hub with a crowd that came within one millisecond and has read all it was told.
fn crowd(loner: &Loner) -> (Rig, Vec<usize>) {
    let config = Config {
        connect_timeout: Duration::from_secs(1_000),
        ..Config::default()
    };
    let mut rig = Rig::new(config, Box::new(loner.clone()), 1);
    rig.checks = false;
    let clients: Vec<usize> = (0..CROWD)
        .map(|_| {
            let client = websocket(&mut rig, SIO, "");
            rig.send(client, &frame("40"));
            client
        })
        .collect();
    read(&mut rig, &clients);
    (rig, clients)
}

/// How many were told something since the last call.
fn read(rig: &mut Rig, clients: &[usize]) -> usize {
    let told = clients
        .iter()
        .filter(|client| !rig.take(**client).is_empty());
    told.count()
}

/// Turns until the hub has nothing more to do at this time; how many clients each of them told something.
fn turns(rig: &mut Rig, clients: &[usize]) -> Vec<usize> {
    let mut told = Vec::new();
    loop {
        rig.end_turn();
        told.push(read(rig, clients));
        assert!(told.len() <= 2 * TURNS, "without end: {told:?}");
        if rig.hub.next_deadline() > Some(rig.now.mono_ms) {
            return told;
        }
    }
}

/// All were pinged before anybody was heard.
#[test]
fn heartbeats_that_are_due_together_filled_a_turn() {
    let (mut rig, clients) = crowd(&Loner::default());
    rig.now.mono_ms += 25_000;
    rig.now.wall_ms += 25_000;
    rig.end_turn();
    assert_eq!(read(&mut rig, &clients), CHORES_PER_TURN);
    assert_eq!(rig.hub.next_deadline(), Some(rig.now.mono_ms), "at once");
    // Somebody who was pinged already has an answer in the very next turn.
    rig.bytes(clients[0], &frame("421[\"hello\"]"));
    rig.end_turn();
    assert_eq!(received(&mut rig, clients[0]), ["431[1]"]);
    assert_eq!(read(&mut rig, &clients), CHORES_PER_TURN);
    let told = turns(&mut rig, &clients);
    assert_eq!(told.iter().sum::<usize>(), CROWD - 2 * CHORES_PER_TURN);
    assert!(told.iter().all(|told| *told <= CHORES_PER_TURN), "{told:?}");
}

/// All rooms that changed within a quarter of a second were announced in one turn.
#[test]
fn announcements_of_all_rooms_filled_a_turn() {
    let loner = Loner::default();
    let (mut rig, clients) = crowd(&loner);
    // The first is announced at once, the others after the pause.
    for (n, client) in clients.iter().enumerate() {
        rig.send(*client, &frame(&format!("42[\"join\",\"{n}\"]")));
    }
    let before = loner.0.load(Ordering::Relaxed);
    assert!(before < CROWD / 2, "{before}");
    rig.now.mono_ms += 250;
    let mut turns = Vec::new();
    while rig.hub.next_deadline() <= Some(rig.now.mono_ms) {
        let before = loner.0.load(Ordering::Relaxed);
        rig.end_turn();
        turns.push(loner.0.load(Ordering::Relaxed) - before);
        assert!(turns.len() <= 2 * TURNS, "without end: {turns:?}");
    }
    assert!(
        turns.iter().all(|told| *told <= CHORES_PER_TURN),
        "{turns:?}"
    );
    assert_eq!(loner.0.load(Ordering::Relaxed), CROWD);
}

/// Each client was told of a shutdown in one turn.
#[test]
fn notices_of_a_shutdown_filled_a_turn() {
    let (mut rig, clients) = crowd(&Loner::default());
    rig.turn(|turn| turn.drain(60_000, 0, false));
    let told = turns(&mut rig, &clients);
    assert_eq!(told.iter().sum::<usize>(), CROWD);
    assert!(told.iter().all(|told| *told <= CHORES_PER_TURN), "{told:?}");
    assert!(rig.hub.next_deadline() > Some(rig.now.mono_ms));
}

/// A client left before it was told why, if the order to hurry came while others were being told.
#[test]
fn nobody_leaves_untold_and_nobody_is_told_twice() {
    let (mut rig, clients) = crowd(&Loner::default());
    rig.turn(|turn| turn.drain(60_000, 60_000, false));
    rig.end_turn();
    rig.turn(|turn| turn.drain(0, 0, false));
    for _ in 0..3 * TURNS {
        rig.now.mono_ms += 2;
        rig.end_turn();
    }
    assert!(rig.hub.has_let_go());
    for client in clients {
        let told = String::from_utf8_lossy(&rig.take(client)).into_owned();
        assert_eq!(told.matches("SERVER_SHUTDOWN").count(), 1, "{told}");
        assert!(rig.wires.links[client].ended);
    }
}

/// All connections without a session were closed in the turn in which the last session had been told to go.
#[test]
fn connections_without_a_session_ended_in_one_turn() {
    let mut rig = Rig::new(Config::default(), Box::new(Loner::default()), 1);
    rig.checks = false;
    let conns: Vec<usize> = (0..CROWD)
        .map(|_| {
            let conn = rig.open();
            rig.bytes(conn, b"GET /half HTTP/1.1\r\n");
            conn
        })
        .collect();
    rig.turn(|turn| turn.drain(0, 0, false));
    let open = |rig: &Rig| {
        let open = conns.iter();
        open.filter(|conn| !rig.wires.links[**conn].ended).count()
    };
    let mut before = CROWD;
    while open(&rig) > 0 {
        rig.end_turn();
        let now = open(&rig);
        assert!(
            (1..=CHORES_PER_TURN).contains(&(before - now)),
            "{before} {now}"
        );
        assert!(
            rig.hub.next_deadline() <= Some(rig.now.mono_ms) || now == 0,
            "at once"
        );
        before = now;
    }
    assert!(rig.hub.has_let_go());
}
