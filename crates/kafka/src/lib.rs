//! Events out to Kafka and commands in from it, without decoding a body.
//!
//! [`Outlet`] writes one record for each event. [`Inlet`] reads records of a consumer group, makes a command of each, and gives it to
//! a function of the caller. The client is librdkafka.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod context;
mod inlet;
mod letters;
mod offsets;
mod outlet;
mod settings;
mod topics;
mod under_way;
mod writer;

pub use bridge::{
    Action, Command, Encoding, Event, Fault, Handed, InFigures, Key, Kind, Limits, Moment,
    Operator, OutFigures, Past, Place, Target, Unhandled,
};
pub use inlet::{Inlet, Reading};
pub use outlet::Outlet;
pub use settings::Settings;
pub use topics::Topic;
pub use writer::{Delivery, Written};
