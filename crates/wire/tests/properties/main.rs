//! Properties of the codecs over random input: round trips, the same result for any chunking of the
//! same bytes, agreement with serde_json, and no panic on anything.

mod deflate;
mod engineio;
mod http;
mod json;
mod plain;
mod proxy;
mod socketio;
mod values;
mod websocket;
