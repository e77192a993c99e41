//! The load generator of the same build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const GATEWAY: &str = env!("CARGO_BIN_EXE_sockeye");

static GENERATOR: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = Path::new(GATEWAY).with_file_name("sockeye-bench");
    if !path.exists() {
        build(&path);
    }
    path
});

/// The path of `sockeye-bench`.
pub fn generator() -> &'static Path {
    &GENERATOR
}

/// A test of one package alone builds no program of another package.
fn build(path: &Path) {
    let folder = path.parent().expect("a folder of a profile");
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        name => name.expect("the name of a profile"),
    };
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--locked",
            "--package",
            "bench",
            "--bin",
            "sockeye-bench",
        ])
        .args(["--profile", profile, "--target-dir"])
        .arg(folder.parent().expect("the target folder"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "build sockeye-bench"
    );
}
