//! Plain JSON messages: what is taken has canonical arguments and survives both encodings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::plain;

fuzz_target!(|text: &str| {
    if let Ok(incoming) = plain::parse_json(text) {
        assert!(wire::json::validate(text.as_bytes()).is_ok());
        fuzz::relay(&incoming);
    }
});
