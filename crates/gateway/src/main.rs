//! `sockeye`: assembly and command line. This file is the boot in one screen; `serve.rs` is the
//! life after it.

mod api_key;
mod bodies;
mod bridges;
mod calls;
mod carrier;
mod certificates;
mod chronicle;
mod cli;
mod cluster;
mod companions;
mod config;
mod credentials;
mod departures;
mod descriptors;
mod doctor;
mod door;
mod errands;
mod foyer;
mod greeting;
mod health;
mod history;
mod history_calls;
mod init;
mod inside;
mod inside_calls;
mod joining;
mod listeners;
mod memory;
mod nodes;
mod opened;
mod operators;
mod outside;
mod plan;
mod plans;
mod print;
mod program;
mod programs;
mod queue;
mod record_calls;
mod relay;
mod replay_calls;
mod secure;
mod serve;
mod shell;
mod signals;
mod supervise;
mod telemetry;
mod tls;
mod token;
mod trace_calls;
mod traces;
mod unix;
mod upgrade;
mod workers;

use ::nodes::engine::Trouble;
use clap::Parser;
use cli::{Cli, Command};
use config::Request;
use std::process::ExitCode;
use telemetry::Telemetry;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// 0: asked to stop, and did. 1: cannot go on; a supervisor should start another process.
/// 2: cannot start like this; starting again will not help.
fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    match cli.command() {
        Command::Config(command) => told(config::show::run(&command), 1),
        Command::Doctor(order) if order.live => inside_calls::live(&order.request, order.json),
        Command::Doctor(order) => told(doctor::run(&order), 2),
        Command::Health(request, ready) => {
            ended(health::run(&request, ready).map(|()| ExitCode::SUCCESS))
        }
        Command::Emit(args, request) => {
            ended(calls::emit(&args, &request).map(|()| ExitCode::SUCCESS))
        }
        Command::Sockets(args, request) => {
            ended(calls::sockets(&args, &request).map(|()| ExitCode::SUCCESS))
        }
        Command::Rooms(args, request) => {
            ended(calls::rooms(&args, &request).map(|()| ExitCode::SUCCESS))
        }
        Command::Trace(args, request) => {
            ended(trace_calls::run(&args, &request).map(|()| ExitCode::SUCCESS))
        }
        Command::Record(args, request) => {
            ended(record_calls::run(&args, &request).map(|()| ExitCode::SUCCESS))
        }
        Command::Replay(args) => replay_calls::run(&args).unwrap_or_else(|error| {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }),
        Command::Sessions(args, request) => {
            ended(inside_calls::sessions(&args, &request).map(|()| ExitCode::SUCCESS))
        }
        Command::Top(args, request) => {
            ended(inside_calls::top(&args, &request).map(|()| ExitCode::SUCCESS))
        }
        Command::History(call, request) => {
            ended(history_calls::run(call, &request).map(|()| ExitCode::SUCCESS))
        }
        Command::Disconnect(args, request) => {
            ended(calls::disconnect(&args, &request).map(|()| ExitCode::SUCCESS))
        }
        Command::Nodes(args, request) => {
            ended(nodes::run(&args, &request).map(|()| ExitCode::SUCCESS))
        }
        Command::Upgrade(args, request) => {
            ended(upgrade::run(&args, &request).map(|()| ExitCode::SUCCESS))
        }
        Command::Supervise(args) => ended(supervise::run(args)),
        Command::ApiKey(name, allowed) => told(api_key::run(&name, &allowed), 1),
        Command::Init(args) => ended(init::run(&args).map(|()| ExitCode::SUCCESS)),
        Command::Completions(shell) => done(shell::completions(shell)),
        Command::Man(folder) => done(shell::manual(folder.as_deref())),
        Command::Token(args) => token::run(&args).unwrap_or_else(|error| {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }),
        Command::Plan(args) => ended(plan::run(*args).map(|()| ExitCode::SUCCESS)),
        Command::Bench(command) => ended(companions::run(companions::BENCH, &command)),
        Command::Shadow(command) => ended(companions::run(companions::SHADOW, &command)),
        Command::Serve(request) => boot(&request),
    }
}

/// A reader who stops before the end of the output is no failure.
fn done(result: std::io::Result<()>) -> ExitCode {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("cannot write: {error}");
            ExitCode::from(1)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Of a verdict or a key: where nobody has it, the command ends with this code.
fn told(result: std::io::Result<ExitCode>, unread: u8) -> ExitCode {
    result.unwrap_or_else(|error| {
        done(Err(error));
        ExitCode::from(unread)
    })
}

/// Of a command that is done when it returns.
fn ended(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        if error.is::<print::ReaderGone>() {
            return ExitCode::SUCCESS;
        }
        eprintln!("{error:#}");
        ExitCode::from(1)
    })
}

fn boot(request: &Request) -> ExitCode {
    let loaded = match config::load(request) {
        Ok(loaded) => loaded,
        Err(problems) => {
            eprintln!("{problems}");
            return ExitCode::from(2);
        }
    };
    memory::grow_in_small_steps();
    let telemetry = Telemetry::start(&loaded.resolved.log);
    let started = serve::start(request, loaded, &telemetry);
    let (code, ended) = match started {
        Ok(Some(node)) => (1, node.run()),
        // It was told to stop while it waited.
        Ok(None) => (0, Ok(())),
        // The engine of the cluster may be there the next time.
        Err(error) if error.is::<Trouble>() => (1, Err(error)),
        Err(error) => (2, Err(error)),
    };
    if let Err(error) = ended {
        telemetry.fatal(&error);
        return ExitCode::from(code);
    }
    telemetry.flush();
    ExitCode::SUCCESS
}
