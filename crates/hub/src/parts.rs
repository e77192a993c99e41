//! The parts of a hub, side by side. Nothing here calls a handler.

use crate::access::Access;
use crate::books::Books;
use crate::books::config::Config;
use crate::books::ledger::Stock;
use crate::books::metrics::Cells;
use crate::bounds::{CLAIM_MS, HISTORY_TOTAL_BYTES_MAX, ROUND_BYTES_MAX};
use crate::clients::intake::Intake;
use crate::clients::line::Line;
use crate::clients::people::People;
use crate::clients::roll::Roll;
use crate::clients::speaker::Speaker;
use crate::clients::traces::Traces;
use crate::cluster::away::Away;
use crate::cluster::rounds::Rounds;
use crate::cluster::shared::Process;
use crate::life::answers::Answers;
use crate::output::piece::Pool;
use crate::recovery::exchange::{Bounds, Recovery};
use crate::recovery::{journal, parked};
use crate::rooms::arrivals::Arrivals;
use crate::rooms::fanout::Audience;
use crate::rooms::log::Log;
use crate::rooms::presence::Rolls;
use crate::rooms::room::Rooms;
use crate::rooms::table::RoomTable;
use crate::seam::outbound::Outbound;
use crate::seam::questions::Questions;
use crate::tables::clock::Clock;
use crate::tables::id::{Entropy, Identity, Ids};
use crate::tables::interest::Interest;
use std::sync::Arc;
use wire::base64url::Id20;

pub(crate) struct Parts {
    pub(crate) books: Books,
    pub(crate) ids: Ids,
    pub(crate) clock: Clock,
    pub(crate) people: People,
    /// What operators follow.
    pub(crate) traces: Traces,
    pub(crate) rooms: Rooms,
    pub(crate) line: Line,
    pub(crate) rounds: Rounds,
    /// The way to other nodes, if there are any.
    pub(crate) away: Option<Box<Away>>,
    pub(crate) access: Access,
    pub(crate) outbound: Outbound,
    /// What clients come back to, where a namespace has recovery.
    pub(crate) recovery: Option<Box<Recovery>>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("me", &self.ids.me)
            .field("conns", &self.line.conns.len())
            .field("sessions", &self.people.sessions.len())
            .field("sockets", &self.people.sockets.len())
            .field("rooms", &self.rooms.table.len())
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
        let books = Books::new(config, cells);
        let (config, ledger) = (&*books.config, &books.ledger);
        let away = process.uplink.as_ref();
        let away = away.map(|uplink| Box::new(Away::new(me, uplink, ledger)));
        let mut people = People::default();
        people.roll = Roll::new(process.outlets.roll.as_ref());
        people.whereabouts = Arc::clone(&process.whereabouts);
        if let Some(uplink) = &process.uplink {
            people.interest = Interest::new(uplink.watch());
        }
        let mut ids = Ids::new(me, entropy);
        let rounds = Rounds::new(me, ledger.open(Stock::Rounds, ROUND_BYTES_MAX));
        let moves = config.recovery.goes_abroad() || config.recovery.chronicled().next().is_some();
        // A client may answer here what its socket was asked on the node that it comes from (ADR 38).
        let rounds = match process.uplink.is_some() && moves {
            true => rounds.across_nodes(me),
            false => rounds,
        };
        let bounds = recovery_bounds(config, me);
        let mut recovery = bounds.map(|bounds| Box::new(Recovery::new(&mut ids, bounds)));
        if let (Some(recovery), Some(uplink)) = (&mut recovery, &process.uplink) {
            recovery.ways.apart = Arc::clone(uplink.apart());
        }
        if let Some(recovery) = &mut recovery {
            recovery.streams.chronicle = process.outlets.chronicle.clone();
        }
        let kept = Log::new(ledger.open(Stock::History, HISTORY_TOTAL_BYTES_MAX));
        let mut rooms = Rooms::new(RoomTable::new(me, &process.directory), kept);
        rooms.rolls = Rolls::new(&config.presence);
        rooms.arrivals = Arrivals::new(&config.since_join);
        rooms.tap = process.outlets.tap.clone();
        rooms.history_tap = process.outlets.history.clone();
        let asks = ledger.open(Stock::Questions, config.limits.ask_bytes_max);
        let lists = ledger.open(Stock::Lists, ROUND_BYTES_MAX);
        Self {
            ids,
            clock: Clock::default(),
            people,
            traces: Traces::default(),
            rooms,
            line: Line::new(
                Pool::new(Arc::clone(&process.waiting)),
                Intake::new(&process.loads),
            ),
            rounds,
            away,
            access: Access::new(config, process),
            outbound: Outbound::new(Questions::new(asks), lists),
            recovery,
            books,
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
            traces: &mut self.traces,
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
                traces: &mut self.traces,
            },
            recovery: self.recovery.as_deref_mut(),
            now_ms: self.clock.now.mono_ms,
        }
    }
}

/// A shard's share of what the process may keep; `None`: no namespace has recovery.
fn recovery_bounds(config: &Config, me: Identity) -> Option<Bounds> {
    let window = config.recovery.window()?;
    let (limits, shards) = (&config.limits, usize::from(me.shards.max(1)));
    let journal = limits.journal_bytes_max / shards;
    Some(Bounds {
        journal: journal::Bounds {
            window_ms: window.as_millis() as u64,
            bytes_max: journal,
        },
        parked: parked::Bounds {
            // Rounded up, or a small bound would keep nobody.
            records_max: limits.parked_sockets_max.div_ceil(shards),
            bytes_max: journal,
            rooms_max: limits.rooms_per_socket_max,
            claim_ms: CLAIM_MS,
        },
        takings_max: limits.asks_outstanding_max,
        handover_bytes_max: limits.outbox_bytes_max / 2,
    })
}
