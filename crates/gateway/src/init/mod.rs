//! `sockeye init`: a configuration to start from, closed to strangers, and the next command. It asks nothing and overwrites nothing.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use identity::{issue, keys};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "sockeye.toml";
/// Beside it, for the secret that signs tokens.
const SECRET: &str = "secret";
/// The program that has a key for workers.
const WORKER: &str = "app";
/// Where it attaches.
const WORKERS: &str = "127.0.0.1:9091";
const RULES_TOML: &str = include_str!("rules.toml");
const CHAT_TOML: &str = include_str!("chat.toml");
const WORKER_TOML: &str = include_str!("worker.toml");

/// Write a configuration of ten lines to start from. Strangers stay out.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// People talk on the chat page, with tokens.
    #[arg(long, group = "kind")]
    chat: bool,
    /// Events go from clients to rooms, with tokens (the default).
    #[arg(long, group = "kind")]
    rules: bool,
    /// A program of yours decides who comes in and gets each event.
    #[arg(long, group = "kind")]
    worker: bool,
    /// The file to write; its secret comes beside it.
    #[arg(value_name = "FILE", default_value = FILE)]
    file: PathBuf,
}

/// A file that does not exist yet.
struct New {
    path: PathBuf,
    text: String,
    mode: u32,
}

pub fn run(args: &InitArgs) -> Result<()> {
    if args.file.extension().is_none_or(|end| end != "toml") {
        let given = args.file.display();
        bail!("cannot write {given}: the name of a configuration ends with .toml, such as {FILE}");
    }
    let (files, then) = match args.worker {
        true => for_workers(args)?,
        false => for_tokens(args)?,
    };
    write_all(&files)?;
    let names: Vec<String> = files.iter().map(|file| shown(&file.path)).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "wrote  {}", names.join(" and "))?;
    writeln!(out, "next   {}{}", program(), flag(args))?;
    for line in then {
        writeln!(out, "then   {line}")?;
    }
    Ok(())
}

fn for_tokens(args: &InitArgs) -> Result<(Vec<New>, Vec<String>)> {
    let path = args.file.with_extension(SECRET);
    let name = path.file_name().and_then(|name| name.to_str());
    let name =
        name.ok_or_else(|| anyhow!("cannot write {}: its name is no UTF-8", path.display()))?;
    let text = if args.chat { CHAT_TOML } else { RULES_TOML };
    let config = New {
        path: args.file.clone(),
        text: text.replace("{secret_file}", &quoted(name)),
        mode: 0o644,
    };
    let secret = issue::secret().map_err(anyhow::Error::msg)?;
    let secret = New {
        path,
        text: secret + "\n",
        mode: 0o600,
    };
    let (token, flag) = (format!("{} token --uid ada", program()), flag(args));
    let then = match args.chat {
        true => vec![
            format!("{token}{flag}"),
            "open http://localhost:3000/?token=TOKEN, with the token that this prints".to_owned(),
        ],
        false => vec![
            format!("{token} --rooms table-7{flag}"),
            "io(\"http://localhost:3000\", { auth: { token: TOKEN } }) in a page or a program, with the token that this prints"
                .to_owned(),
        ],
    };
    Ok((vec![config, secret], then))
}

fn for_workers(args: &InitArgs) -> Result<(Vec<New>, Vec<String>)> {
    let (key, entry) = keys::generate(WORKER, &[]).map_err(anyhow::Error::msg)?;
    let config = New {
        path: args.file.clone(),
        text: WORKER_TOML
            .replace("{entry}", &quoted(&entry))
            .replace("{workers}", &quoted(WORKERS)),
        mode: 0o644,
    };
    let then = vec![
        format!(
            "export SOCKEYE_GATEWAY={WORKERS} SOCKEYE_BACKEND={WORKER} SOCKEYE_KEY={key}    # the key is nowhere else"
        ),
        "start your program: in Node `new Server()` of @sockeye/server reads these; the libraries are in sdk"
            .to_owned(),
    ];
    Ok((vec![config], then))
}

/// All of them or none.
fn write_all(files: &[New]) -> Result<()> {
    for (at, file) in files.iter().enumerate() {
        if let Err(error) = file.write() {
            for written in &files[..at] {
                // It was made a moment ago, and is of no use alone.
                let _ = std::fs::remove_file(&written.path);
            }
            return Err(error);
        }
    }
    Ok(())
}

impl New {
    fn write(&self) -> Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(self.mode);
        let path = self.path.display();
        let mut file = match options.open(&self.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
                "cannot write {path}: it is there already, and is left as it is; name another file, such as `{} init other.toml`",
                program()
            ),
            opened => opened.with_context(|| format!("cannot write {path}"))?,
        };
        // Half a file would be in the way of the next try.
        let undo = |_: &std::io::Error| drop(std::fs::remove_file(&self.path));
        file.write_all(self.text.as_bytes())
            .inspect_err(undo)
            .with_context(|| format!("cannot write {path}"))
    }
}

/// This program as it was called, so that the next command finds it.
fn program() -> String {
    let called = std::env::args_os().next().map(PathBuf::from);
    called.map_or_else(|| "sockeye".to_owned(), |called| shown(&called))
}

/// The file is named unless it is read without.
fn flag(args: &InitArgs) -> String {
    match args.file == Path::new(FILE) {
        true => String::new(),
        false => format!(" --config {}", shown(&args.file)),
    }
}

/// As a shell takes it.
fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    match text.chars().all(plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
