//! The built-in handler: the configuration says what client events do, and no backend is needed.
//!
//! It stands on the hub's public seam like any other handler and has no door of its own.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod aim;
mod bags;
mod book;
pub mod bounds;
pub mod bridge;
mod chat;
mod config;
mod desk;
mod doorway;
mod errand;
#[cfg(feature = "faults")]
pub mod faults;
#[cfg(not(feature = "faults"))]
mod faults;
mod forbidden;
mod handler;
pub mod history;
pub mod large;
mod line;
mod presence;
mod publishing;
mod rooms;
mod shards;
mod trace;
mod uploads;

pub use bags::Bags;
pub use book::{Compile, PayloadCheck, RulesFactory};
pub use config::{Action, BuiltIn, EventRule, NamespaceRules, Offers, Rules};
pub use errand::{Answer, Begun, Errand, Message, Outcome, Wanted};
pub use large::Large;
pub use line::{Line, Spread, Word};
pub use shards::ToShards;
pub use trace::{Doing, Span, TraceParent, Tracer};
pub use uploads::{Announced, Unannounced, Uploads};
