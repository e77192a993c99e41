//! One gateway process with a plain and a TLS address, and what the kernel says of it.

use anyhow::{Context, Result};
use rustls::pki_types::CertificateDer;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[derive(Debug)]
pub struct Gateway {
    child: Child,
    pub plain: SocketAddr,
    pub tls: SocketAddr,
    pub certificate: CertificateDer<'static>,
    _folder: tempfile::TempDir,
}

impl Gateway {
    pub fn start(binary: &str) -> Result<Gateway> {
        let folder = tempfile::tempdir()?;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let (cert, key) = (
            folder.path().join("cert.pem"),
            folder.path().join("key.pem"),
        );
        fs::write(&cert, made.cert.pem())?;
        fs::write(&key, made.signing_key.serialize_pem())?;
        let config = folder.path().join("sockeye.toml");
        let text = format!(
            "profile = \"socket.io\"\n[server]\nlisten = [\"127.0.0.1:0\"]\nadmin = \"off\"\nshards = 1\npin = false\n\
             [tls]\nlisten = [\"127.0.0.1:0\"]\ncert = [{cert:?}]\nkey = [{key:?}]\n\
             [log]\nconnections = false\n"
        );
        fs::write(&config, text)?;
        let mut command = Command::new(binary);
        command.arg("--config").arg(&config);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {binary}: build it first"))?;
        let stderr = child.stderr.take().context("no log")?;
        let mut lines = BufReader::new(stderr).lines();
        let listening = lines.find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line.ok()?).ok()?;
            (line["message"] == "listening").then_some(line)
        });
        let line = listening.context("the gateway did not start")?;
        // Whoever reads no log stops its writer.
        std::thread::spawn(move || lines.for_each(drop));
        let addr = |field: &str| line[field].as_str().and_then(|text| text.parse().ok());
        Ok(Gateway {
            plain: addr("addresses").context("no address in the log")?,
            tls: addr("tls").context("no TLS address in the log")?,
            certificate: made.cert.der().clone(),
            child,
            _folder: folder,
        })
    }

    pub fn resident_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB"));
        Ok(kilobytes.context("no VmRSS")?.trim().parse::<u64>()? * 1024)
    }

    /// User and system time.
    pub fn cpu(&self) -> Result<Duration> {
        let mut total = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // First field: nanoseconds on a processor; finer than the ticks of `stat`.
            let times = fs::read_to_string(task?.path().join("schedstat"))?;
            let nanos = times.split(' ').next().context("no schedstat")?;
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
