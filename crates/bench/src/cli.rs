//! Owns the command line of the generator: `run`, `compare`, `scenarios` and `check`, `suite`,
//! `measure`, `report`, `plots`, `plan`, `floor`, and the hidden `worker`. A library module so that another
//! binary can mount the same commands.

use crate::descriptors;
use crate::dialect::{Protocol, Target};
use crate::fleet::Launcher;
use crate::floor;
use crate::measure::{Bench, Case, Effort, Family};
use crate::report::command::{PlotsArgs, ReportArgs};
use crate::results::{Machine, Results};
use crate::server::{Contender, Kind};
use crate::suite::{self, Entry, Suite};
use crate::{compare, engine, plan, report, worker};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario against a server and report what it delivered, how fast and at what cost.
    Run(engine::command::RunArgs),
    /// Run a scenario on several servers in turn and set them side by side.
    Compare(compare::CompareArgs),
    /// List the built-in scenarios.
    Scenarios,
    /// Read a scenario and report everything that is wrong with it.
    Check {
        /// Name of a built-in scenario, or a TOML file.
        scenario: String,
    },
    /// Run every case on Sockeye, the Node peer and the floors, and print the tables.
    Suite(SuiteArgs),
    /// Measure one case on a server that already runs.
    Measure(MeasureArgs),
    /// Show the result of a scenario or comparison: on the terminal, as Markdown, as HTML.
    Report(ReportArgs),
    /// Fill the marked parts of Markdown pages, and draw their plots, from result files.
    Plots(PlotsArgs),
    /// Run a floor server: the least an epoll loop must spend.
    Floor {
        mode: floor::Mode,
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// Nodes, memory, Redis, bandwidth and cost for so many users, with the arithmetic.
    Plan(Box<plan::PlanArgs>),
    /// Serve a swarm on stdin and stdout (started by the other commands).
    #[command(hide = true)]
    Worker {
        /// Play scenarios.
        #[arg(long)]
        scenario: bool,
    },
}

#[derive(Debug, Args)]
pub struct SuiteArgs {
    /// Built `sockeye` binary; without it only peers and floors run.
    #[arg(long)]
    sockeye_bin: Option<PathBuf>,
    /// Shard counts to run Sockeye with, each its own column.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    shards: Vec<u32>,
    /// Only these families.
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Family>,
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
    /// A server that already runs: `name=protocol,addr:port,pid` (socket-io or bare).
    #[arg(long = "server", value_parser = parse_external)]
    external: Vec<Contender>,
    /// Hold case: messages per second over all rooms (with --hold-rooms replaces the default two).
    #[arg(long, requires = "hold_rooms")]
    hold_rate: Option<u32>,
    /// Hold case: rooms that the connections are spread over.
    #[arg(long, requires = "hold_rate")]
    hold_rooms: Option<u32>,
    /// Folder with the peers and Sockeye's configuration.
    #[arg(long, default_value = "benchmarks")]
    benchmarks: PathBuf,
    /// Keep the cases of an existing result file that this run does not measure.
    #[arg(long)]
    keep: bool,
    /// Where the raw samples go.
    #[arg(long, default_value = "benchmarks/results/suite.json")]
    out: PathBuf,
}

#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Address of the server.
    #[arg(long)]
    addr: SocketAddr,
    /// Its process, for CPU and memory.
    #[arg(long)]
    pid: u32,
    #[arg(long, value_enum, default_value = "socket-io")]
    protocol: Protocol,
    /// Request target, if it is not the protocol's usual one.
    #[arg(long)]
    path: Option<String>,
    /// Short spans.
    #[arg(long)]
    quick: bool,
    /// Print the whole sample as JSON.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    case: Case,
}

/// Tells what is wrong with a command line, or the help that it asks for. The exit code is 1: clap's own, 2, is that of
/// faults, and a slip of the pen must not look like a lost message.
pub fn misused(error: &clap::Error) -> ExitCode {
    // Nobody may be listening.
    let _ = error.print();
    ExitCode::from(u8::from(error.use_stderr()))
}

/// Carries out a command. `prefix` leads this very binary to these commands: empty for
/// `sockeye-bench`, `["bench"]` for a binary that mounts them below `bench`.
///
/// The exit code of a measurement says whether what was expected happened: 0, or 2 for faults.
pub fn run(command: Command, prefix: &[&str]) -> Result<ExitCode> {
    descriptors::raise();
    let program = std::env::current_exe().context("cannot find the generator's own binary")?;
    let prefix: Vec<String> = prefix.iter().map(ToString::to_string).collect();
    let args = [prefix.as_slice(), &["worker".to_string()]].concat();
    let launcher = Launcher::Processes {
        program: program.clone(),
        args,
    };
    match command {
        Command::Run(args) => return engine::command::run(&args, launcher),
        Command::Compare(args) => return compare::run(&args, launcher),
        Command::Scenarios => engine::command::list(),
        Command::Check { scenario } => engine::command::check(&scenario),
        Command::Suite(args) => run_suite(&args, launcher, &program, &prefix),
        Command::Measure(args) => run_measure(args, launcher),
        Command::Report(args) => report::command::report(&args),
        Command::Plots(args) => report::command::plots(&args),
        Command::Floor { mode, port } => {
            let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            floor::serve(mode, addr, |addr| {
                println!(
                    "{{\"port\":{},\"pid\":{}}}",
                    addr.port(),
                    std::process::id()
                );
            })
        }
        Command::Plan(args) => plan::run(*args),
        Command::Worker { scenario: true } => engine::worker::serve_stdio(),
        Command::Worker { scenario: false } => worker::serve_stdio(),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn run_measure(args: MeasureArgs, launcher: Launcher) -> Result<()> {
    let mut target = Target::new(args.addr, args.protocol);
    if let Some(path) = args.path {
        target.path = path;
    }
    let kind = Kind::External {
        target,
        pid: args.pid,
    };
    let contender = Contender {
        name: args.addr.to_string(),
        kind,
    };
    let effort = if args.quick {
        Effort::QUICK
    } else {
        Effort::FULL
    };
    let bench = Bench {
        launcher,
        effort,
        quiet: false,
    };
    let sample = bench.measure(&mut contender.start()?, args.case)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&sample)?);
    } else {
        println!(
            "{}  {}",
            args.case.id(),
            suite::describe(Some(&sample), None)
        );
    }
    if !sample.problems.is_empty() {
        bail!("the sample is invalid: {}", sample.problems.join("; "));
    }
    Ok(())
}

fn run_suite(
    args: &SuiteArgs,
    launcher: Launcher,
    program: &Path,
    prefix: &[String],
) -> Result<()> {
    let contenders = contenders(args, program, prefix)?;
    let entries = entries(args, &contenders)?;
    let effort = if args.quick {
        Effort::QUICK
    } else {
        Effort::FULL
    };
    let suite = Suite {
        bench: Bench {
            launcher,
            effort,
            quiet: false,
        },
        rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 3 }),
        quick: args.quick,
        entries,
        machine: Machine::detect(&args.benchmarks),
    };
    let mut results = suite.run();
    if args.keep && args.out.exists() {
        results.keep(Results::load(&args.out)?);
    }
    results.save(&args.out)?;
    println!("{}", report::tables(&results));
    println!("raw samples: {}", args.out.display());
    Ok(())
}

fn contenders(args: &SuiteArgs, program: &Path, prefix: &[String]) -> Result<Vec<Contender>> {
    let mut contenders = Vec::new();
    if let Some(bin) = &args.sockeye_bin {
        let config = args.benchmarks.join("sockeye.toml");
        for &shards in &args.shards {
            let name = if shards == 1 {
                "sockeye".into()
            } else {
                format!("sockeye-{shards}")
            };
            let kind = Kind::Sockeye {
                bin: bin.clone(),
                config: config.clone(),
                shards,
            };
            contenders.push(Contender { name, kind });
        }
    }
    let peers = [
        (
            "socket.io",
            "node-socketio",
            Protocol::SocketIo,
            !args.no_node,
        ),
        (
            "ws",
            "node-ws",
            Protocol::Bare,
            !args.no_node && args.with_ws,
        ),
    ];
    for (name, folder, protocol, wanted) in peers {
        if wanted {
            let folder = args.benchmarks.join(folder);
            suite::install_node_peer(&folder)?;
            let kind = Kind::Node {
                script: folder.join("server.js"),
                protocol,
            };
            contenders.push(Contender {
                name: name.into(),
                kind,
            });
        }
    }
    contenders.extend(args.external.iter().cloned());
    contenders.extend(["accept", "echo", "send", "send-coalesced"].map(|mode| {
        let kind = Kind::Floor {
            program: program.to_path_buf(),
            prefix: prefix.to_vec(),
            mode: mode.into(),
        };
        Contender {
            name: format!("floor-{mode}"),
            kind,
        }
    }));
    Ok(contenders)
}

fn entries(args: &SuiteArgs, contenders: &[Contender]) -> Result<Vec<Entry>> {
    let mut cases = if args.quick {
        suite::quick_cases()
    } else {
        suite::full_cases()
    };
    if let (Some(per_second), Some(rooms)) = (args.hold_rate, args.hold_rooms) {
        let hold = cases
            .iter()
            .find(|case| case.family() == Family::Hold)
            .copied();
        cases.retain(|case| case.family() != Family::Hold);
        if let Some(Case::Hold {
            connections,
            seconds,
            ..
        }) = hold
        {
            cases.push(Case::Hold {
                connections,
                per_second,
                rooms,
                seconds,
            });
        }
    }
    cases.retain(|case| args.only.is_empty() || args.only.contains(&case.family()));
    let entries = cases.into_iter().map(|case| {
        let takes_part = |c: &&Contender| suite::takes_part(&c.kind, &case);
        Entry {
            case,
            contenders: contenders.iter().filter(takes_part).cloned().collect(),
        }
    });
    Ok(entries
        .filter(|entry| !entry.contenders.is_empty())
        .collect())
}

fn parse_external(text: &str) -> Result<Contender, String> {
    let wanted = || format!("{text:?} is not name=protocol,addr:port,pid");
    let (name, rest) = text.split_once('=').ok_or_else(wanted)?;
    let fields: Vec<&str> = rest.split(',').collect();
    let [protocol, addr, pid] = fields[..] else {
        return Err(wanted());
    };
    let protocol = <Protocol as clap::ValueEnum>::from_str(protocol, true)?;
    let addr = addr
        .parse()
        .map_err(|error| format!("address {addr:?}: {error}"))?;
    let pid = pid
        .parse()
        .map_err(|error| format!("pid {pid:?}: {error}"))?;
    let target = Target::new(addr, protocol);
    Ok(Contender {
        name: name.into(),
        kind: Kind::External { target, pid },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_servers_are_given_in_one_word() {
        let contender = parse_external("uws=bare,127.0.0.1:9001,4711").unwrap();
        assert_eq!(contender.name, "uws");
        let Kind::External { target, pid } = contender.kind else {
            panic!("not external")
        };
        assert_eq!(
            (target.protocol, target.addr.port(), pid),
            (Protocol::Bare, 9001, 4711)
        );
        assert!(parse_external("uws=bare,127.0.0.1:9001").is_err());
        assert!(parse_external("uws=carrier-pigeon,127.0.0.1:9001,1").is_err());
    }
}
