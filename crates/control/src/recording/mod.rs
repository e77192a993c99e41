//! Recordings of live traces, and playing them again: the clients of a recording do against another gateway what they did, and the answers
//! and events that they get are compared with the recorded ones.

mod actor;
mod file;
mod filler;
mod player;
mod script;
mod stage;
mod target;
mod verdict;

pub use file::{FILE_BYTES_MAX, Recording, VERSION};
pub use player::{Orders, play};
pub use script::Script;
pub use stage::Progress;
pub use target::Target;
pub use verdict::{Count, Report};
