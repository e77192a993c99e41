//! Owns the suite: Sockeye, its peers and the floors on the same cases, in interleaved rounds (A B C A B C …), so that a change of the
//! machine's mood hits all of them alike.

mod cases;

use crate::compare::parse_server;
use crate::engine::{self, Launcher, Options, Target};
use crate::live::Silent;
use crate::outcome::{self, CaseResult, Contestant, Outcome, ResultFile, Suite};
use crate::report::{self, Level, number::short};
use crate::scenario::{Protocol, Scenario};
use crate::server::{Contender, Kind};
use anyhow::{Context, Result, bail, ensure};
use cases::{Case, Family};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use cases::cpu_us_per_message;

/// How long stragglers are waited for before they count as lost.
const GRACE: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
pub struct SuiteArgs {
    /// Built `sockeye` binary; without it only peers and floors run.
    #[arg(long)]
    sockeye_bin: Option<PathBuf>,
    /// Shard counts to run Sockeye with, each its own column.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    shards: Vec<u32>,
    /// Only these families, or the cases of these names.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Small sizes, short spans, one round.
    #[arg(long)]
    quick: bool,
    /// Rounds of each case [default: 3, quick: 1].
    #[arg(long)]
    rounds: Option<u32>,
    /// Also measure bare `ws` on Node.
    #[arg(long)]
    with_ws: bool,
    /// Leave the Node peers out.
    #[arg(long)]
    no_node: bool,
    /// A server that already runs: `name=url,pid`, with `,protocol=bare` if it does not speak Socket.IO.
    #[arg(long = "server", value_parser = parse_external)]
    external: Vec<Contender>,
    /// Folder with the peers and Sockeye's configuration.
    #[arg(long, default_value = "benchmarks")]
    benchmarks: PathBuf,
    /// Keep the cases of an existing result file that this run does not measure.
    #[arg(long)]
    keep: bool,
    /// Where the result goes.
    #[arg(long, default_value = "benchmarks/results/suite.json")]
    out: PathBuf,
}

/// The launcher's program with `prefix` in front is this very binary.
pub fn run(args: &SuiteArgs, launcher: Launcher, prefix: &[String]) -> Result<()> {
    let cases = wanted(args)?;
    report::command::check_writable(std::iter::once(&args.out))?;
    let old = match args.keep {
        true => Some(kept(&args.out)?),
        false => None,
    };
    let options = Options {
        grace: GRACE,
        ..Options::new(launcher)
    };
    engine::command::end_on_signals(&options)?;
    let contenders = contenders(args, &options.launcher.program, prefix)?;
    let mut suite = Suite::default();
    for case in cases {
        let contenders: Vec<&Contender> = contenders
            .iter()
            .filter(|contender| case.suits(&contender.kind))
            .collect();
        if !contenders.is_empty() && !is_interrupted(&options) {
            suite
                .cases
                .push(measure(&case, &contenders, args, &options));
        }
    }
    if let Some(old) = old {
        suite.keep(old);
    }
    let file = ResultFile::Suite(suite);
    outcome::save(&file, &args.out)?;
    report::command::print(&report::document(&file, &args.out.display().to_string()));
    Ok(())
}

fn is_interrupted(options: &Options) -> bool {
    options.interrupt.load(std::sync::atomic::Ordering::Relaxed)
}

fn kept(path: &Path) -> Result<Suite> {
    match outcome::load(path)? {
        ResultFile::Suite(suite) => Ok(suite),
        _ => bail!(
            "cannot keep the cases of {}: it is no suite's result",
            path.display()
        ),
    }
}

fn wanted(args: &SuiteArgs) -> Result<Vec<Case>> {
    use clap::ValueEnum;
    let mut cases = if args.quick {
        cases::quick()
    } else {
        cases::full()
    };
    for name in &args.only {
        let is_known =
            Family::from_str(name, true).is_ok() || cases.iter().any(|case| case.id == *name);
        ensure!(
            is_known,
            "there is no case {name:?}; there are {}",
            names(&cases).join(", ")
        );
    }
    let is_wanted = |case: &Case| {
        args.only
            .iter()
            .any(|name| *name == case.id || Family::from_str(name, true) == Ok(case.family))
    };
    cases.retain(|case| args.only.is_empty() || is_wanted(case));
    Ok(cases)
}

fn names(cases: &[Case]) -> Vec<String> {
    use clap::ValueEnum;
    let families = Family::value_variants().iter();
    let families =
        families.filter_map(|family| Some(family.to_possible_value()?.get_name().to_owned()));
    families
        .chain(cases.iter().map(|case| case.id.clone()))
        .collect()
}

/// All rounds of one case. A server that fails is told and does not stop the rest.
fn measure(
    case: &Case,
    contenders: &[&Contender],
    args: &SuiteArgs,
    options: &Options,
) -> CaseResult {
    let mut result = CaseResult {
        case: case.id.clone(),
        about: case.about.clone(),
        figure: case.figure,
        servers: contenders
            .iter()
            .map(|contender| Contestant::new(&contender.name))
            .collect(),
        failures: Vec::new(),
    };
    eprintln!("{}", result.about);
    for round in 1..=args.rounds.unwrap_or(if args.quick { 1 } else { 3 }) {
        for (contender, server) in contenders.iter().zip(&mut result.servers) {
            if is_interrupted(options) {
                return result;
            }
            let told = match once(case, contender, options) {
                Ok(run) => {
                    let told = describe(&result.figure.of(&run), &run);
                    server.runs.push(run);
                    told
                }
                Err(error) => {
                    let told = format!("{}, round {round}: {error:#}", contender.name);
                    result.failures.push(told.clone());
                    told
                }
            };
            eprintln!("  {:<22} {told}", contender.name);
        }
    }
    result
}

fn once(case: &Case, contender: &Contender, options: &Options) -> Result<Outcome> {
    let text = case.scenario(contender.kind.protocol());
    let scenario = Scenario::parse(&case.id, &text)?;
    let mut server = contender.start()?;
    let target = Target {
        name: contender.name.clone(),
        urls: vec![server.url().to_owned()],
        pids: vec![server.pid()],
    };
    let mut run = engine::run(&scenario, &target, options, &mut Silent)?;
    ensure!(server.is_alive(), "the server process ended");
    thin_out(&mut run);
    Ok(run)
}

/// A suite has a hundred runs: their seconds and all single latencies would be most of its file.
fn thin_out(run: &mut Outcome) {
    run.timeline.clear();
    let whole = &mut run.latency;
    let all = [
        &mut whole.delivery,
        &mut whole.ack,
        &mut whole.connect,
        &mut whole.again,
    ];
    let phases = run
        .phases
        .iter_mut()
        .flat_map(|phase| [&mut phase.delivery, &mut phase.ack]);
    for latency in all.into_iter().chain(phases) {
        *latency = latency.thinned();
    }
}

/// One line about a run.
fn describe(figure: &Option<f64>, run: &Outcome) -> String {
    let measured = run.phases.last();
    let rate = measured.map_or(0.0, |phase| {
        (phase.received + phase.acked) as f64 / phase.duration_s.max(1e-9)
    });
    let figure = figure.map_or("–".into(), short);
    let verdict = match report::level(run) {
        Level::Good => "",
        level => level.word(),
    };
    format!("{figure:>10}  {:>10}/s  {verdict}", short(rate))
}

fn contenders(args: &SuiteArgs, program: &Path, prefix: &[String]) -> Result<Vec<Contender>> {
    let mut contenders = Vec::new();
    let mut add = |name: String, kind: Kind| contenders.push(Contender { name, kind });
    for &shards in args.shards.iter().filter(|_| args.sockeye_bin.is_some()) {
        let name = match shards {
            1 => "sockeye".into(),
            shards => format!("sockeye-{shards}"),
        };
        let kind = Kind::Sockeye {
            bin: args.sockeye_bin.clone().unwrap_or_default(),
            config: args.benchmarks.join("sockeye.toml"),
            shards,
        };
        add(name, kind);
    }
    let peers = [
        ("socket.io", "node-socketio", Protocol::SocketIo, true),
        ("ws", "node-ws", Protocol::Bare, args.with_ws),
    ];
    for (name, folder, protocol, _) in peers.into_iter().filter(|peer| peer.3 && !args.no_node) {
        let folder = args.benchmarks.join(folder);
        install_node_peer(&folder)?;
        let script = folder.join("server.js");
        add(name.into(), Kind::Node { script, protocol });
    }
    args.external
        .iter()
        .cloned()
        .for_each(|external| add(external.name, external.kind));
    for mode in ["accept", "echo", "send", "send-coalesced"] {
        let kind = Kind::Floor {
            program: program.to_path_buf(),
            prefix: prefix.to_vec(),
            mode: mode.into(),
        };
        add("floor".into(), kind);
    }
    Ok(contenders)
}

fn parse_external(text: &str) -> Result<Contender, String> {
    let server = parse_server(text)?;
    let ([url], [pid]) = (&server.urls[..], &server.pids[..]) else {
        return Err(format!("{text:?} is not name=url,pid,protocol=…"));
    };
    let kind = Kind::External {
        url: url.clone(),
        pid: *pid,
        protocol: server.protocol.unwrap_or(Protocol::SocketIo),
    };
    let name = server.name;
    Ok(Contender { name, kind })
}

/// Installs the packages of a Node peer when they are missing, or of another time.
pub fn install_node_peer(folder: &Path) -> Result<()> {
    let changed = |file: &str| folder.join(file).metadata()?.modified();
    // npm writes this file last.
    let installed = changed("node_modules/.package-lock.json").ok();
    if installed.is_some_and(|at| changed("package-lock.json").is_ok_and(|lock| lock <= at)) {
        return Ok(());
    }
    eprintln!("npm ci in {}", folder.display());
    let status = Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--silent"])
        .current_dir(folder)
        .status()
        .context("cannot run npm (Node.js is needed for the peers; --no-node leaves them out)")?;
    if !status.success() {
        bail!("npm ci failed in {}", folder.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_servers_are_given_in_one_word() {
        let contender = parse_external("uws=http://127.0.0.1:9001,4711,protocol=bare").unwrap();
        assert_eq!(contender.name, "uws");
        let Kind::External { url, pid, protocol } = contender.kind else {
            panic!("not external")
        };
        assert_eq!(
            (&*url, pid, protocol),
            ("http://127.0.0.1:9001", 4711, Protocol::Bare)
        );
        assert!(parse_external("uws=127.0.0.1:9001,protocol=bare").is_err());
        assert!(parse_external("uws=127.0.0.1:9001,1,protocol=carrier-pigeon").is_err());
    }
}
