//! `sockeye api-key NAME`: a key for operators, shown once.

use std::io::{self, Write};
use std::process::ExitCode;

pub fn run(name: &str, allowed: &[String]) -> io::Result<ExitCode> {
    match identity::keys::generate(name, allowed) {
        Ok((key, entry)) => {
            let mut out = io::stdout().lock();
            writeln!(out, "key    {key}")?;
            writeln!(out, "entry  {}", toml::Value::String(entry))?;
            writeln!(
                io::stderr(),
                "Keep the key, it is nowhere else. The entry goes into admin.api_keys, or, for workers, into backends.NAME.api_keys; SIGHUP applies it."
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            writeln!(io::stderr(), "{why}")?;
            Ok(ExitCode::from(2))
        }
    }
}
