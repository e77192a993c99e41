//! What workers and callers of the server API say alike: which sockets are meant, and what a client answered. Pure.

#![forbid(unsafe_code)]

mod bounds;
mod target;

pub use bounds::NAMES_MAX;
pub use proto::{Answer, Target};
pub use target::{Fault, check_names};

/// The messages of `proto/sockeye/types/v1/types.proto`, written by `cargo xtask gen`.
mod proto {
    include!("proto/sockeye.types.v1.rs");
}

#[cfg(test)]
mod proto_tests {
    //! They are made of the protocol's file, without `protoc`. They stand in the repository, so that a build of the gateway does not
    //! build what makes them.

    use std::fs;
    use std::path::Path;

    #[test]
    fn the_messages_that_all_share_are_fresh() {
        const PROTO: &str = "../../proto";
        let files =
            protox::compile(["sockeye/types/v1/types.proto"], [PROTO]).expect("it compiles");
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = prost_build::Config::new();
        config.bytes(["."]).out_dir(folder.path());
        config.compile_fds(files).expect("types");
        let made = fs::read_to_string(folder.path().join("sockeye.types.v1.rs")).expect("a file");
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proto/sockeye.types.v1.rs");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&kept, &made).expect("it can be written");
        }
        let fresh = fs::read_to_string(&kept).is_ok_and(|text| text == made);
        assert!(fresh, "stale: {}; run `cargo xtask gen`", kept.display());
    }
}
