//! Owns the commands `run`, `scenarios` and `check`.

use super::{Launcher, Options, Target};
use crate::live::{self, About};
use crate::report;
use crate::scenario::{Scenario, Share, builtin};
use crate::server::{Contender, Server};
use crate::tls::Trust;
use anyhow::{Context, Result, bail};
use clap::Args;
use outcome::ResultFile;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest silence that anyone may want to wait through.
const GRACE_MAX_S: u64 = 3_600;

#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The server; connections are spread over several.
    #[arg(long, default_value = "http://127.0.0.1:3000")]
    url: Vec<String>,
    /// A process of the server, for its CPU and memory, or one that works for it, such as Redis; may be given several times.
    #[arg(long)]
    pid: Vec<u32>,
    /// What the server is called in the result.
    #[arg(long, default_value = "server")]
    name: String,
    /// Start so many gateways, each with one shard, in place of --url, and stop them behind the run.
    #[arg(long, conflicts_with = "url", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    gateways: Option<u32>,
    /// Configuration of these gateways.
    #[arg(long, value_name = "FILE", default_value = "benchmarks/scenarios.toml")]
    gateway_config: PathBuf,
    /// The `sockeye` binary to start [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    sockeye_bin: Option<PathBuf>,
    /// A dashboard that fills the terminal instead of lines.
    #[arg(long)]
    tui: bool,
    #[command(flatten)]
    measure: Measure,
}

/// How a scenario is run, and where its result goes: on one server or on several.
#[derive(Clone, Debug, Args)]
pub struct Measure {
    /// Name of a built-in scenario, or a TOML file.
    scenario: String,
    /// Share of the scenario's connections, arrivals and rates.
    #[arg(long, default_value_t = 1.0, value_parser = parse_scale)]
    scale: f64,
    /// Share of the scenario's time: each phase is shorter, and as many users arrive faster.
    #[arg(long, default_value_t = 1.0, value_parser = parse_scale)]
    time_scale: f64,
    /// Generator processes [default: as many as the connections need].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    workers: Option<u32>,
    /// Seconds of silence at the end after which what is missing is lost.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=GRACE_MAX_S))]
    grace: u64,
    /// Write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as one HTML file that needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Certificates (PEM) that https and wss servers are checked with, instead of those of the machine.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// End with 3 where the result is doubtful, instead of 0: for scripts.
    #[arg(long)]
    strict: bool,
}

impl Measure {
    /// What is said before anything runs: files that cannot be read or written.
    pub fn options(&self, launcher: Launcher) -> Result<Options> {
        report::command::check_writable(self.json.iter().chain(&self.html))?;
        Ok(Options {
            workers: self.workers,
            authorities: authorities(self.ca.as_deref())?,
            grace: Duration::from_secs(self.grace),
            ..Options::new(launcher)
        })
    }

    /// The scenario as the file has it.
    pub fn load(&self) -> Result<Scenario> {
        Scenario::load(&self.scenario)
    }

    /// The same at the size and in the time that are asked for.
    pub fn sized(&self, scenario: Scenario) -> Scenario {
        scenario.scaled(self.scale).shortened(self.time_scale)
    }

    /// Shows the result and writes it where it is wanted.
    pub fn publish(&self, file: &ResultFile) -> Result<ExitCode> {
        let source = match &self.json {
            Some(path) => path.display().to_string(),
            None => "this run".into(),
        };
        let document = report::document(file, &source);
        report::command::publish(file, &document, self.json.as_deref(), self.html.as_deref())?;
        Ok(report::command::exit_code(&document, self.strict))
    }
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if scale > 0.0 && scale <= 100.0 => Ok(scale),
        _ => Err(format!(
            "{text:?} is no scale: give a number above 0 and up to 100, such as 0.02"
        )),
    }
}

/// Runs a scenario and reports. An interrupted run reports what there is.
///
/// # Errors
/// When there is nothing to report, or when a file cannot be written: the report is printed first.
pub fn run(args: &RunArgs, launcher: Launcher) -> Result<ExitCode> {
    let options = args.measure.options(launcher)?;
    let scenario = args.measure.sized(args.measure.load()?);
    let gateways = gateways(args, &options.launcher)?;
    end_on_signals(&options)?;
    let target = match &gateways[..] {
        [] => Target {
            name: args.name.clone(),
            urls: args.url.clone(),
            pids: args.pid.clone(),
        },
        servers => Target {
            name: "sockeye".into(),
            urls: servers
                .iter()
                .map(|server| server.url().to_owned())
                .collect(),
            pids: (servers.iter().map(Server::pid))
                .chain(args.pid.iter().copied())
                .collect(),
        },
    };
    let about = about(&scenario, &target);
    let mut observer = match args.tui {
        true => live::open_dashboard(&about)?,
        false => live::open(&about),
    };
    let outcome = super::run(&scenario, &target, &options, observer.as_mut())?;
    drop(observer);
    args.measure.publish(&ResultFile::Run(Box::new(outcome)))
}

/// The gateways that the command itself starts.
fn gateways(args: &RunArgs, launcher: &Launcher) -> Result<Vec<Server>> {
    let Some(count) = args.gateways else {
        return Ok(Vec::new());
    };
    let bin = args.sockeye_bin.clone().or_else(|| launcher.gateway());
    let bin = bin.context("cannot start gateways: give --sockeye-bin, the path of `sockeye`")?;
    let contender = Contender::sockeye(&bin, &args.gateway_config, 1);
    (0..count).map(|_| contender.start()).collect()
}

/// The text of a file of certificates.
fn authorities(file: Option<&Path>) -> Result<Option<String>> {
    let read = |file: &Path| {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read certificates {}", file.display()))?;
        // Said before anything runs, and by the file's name.
        Trust::new(Some(&text)).with_context(|| format!("cannot use {}", file.display()))?;
        Ok(text)
    };
    file.map(read).transpose()
}

/// The first signal ends the run in order, the second one the wait for stragglers, the third one
/// the process.
pub fn end_on_signals(options: &Options) -> Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for Ctrl-C")?;
    let (interrupt, hurry) = (Arc::clone(&options.interrupt), Arc::clone(&options.hurry));
    std::thread::spawn(move || {
        for (seen, signal) in signals.forever().enumerate() {
            match seen {
                0 => interrupt.store(true, Ordering::Relaxed),
                1 => hurry.store(true, Ordering::Relaxed),
                _ => std::process::exit(128 + signal),
            }
        }
    });
    Ok(())
}

/// What a view says before the run begins.
pub fn about(scenario: &Scenario, target: &Target) -> About {
    let phases = scenario.phases.iter();
    About {
        scenario: scenario.name.clone(),
        target: target.clone(),
        scale: scenario.source.scale,
        duration_s: phases
            .clone()
            .map(|phase| phase.duration.as_secs_f64())
            .sum(),
        phases: phases.map(|phase| phase.name.clone()).collect(),
    }
}

/// Lists the built-in scenarios.
pub fn list() -> Result<()> {
    let mut text = String::new();
    for name in builtin::names() {
        let scenario = Scenario::load(name)?;
        text += &format!("{name:14} {}\n", scenario.about);
    }
    report::command::write_out(&text);
    Ok(())
}

/// Reads a scenario and says what it would do, or everything that is wrong with it.
pub fn check(name: &str) -> Result<()> {
    let scenario = Scenario::load(name)?;
    if scenario.users() == 0 {
        bail!("{name}: no phase brings any users");
    }
    let mut text = format!("{}: {}\n", scenario.name, scenario.about);
    for (at, phase) in scenario.phases.iter().enumerate() {
        let users = scenario.users_by(at);
        let rate = phase
            .rate
            .map_or(String::new(), |rate| format!(", {rate} rounds/s"));
        text += &format!(
            "  phase {:?}: {:?}, up to {users} users{rate}\n",
            phase.name, phase.duration
        );
    }
    for (flow, users) in scenario.flows.iter().zip(scenario.users_of_flows()) {
        let users = match flow.share {
            Share::Count(count) if count > users => {
                format!("{users} users instead of {count}: there are no more")
            }
            _ => format!("{users} users"),
        };
        text += &format!(
            "  flow {:?}: {}, {} steps, {users}\n",
            flow.name,
            flow.endpoint.protocol.name(),
            flow.steps.len()
        );
    }
    report::command::write_out(&text);
    Ok(())
}
