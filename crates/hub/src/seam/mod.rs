//! The seam behind which applications sit: what a handler is told, what it may do, what it may ask.

pub(crate) mod ask;
pub(crate) mod context;
pub(crate) mod deciding;
pub(crate) mod effect;
pub(crate) mod event;
pub(crate) mod gate;
pub(crate) mod group;
pub(crate) mod handler;
pub(crate) mod inside;
pub(crate) mod join;
pub(crate) mod limiter;
pub(crate) mod member;
pub(crate) mod opening;
pub(crate) mod orders;
pub(crate) mod outbound;
pub(crate) mod publish;
pub mod question;
pub(crate) mod questions;
pub(crate) mod reading;
pub(crate) mod servers;
pub(crate) mod stage;
pub(crate) mod told;
