//! Owns the suite: Sockeye, its peers and the floors on the same cases, in interleaved rounds (A B C A B C …), so that a change of the
//! machine's mood hits all of them alike. A case is a scenario of `benchmarks/suite` and one figure.

use crate::engine::{self, Launcher, Options, Target};
use crate::live::Silent;
use crate::report;
use crate::scenario::{Protocol, Scenario, Source};
use crate::server::Contender;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use outcome::number::short;
use outcome::verdict::{Level, verdict};
use outcome::{CaseResult, Contestant, Figure, Outcome, Phase, ResultFile, Suite};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long stragglers are waited for before they count as lost.
const GRACE: Duration = Duration::from_secs(15);
/// Of size and time, for rough figures.
const QUICK: (f64, f64) = (0.3, 0.4);
/// The argument of every event, and the same with the envelope that bare servers do not have: `42["pub",` and `]`.
const SIZES: [&str; 2] = ["\"130B\"", "\"140B\""];

/// One thing to measure.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Name of the scenario, in results and on the command line.
    id: &'static str,
    figure: Figure,
    on: On,
}

/// The servers that can be measured in a case.
#[derive(Clone, Copy, Debug)]
enum On {
    /// Also the bare servers, and this floor, which does the least for it.
    Floor(&'static str),
    SocketIo,
    /// More than others can finish rather than queue, or our own protocol.
    Sockeye,
}

/// In the order in which they are reported.
const CASES: [Case; 12] = [
    case("idle", Figure::BytesPerConnection, On::Floor("accept")),
    case("idle-plain", Figure::BytesPerConnection, On::Sockeye),
    case("connect", Figure::CpuUsPerConnect, On::Floor("accept")),
    case("ack-depth-1", Figure::CpuUsPerMessage, On::Floor("echo")),
    case("ack-depth-8", Figure::CpuUsPerMessage, On::Floor("echo")),
    case("delivery-100-window-16", Figure::CpuUsPerMessage, TURN),
    case("delivery-1000-window-16", Figure::CpuUsPerMessage, TURN),
    case("delivery-5000-window-16", Figure::CpuUsPerMessage, TURN),
    case("delivery-1000-window-1", Figure::CpuUsPerMessage, SEND),
    case("latency-1000", Figure::P99Ms, SEND),
    case("hold-18000-rooms-100", Figure::P99Ms, On::SocketIo),
    case("hold-18000-rooms-1", Figure::P99Ms, On::Sockeye),
];
const SEND: On = On::Floor("send");
const TURN: On = On::Floor("send-coalesced");

const fn case(id: &'static str, figure: Figure, on: On) -> Case {
    Case { id, figure, on }
}

#[derive(Debug, Args)]
pub struct SuiteArgs {
    /// Built `sockeye` binary; without it only peers and floors run.
    #[arg(long)]
    sockeye_bin: Option<PathBuf>,
    /// Shard counts to run Sockeye with, each its own column.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    shards: Vec<u32>,
    /// Only the cases of these names, or those whose names begin so: `idle`, `delivery`.
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
    /// Folder with the cases, the peers and Sockeye's configuration.
    #[arg(long, default_value = "benchmarks")]
    benchmarks: PathBuf,
    /// Keep the cases of an existing result file that this run does not measure.
    #[arg(long)]
    keep: bool,
    /// Where the result goes.
    #[arg(long, default_value = "benchmarks/results/suite.json")]
    out: PathBuf,
}

pub fn run(args: &SuiteArgs, launcher: Launcher) -> Result<()> {
    let cases = wanted(&args.only)?;
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
    let contenders = contenders(args, &options.launcher.program)?;
    let mut suite = Suite::default();
    for case in cases {
        let suited = contenders.iter().filter(|contender| case.suits(contender));
        let suited: Vec<&Contender> = suited.collect();
        if !suited.is_empty() && !options.is_interrupted() {
            suite.cases.push(measure(case, &suited, args, &options)?);
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

fn kept(path: &Path) -> Result<Suite> {
    match outcome::load(path)? {
        ResultFile::Suite(suite) => Ok(suite),
        _ => bail!(
            "cannot keep the cases of {}: it is no suite's result",
            path.display()
        ),
    }
}

fn wanted(only: &[String]) -> Result<Vec<&'static Case>> {
    let is =
        |case: &Case, name: &String| case.id == name || case.id.starts_with(&format!("{name}-"));
    for name in only {
        let ids = || CASES.map(|case| case.id).join(", ");
        let is_known = CASES.iter().any(|case| is(case, name));
        ensure!(is_known, "there is no case {name:?}; there are {}", ids());
    }
    let is_wanted = |case: &&Case| only.is_empty() || only.iter().any(|name| is(case, name));
    Ok(CASES.iter().filter(is_wanted).collect())
}

/// All rounds of one case. A server that fails is told and does not stop the rest.
fn measure(
    case: &Case,
    contenders: &[&Contender],
    args: &SuiteArgs,
    options: &Options,
) -> Result<CaseResult> {
    let scenarios = contenders
        .iter()
        .map(|contender| case.scenario(args, contender.protocol));
    let scenarios = scenarios.collect::<Result<Vec<_>>>()?;
    let about = scenarios.first().map_or("", |scenario| &scenario.about);
    let mut result = CaseResult {
        case: case.id.to_owned(),
        about: about.to_owned()
            + if args.quick {
                ", at three tenths of it"
            } else {
                ""
            },
        figure: case.figure,
        servers: contenders
            .iter()
            .map(|one| Contestant::new(&one.name))
            .collect(),
        failures: Vec::new(),
    };
    eprintln!("{}", result.about);
    for round in 1..=args.rounds.unwrap_or(if args.quick { 1 } else { 3 }) {
        for (at, contender) in contenders.iter().enumerate() {
            if options.is_interrupted() {
                return Ok(result);
            }
            let told = match once(&scenarios[at], contender, options) {
                Ok(run) => {
                    let told = describe(case.figure.of(&run), &run);
                    result.servers[at].runs.push(run);
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
    Ok(result)
}

fn once(scenario: &Scenario, contender: &Contender, options: &Options) -> Result<Outcome> {
    let mut server = contender.start()?;
    let target = Target {
        name: contender.name.clone(),
        urls: vec![server.url().to_owned()],
        pids: vec![server.pid()],
    };
    let mut run = engine::run(scenario, &target, options, &mut Silent)?;
    ensure!(server.is_alive(), "the server process ended");
    run.thin_out();
    Ok(run)
}

/// One line about a run.
fn describe(figure: Option<f64>, run: &Outcome) -> String {
    let rate = run.phases.last().and_then(Phase::rate).unwrap_or(0.0);
    let figure = figure.map_or("–".into(), short);
    let verdict = match verdict(run).level {
        Level::Good => "",
        level => level.word(),
    };
    format!("{figure:>10}  {:>10}/s  {verdict}", short(rate))
}

fn contenders(args: &SuiteArgs, program: &Path) -> Result<Vec<Contender>> {
    let mut contenders = Vec::new();
    for &shards in &args.shards {
        let config = args.benchmarks.join("sockeye.toml");
        let bin = args.sockeye_bin.as_deref();
        contenders.extend(bin.map(|bin| Contender::sockeye(bin, &config, shards)));
    }
    let peers = [
        ("socket.io", "node-socketio", None, true),
        ("ws", "node-ws", Some(Protocol::Bare), args.with_ws),
    ];
    for (name, folder, protocol, _) in peers.into_iter().filter(|peer| peer.3 && !args.no_node) {
        let folder = args.benchmarks.join(folder);
        install_node_peer(&folder)?;
        let script = folder.join("server.js").display().to_string();
        contenders.push(Contender::new(name, "node".as_ref(), &[script], protocol));
    }
    for mode in ["accept", "echo", "send", "send-coalesced"] {
        let args = ["floor".to_owned(), mode.to_owned()];
        let bare = Some(Protocol::Bare);
        contenders.push(Contender::new("floor", program, &args, bare));
    }
    Ok(contenders)
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
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--silent"]);
    let status = npm.current_dir(folder).status();
    let status = status
        .context("cannot run npm (Node.js is needed for the peers; --no-node leaves them out)")?;
    ensure!(status.success(), "npm ci failed in {}", folder.display());
    Ok(())
}

impl Case {
    /// Whether a server can be measured in the case at all.
    fn suits(&self, contender: &Contender) -> bool {
        match (self.on, &*contender.name) {
            (On::Floor(mode), "floor") => contender.args.last().is_some_and(|own| own == mode),
            (On::Floor(_), _) => true,
            (On::SocketIo, _) => contender.protocol.is_none(),
            (On::Sockeye, name) => name.starts_with("sockeye"),
        }
    }

    /// The scenario for a server that speaks `protocol`, or else the case's own.
    fn scenario(&self, args: &SuiteArgs, protocol: Option<Protocol>) -> Result<Scenario> {
        let file = args.benchmarks.join("suite").join(self.id);
        let file = file.with_extension("toml");
        let text = std::fs::read_to_string(&file);
        let text = text.with_context(|| format!("cannot read case {}", file.display()))?;
        let (scale, time_scale) = if args.quick { QUICK } else { (1.0, 1.0) };
        let source = Source {
            file: file.display().to_string(),
            text: match protocol {
                Some(Protocol::Bare) => text.replace(SIZES[0], SIZES[1]),
                _ => text,
            },
            protocol,
            scale,
            time_scale,
        };
        Ok(source.read()?)
    }
}
