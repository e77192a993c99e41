//! `sockeye token`: tokens for development, and what the configuration makes of a token.

mod check;
mod make;

pub use make::Signer;

use crate::config::{self, Request, Resolved};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Make a token for development, or check one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: Option<TokenCommand>,
    #[command(flatten)]
    make: make::MakeArgs,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Say what the configuration makes of a token; ends with 1 if it is refused.
    Check(check::CheckArgs),
    /// Make a private key and the JWK set that belongs to it.
    Key(KeyArgs),
}

#[derive(Debug, Args)]
struct KeyArgs {
    /// RS256, ES256, ES384 or EdDSA.
    #[arg(long, value_name = "NAME", default_value = "ES256")]
    alg: String,
    /// Name of the key in the set.
    #[arg(long, value_name = "NAME", default_value = "dev")]
    kid: String,
    /// Folder for `KID.pem` and `KID.jwks.json`.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
}

/// Runs the command; an error is for people.
pub fn run(args: &TokenArgs) -> Result<ExitCode> {
    match &args.command {
        None => make::run(&args.make),
        Some(TokenCommand::Check(check)) => check::run(check),
        Some(TokenCommand::Key(key)) => make_key(key),
    }
}

fn make_key(args: &KeyArgs) -> Result<ExitCode> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if args.kid.is_empty() || args.kid.starts_with('.') || !args.kid.chars().all(plain) {
        bail!(
            "cannot use --kid {:?}: letters, digits, `-`, `_` and `.` are needed, for it names the files",
            args.kid
        );
    }
    let Some(algorithm) = identity::algorithm(&args.alg) else {
        bail!(
            "cannot use --alg {:?}: RS256, ES256, ES384 or EdDSA is needed",
            args.alg
        );
    };
    let made = identity::issue::generate(algorithm);
    let pem = made
        .map_err(anyhow::Error::msg)
        .context("cannot make a key")?;
    let key = identity::issue::SigningKey::from_pem(&pem).map_err(anyhow::Error::msg)?;
    let jwks = key.jwks(&args.kid).map_err(anyhow::Error::msg)?;
    let private = args.out.join(format!("{}.pem", args.kid));
    let public = args.out.join(format!("{}.jwks.json", args.kid));
    create(&private, pem.as_bytes(), 0o600)?;
    create(&public, format!("{jwks:#}\n").as_bytes(), 0o644)?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "private key  {} (keep it away from the gateway)",
        private.display()
    )?;
    writeln!(out, "key set      {} (auth.jwks_file)", public.display())?;
    writeln!(
        out,
        "a token      sockeye token --key {} --kid {} --uid NAME",
        private.display(),
        args.kid
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A new file; one that is there is a key that somebody uses.
fn create(path: &Path, text: &[u8], mode: u32) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(mode).open(path);
    let written = file.and_then(|mut file| file.write_all(text));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// The configuration, read as `serve` reads it.
fn load(file: Option<&PathBuf>) -> Result<Resolved> {
    let request = Request {
        takes_over: false,
        file: file.cloned(),
        flags: Vec::new(),
    };
    match config::load(&request) {
        Ok(loaded) => Ok(loaded.resolved),
        Err(problems) => Err(anyhow::Error::new(problems)),
    }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
