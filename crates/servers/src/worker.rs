//! A worker of `sdk/node` that writes down what it handles: `sdk/node/test/ledger.mjs`.

use crate::PATIENCE;
use crate::node::install;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::mpsc::{Receiver, channel};

#[derive(Debug)]
pub struct NodeWorker {
    child: Child,
    lines: Receiver<String>,
}

/// A line of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handled {
    pub client: u32,
    pub number: u32,
    pub redelivered: bool,
}

impl NodeWorker {
    /// Attaches to a backend of the gateway, and waits until it is welcomed.
    pub fn start(gateway: &str, key: &str, backend: &str, ledger: &Path) -> NodeWorker {
        let folder = library();
        let mut child = Command::new("node")
            .arg("--expose-gc")
            .arg(folder.join("test/ledger.mjs"))
            .args([gateway, key, backend])
            .arg(ledger)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cannot run node: cargo xtask test installs it");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut said = stdout.lines().map_while(Result::ok);
            said.try_for_each(|line| sender.send(line))
        });
        let worker = NodeWorker { child, lines };
        assert_eq!(worker.line(), "ready");
        worker
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, in the middle of whatever it does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM: it hands its sockets over. Returns when it has ended.
    pub fn leave(&mut self) {
        self.signal(Signal::TERM);
        let status = self.child.wait().expect("a child");
        assert!(status.success(), "the worker ended with {status}");
    }

    /// SIGSTOP: it reads nothing.
    pub fn freeze(&self) {
        crate::freeze(self.pid());
    }

    /// Bytes of live objects and of resident memory.
    pub fn memory(&self) -> [u64; 2] {
        self.signal(Signal::USR2);
        let line = self.line();
        let mut words = line.split(' ').skip(1);
        [(); 2].map(|()| {
            words
                .next()
                .and_then(|word| word.parse().ok())
                .expect("a number")
        })
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), signal).expect("signal the worker");
    }

    fn line(&self) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        line.expect("the worker says nothing")
    }
}

impl Drop for NodeWorker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a worker has handled so far, in order.
pub fn handled(ledger: &Path) -> Vec<Handled> {
    let text = std::fs::read_to_string(ledger).expect("a ledger");
    let numbers = |line: &str| {
        let mut words = line.split(' ').map(str::parse);
        let mut next = || words.next().and_then(Result::ok).expect("three numbers");
        let [client, number, redelivered]: [u32; 3] = [next(), next(), next()];
        Handled {
            client,
            number,
            redelivered: redelivered == 1,
        }
    };
    text.lines().map(numbers).collect()
}

/// The library's folder, built.
fn library() -> PathBuf {
    static BUILT: Once = Once::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/node");
    BUILT.call_once(|| {
        install(&folder);
        let script = "made=dist/callable.js
            test -e $made && test -z \"$(find src build.mjs ../../proto -type f -newer $made)\" || node build.mjs";
        let done = Command::new("flock")
            .args(["package.json", "sh", "-ec", script])
            .current_dir(&folder)
            .status();
        assert!(done.is_ok_and(|status| status.success()), "node build.mjs failed");
    });
    folder
}
