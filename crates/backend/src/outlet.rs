//! Outputs of a backend: for shards, and for its operators.

use crate::bounds::{DEADLY_TOLD, OUT_KEPT};
use crate::counts::Counts;
use crate::message::{Down, Out, Refusal, To, Why};
use crate::name::Name;
use bytes::Bytes;

/// An event or a CONNECT that goes to no other worker, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadly {
    pub socket: Name,
    /// Its name and its arguments, the text between the brackets. `None`: its CONNECT.
    pub event: Option<(String, Bytes)>,
}

#[derive(Debug, Default)]
pub(crate) struct Outlet {
    out: Vec<Out>,
    /// Items that ended workers, for the log.
    deadly: Vec<Deadly>,
    pub(crate) counts: Counts,
}

impl Outlet {
    pub(crate) fn send(&mut self, to: To, down: Down) {
        self.out.push(Out { to, down });
    }

    pub(crate) fn tell(&mut self, socket: Name, down: Down) {
        self.send(To::Socket(socket), down);
    }

    /// About the CONNECT with this number.
    pub(crate) fn decide(&mut self, socket: Name, number: u64, decision: Result<(), Refusal>) {
        let decide = Down::Decide {
            socket,
            number,
            decision,
        };
        self.tell(socket, decide);
    }

    pub(crate) fn refuse(&mut self, socket: Name, ack: u64, why: Why) {
        self.counts.refused(why);
        self.tell(socket, Down::Refuse { socket, ack, why });
    }

    pub(crate) fn log_deadly(&mut self, socket: Name, event: Option<(String, Bytes)>) {
        if self.deadly.len() < DEADLY_TOLD {
            self.deadly.push(Deadly { socket, event });
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Out> {
        // The next ones are often as many.
        let places = self.out.len().min(OUT_KEPT);
        std::mem::replace(&mut self.out, Vec::with_capacity(places))
    }

    pub(crate) fn take_deadly(&mut self) -> Vec<Deadly> {
        std::mem::take(&mut self.deadly)
    }
}
