//! A record of the calls that the handlers of a test got, all together.

use hub::{Collected, Found, Reach};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    Asked(bool),
    Acked,
    AckTimedOut,
    Collected(Collected),
    Found(Found),
    Disconnected,
    Reached(Reach),
    IsId(bool),
    Server(String, bool),
    Servers(u64),
    Count(u64),
}

#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<Heard>>>);

impl Notes {
    pub(crate) fn note(&self, heard: Heard) {
        self.0.lock().expect("nobody panicked").push(heard);
    }

    /// Takes what was heard since.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut *self.0.lock().expect("nobody panicked"))
    }

    pub(crate) fn collected(&self) -> Collected {
        match &self.heard()[..] {
            [Heard::Collected(collected)] => collected.clone(),
            other => panic!("one result, not {other:?}"),
        }
    }
}
