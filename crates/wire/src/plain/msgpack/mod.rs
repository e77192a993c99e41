//! MessagePack <-> JSON text. Covers what clients in the field write; knows nothing of messages.

mod date;
mod decode;
mod encode;

pub(crate) use decode::{Decoded, decode};
pub(crate) use encode::{array, from_json, map, nil, text, unsigned};
