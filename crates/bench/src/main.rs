//! The load generator's own binary; see `bench::cli` for its commands.

use clap::Parser;

/// Measures Socket.IO and WebSocket servers.
#[derive(Debug, Parser)]
#[command(name = "sockeye-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: bench::cli::Command,
}

fn main() -> anyhow::Result<std::process::ExitCode> {
    match Cli::try_parse() {
        Ok(cli) => bench::cli::run(cli.command, &[]),
        Err(error) => Ok(bench::cli::misused(&error)),
    }
}
