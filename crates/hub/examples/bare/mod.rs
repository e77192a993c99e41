//! A hub without sockets: a kernel that takes everything, and a handler that answers `echo`.

use hub::config::Config;
use hub::metrics::Cells;
use hub::{
    ConnId, Effect, HandlerFactory, Hub, Identity, Now, Sink, Spent, World, Writes, Written,
};
use rules::{Action, EventRule, NamespaceRules, Rules, RulesFactory};
use std::sync::Arc;
use wire::websocket::frame::{self, OpCode};

/// A client of Socket.IO asks for this.
pub const SOCKET_IO: &str = "/socket.io/?EIO=4&transport=websocket";

/// Takes all bytes, and remembers which connections had some if it is asked to.
#[derive(Default)]
pub struct Kernel {
    pub heard: Option<Vec<ConnId>>,
}

impl Sink for Kernel {
    fn write(&mut self, writes: Writes<'_>) {
        writes.one_by_one(|conn, slices| {
            if let Some(heard) = &mut self.heard {
                heard.push(conn);
            }
            Written::Bytes(slices.iter().map(|slice| slice.len()).sum())
        });
    }
}

impl World for Kernel {
    fn carry_out(&mut self, _: Effect) {}
}

pub fn hub(config: Config) -> Hub {
    let namespace = NamespaceRules {
        events: [("echo".to_owned(), EventRule::new(Action::Reply))].into(),
        ..NamespaceRules::new(EventRule::new(Action::Drop))
    };
    let say = Action::Rooms {
        room: Some("room".to_owned()),
        echo: true,
    };
    let rooms = NamespaceRules {
        auto_join: vec!["room".to_owned()],
        events: [("say".to_owned(), EventRule::new(say))].into(),
        ..namespace.clone()
    };
    let rules = Rules {
        namespaces: [("/".to_owned(), namespace), ("/rooms".to_owned(), rooms)].into(),
    };
    let handler = RulesFactory::new(&rules, &|_| Err("no schemas".to_owned()));
    let handler = handler.expect("sound rules").build(0);
    let me = Identity {
        node: 0,
        shard: 0,
        shards: 1,
    };
    let mut dice = fastrand::Rng::with_seed(7);
    let entropy = move |bytes: &mut [u8]| dice.fill(bytes);
    let cells = Arc::new(Cells::default());
    Hub::new(Arc::new(config), me, handler, cells, Box::new(entropy))
}

/// A whole turn that brings a client's bytes.
pub fn turn(hub: &mut Hub, now: Now, kernel: &mut Kernel, conn: ConnId, bytes: &mut [u8]) {
    let mut turn = hub.turn(now, kernel);
    turn.bytes(conn, bytes);
    turn.end(false, |_| Spent { us: 10, mailbox: 0 });
}

/// A WebSocket that has said these texts.
pub fn connect(
    hub: &mut Hub,
    now: Now,
    kernel: &mut Kernel,
    target: &str,
    greeting: &[&str],
) -> ConnId {
    let conn = hub
        .turn(now, kernel)
        .opened([127, 0, 0, 1].into(), |_, _| true);
    let mut head = format!(
        "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes();
    turn(hub, now, kernel, conn, &mut head);
    for text in greeting {
        turn(hub, now, kernel, conn, &mut message(text));
    }
    conn
}

/// A client's frame of text.
pub fn message(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mask = [1, 2, 3, 4];
    frame::write_masked(&mut bytes, true, OpCode::Text, text.as_bytes(), mask);
    bytes
}
