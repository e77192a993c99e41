//! The parts of a hub, side by side. Nothing here calls a handler.

use crate::access::Access;
use crate::books::Books;
use crate::books::config::Config;
use crate::books::metrics::Cells;
use crate::clients::intake::Intake;
use crate::clients::line::Line;
use crate::clients::people::People;
use crate::clients::roll::Roll;
use crate::clients::speaker::Speaker;
use crate::cluster::away::Away;
use crate::cluster::rounds::Rounds;
use crate::cluster::shared::Process;
use crate::life::answers::Answers;
use crate::output::piece::Pool;
use crate::rooms::fanout::Audience;
use crate::rooms::room::Rooms;
use crate::seam::outbound::Outbound;
use crate::seam::questions::Questions;
use crate::tables::clock::Clock;
use crate::tables::id::{Entropy, Identity, Ids};
use std::sync::Arc;
use wire::base64url::Id20;

pub(crate) struct Parts {
    pub(crate) books: Books,
    pub(crate) ids: Ids,
    pub(crate) clock: Clock,
    pub(crate) people: People,
    pub(crate) rooms: Rooms,
    pub(crate) line: Line,
    pub(crate) intake: Intake,
    pub(crate) rounds: Rounds,
    /// The way to other nodes, if there are any.
    pub(crate) away: Option<Box<Away>>,
    pub(crate) asks: Questions,
    pub(crate) access: Access,
    pub(crate) outbound: Outbound,
    /// The handler wants counts of rooms over all nodes.
    pub(crate) counts_nodes: bool,
    /// The handler wants to know when sockets are moved into rooms and out of them.
    pub(crate) watches_rooms: bool,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("me", &self.ids.me)
            .field("conns", &self.line.conns.len())
            .field("sessions", &self.people.sessions.len())
            .field("sockets", &self.people.sockets.len())
            .field("rooms", &self.rooms.len())
            .finish_non_exhaustive()
    }
}

impl Parts {
    pub(crate) fn new(
        config: Arc<Config>,
        me: Identity,
        cells: Arc<Cells>,
        entropy: Entropy,
        process: &Process,
    ) -> Self {
        let away = process.uplink.as_ref();
        let away = away.map(|uplink| Box::new(Away::new(me, uplink)));
        let mut people = People::default();
        people.roll = Roll::new(process.outlets.roll.as_ref());
        if let Some(uplink) = &process.uplink {
            people.watch_interest(uplink.watch());
        }
        Self {
            ids: Ids::new(me, entropy),
            clock: Clock::default(),
            people,
            rooms: Rooms::new(me, &process.directory).tapped(process.outlets.tap.as_ref()),
            line: Line::new(Pool::new(Arc::clone(&process.waiting))),
            intake: Intake::new(&process.loads),
            rounds: Rounds::new(me),
            away,
            asks: Questions::default(),
            access: Access::new(&config, process),
            outbound: Outbound::default(),
            counts_nodes: false,
            watches_rooms: false,
            books: Books::new(config, cells),
        }
    }

    pub(crate) fn new_socket_id(&mut self) -> Id20 {
        self.ids.socket(self.clock.now.wall_ms)
    }

    // ---- lenses -------------------------------------------------------------------------------------------------------

    #[inline]
    pub(crate) fn answers(&mut self) -> Answers<'_> {
        Answers {
            books: &mut self.books,
            line: &mut self.line,
            clock: &mut self.clock,
            ids: &mut self.ids,
        }
    }

    pub(crate) fn speaker(&mut self) -> Speaker<'_> {
        Speaker {
            books: &mut self.books,
            line: &mut self.line,
            people: &mut self.people,
        }
    }

    #[inline]
    pub(crate) fn audience(&mut self) -> Audience<'_> {
        Audience {
            rooms: &mut self.rooms,
            speaker: Speaker {
                books: &mut self.books,
                line: &mut self.line,
                people: &mut self.people,
            },
        }
    }
}
