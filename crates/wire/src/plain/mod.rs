//! The plain protocol at `/ws`: JSON text or MessagePack maps with `type` and `payload`; and the
//! one mapping between it and Socket.IO events:
//!
//! | Socket.IO event          | plain message                                              |
//! |---|---|
//! | `["name"]`               | `{"type":"name","payload":null,"args":0}`                  |
//! | `["name", a]`            | `{"type":"name","payload":a}`                              |
//! | `["name", a, b]`         | `{"type":"name","payload":[a,b],"args":2}`                 |
//! | with an ack id           | `"id":7` in the message                                    |
//! | ack of id 7              | `{"type":"ack","id":7,"payload":…}`, arguments as above    |
//! | to one room              | `"room":"general"` in what members receive                 |
//! | binary attachment        | JSON: `{"_binary":"<base64>"}` in its place; MessagePack: bin |
//!
//! MessagePack is turned into the same JSON text first, so both encodings obey one set of rules.

mod binary;
mod incoming;
pub mod msgpack;
mod outgoing;
pub mod raw;

pub use incoming::{Incoming, Invalid, parse_json, parse_msgpack, resumes_json, resumes_msgpack};
pub use outgoing::{
    Error, Outgoing, shutdown_msgpack, write_error_json, write_error_msgpack, write_json,
    write_msgpack,
};
