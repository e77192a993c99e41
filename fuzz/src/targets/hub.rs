//! A whole hub: several clients at once send anything, leave anyhow, read or do not read, while time passes. Nothing panics, and
//! after every step all tables agree. Input: see `crate::deeds`.
use crate::deeds::{CLIENTS, Deed, deeds};
use crate::rig::{self, Rig};
use hub::config::{Config, SlowConsumer};
use hub::{Census, Written};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Unsent bytes a client may have.
const OUTBOX_BYTES: usize = 4_000;

pub fn run(input: &[u8]) {
    let Some((&[options], input)) = input.split_first_chunk::<1>() else {
        return;
    };
    let mut config = Config {
        plain_raw: Some(rig::lab_raw()),
        allow_eio3: true,
        ..Config::default()
    };
    config.limits.outbox_bytes_max = OUTBOX_BYTES;
    if options & 1 == 1 {
        config.slow_consumer = SlowConsumer::DropOldest;
    }
    if options & 8 == 8 {
        config.compression.websocket = true;
        config.compression.threshold = 40;
        config.compression.server_takeover = true;
        config.compression.client_takeover = options & 16 == 16;
        config.limits.takeover_contexts_max = 1;
    }
    if options & 2 == 2 {
        config.limits.deliveries_per_turn = 2;
    }
    let rules = if options & 4 == 4 {
        rig::chat_rules()
    } else {
        rig::lab_rules()
    };
    let mut rig = Rig::new(config, rig::handler(&rules), 7);
    let mut clients = Clients::new(&mut rig);
    for deed in deeds(input) {
        clients.carry_out(&mut rig, deed);
    }
    clients.leave(&mut rig);
}

/// Which link each client has now, and which links nobody reads (by their number, modulo `CLIENTS`).
struct Clients {
    links: [Option<usize>; CLIENTS],
    deaf: Rc<Cell<u16>>,
}

impl Clients {
    fn new(rig: &mut Rig) -> Clients {
        let deaf = Rc::new(Cell::new(0u16));
        let kernel_deaf = Rc::clone(&deaf);
        rig.wires.kernel = Box::new(move |link, n| {
            if kernel_deaf.get() >> (link % CLIENTS) & 1 == 1 {
                Written::WouldBlock
            } else {
                Written::Bytes(n)
            }
        });
        Clients {
            links: [None; CLIENTS],
            deaf,
        }
    }

    /// The client's link; a new one if it has none or the old one is over.
    fn link(&mut self, rig: &mut Rig, client: usize) -> usize {
        match self.links[client] {
            Some(link) if rig.conn(link).is_some() => link,
            _ => {
                let link = rig.open();
                self.links[client] = Some(link);
                link
            }
        }
    }

    fn carry_out(&mut self, rig: &mut Rig, deed: Deed<'_>) {
        match deed {
            Deed::Bytes(client, bytes) => {
                let link = self.link(rig, client);
                rig.send(link, bytes);
            }
            Deed::End(client) => {
                let link = self.link(rig, client);
                rig.end(link);
            }
            Deed::Break(client) => {
                let link = self.link(rig, client);
                rig.break_off(link);
            }
            Deed::Pass(time) => rig.pass(time),
            Deed::Hearing(number) => {
                let mask = 1 << number;
                self.deaf.set(self.deaf.get() ^ mask);
                if self.deaf.get() & mask == 0 {
                    self.unblock(rig);
                }
            }
            Deed::Drain => {
                rig.turn(|turn| turn.drain(1_000, 500, false));
                rig.finish_turn();
            }
        }
        for link in 0..rig.wires.links.len() {
            rig.take(link);
        }
    }

    fn unblock(&self, rig: &mut Rig) {
        for link in 0..rig.wires.links.len() {
            if rig.wires.links[link].blocked {
                rig.writable(link);
            }
        }
        rig.finish_turn();
    }

    /// Everybody goes, and nothing may be left.
    fn leave(self, rig: &mut Rig) {
        self.deaf.set(0);
        self.unblock(rig);
        for link in self.links.into_iter().flatten() {
            rig.break_off(link);
        }
        rig.pass(Duration::from_secs(120));
        assert_eq!(rig.hub.census(), Census::default());
    }
}
