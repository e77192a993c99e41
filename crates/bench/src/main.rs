//! The load generator's own binary; see `bench::cli` for its commands.

use clap::Parser;
use std::process::ExitCode;

/// Measures Socket.IO and WebSocket servers.
#[derive(Debug, Parser)]
#[command(name = "sockeye-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: bench::cli::Command,
}

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => bench::cli::run(cli.command).unwrap_or_else(|error| {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }),
        Err(error) => bench::cli::misused(&error),
    }
}
