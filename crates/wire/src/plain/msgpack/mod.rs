//! MessagePack <-> JSON text. Covers what clients in the field write; knows nothing of messages.

mod date;
mod decode;
mod encode;

pub(crate) use decode::outline;
pub use decode::{Decoded, decode};
pub use encode::from_json;
pub(crate) use encode::{array, map, nil, text, unsigned};
