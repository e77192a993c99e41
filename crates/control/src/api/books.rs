//! How often each call is made, how long it takes, and what goes wrong. For the exporter.

use super::problem::Kind;
use process::durations::Durations;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a program may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Emit,
    Join,
    Leave,
    Disconnect,
    ListSockets,
    ListRooms,
    CountRoom,
    DeleteBody,
    History,
    Presence,
}

impl Call {
    /// In the order of the variants: the metric's label, the path, the method of gRPC.
    const ROWS: [(&'static str, &'static str, &'static str); 10] = [
        ("emit", "/v1/emit", "Emit"),
        ("join", "/v1/join", "Join"),
        ("leave", "/v1/leave", "Leave"),
        ("disconnect", "/v1/disconnect", "Disconnect"),
        ("list_sockets", "/v1/sockets", "ListSockets"),
        ("list_rooms", "/v1/rooms", "ListRooms"),
        ("count_room", "/v1/rooms/{room}/count", "CountRoom"),
        // Only by HTTP.
        ("delete_body", "/v1/large/{key}", ""),
        ("history", "/v1/history", ""),
        ("presence", "/v1/presence", ""),
    ];
    const ALL: [Call; 10] = [
        Call::Emit,
        Call::Join,
        Call::Leave,
        Call::Disconnect,
        Call::ListSockets,
        Call::ListRooms,
        Call::CountRoom,
        Call::DeleteBody,
        Call::History,
        Call::Presence,
    ];

    fn row(self) -> (&'static str, &'static str, &'static str) {
        Self::ROWS[self as usize]
    }

    pub(super) fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|call| call.row().1 == path)
    }

    pub(super) fn of_method(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|call| call.row().2 == name)
    }
}

/// The way by which a call comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Http,
    Grpc,
}

/// In the order of the variants.
const DOORS: [&str; 2] = ["http", "grpc"];
const OUTCOMES: [&str; 3] = ["done", "refused", "failed"];

/// The figures of one call.
#[derive(Debug, Default)]
struct Page {
    /// By door and outcome.
    calls: [[AtomicU64; OUTCOMES.len()]; DOORS.len()],
    durations: Durations,
}

/// The figures of both doors.
#[derive(Debug, Default)]
pub struct Books {
    pages: [Page; Call::ROWS.len()],
    problems: [AtomicU64; Kind::ALL.len()],
}

impl Books {
    pub(super) fn note(&self, call: Call, door: Door, problem: Option<Kind>, took: Duration) {
        let outcome = match problem {
            None => 0,
            Some(kind) if kind.status() < 500 => 1,
            Some(_) => 2,
        };
        let page = &self.pages[call as usize];
        page.calls[door as usize][outcome].fetch_add(1, Ordering::Relaxed);
        page.durations.note(took);
        if let Some(kind) = problem {
            self.problems[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// By call, door and outcome, whose names are separated by commas.
    pub(crate) fn by_outcome(&self) -> Vec<(String, f64)> {
        let mut rows = Vec::new();
        for ((call, _, _), page) in Call::ROWS.iter().zip(&self.pages) {
            for (door, cells) in DOORS.iter().zip(&page.calls) {
                let named = OUTCOMES
                    .iter()
                    .map(|outcome| format!("{call},{door},{outcome}"));
                rows.extend(named.zip(cells).map(counted));
            }
        }
        rows
    }

    pub(crate) fn by_problem(&self) -> Vec<(String, f64)> {
        let named = Kind::ALL.map(Kind::name).map(str::to_owned);
        named.into_iter().zip(&self.problems).map(counted).collect()
    }

    pub(crate) fn durations(&self) -> impl Iterator<Item = (&'static str, &Durations)> {
        let names = Call::ROWS.iter().map(|(name, _, _)| *name);
        names.zip(self.pages.iter().map(|page| &page.durations))
    }
}

fn counted((name, cell): (String, &AtomicU64)) -> (String, f64) {
    (name, cell.load(Ordering::Relaxed) as f64)
}
