//! The seam behind which applications sit: what a handler is told, what it may do, what it may ask.

pub(crate) mod ask;
pub(crate) mod context;
pub(crate) mod effect;
pub(crate) mod gate;
pub(crate) mod handler;
pub(crate) mod inside;
pub(crate) mod join;
pub(crate) mod limiter;
pub mod notices;
pub(crate) mod opening;
pub(crate) mod orders;
pub mod question;
pub(crate) mod stage;
