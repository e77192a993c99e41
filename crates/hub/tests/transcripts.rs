//! Every transcript against a hub in memory: the clock is the test's, so nothing waits and nothing may come that the
//! transcript does not mention. Afterwards all clients leave, and nothing of them may be left behind.

#[path = "../../../transcripts/player/mod.rs"]
mod player;
#[expect(dead_code, reason = "shared by several test binaries")]
mod rig;

use hub::Census;
use hub::config::{Config, Cors};
use player::{Profile, Received, Settings, World, play};
use rig::Rig;
use std::collections::BTreeMap;
use std::time::Duration;

struct Memory {
    rig: Rig,
    names: BTreeMap<String, usize>,
    drain_window: Duration,
}

impl Memory {
    fn new(settings: &Settings) -> Memory {
        let rules = match settings.profile {
            Profile::Lab => rig::lab_rules(),
            Profile::Chat => rig::chat_rules(),
        };
        let rig = Rig::new(config(settings), rig::handler(&rules), 7);
        Memory {
            rig,
            names: BTreeMap::new(),
            drain_window: settings.drain_window,
        }
    }

    /// Everyone hangs up; a day later nothing is left.
    fn leave(mut self) {
        for name in self.names.into_values() {
            self.rig.end(name);
        }
        self.rig.pass(Duration::from_secs(120));
        assert_eq!(self.rig.hub.census(), Census::default());
    }
}

fn config(settings: &Settings) -> Config {
    let mut config = Config {
        ping_interval: settings.ping_interval,
        ping_timeout: settings.ping_timeout,
        plain_ping_interval: settings.plain_ping_interval,
        connect_timeout: settings.connect_timeout,
        upgrade_timeout: settings.upgrade_timeout,
        max_payload: settings.max_payload,
        plain_max_payload: settings.plain_max_payload,
        cors: if settings.cors { Cors::Any } else { Cors::Off },
        ..Config::default()
    };
    config.limits.message_timeout = settings.message_timeout;
    config
}

impl World for Memory {
    fn open(&mut self, conn: &str) {
        let name = self.rig.open();
        self.names.insert(conn.to_owned(), name);
    }

    fn send(&mut self, conn: &str, bytes: &[u8]) {
        self.rig.send(self.names[conn], bytes);
    }

    fn end(&mut self, conn: &str) {
        self.rig.end(self.names[conn]);
    }

    fn receive(&mut self, conn: &str, _patient: bool) -> Received {
        let name = self.names[conn];
        let bytes = self.rig.take(name);
        match (bytes.is_empty(), self.rig.wires.links[name].ended) {
            (false, _) => Received::Bytes(bytes),
            (true, true) => Received::End,
            (true, false) => Received::Nothing,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.rig.pass(time);
    }

    fn drain(&mut self) {
        self.rig.hub.drain(self.drain_window.as_millis() as u64);
        self.rig.finish_turn();
    }

    fn is_exact(&self) -> bool {
        true
    }
}

#[test]
fn every_transcript_holds_for_a_hub_in_memory() {
    let mut problems = Vec::new();
    for script in player::all() {
        let mut world = Memory::new(&script.settings);
        match play(&script, &mut world) {
            Ok(()) => world.leave(),
            Err(problem) => problems.push(problem),
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// The comparison itself: a transcript that says something else than the hub must not pass.
#[test]
fn a_wrong_transcript_is_refused() {
    let scripts = player::all();
    let hello = scripts
        .iter()
        .find(|script| script.name == "websocket-event");
    let mut wrong = hello.expect("websocket-event.txt").clone();
    let line = wrong
        .lines
        .iter_mut()
        .rev()
        .find_map(|line| line.expected_mut());
    line.expect("it expects something").push('!');
    let mut world = Memory::new(&wrong.settings);
    assert!(play(&wrong, &mut world).is_err());
    let silent = wrong.lines.iter().rposition(|line| line.is_expectation());
    wrong.lines.remove(silent.expect("it expects something"));
    let mut world = Memory::new(&wrong.settings);
    let problem = play(&wrong, &mut world).expect_err("something came that it does not mention");
    assert!(problem.contains("nobody expects"), "{problem}");
}
