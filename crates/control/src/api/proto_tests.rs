//! `proto/sockeye.api.v1.rs` is made of the API's file, without `protoc`. It is in the repository, so that a build of the gateway
//! does not build what makes it.

use std::fs;
use std::path::Path;

#[test]
fn the_messages_of_the_api_are_fresh() {
    const PROTO: &str = "../../proto";
    let files = protox::compile(["sockeye/api/v1/api.proto"], [PROTO]).expect("it compiles");
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = prost_build::Config::new();
    config.out_dir(folder.path());
    config.extern_path(".sockeye.types.v1", "::types");
    config.compile_fds(files).expect("types");
    let made = fs::read_to_string(folder.path().join("sockeye.api.v1.rs")).expect("a file");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api/proto/sockeye.api.v1.rs");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&kept, &made).expect("it can be written");
    }
    let fresh = fs::read_to_string(&kept).is_ok_and(|text| text == made);
    assert!(fresh, "stale: {}; run `cargo xtask gen`", kept.display());
}
