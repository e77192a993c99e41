//! `sockeye`: assembly and command line.

mod cli;
mod config;
mod signals;
mod telemetry;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    match Cli::parse().command() {
        Command::Serve(_) => ExitCode::from(2),
        Command::Config(command) => config::show::run(&command).unwrap_or(ExitCode::from(1)),
    }
}
