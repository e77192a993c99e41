//! A gateway process of our own: started with a configuration, asked for its processor time, ended.

use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Everybody may join rooms; `say` goes to the sender's rooms. One shard, so that all members are its own.
const CONFIG: &str = r#"
profile = "socket.io"
[server]
shards = 1
pin = false
[socketio]
ping_interval = "300s"
[log]
connections = false
[compression]
websocket = true
"#;

#[derive(Debug)]
pub struct Gateway {
    pub addr: SocketAddr,
    child: Child,
    _files: tempfile::TempDir,
}

/// The binary named on the command line, or the one beside `examples/`.
pub fn binary(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe()?;
    let beside = beside
        .parent()
        .and_then(Path::parent)
        .map(|folder| folder.join("sockeye"));
    let path = named.or(beside).context("no folder")?;
    if !path.exists() {
        bail!(
            "there is no {}: run `cargo build --release -p gateway` first",
            path.display()
        );
    }
    Ok(path)
}

impl Gateway {
    /// Starts with more lines for the section `[compression]`.
    pub fn start(binary: &Path, lines: &str) -> anyhow::Result<Gateway> {
        let files = tempfile::tempdir()?;
        let config = files.path().join("sockeye.toml");
        std::fs::write(&config, format!("{CONFIG}{lines}"))?;
        let mut child = Command::new(binary)
            .args(["--listen", "127.0.0.1:0", "--admin", "off", "--config"])
            .arg(&config)
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut log = BufReader::new(child.stderr.take().context("its log is piped")?).lines();
        let addr = log.by_ref().map_while(Result::ok).find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line).ok()?;
            (line["message"] == "listening").then_some(())?;
            line["addresses"].as_str()?.split(',').next()?.parse().ok()
        });
        // A pipe that nobody reads would cost lines.
        std::thread::spawn(move || log.for_each(drop));
        Ok(Gateway {
            addr: addr.context("the gateway did not start to listen")?,
            child,
            _files: files,
        })
    }

    /// Processor time of all its threads so far, as the scheduler counts it.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let mut total = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let run: u64 = text
                .split_whitespace()
                .next()
                .context("schedstat")?
                .parse()?;
            total += run;
        }
        Ok(Duration::from_nanos(total))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
