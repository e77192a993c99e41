//! A Node program of conformance/, with the packages that its lock file names.

use crate::node::install;
use crate::peer::Running;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Debug)]
pub struct NodeProgram {
    _running: Running,
}

impl NodeProgram {
    /// `conformance/FOLDER/FILE`, until its handle is dropped.
    pub fn start(folder: &str, file: &str, args: &[&str]) -> NodeProgram {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../conformance")
            .join(folder);
        install(&folder);
        let mut command = Command::new("node");
        command
            .arg(folder.join(file))
            .args(args)
            .stdin(Stdio::null());
        NodeProgram {
            _running: Running::start(&mut command),
        }
    }
}
