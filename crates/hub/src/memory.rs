//! Where a hub's memory is: bytes by part, for tests and for whoever hunts a leak. Walks all tables; not for the hot path.

use crate::hub::Hub;
use crate::socket::{Membership, Socket};

impl Hub {
    /// Heap bytes of each part, as far as the hub can count them (allocator overhead is not in it).
    pub fn memory(&self) -> Vec<(&'static str, usize)> {
        let core = &self.core;
        let conns: usize = core.conns.iter().map(|(_, conn)| conn.heap_bytes()).sum();
        let outboxes = core.conns.iter().map(|(_, conn)| conn.outbox.heap_bytes());
        let sessions: usize = core
            .sessions
            .iter()
            .map(|(_, slot)| slot.heap_bytes())
            .sum();
        let sockets: usize = core
            .sockets
            .iter()
            .map(|(_, slot)| socket_bytes(slot))
            .sum();
        vec![
            ("connections", core.conns.heap_bytes() + conns),
            (
                "sessions",
                core.sessions.heap_bytes() + core.sids.allocation_size() + sessions,
            ),
            (
                "sockets",
                core.sockets.heap_bytes() + core.socket_ids.allocation_size() + sockets,
            ),
            ("rooms", core.rooms.heap_bytes()),
            (
                "users",
                core.users.heap_bytes() + core.expiries.heap_bytes() + core.asks.heap_bytes(),
            ),
            ("outboxes", outboxes.sum()),
            ("history", core.history.heap_bytes()),
            ("timers", core.timers.heap_bytes()),
            ("turn log", core.log.heap_bytes()),
            ("deflate", core.codecs.heap_bytes()),
        ]
    }
}

fn socket_bytes(socket: &Socket) -> usize {
    let rooms = if socket.rooms.spilled() {
        socket.rooms.capacity() * size_of::<Membership>()
    } else {
        0
    };
    rooms + socket.extra.as_ref().map_or(0, |extra| extra.heap_bytes())
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Rules};
    use crate::handler::HandlerFactory;
    use crate::metrics::Cells;
    use crate::outbox::{Sink, Written};
    use crate::rules::RulesFactory;
    use crate::{Hub, Identity};
    use std::io::IoSlice;
    use std::sync::Arc;

    /// A kernel that takes nothing.
    struct Blocked;

    impl Sink for Blocked {
        fn write(&mut self, _: u32, _: &[IoSlice<'_>]) -> Written {
            Written::WouldBlock
        }
    }

    fn hub() -> Hub {
        let me = Identity {
            node: 0,
            shard: 0,
            shards: 1,
        };
        let rules = RulesFactory::new(&Rules::default(), &|_| Err(String::new()));
        let handler = rules.expect("no schemas").build(0);
        let entropy = Box::new(|bytes: &mut [u8]| bytes.fill(7));
        let cells = Arc::new(Cells::default());
        Hub::new(Arc::new(Config::default()), me, handler, cells, entropy)
    }

    fn part(hub: &Hub, name: &str) -> usize {
        let memory = hub.memory();
        memory.iter().find(|(part, _)| *part == name).expect(name).1
    }

    #[test]
    fn each_part_sees_its_own_bytes() {
        let mut hub = hub();
        assert!(hub.memory().iter().all(|(_, bytes)| *bytes == 0));
        let conn = hub.opened([127, 0, 0, 1].into());
        let empty = part(&hub, "connections");
        assert!(empty > 0 && part(&hub, "timers") > 0);
        hub.bytes(conn, &mut b"GET /half HTTP/1.1\r\n".to_vec());
        let reading = part(&hub, "connections");
        assert!((20..200).contains(&(reading - empty)), "{empty} {reading}");
        assert_eq!(part(&hub, "outboxes"), 0);
        hub.bytes(conn, &mut b"bad\r\n\r\n".to_vec());
        assert!(part(&hub, "turn log") > 0);
        hub.flush(&mut Blocked);
        assert!(part(&hub, "outboxes") > 50);
        assert_eq!(part(&hub, "sockets"), 0);
    }
}
