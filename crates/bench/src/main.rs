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
    bench::cli::run(Cli::parse().command, &[])
}
