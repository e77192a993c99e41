//! A hub in memory as a world for transcripts, and as one that notes what clients did, so that it can be done again otherwise.

use crate::player::{Profile, Received, Script, Settings, World, play};
use crate::rig::{self, Rig};
use hub::Census;
use hub::config::{Config, Cors};
use std::collections::BTreeMap;
use std::time::Duration;

/// What happens to a hub. Connections are numbered in the order in which they open.
#[derive(Clone, Debug)]
pub enum Deed {
    Open,
    Bytes(usize, Vec<u8>),
    End(usize),
    Pass(Duration),
    Drain,
}

/// A transcript's deeds, and what each connection got for them.
#[derive(Clone, Debug)]
pub struct Recording {
    pub settings: Settings,
    pub deeds: Vec<Deed>,
    pub got: Vec<Vec<u8>>,
}

pub struct Memory {
    rig: Rig,
    names: BTreeMap<String, usize>,
    drain_window: Duration,
    deeds: Vec<Deed>,
    /// All that was received, by connection.
    got: Vec<Vec<u8>>,
}

impl Memory {
    pub fn new(settings: &Settings) -> Memory {
        Memory {
            rig: rig_for(settings),
            names: BTreeMap::new(),
            drain_window: settings.drain_window,
            deeds: Vec::new(),
            got: Vec::new(),
        }
    }

    /// Everyone hangs up, and nothing is left.
    pub fn leave(mut self) {
        self.names.into_values().for_each(|name| self.rig.end(name));
        expect_nothing_left(&mut self.rig);
    }
}

/// Waits until the last deadline is over, and longer; then there must be nothing.
pub fn expect_nothing_left(rig: &mut Rig) {
    rig.pass(Duration::from_secs(120));
    assert_eq!(rig.hub.census(), Census::default());
}

/// A hub for a transcript. Its dice are always the same, so ids are too.
pub fn rig_for(settings: &Settings) -> Rig {
    let rules = match settings.profile {
        Profile::Lab => rig::lab_rules(),
        Profile::Chat => rig::chat_rules(),
    };
    Rig::new(config(settings), rig::handler(&rules), 7)
}

impl Recording {
    pub fn of(script: &Script) -> Recording {
        let mut world = Memory::new(&script.settings);
        play(script, &mut world).unwrap_or_else(|problem| panic!("{problem}"));
        Recording {
            settings: script.settings.clone(),
            deeds: world.deeds,
            got: world.got,
        }
    }

    pub fn all() -> Vec<Recording> {
        crate::player::all().iter().map(Recording::of).collect()
    }

    /// Bytes that all clients sent together.
    pub fn len(&self) -> usize {
        let sent = self.deeds.iter().map(|deed| match deed {
            Deed::Bytes(_, bytes) => bytes.len(),
            _ => 0,
        });
        sent.sum()
    }

    pub fn rig(&self) -> Rig {
        rig_for(&self.settings)
    }

    /// Does one thing as it was done.
    pub fn redo(&self, rig: &mut Rig, deed: &Deed) {
        match deed {
            Deed::Open => {
                rig.open();
            }
            Deed::Bytes(name, bytes) => rig.send(*name, bytes),
            Deed::End(name) => rig.end(*name),
            Deed::Pass(time) => rig.pass(*time),
            Deed::Drain => {
                let window = self.settings.drain_window.as_millis() as u64;
                rig.turn(|turn| turn.drain(window, window, false));
                rig.finish_turn();
            }
        }
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
        plain_raw: Some(rig::lab_raw()),
        allow_eio3: settings.eio3,
        cors: if settings.cors { Cors::Any } else { Cors::Off },
        ..Config::default()
    };
    config.limits.message_timeout = settings.message_timeout;
    config
}

impl World for Memory {
    fn open(&mut self, conn: &str) {
        let name = self.rig.open();
        self.deeds.push(Deed::Open);
        self.got.push(Vec::new());
        self.names.insert(conn.to_owned(), name);
    }

    fn send(&mut self, conn: &str, bytes: &[u8]) {
        self.deeds
            .push(Deed::Bytes(self.names[conn], bytes.to_vec()));
        self.rig.send(self.names[conn], bytes);
    }

    fn end(&mut self, conn: &str) {
        self.deeds.push(Deed::End(self.names[conn]));
        self.rig.end(self.names[conn]);
    }

    fn receive(&mut self, conn: &str, _patient: bool) -> Received {
        let name = self.names[conn];
        let bytes = self.rig.take(name);
        self.got[name].extend_from_slice(&bytes);
        match (bytes.is_empty(), self.rig.wires.links[name].ended) {
            (false, _) => Received::Bytes(bytes),
            (true, true) => Received::End,
            (true, false) => Received::Nothing,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.deeds.push(Deed::Pass(time));
        self.rig.pass(time);
    }

    fn drain(&mut self) {
        self.deeds.push(Deed::Drain);
        let window = self.drain_window.as_millis() as u64;
        self.rig.turn(|turn| turn.drain(window, window, false));
        self.rig.finish_turn();
    }

    fn is_exact(&self) -> bool {
        true
    }
}
