//! The command line, and the life of the process.

use crate::conductor::{Conductor, WORDS_MAX};
use crate::front::{Front, http};
use crate::log;
use crate::normal::{Ignored, Normal, Rule};
use crate::packet::Budget;
use crate::page;
use crate::play::Play;
use crate::report::Report;
use crate::server::Server;
use crate::sessions::{Sessions, lock};
use anyhow::{Context, Result, bail};
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc::channel;

/// A session has a connection of its client, one to the running server and one of its copy; polling has more.
const DESCRIPTORS_EACH: usize = 5;
const PROGRESS: Duration = Duration::from_secs(10);

/// Stand in front of a running Socket.IO server, and compare a gateway with it.
///
/// Clients speak to the running server as before. What they say is played against the gateway as well, and what both answer is
/// compared. Nothing that the gateway says reaches a client. Ends with 0 if nothing differs, with 1 if something does, with 2 if it
/// cannot start.
#[derive(Debug, Parser)]
#[command(name = "sockeye-shadow", version)]
pub struct Args {
    /// The running server: `http://HOST:PORT`.
    #[arg(long)]
    against: Server,
    /// The gateway to compare, with its own workers and its own data: `http://HOST:PORT`.
    #[arg(long)]
    gateway: Server,
    /// Where clients connect instead.
    #[arg(long, default_value = "127.0.0.1:3100")]
    listen: SocketAddr,
    /// Where the page with the figures is; `off` for none.
    #[arg(long, default_value = "127.0.0.1:9191")]
    page: String,
    /// The path of Socket.IO on both.
    #[arg(long, default_value = "/socket.io/")]
    path: String,
    /// A packet waits for its like for so long.
    #[arg(long, default_value = "5s", value_parser = duration)]
    window: Duration,
    /// End after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Write the figures into this file at the end (JSON).
    #[arg(long)]
    report: Option<PathBuf>,
    /// Show values in samples. They are people's data.
    #[arg(long)]
    values: bool,
    /// What is the same although it differs; all of these unless some are named.
    #[arg(long = "rule", value_enum)]
    rules: Vec<Rule>,
    /// A part of an event's arguments that is not compared, such as `order:0.id`.
    #[arg(long = "ignore", value_name = "EVENT:PATH")]
    ignored: Vec<Ignored>,
    /// An event whose lists have no order.
    #[arg(long = "unordered", value_name = "EVENT")]
    unordered: Vec<String>,
    /// Give so many percent of the new sessions to the gateway; they are not compared. Both need to share a Redis.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT", value_parser = percent)]
    switch: f64,
}

fn duration(text: &str) -> Result<Duration, String> {
    units::duration(text).ok_or_else(|| format!("{text:?} is no duration such as `5s` or `2h`"))
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text
        .parse::<f64>()
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| format!("{text:?} is not a number from 0 to 100"))
}

/// As many as this process may have.
fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // A limit that cannot be raised stays.
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    now.map_or(usize::MAX, |now| now as usize)
}

/// The whole program.
pub fn run(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let report = runtime.block_on(compare(args))?;
    // What is under way does not hold the end up.
    runtime.shutdown_timeout(Duration::from_secs(1));
    print!("{}", report.to_text());
    if let Some(path) = &args.report {
        let text = serde_json::to_string_pretty(&report).context("cannot write the report")?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::from(u8::from(!report.is_clean())))
}

async fn compare(args: &Args) -> Result<Report> {
    let path = format!("/{}/", args.path.trim_matches('/'));
    let [real, gateway] = [&args.against, &args.gateway].map(|server| Server {
        path: path.clone(),
        ..server.clone()
    });
    if real == gateway {
        bail!(
            "cannot compare {real} with itself: --gateway names the gateway, --against the running server"
        );
    }
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", args.listen))?;
    let shown = Arc::<Mutex<Report>>::default();
    let page = match args.page.as_str() {
        "off" => None,
        address => Some(page::open(address, Arc::clone(&shown)).await?),
    };
    let told = page.map_or_else(
        || "no page".to_owned(),
        |address| format!("figures at http://{address}/"),
    );
    eprintln!(
        "clients connect to http://{}; {real} answers, {gateway} is compared; {told}",
        listener.local_addr()?
    );
    let rules = if args.rules.is_empty() {
        Rule::ALL.to_vec()
    } else {
        args.rules.clone()
    };
    let normal = Normal::new(rules, args.ignored.clone(), args.unordered.clone());
    let play = Play::new(normal, args.window.as_millis() as u64, args.values);
    let (words, heard) = channel(WORDS_MAX);
    let budget = Budget::default();
    let front = Front {
        real,
        gateway: gateway.clone(),
        switch: args.switch,
        sessions: Arc::new(Sessions::new(words.clone(), budget.clone())),
        copies_max: descriptors() / DESCRIPTORS_EACH,
        http: http(),
    };
    tokio::spawn(Arc::new(front).serve(listener));
    tokio::spawn(progress(Arc::clone(&shown)));
    let conductor = Conductor::new(play, gateway, (words, budget), Arc::clone(&shown));
    conductor.run(heard, asked_to_stop(args.time)).await;
    let report = lock(&shown).clone();
    Ok(report)
}

async fn progress(shown: Arc<Mutex<Report>>) {
    let mut ticks = tokio::time::interval(PROGRESS);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let (sessions, packets, differences) = {
            let report = lock(&shown);
            (report.sessions, report.packets, report.differences())
        };
        log::say(format!(
            "{sessions} sessions, {packets} packets of clients, {differences} differences"
        ));
    }
}

async fn asked_to_stop(time: Option<Duration>) {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminated = signal(SignalKind::terminate()).ok();
    let ended = async {
        match &mut terminated {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    };
    let over = async {
        match time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = ended => {}
        () = over => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_plain_urls() {
        let of = |text: &str| text.parse::<Server>().map(|server| server.address);
        assert_eq!(
            of("http://127.0.0.1:3000/"),
            Ok("127.0.0.1:3000".to_owned())
        );
        assert_eq!(of("http://node"), Ok("node:80".to_owned()));
        for wrong in ["https://a", "a:1", "http://", "http://a/b", "http://a b"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(percent("101").is_err() && percent("NaN").is_err() && percent("5").is_ok());
    }
}
