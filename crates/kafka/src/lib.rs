//! Events out to Kafka and commands in from it, without decoding a body.
//!
//! [`Outlet`] writes one record for each [`Event`]. [`Inlet`] reads records of a consumer group, makes a [`Command`] of each, and gives it to
//! a function of the caller. The client is librdkafka.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod command;
mod context;
mod event;
mod fault;
mod figures;
mod headers;
mod inlet;
mod letters;
mod outlet;
mod settings;
mod topics;
mod window;
mod writer;

pub use command::{Action, Command, Flaw, Place, Target, Unhandled, Who};
pub use event::{Encoding, Event, Key, Moment};
pub use fault::{Fault, Kind};
pub use figures::{InFigures, OutFigures};
pub use headers::Operator;
pub use inlet::{Inlet, Reading};
pub use outlet::Outlet;
pub use settings::Settings;
pub use topics::Topic;
pub use writer::{Delivery, Limits, Written};
