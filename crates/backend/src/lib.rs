//! Logic outside: the state between the shards, which hold the sockets of a namespace, and the workers, which hold its logic.
//!
//! Pure: no I/O and no clock. A shard's news go in by [`Backend::up`], a worker's frames by [`Backend::received`], time by
//! [`Backend::tick`]. What comes out is for shards ([`Out`]) or for workers ([`Backend::poll`]). The promises:
//!
//! * A socket has one worker at a time, its home. Its events reach it in order.
//! * An event is kept until its worker has handled it. A link that is cut and comes back loses nothing and repeats nothing. When
//!   a worker is lost, its sockets move. Events that it had got and not handled come again, marked as redelivered.
//! * A client that waits for an answer gets one: from a worker, or a refusal.
//! * What is kept is bounded in bytes, for one socket and for all, and in time.
#![forbid(unsafe_code)]

mod arriving;
mod backend;
mod backlog;
mod bounds;
mod calls;
mod check;
mod commands;
mod counts;
mod deadlines;
mod done;
mod endpoint;
mod entry;
mod event;
mod flight;
mod frame;
mod handing;
mod home;
mod homes;
mod items;
mod ledger;
mod link;
mod links;
mod loss;
mod message;
mod name;
mod news;
mod nodes;
mod open;
mod openings;
mod order;
mod outlet;
mod pace;
mod parked;
mod parting;
mod parts;
mod past;
mod question;
mod questions;
mod queue;
mod scope;
mod settings;
mod settle;
mod sight;
mod taken;
mod weight;
mod worker;
mod workers;

pub use backend::Backend;
pub use bounds::{
    ANSWERS_BYTES_MAX, AUTH_BYTES_MAX, COMMANDS_MAX, DATA_BYTES_MAX, FAILURES_MAX,
    FAILURES_WHEN_FULL, GROWTH_MAX, INSTANCE_BYTES_MAX, JOINS_MAX, NAMES_MAX, NODES_GONE_MAX,
    PAST_MAX, QUERIES_MAX, ROUNDS_MAX, VERDICT_BYTES_MAX, WORKERS_MAX,
};
pub use calls::{Call, News, Outcome};
pub use check::{Fault, check, check_emit};
pub use counts::{Counts, OpeningCounts};
pub use endpoint::Calling;
pub use event::{Event, Said};
pub use frame::Frame;
pub use link::{Denied, Link, Stray};
pub use message::{Ack, Down, Out, Refusal, To, Up, Why};
pub use name::Name;
pub use openings::opening_number;
pub use order::Sending;
pub use outlet::Deadly;
pub use pace::{Pace, PaceFigures};
pub use scope::Scope;
pub use settings::Settings;
pub use sight::SeenWorker;
pub use weight::{answer_bytes, growth, member_bytes};

/// The messages of `proto/sockeye/worker/v1/worker.proto`, written by `cargo xtask gen`.
pub mod proto {
    include!("proto/sockeye.worker.v1.rs");
    pub use types::{Answer, Target};
}

#[cfg(test)]
mod proto_tests {
    //! They are made of the protocol's file, without `protoc`. They stand in the repository, so that a build of the gateway does not
    //! build what makes them.

    use std::fs;
    use std::path::Path;

    #[test]
    fn the_messages_of_workers_are_fresh() {
        const PROTO: &str = "../../proto";
        let files =
            protox::compile(["sockeye/worker/v1/worker.proto"], [PROTO]).expect("it compiles");
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = prost_build::Config::new();
        config.bytes(["."]).out_dir(folder.path());
        config.extern_path(".sockeye.types.v1", "::types");
        // Events and acks are the many, and are moved often: larger messages stand beside them.
        for large in [
            "Item.what.connect",
            "Item.what.resume",
            "Command.what.emit",
            "Command.what.ask",
            "Command.what.tell",
        ] {
            config.boxed(format!(".sockeye.worker.v1.{large}"));
        }
        config.compile_fds(files).expect("types");
        let made = fs::read_to_string(folder.path().join("sockeye.worker.v1.rs")).expect("a file");
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proto/sockeye.worker.v1.rs");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&kept, &made).expect("it can be written");
        }
        let fresh = fs::read_to_string(&kept).is_ok_and(|text| text == made);
        assert!(fresh, "stale: {}; run `cargo xtask gen`", kept.display());
    }
}
