//! Tells panics of a handler from panics of the hub. A handler runs on the hub's stack and calls back into the hub: if the handler panics,
//! its session ends and everybody else goes on; if the hub panics under it, the tables may be half changed, and the shard must end.

use std::cell::Cell;

thread_local! {
    /// Calls of the hub's own code that a handler has made and that have not returned.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// From here to its drop the hub's code runs, not the handler's.
#[must_use]
pub(crate) struct Inside {
    panicking: bool,
}

impl Inside {
    #[inline]
    pub(crate) fn enter() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self {
            // A handler that unwinds may call the hub while it drops things.
            panicking: std::thread::panicking(),
        }
    }

    /// The panic that was just caught passed through the hub's code. Begins to count anew.
    pub(crate) fn broke() -> bool {
        DEPTH.take() > 0
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        // A panic leaves the mark where it is: it tells where the panic came from.
        if self.panicking || !std::thread::panicking() {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::config::Config;
    use crate::books::metrics::Cells;
    use crate::seam::context::Context;
    use crate::seam::effect::Effect;
    use crate::seam::event::Decision;
    use crate::seam::handler::Handler;
    use crate::tables::clock::Now;
    use crate::{
        ConnectRequest, Event, Hub, Identity, Sink, SocketKey, Spent, World, Writes, Written,
    };
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use wire::websocket::frame::{OpCode, write_masked};

    impl Context<'_> {
        fn break_the_hub(&mut self) {
            let _inside = Inside::enter();
            panic!("a fault of the hub");
        }
    }

    struct Faulty;

    impl Handler for Faulty {
        fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
            Decision::Admit
        }

        fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
            assert!(cx.socket(socket).id().is_some());
            match event.name {
                "mine" => panic!("a fault of the handler"),
                _ => cx.break_the_hub(),
            }
        }
    }

    struct Nowhere;

    impl Sink for Nowhere {
        fn write(&mut self, writes: Writes<'_>) {
            writes.one_by_one(|_, slices| {
                Written::Bytes(slices.iter().map(|slice| slice.len()).sum())
            });
        }
    }

    impl World for Nowhere {
        fn carry_out(&mut self, _: Effect) {}
    }

    /// A client joins and sends one event.
    fn play(event: &str) -> Hub {
        let me = Identity {
            node: 0,
            shard: 0,
            shards: 1,
        };
        let entropy = Box::new(|bytes: &mut [u8]| bytes.fill(7));
        let (config, cells) = (Arc::new(Config::default()), Arc::new(Cells::default()));
        let mut hub = Hub::new(config, me, Box::new(Faulty), cells, entropy);
        let mut bytes = b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
            Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            .to_vec();
        for text in ["40", event] {
            write_masked(
                &mut bytes,
                true,
                OpCode::Text,
                text.as_bytes(),
                [1, 2, 3, 4],
            );
        }
        let mut nowhere = Nowhere;
        let mut turn = hub.turn(Now::default(), &mut nowhere);
        let conn = turn.opened([127, 0, 0, 1].into(), |_, _| true);
        turn.bytes(conn, &mut bytes);
        turn.end(false, |_| Spent::default());
        hub
    }

    #[test]
    fn a_panic_of_the_hub_was_booked_as_the_handlers() {
        let hub = play("42[\"mine\"]");
        assert_eq!(
            hub.stage.parts.books.counts.handler_panics, 1,
            "the shard goes on"
        );
        assert!(!Inside::broke());
        let shard = catch_unwind(AssertUnwindSafe(|| play("42[\"yours\"]")));
        assert!(shard.is_err(), "the shard ends");
    }
}
