//! Socket.IO protocol 5, text parser: packets as borrowed raw text. What a packet means for a
//! socket is not decided here.

mod event;
pub mod msgpack;
mod packet;
mod placeholder;

pub use crate::bounds::ATTACHMENTS_MAX;
pub use event::{Event, event, is_reserved, reserved};
pub use packet::{Packet, PacketType, ParseError, parse, write, written_len};
pub use placeholder::{
    Misfit, Placeholder, PlaceholderError, Placeholders, match_attachments, placeholders,
    write_placeholder,
};

pub(crate) use placeholder::placeholder_at;
