//! `sockeye upgrade`: tells the process of this configuration to start its successor and to hand over.

use super::line::{Broken, Line, decode};
use crate::cli::VERSION;
use crate::config::{self, Request};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use handoff::{Hello, Kind, OLDEST, Order, Said, VERSION as RECORD};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process;
use std::time::Duration;

/// One word of the process, which meanwhile starts another.
const WITHIN: Duration = Duration::from_secs(180);
const STEP: Duration = Duration::from_secs(5);

/// Let a new process take over listeners and live connections from the one that runs, on this host.
///
/// Ends with 0 if the new process serves, else with 1; then the old one goes on.
#[derive(Clone, Debug, Args)]
pub struct UpgradeArgs {
    /// Only tell what would go over and what would be sent away.
    #[arg(long)]
    pub dry_run: bool,
    /// The new program; without it the one that runs, as it is on the disk now.
    #[arg(long, value_name = "PATH")]
    pub binary: Option<PathBuf>,
}

pub fn run(args: &UpgradeArgs, request: &Request) -> Result<()> {
    let loaded = config::load(request).map_err(|problems| anyhow!("{problems}"))?;
    let Some(path) = loaded.resolved.upgrade else {
        bail!(
            "cannot upgrade: upgrade.socket is not set; set it to a path such as /run/sockeye/upgrade.sock and restart the gateway once"
        );
    };
    let stream = UnixStream::connect(&path);
    let stream = stream.with_context(|| {
        format!(
            "cannot upgrade: no process listens at {}; start the gateway with this configuration",
            path.display()
        )
    })?;
    let mut line = Line::new(stream);
    let binary = args
        .binary
        .as_deref()
        .map(std::path::absolute)
        .transpose()?;
    let order = Order {
        binary: binary
            .map(|path| path.display().to_string())
            .unwrap_or_default(),
        dry_run: args.dry_run,
    };
    talk(&mut line, &order).map_err(|why| anyhow!("cannot upgrade: {why}"))
}

fn talk(line: &mut Line, order: &Order) -> Result<(), Broken> {
    let hello = Hello {
        oldest: OLDEST,
        newest: RECORD,
        pid: process::id(),
        program: VERSION.to_owned(),
        ..Hello::default()
    };
    let sent = line.send(Kind::Hello, &hello, STEP);
    if let Err(broken) = sent.and_then(|()| line.send(Kind::Order, order, STEP)) {
        // It may have refused, with its reason, and hung up before it read that.
        let heard = line.hear(STEP);
        let refusal = heard.err().filter(|why| matches!(why, Broken::Refused(_)));
        return Err(refusal.unwrap_or(broken));
    }
    loop {
        let (kind, body) = line.hear(WITHIN)?;
        let said: Said = decode(&body)?;
        match kind {
            Kind::Line => print(&said.text),
            Kind::Done => {
                print(&said.text);
                return Ok(());
            }
            other => return Err(Broken::Strange(format!("it says {other:?} to an operator"))),
        }
    }
}

/// Whoever reads may have gone: how the upgrade went does not depend on that.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
