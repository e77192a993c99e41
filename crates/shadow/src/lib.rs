//! `sockeye-shadow`: stands in front of a running Socket.IO server, passes everything on unchanged, plays what clients say also
//! against a gateway, and compares what both answer. Nothing that the gateway says reaches a client.
//!
//! [`front`] passes bytes on and reads them by [`tap`]; [`play`] decides what the gateway gets and when; [`own`] has the gateway's
//! copies of sessions; [`compare`] finds what differs; [`report`] counts it, and [`page`] shows it.

pub mod cli;
mod compare;
mod conductor;
mod front;
mod log;
mod normal;
mod own;
mod packet;
mod page;
mod play;
mod report;
mod server;
mod sessions;
mod tap;
