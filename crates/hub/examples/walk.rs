//! Nanoseconds of a message's whole walk through a hub: eight events in one read, each acknowledged, and the flush of the answers.
//! Best of many short rounds, one thread: `cargo run --release -p hub --example walk`. With a number it takes so many turns of
//! the first kind and says nothing: for tools that count instructions. With `room` behind it events go to a room, and with `beside` another
//! namespace has presence, and members that see nothing of before they joined.

mod bare;

use bare::{Kernel, SOCKET_IO, connect, message, turn};
use hub::Now;
use hub::config::{Config, PresenceOf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Events of one read.
const DEPTH: usize = 8;
const ROUND: Duration = Duration::from_millis(20);
const ROUNDS: usize = 40;

const NOW: Now = Now {
    mono_ms: 1_000,
    wall_ms: 1_750_000_000_000,
};

fn measure(
    name: &str,
    target: &str,
    greeting: &[&str],
    (turns, config): (Option<usize>, Config),
    event: impl Fn(usize) -> String,
) {
    let (mut hub, mut kernel) = (bare::hub(config), Kernel::default());
    let conn = connect(&mut hub, NOW, &mut kernel, target, greeting);
    let read: Vec<u8> = (0..DEPTH).flat_map(|id| message(&event(id))).collect();
    let mut buf = read.clone();
    if let Some(turns) = turns {
        for _ in 0..turns {
            buf.copy_from_slice(&read);
            turn(&mut hub, NOW, &mut kernel, conn, &mut buf);
        }
        return;
    }
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let (started, mut turns) = (Instant::now(), 0);
        while started.elapsed() < ROUND {
            for _ in 0..64 {
                buf.copy_from_slice(&read);
                turn(&mut hub, NOW, &mut kernel, conn, &mut buf);
            }
            turns += 64;
        }
        best = best.min(started.elapsed().as_nanos() as f64 / (turns * DEPTH) as f64);
    }
    println!("{name:<40} {best:7.1} ns an event");
}

/// Another namespace has what these rooms have not.
fn beside() -> Config {
    let presence = PresenceOf {
        rooms: vec!["*".to_owned()],
        grace: Duration::from_secs(15),
        members_max: 1_000,
        info: Vec::new(),
    };
    Config {
        presence: [("/other".to_owned(), Some(Arc::new(presence)))].into(),
        since_join: ["/other".to_owned()].into(),
        ..Config::default()
    }
}

fn main() {
    let turns = std::env::args().nth(1);
    if let Some(turns) = turns.and_then(|turns| turns.parse().ok()) {
        let kind = std::env::args().nth(2).unwrap_or_default();
        let run = (
            Some(turns),
            if kind == "beside" {
                beside()
            } else {
                Config::default()
            },
        );
        return match kind.is_empty() {
            true => measure("", SOCKET_IO, &["40"], run, |id| {
                format!("42{id}[\"echo\",{id}]")
            }),
            false => measure("", SOCKET_IO, &["40/rooms,"], run, |id| {
                format!("42/rooms,[\"say\",{id}]")
            }),
        };
    }
    let none = || (None, Config::default());
    let text = r#"{"text":"Shall we meet at the usual place?","list":[1,2.5,null]}"#;
    measure("Socket.IO, short", SOCKET_IO, &["40"], none(), |id| {
        format!("42{id}[\"echo\",{id}]")
    });
    measure("Socket.IO, 64 bytes", SOCKET_IO, &["40"], none(), |id| {
        format!("42{id}[\"echo\",{text}]")
    });
    measure("plain, short", "/ws", &[], none(), |id| {
        format!("{{\"type\":\"echo\",\"id\":{id},\"payload\":{id}}}")
    });
    measure("plain, 64 bytes", "/ws", &[], none(), |id| {
        format!("{{\"type\":\"echo\",\"id\":{id},\"payload\":{text}}}")
    });
}
