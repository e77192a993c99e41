//! `sockeye token check TOKEN`: the verdict of the configuration, in words.

use super::{load, now};
use anyhow::{Context, Result, bail};
use clap::Args;
use hub::claims::Claims;
use identity::Verifier;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The token; `-` reads it from stdin, where no list of processes shows it.
    token: String,
    /// TOML file; without it `sockeye.toml` of the working directory, if there is one.
    #[arg(long, value_name = "FILE", env = "SOCKEYE_CONFIG")]
    config: Option<PathBuf>,
}

pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    let Some(settings) = load(args.config.as_ref())?.auth.verifier else {
        bail!(
            "cannot check a token without a key: set auth.secret, auth.secret_file, \
             auth.public_key_file, auth.jwks_file or auth.jwks_url"
        );
    };
    let token = read(&args.token)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let verdict = runtime.block_on(async {
        let verifier = Verifier::new(settings)?;
        anyhow::Ok(verifier.explain(token.trim(), now().as_secs()).await)
    })?;
    let mut out = std::io::stdout().lock();
    match verdict {
        Ok(claims) => {
            out.write_all(describe(&claims).as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(rejection) => {
            writeln!(out, "refused      {rejection}")?;
            writeln!(out, "clients see  {:?}", rejection.denied().message())?;
            Ok(ExitCode::from(1))
        }
    }
}

fn read(argument: &str) -> Result<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    let stdin = std::io::stdin().lock();
    let read = stdin.take(1 << 20).read_to_string(&mut text);
    read.context("cannot read the token from stdin")?;
    Ok(text)
}

fn describe(claims: &Claims) -> String {
    let names = |names: &[String]| match names {
        [] => "none".to_owned(),
        names if names.iter().any(|name| name == "*") => "every room".to_owned(),
        names => names.join(", "),
    };
    let end = match claims.expires_s {
        None => "never".to_owned(),
        Some(end) => {
            let left = end.saturating_sub(now().as_secs());
            format!("in {left} s, leeway included")
        }
    };
    let by_rules = || "what the rules of the namespace allow".to_owned();
    let grants = claims.grants.as_ref();
    let rows = [
        ("accepted", format!("user {:?}", claims.uid)),
        ("expires", end),
        ("rooms", names(&claims.rooms)),
        (
            "may join",
            grants.map_or_else(by_rules, |grants| names(&grants.join)),
        ),
        (
            "may publish",
            grants.map_or_else(by_rules, |grants| names(&grants.publish)),
        ),
    ];
    rows.iter()
        .map(|(name, text)| format!("{name:<12} {text}\n"))
        .collect()
}
