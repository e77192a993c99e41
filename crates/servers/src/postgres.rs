//! One PostgreSQL: it can be stopped, killed and started again on the same port. It refuses to run as root, so tests that do give it
//! another user.

use crate::{free_ports, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const PASSWORD: &str = "secret";

#[derive(Debug)]
pub struct Postgres {
    port: u16,
    child: Child,
    folder: TempDir,
}

impl Postgres {
    /// An empty database `postgres`, with the settings that come with it: what is committed is on the disk.
    pub fn start() -> Postgres {
        let [port] = free_ports();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        let password = folder.path().join("password");
        std::fs::write(&password, PASSWORD).expect("a file");
        give(folder.path());
        let mut init = program("initdb");
        init.args([
            "--username",
            "sockeye",
            "--auth",
            "scram-sha-256",
            "--encoding",
            "UTF8",
            "--no-locale",
            "--no-sync",
        ]);
        init.arg("--pwfile")
            .arg(&password)
            .arg("--pgdata")
            .arg(&data);
        let output = init
            .output()
            .expect("initdb runs: cargo xtask test installs it");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let child = spawn(port, folder.path());
        let postgres = Postgres {
            port,
            child,
            folder,
        };
        postgres.wait();
        postgres
    }

    /// With user and password.
    pub fn url(&self) -> String {
        format!(
            "postgres://sockeye:{PASSWORD}@127.0.0.1:{}/postgres",
            self.port
        )
    }

    /// SIGKILL, as a machine that fails; what was committed is there when it is started again.
    pub fn kill(&mut self) {
        // Its children see that it is gone, and end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts what was killed, on the same port and with the files it left.
    pub fn restart(&mut self) {
        self.kill();
        // A server that was killed leaves the file, and the next one waits for the children that are still there.
        wait_for("PostgreSQL is back", || {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                self.child = spawn(self.port, self.folder.path());
            }
            self.is_up().then_some(())
        });
    }

    /// It answers the first message of its protocol, a question for TLS, as soon as it takes connections.
    fn is_up(&self) -> bool {
        const TLS_QUESTION: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
        let mut answer = [0];
        let asked = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut conn| {
            conn.set_read_timeout(Some(Duration::from_secs(1)))?;
            conn.write_all(&TLS_QUESTION)?;
            conn.read_exact(&mut answer)
        });
        let ready = std::fs::read_to_string(self.folder.path().join("log"));
        asked.is_ok()
            && ready.is_ok_and(|log| {
                log.rfind("ready to accept connections") > log.rfind("starting PostgreSQL")
            })
    }

    fn wait(&self) {
        wait_for("PostgreSQL answers", || self.is_up().then_some(()));
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("log"));
            eprintln!(
                "log of PostgreSQL {}:\n{}",
                self.port,
                log.unwrap_or_default()
            );
        }
        self.kill();
    }
}

fn spawn(port: u16, folder: &Path) -> Child {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"));
    let log = log.expect("a log file");
    let mut command = program("postgres");
    command
        .arg("-D")
        .arg(folder.join("data"))
        .args(["-p", &port.to_string(), "-h", "127.0.0.1"]);
    command.arg("-k").arg(folder);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().expect("start postgres")
}

/// Root lets another user run it, who keeps the right to pass: the programs may lie in a folder of root's.
fn program(name: &str) -> Command {
    let path = folder_of_programs().join(name);
    if !is_root() {
        return Command::new(path);
    }
    let (user, group) = ids();
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={user}"))
        .arg(format!("--regid={group}"));
    command.args(["--clear-groups", "--securebits=+no_setuid_fixup"]);
    command.args(["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]);
    command.arg(path);
    command
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// Of `nobody`.
fn ids() -> (u32, u32) {
    let id = |which: &str| {
        let output = Command::new("id").args([which, "nobody"]).output();
        let output = output.expect("run id");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.trim().parse().expect("a number")
    };
    (id("-u"), id("-g"))
}

/// The folder becomes the user's.
fn give(folder: &Path) {
    if is_root() {
        let (user, group) = ids();
        let done = Command::new("chown")
            .arg("-R")
            .arg(format!("{user}:{group}"))
            .arg(folder)
            .status();
        assert!(
            done.is_ok_and(|done| done.success()),
            "cannot give away {}",
            folder.display()
        );
    }
}

/// What xtask has unpacked, or Debian's: it keeps them out of the PATH, in a folder for each version.
fn folder_of_programs() -> PathBuf {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin");
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut folders =
        std::iter::once(unpacked).chain(versions.map(|version| version.path().join("bin")));
    let found = folders.find(|folder| {
        ["initdb", "postgres"]
            .iter()
            .all(|name| folder.join(name).exists())
    });
    found.expect("PostgreSQL is not here: cargo xtask test installs it")
}
