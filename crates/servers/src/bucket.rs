//! A server that speaks S3 over a folder (`conformance/store`): it can be frozen, killed and started again on the same port.

use crate::{free_ports, node, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The one bucket that it has.
const NAME: &str = "bodies";

#[derive(Debug)]
pub struct Bucket {
    port: u16,
    folder: TempDir,
    child: Option<Child>,
}

impl Bucket {
    pub fn start() -> Bucket {
        let [port] = free_ports();
        let mut bucket = Bucket {
            port,
            folder: tempfile::tempdir().expect("a temporary folder"),
            child: None,
        };
        bucket.start_again();
        bucket
    }

    /// The lines of `[large]` that lead to it.
    pub fn settings(&self) -> String {
        format!(
            "bucket = \"{NAME}\"\nendpoint = \"http://127.0.0.1:{}\"\naccess_key = \"S3RVER\"\nsecret_key = \"S3RVER\"\n",
            self.port
        )
    }

    /// Ends the server at once.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn start_again(&mut self) {
        let mut command = Command::new("node");
        command
            .arg(installed().join("server.mjs"))
            .arg(self.port.to_string())
            .args([self.folder.path(), Path::new(NAME)])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        self.child = Some(command.spawn().expect("node runs"));
        let port = self.port;
        wait_for("the S3 server", || {
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
    }

    /// It stands still: connections stay, and nothing is answered.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().map(Child::id);
        let pid = child.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        kill_process(pid.expect("it runs"), signal).expect("signal the S3 server");
    }

    /// Objects that are whole.
    pub fn objects(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            let entries = entries.filter_map(Result::ok).map(|entry| entry.path());
            let sizes = entries.map(|path| match path.is_dir() {
                true => count(&path),
                false => usize::from(path.to_string_lossy().ends_with("._S3rver_object")),
            });
            sizes.sum()
        }
        count(&self.folder.path().join(NAME))
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.thaw();
        }
        self.kill();
    }
}

fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/store");
    node::install(&folder);
    folder
}
