//! Owns the comparison of servers: the same scenario on each of them, round after round in turn,
//! so that what changes on the machine in between meets all of them alike.

use crate::engine::command::Measure;
use crate::engine::{self, Launcher, Options, Target};
use crate::live;
use crate::scenario::{Protocol, Scenario};
use anyhow::{Context, Result, bail};
use clap::Args;
use outcome::{Comparison, Contestant, ResultFile};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// A running server: `name=url,pid` with further URLs, pids or `protocol=…`, separated by
    /// commas. Give it once for each server; ratios are drawn to the first.
    #[arg(long = "server", required = true, value_parser = parse_server)]
    servers: Vec<Server>,
    /// How often each server is measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds between two rounds, in which servers come to rest.
    #[arg(long, default_value_t = 2)]
    pause: u64,
    #[command(flatten)]
    measure: Measure,
}

/// One server of the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub target: Target,
    /// Instead of the scenario's.
    pub protocol: Option<Protocol>,
}

pub fn run(args: &CompareArgs, launcher: Launcher) -> Result<ExitCode> {
    let options = args.measure.options(launcher)?;
    engine::command::end_on_signals(&options)?;
    let comparison = compare(args, &options)?;
    args.measure.publish(&ResultFile::Comparison(comparison))
}

/// All rounds; those that an interruption left out are missing.
fn compare(args: &CompareArgs, options: &Options) -> Result<Comparison> {
    check_names(&args.servers)?;
    let base = args.measure.load()?;
    let scenarios = args
        .servers
        .iter()
        .map(|server| {
            let scenario = spoken(&base, server)?;
            Ok(args.measure.sized(scenario))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut comparison = Comparison {
        scenario: base.name.clone(),
        servers: args
            .servers
            .iter()
            .map(|server| Contestant::new(&server.target.name))
            .collect(),
        notes: vec![format!(
            "{} rounds, in each one server after the other; each round begins with the next server",
            args.rounds
        )],
    };
    let places = args.servers.len();
    for turn in 0..args.rounds as usize * places {
        if options.is_interrupted() {
            comparison
                .notes
                .push("interrupted: later rounds are missing".to_owned());
            break;
        }
        if turn > 0 {
            std::thread::sleep(Duration::from_secs(args.pause));
        }
        // Each round begins with another server, or one would always follow the same other one.
        let at = (turn % places + turn / places) % places;
        let target = &args.servers[at].target;
        let mut observer = live::open(&engine::command::about(&scenarios[at], target));
        let mut outcome = engine::run(&scenarios[at], target, options, observer.as_mut())
            .with_context(|| format!("cannot measure {}", target.name))?;
        if let Some(first) = comparison.servers[at].runs.first() {
            outcome.measure_memory_since(first);
        }
        comparison.servers[at].runs.push(outcome);
    }
    Ok(comparison)
}

fn check_names(servers: &[Server]) -> Result<()> {
    if servers.len() < 2 {
        bail!("cannot compare one server with nothing: give --server at least twice");
    }
    for (at, server) in servers.iter().enumerate() {
        let name = &server.target.name;
        if servers[..at].iter().any(|other| other.target.name == *name) {
            bail!("cannot tell two servers apart that are both called {name}");
        }
    }
    Ok(())
}

fn spoken(scenario: &Scenario, server: &Server) -> Result<Scenario> {
    match server.protocol {
        None => Ok(scenario.clone()),
        Some(protocol) => scenario
            .spoken(protocol)
            .with_context(|| format!("cannot speak {} to {}", protocol.name(), server.target.name)),
    }
}

pub fn parse_server(text: &str) -> Result<Server, String> {
    let wanted = || format!("{text:?} is not name=url,pid (further: url, pid, protocol=…)");
    let (name, rest) = text.split_once('=').ok_or_else(wanted)?;
    let (mut protocol, mut target) = (None, Target::default());
    target.name = name.to_owned();
    for field in rest.split(',') {
        if let Some(name) = field.strip_prefix("protocol=") {
            protocol = Some(Protocol::named(name)?);
        } else if let Ok(pid) = field.parse() {
            target.pids.push(pid);
        } else if field.contains(':') {
            target.urls.push(field.to_owned());
        } else {
            return Err(wanted());
        }
    }
    match target.name.is_empty() || target.urls.is_empty() {
        true => Err(wanted()),
        false => Ok(Server { target, protocol }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_given_in_one_word() {
        let server = parse_server("a=http://127.0.0.1:1,4711,http://127.0.0.1:2,12").unwrap();
        let Server { target, protocol } = server;
        assert_eq!(target.name, "a");
        assert_eq!(target.urls, ["http://127.0.0.1:1", "http://127.0.0.1:2"]);
        assert_eq!((target.pids, protocol), (vec![4711, 12], None));
        let plain = parse_server("u=127.0.0.1:9,7,protocol=websocket").unwrap();
        assert_eq!(plain.protocol, Some(Protocol::WebSocket));
        for wrong in ["a", "a=", "a=7", "=http://x:1", "a=http://x:1,seven"] {
            assert!(parse_server(wrong).is_err(), "{wrong}");
        }
        let typo = parse_server("a=http://x:1,protocol=webscoket").unwrap_err();
        assert!(typo.contains("did you mean \"websocket\"?"), "{typo}");
    }

    #[test]
    fn a_scenario_changes_its_protocol_and_nothing_else() {
        let base = Scenario::load("chat-10k").unwrap();
        let server = parse_server("u=127.0.0.1:9,protocol=websocket").unwrap();
        let spoken = spoken(&base, &server).unwrap();
        assert_eq!(spoken.users(), base.users());
        assert_eq!(spoken.phases, base.phases);
        for (new, old) in spoken.flows.iter().zip(&base.flows) {
            assert_eq!(new.endpoint.protocol, Protocol::WebSocket);
            assert_eq!(new.steps, old.steps);
        }
        // Workers read the text again.
        let again = spoken.source.read().unwrap();
        assert_eq!(again.flows[0].endpoint.protocol, Protocol::WebSocket);
    }

    #[test]
    fn one_server_or_two_of_a_name_are_refused() {
        let a = parse_server("a=127.0.0.1:1").unwrap();
        assert!(
            check_names(std::slice::from_ref(&a))
                .unwrap_err()
                .to_string()
                .contains("at least twice")
        );
        assert!(
            check_names(&[a.clone(), a])
                .unwrap_err()
                .to_string()
                .contains("called a")
        );
    }
}
