//! `sockeye supervise`: a small process above the gateway, for containers. The container lives as long as this process does, whichever
//! gateway serves. `watch.rs` is its life, `family.rs` finds the gateway that took over.

#[cfg(target_os = "linux")]
mod family;
#[cfg(target_os = "linux")]
mod watch;

use anyhow::Result;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The name of the command, and of the one that its child has.
const NAME: &str = "supervise";
const SERVE: &str = "serve";

/// Be process 1 of a container: start the gateway, and stay when another one takes over from it.
///
/// SIGTERM, SIGINT and SIGHUP go to the gateway that serves. SIGUSR2 starts a successor, as `sockeye upgrade` does. Ends with the code of the last
/// gateway; 128 and the number of the signal, if one killed it.
#[derive(Clone, Debug, Args)]
pub struct SuperviseArgs {
    /// The program that serves, in the place of this one: a file of a volume can be replaced while the container runs.
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Flags of `sockeye serve`.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "FLAGS"
    )]
    pub flags: Vec<OsString>,
}

/// The words with which a gateway is started: flags before the command count, too.
fn words(own: impl Iterator<Item = OsString>, flags: Vec<OsString>) -> Vec<OsString> {
    let before = own.skip(1).take_while(|word| word != NAME);
    before.chain([SERVE.into()]).chain(flags).collect()
}

#[cfg(target_os = "linux")]
pub fn run(args: SuperviseArgs) -> Result<ExitCode> {
    let words = words(std::env::args_os(), args.flags);
    watch::run(args.program, words)
}

#[cfg(not(target_os = "linux"))]
pub fn run(args: SuperviseArgs) -> Result<ExitCode> {
    let _ = (args.program, words(std::env::args_os(), args.flags));
    anyhow::bail!("cannot supervise: only Linux gives a process the orphans of its children")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_has_the_flags_of_both_sides() {
        let texts = |all: &[&str]| all.iter().map(OsString::from).collect::<Vec<_>>();
        let own = texts(&["sockeye", "--config", "f", "supervise", "--", "--node", "1"]);
        let words = words(own.into_iter(), texts(&["--node", "1"]));
        assert_eq!(words, texts(&["--config", "f", "serve", "--node", "1"]));
    }
}
