//! What programs outside hear and say, whatever carries it: headers, events of clients, commands and their rights, repeats, figures. The
//! crates `kafka` and `nats` carry it.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod books;
mod bounds;
mod command;
mod event;
mod failures;
mod fault;
mod figures;
mod handed;
pub mod headers;
mod limits;
mod lines;
mod past;
mod place;
mod rights;
mod window;

pub use books::{InBooks, OutBooks};
pub use command::{Action, Command, Flaw, RawHeader, Unhandled};
pub use event::{Encoding, Event, Key, Moment};
pub use failures::{Failure, Failures, Said};
pub use fault::{Fault, Kind};
pub use figures::{InFigures, OutFigures};
pub use handed::Handed;
pub use headers::Operator;
pub use limits::Limits;
pub use lines::{Lines, Quiet};
pub use past::Past;
pub use place::Place;
pub use rights::Rights;
pub use types::Target;
pub use window::{Reached, Window};
