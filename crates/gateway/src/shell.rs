//! Completions for shells and the page for `man`, made from the command line's definition.

use crate::cli::Cli;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::Path;

const NAME: &str = "sockeye";

/// A completion script on standard output.
pub fn completions(shell: Shell) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut <Cli as CommandFactory>::command(),
        NAME,
        &mut script,
    );
    io::stdout().write_all(&script)
}

/// The manual page on standard output, or a page for each command into a folder.
pub fn manual(folder: Option<&Path>) -> io::Result<()> {
    let command = <Cli as CommandFactory>::command();
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return io::stdout().write_all(&page);
    };
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command, folder)
}
