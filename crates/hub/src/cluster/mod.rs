//! Messages between hubs: letters, the rounds of questions that need many answers, the mailboxes.

pub(crate) mod adoption;
pub(crate) mod asking;
pub(crate) mod awake;
pub(crate) mod away;
pub(crate) mod chronicle_mail;
pub mod foreign;
pub(crate) mod inbox;
pub(crate) mod joins;
pub(crate) mod letter;
pub(crate) mod listing;
pub(crate) mod lists;
pub mod mailbox;
mod neighbours;
pub(crate) mod receive;
pub(crate) mod respondents;
pub(crate) mod rounds;
pub(crate) mod saves;
pub(crate) mod send;
pub(crate) mod shared;
pub(crate) mod waiting;
pub(crate) mod waitlist;
pub(crate) mod wire;

/// What `awake` counts and flags with.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
}
