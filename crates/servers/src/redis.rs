//! One Redis: it can be stopped, frozen, killed and started again on the same port.

use crate::{free_ports, program, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use tempfile::TempDir;

#[derive(Debug)]
pub struct Redis {
    port: u16,
    args: Vec<String>,
    child: Child,
    folder: TempDir,
    /// Words that let `redis-cli` in.
    entry: Vec<String>,
}

impl Redis {
    /// One that keeps nothing on disk and lets everybody in.
    pub fn start() -> Redis {
        Redis::start_with(&[])
    }

    /// With more settings, such as `["--requirepass", "secret"]`.
    pub fn start_with(args: &[&str]) -> Redis {
        Redis::prepare(|_| {}, args, &[])
    }

    /// As [`Self::start_with`]; `prepare` fills the server's working folder first, and `entry` are the words with which `redis-cli`
    /// gets in.
    pub fn prepare(prepare: impl Fn(&Path), args: &[&str], entry: &[&str]) -> Redis {
        let settings = |port| {
            let common = ["--port", &format!("{port}"), "--bind", "127.0.0.1"].map(str::to_owned);
            args.iter()
                .map(|&arg| arg.to_owned())
                .chain(common)
                .collect()
        };
        Redis::begin(prepare, settings, entry)
    }

    /// One that serves nothing but TLS, and asks clients for a certificate that its own one signed. `prepare` writes both files.
    pub fn prepare_tls(prepare: impl Fn(&Path), certificate: &str, key: &str) -> Redis {
        let settings = |port| {
            let args = format!(
                "--port 0 --tls-port {port} --bind 127.0.0.1 --tls-cert-file {certificate} --tls-key-file {key} \
                 --tls-ca-cert-file {certificate}"
            );
            args.split_whitespace().map(str::to_owned).collect()
        };
        let files = ["--cacert", certificate, "--cert", certificate, "--key", key];
        Redis::begin(prepare, settings, &[&["--tls"], &files[..]].concat())
    }

    fn begin(
        prepare: impl Fn(&Path),
        settings: impl Fn(u16) -> Vec<String>,
        entry: &[&str],
    ) -> Redis {
        let [port] = free_ports();
        let folder = tempfile::tempdir().expect("a temporary folder");
        prepare(folder.path());
        Redis::run(port, settings(port), folder, entry).when_up()
    }

    pub(crate) fn run(port: u16, args: Vec<String>, folder: TempDir, entry: &[&str]) -> Redis {
        Redis {
            port,
            child: spawn(&args, folder.path()),
            args,
            folder,
            entry: entry.iter().map(|&word| word.into()).collect(),
        }
    }

    /// Waits for its first answer.
    pub(crate) fn when_up(mut self) -> Redis {
        wait_for("redis-server answers", || {
            let ended = !matches!(self.child.try_wait(), Ok(None));
            assert!(!ended, "redis-server did not start:\n{}", self.log());
            (self.ask(&["PING"]).trim() == "PONG").then_some(())
        });
        self
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1` and its port.
    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// Its working folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// What `redis-cli` prints for a command; errors are text as well.
    pub fn ask(&self, command: &[&str]) -> String {
        let mut cli = program("redis-cli");
        cli.args(["-p", &self.port.to_string()]);
        cli.current_dir(self.folder.path());
        let output = cli.args(&self.entry).args(command).output();
        let output = output.expect("cannot run redis-cli: cargo xtask test installs it");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Publishes bytes, by `PUBLISH` or `SPUBLISH`; returns how many received them.
    pub fn publish(&self, command: &str, channel: &str, body: &[u8]) -> u64 {
        let mut cli = program("redis-cli");
        cli.args(["-p", &self.port.to_string(), "-x", command, channel]);
        cli.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cli = cli.spawn().expect("cannot run redis-cli");
        let mut stdin = cli.stdin.take().expect("piped");
        stdin.write_all(body).expect("redis-cli reads");
        drop(stdin);
        let output = cli.wait_with_output().expect("redis-cli ends");
        let count = String::from_utf8_lossy(&output.stdout);
        count.trim().parse().expect("a number of receivers")
    }

    /// A field of `INFO`, `CLUSTER INFO` and their like.
    pub fn field(&self, command: &[&str], field: &str) -> Option<String> {
        self.ask(command).lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name == field).then(|| value.trim().to_owned())
        })
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        let pid = Pid::from_raw(pid).expect("a process id");
        kill_process(pid, signal).expect("the process is ours");
    }

    /// SIGSTOP: its connections stay, and nothing is answered.
    pub fn freeze(&self) {
        crate::freeze(self.child.id());
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts what was killed, on the same port and with the files it left.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.args, self.folder.path());
        wait_for("redis-server is back", || {
            let answer = self.ask(&["PING"]);
            (answer.trim() == "PONG").then_some(())
        });
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of redis-server {}:\n{}", self.port, self.log());
        }
        self.kill();
    }
}

fn spawn(args: &[String], folder: &Path) -> Child {
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"));
    let log = log.expect("a log file");
    let mut server = program("redis-server");
    // A file of settings comes first; the others overrule it.
    let (file, args) = match args.split_first() {
        Some((file, args)) if !file.starts_with('-') => (Some(file), args),
        _ => (None, args),
    };
    server.args(file);
    server.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
    server
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("the log twice"))
        .stderr(log);
    let child = server.spawn();
    child.unwrap_or_else(|error| {
        panic!("cannot run redis-server ({error}): cargo xtask test installs it")
    })
}
