//! Plain MessagePack messages: what is taken has canonical arguments and survives both encodings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::plain;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(incoming) = plain::parse_msgpack(bytes) {
        fuzz::relay(&incoming);
    }
});
