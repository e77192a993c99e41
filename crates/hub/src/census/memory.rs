//! Where a hub's memory is: bytes by part, for tests and for people who hunt a leak. Tables of a million slots take a while to
//! walk, so a shard walks them in steps, a few thousand slots a turn.

use crate::books::ledger::Stock;
use crate::clients::socket::{Membership, Socket};
use crate::hub::Hub;
use crate::parts::Parts;

/// Bytes by part.
pub type Footprint = Vec<(&'static str, usize)>;

/// How far a count has come. Slots that come or go meanwhile may be missed.
#[derive(Debug, Default)]
pub struct MemoryWalk {
    table: usize,
    /// Next slot of that table.
    slot: u32,
    conns: usize,
    outboxes: usize,
    sessions: usize,
    sockets: usize,
    rooms: usize,
}

impl MemoryWalk {
    /// Counts one slot of the current table; none after its end.
    fn count(&mut self, parts: &Parts) -> Option<()> {
        let (people, index) = (&parts.people, self.slot);
        match self.table {
            0 => {
                if let Some(conn) = parts.line.conns.get(parts.line.conns.nth(index)?) {
                    self.conns += conn.heap_bytes();
                    self.outboxes += conn.outbox.heap_bytes();
                }
            }
            1 => {
                let slot = people.sessions.get(people.sessions.nth(index)?);
                self.sessions += slot.map_or(0, |slot| slot.heap_bytes());
            }
            2 => {
                let slot = people.sockets.get(people.sockets.nth(index)?);
                self.sockets += slot.map_or(0, socket_bytes);
            }
            _ => {
                let slot = parts.rooms.table.get(parts.rooms.table.nth(index)?);
                self.rooms += slot.map_or(0, |room| room.heap_bytes());
            }
        }
        self.slot += 1;
        Some(())
    }

    /// The parts, with the tables themselves and all that needs no walk.
    fn finish(&self, parts: &Parts) -> Footprint {
        let [sessions, sockets, users] = parts.people.heap_bytes();
        let [waiting, log, codecs] = parts.line.heap_bytes();
        let known = parts.clock.expiries.heap_bytes()
            + parts.rooms.repeats.heap_bytes()
            + parts.people.roll.heap_bytes()
            + parts.people.agents.heap_bytes()
            + parts.people.claim_kinds.heap_bytes();
        let (away, ledger) = (parts.away.as_ref(), &parts.books.ledger);
        let away = away.map_or(0, |away| away.heap_bytes());
        let recovery = parts.recovery.as_ref();
        let recovery = recovery.map_or(0, |kept| kept.journal.bytes() + kept.parked.bytes());
        vec![
            ("connections", parts.line.conns.heap_bytes() + self.conns),
            ("sessions", sessions + self.sessions),
            ("sockets", sockets + self.sockets),
            ("rooms", parts.rooms.heap_bytes() + self.rooms),
            ("users", users + known),
            ("outboxes", waiting + self.outboxes),
            ("history", parts.rooms.kept.heap_bytes()),
            ("recovery", recovery),
            ("questions", parts.outbound.asks.heap_bytes()),
            (
                "rounds",
                parts.rounds.heap_bytes() + ledger.sum(Stock::Lists),
            ),
            ("away", away + ledger.sum(Stock::Acks)),
            ("timers", parts.clock.timers.heap_bytes()),
            ("turn log", log),
            ("ends", parts.books.ends.heap_bytes()),
            ("deflate", codecs),
        ]
    }
}

const TABLES: usize = 4;

impl Hub {
    /// Heap bytes of each part, as far as the hub can count them (allocator overhead is not in it).
    pub fn memory(&self) -> Footprint {
        let mut walk = MemoryWalk::default();
        loop {
            if let Some(parts) = self.memory_step(&mut walk, usize::MAX) {
                return parts;
            }
        }
    }

    /// Goes on counting for so many slots; the parts when all is counted.
    pub fn memory_step(&self, walk: &mut MemoryWalk, slots: usize) -> Option<Footprint> {
        for _ in 0..slots {
            if walk.count(&self.stage.parts).is_none() {
                walk.table += 1;
                walk.slot = 0;
                if walk.table == TABLES {
                    return Some(walk.finish(&self.stage.parts));
                }
            }
        }
        None
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
    use crate::books::config::Config;
    use crate::books::metrics::Cells;
    use crate::output::sink::{Sink, Writes, Written};
    use crate::seam::context::Context;
    use crate::seam::event::Event;
    use crate::seam::handler::Handler;
    use crate::tables::slot::SocketKey;
    use crate::transport::{flush, input};
    use crate::{Hub, Identity};
    use std::sync::Arc;

    /// A kernel that takes nothing.
    struct Blocked;

    impl Sink for Blocked {
        fn write(&mut self, writes: Writes<'_>) {
            writes.one_by_one(|_, _| Written::WouldBlock);
        }
    }

    struct Silent;

    impl Handler for Silent {
        fn event(&mut self, _: &mut Context<'_>, _: SocketKey, _: Event<'_>) {}
    }

    fn hub() -> Hub {
        let me = Identity {
            node: 0,
            shard: 0,
            shards: 1,
        };
        let handler = Box::new(Silent);
        let entropy = Box::new(|bytes: &mut [u8]| bytes.fill(7));
        let cells = Arc::new(Cells::default());
        Hub::new(Arc::new(Config::default()), me, handler, cells, entropy)
    }

    fn part(hub: &Hub, name: &str) -> usize {
        let memory = hub.memory();
        memory.iter().find(|(part, _)| *part == name).expect(name).1
    }

    #[test]
    fn a_count_in_steps_comes_to_the_same() {
        let mut hub = hub();
        for _ in 0..3_000 {
            let conn = input::open(&mut hub.stage.parts, [127, 0, 0, 1].into());
            input::bytes(
                &mut hub.stage,
                conn,
                &mut b"GET /half HTTP/1.1\r\n".to_vec(),
            );
        }
        let (mut walk, mut steps) = (super::MemoryWalk::default(), 0);
        let parts = loop {
            steps += 1;
            if let Some(parts) = hub.memory_step(&mut walk, 100) {
                break parts;
            }
        };
        assert_eq!(parts, hub.memory());
        assert!((30..50).contains(&steps), "{steps} steps");
    }

    #[test]
    fn each_part_sees_its_own_bytes() {
        let mut hub = hub();
        // The tables of busy rooms are there before the first event.
        let mut others = hub.memory().into_iter();
        assert!(others.all(|(part, bytes)| part == "rooms" || bytes == 0));
        let conn = input::open(&mut hub.stage.parts, [127, 0, 0, 1].into());
        let empty = part(&hub, "connections");
        assert!(empty > 0 && part(&hub, "timers") > 0);
        input::bytes(
            &mut hub.stage,
            conn,
            &mut b"GET /half HTTP/1.1\r\n".to_vec(),
        );
        let reading = part(&hub, "connections");
        assert!((20..200).contains(&(reading - empty)), "{empty} {reading}");
        assert_eq!(part(&hub, "outboxes"), 0);
        input::bytes(&mut hub.stage, conn, &mut b"bad\r\n\r\n".to_vec());
        assert!(part(&hub, "turn log") > 0);
        flush::run(&mut hub.stage, &mut Blocked);
        assert!(part(&hub, "outboxes") > 50);
        assert_eq!(part(&hub, "sockets"), 0);
    }
}
