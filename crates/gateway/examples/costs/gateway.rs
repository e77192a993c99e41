//! A gateway process of our own: started with a configuration, asked for its processor time and memory, ended.

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

#[derive(Debug)]
pub struct Gateway {
    pub addr: SocketAddr,
    pub admin: Option<SocketAddr>,
    pub tls: Option<SocketAddr>,
    child: Child,
    _files: tempfile::TempDir,
}

/// A binary of the release profile, beside `examples/`.
pub fn built(name: &str) -> Result<PathBuf> {
    let beside = std::env::current_exe()?;
    let folder = beside.parent().and_then(Path::parent);
    let path = folder.context("no folder")?.join(name);
    ensure!(
        path.exists(),
        "there is no {}: run `cargo build --release -p gateway -p bench` first",
        path.display()
    );
    Ok(path)
}

/// Starts a process there and keeps this thread, and those it starts, off it: what they do stands for other machines. With one
/// core everything shares it.
fn on_the_first_core<T>(start: impl FnOnce() -> T) -> Result<T> {
    static CORES: OnceLock<CpuSet> = OnceLock::new();
    let now = sched_getaffinity(None)?;
    // Those of the first call: later ones are made by threads that keep off one of them.
    let all = *CORES.get_or_init(|| now);
    let first = (0..CpuSet::MAX_CPU).find(|core| all.is_set(*core));
    let (mut alone, mut others) = (CpuSet::new(), all);
    if let Some(first) = first.filter(|_| all.count() > 1) {
        alone.set(first);
        others.unset(first);
        sched_setaffinity(None, &alone)?;
    }
    let started = start();
    sched_setaffinity(None, &others)?;
    Ok(started)
}

impl Gateway {
    /// One shard on free ports with this configuration, on a core that clients keep off.
    pub fn start(config: &str) -> Result<Gateway> {
        let files = tempfile::tempdir()?;
        let file = files.path().join("sockeye.toml");
        std::fs::write(&file, config)?;
        let mut command = Command::new(built("sockeye")?);
        command
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--shards", "1", "--config"])
            .arg(&file)
            .stderr(Stdio::piped());
        let mut child = on_the_first_core(|| command.spawn())??;
        let mut log = BufReader::new(child.stderr.take().context("its log is piped")?).lines();
        let line = log.by_ref().map_while(Result::ok).find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line).ok()?;
            (line["message"] == "listening").then_some(line)
        });
        let line = line.context("the gateway did not start")?;
        // A pipe that nobody reads would stop its writer.
        std::thread::spawn(move || log.for_each(drop));
        let addr = |field: &str| line[field].as_str().and_then(|text| text.parse().ok());
        Ok(Gateway {
            addr: addr("addresses").context("no address in the log")?,
            admin: addr("admin"),
            tls: addr("tls"),
            child,
            _files: files,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn resident_bytes(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB"));
        Ok(kilobytes.context("no VmRSS")?.trim().parse::<u64>()? * 1024)
    }

    /// Processor time of all its threads so far, as the scheduler counts it: finer than the ticks of `stat`.
    pub fn cpu(&self) -> Result<Duration> {
        let mut total = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let times = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let nanos = times.split_whitespace().next().context("no schedstat")?;
            total += nanos.parse::<u64>()?;
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
