//! `sockeye-shadow`: see [`shadow`].

use clap::Parser;
use shadow::cli::{Args, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(&Args::parse()).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        ExitCode::from(2)
    })
}
