//! A Go program of conformance/, with the modules that its go.sum names.

use crate::peer::Running;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

#[derive(Debug)]
pub struct GoProgram {
    _running: Running,
    _folder: TempDir,
}

impl GoProgram {
    /// `conformance/FOLDER`, until its handle is dropped.
    pub fn start(folder: &str, args: &[&str]) -> GoProgram {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../conformance")
            .join(folder);
        let built = tempfile::tempdir().expect("a temporary folder");
        let program = built.path().join("program");
        // `go run` leaves its child behind when it is killed.
        let status = Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(source)
            .status();
        let status = status.expect("cannot run go: cargo xtask test installs it");
        assert!(status.success(), "go build ended with {status}");
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        GoProgram {
            _running: Running::start(&mut command),
            _folder: built,
        }
    }
}
