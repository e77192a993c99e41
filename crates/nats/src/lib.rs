//! Events out to NATS and commands in from it, without decoding a body.
//!
//! [`Outlet`] publishes one message for each event, by core NATS or into a stream of JetStream. [`Inlet`] reads messages of a subject, makes
//! a command of each, and gives it to a function of the caller. [`engine`] carries messages between nodes. The client is async-nats.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod courier;
mod desk;
pub mod engine;
mod inlet;
mod letters;
mod link;
mod mode;
mod outlet;
mod postbag;
mod reading;
mod settings;
mod stream;
mod subject;

pub use bridge::{
    Action, Command, Encoding, Event, Fault, InFigures, Key, Kind, Limits, Moment, Operator,
    OutFigures, Past, Place, Target, Unhandled,
};
pub use inlet::Inlet;
pub use mode::Mode;
pub use outlet::{Delivery, Outlet};
pub use reading::{Reading, Source};
pub use settings::{Credentials, Password, Settings, Tls};
pub use subject::{Pattern, overlap};
