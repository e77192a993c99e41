//! `sockeye history`: what rooms said, from the command line, over the server API of a gateway that runs.

mod import;
mod lines;
mod progress;
mod stored;
mod verify;

pub use import::ImportArgs;
pub use verify::VerifyArgs;

use crate::config::Request;
use crate::door::{Door, Key, escaped};
use crate::print;
use anyhow::Result;
use clap::Args;
use progress::Progress;
use serde_json::Value;
use std::time::Duration;

/// A deletion looks at everything that a user said.
const FORGET_TIME: Duration = Duration::from_secs(60);
/// Events of a page of an export.
const PAGE: u16 = 1_000;

/// Show a page of a room, newest first.
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    room: Room,
    /// Most events.
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// Only what is older: the place of an event.
    #[arg(long, value_name = "PLACE")]
    before: Option<String>,
    /// As JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// Write all that a room said, oldest first, one JSON object a line.
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    room: Room,
    /// Only what is newer: the place of the last event of the export before.
    #[arg(long, value_name = "PLACE", default_value = "0")]
    after: String,
}

/// Delete a room, one event of it, or all that clients of a user said in the namespace.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["room", "user"]))]
pub struct ForgetArgs {
    /// All of this room.
    #[arg(long, value_name = "NAME")]
    room: Option<String>,
    /// Only the event at this place of the room.
    #[arg(long, value_name = "PLACE", requires = "room")]
    at: Option<String>,
    /// All that clients of this user said.
    #[arg(long, value_name = "UID")]
    user: Option<String>,
    /// The namespace of the rooms.
    #[arg(long, value_name = "NAME", default_value = "/")]
    namespace: String,
    #[command(flatten)]
    key: Key,
}

/// One of them.
#[derive(Debug)]
pub enum HistoryCall {
    Show(Box<ShowArgs>),
    Export(Box<ExportArgs>),
    Import(Box<ImportArgs>),
    Verify(Box<VerifyArgs>),
    Forget(Box<ForgetArgs>),
}

/// The room that is read.
#[derive(Debug, Args)]
pub struct Room {
    /// Name of the room.
    room: String,
    /// Its namespace.
    #[arg(long, value_name = "NAME", default_value = "/")]
    namespace: String,
    #[command(flatten)]
    key: Key,
}

impl Room {
    fn path(&self, more: &str) -> String {
        let (namespace, room) = (escaped(&self.namespace), escaped(&self.room));
        format!("/v1/history?namespace={namespace}&room={room}&{more}")
    }

    fn door(&self, request: &Request) -> Result<Door<'_>> {
        Door::of(request, self.key.needed("read what a room said")?)
    }
}

pub fn run(call: HistoryCall, request: &Request) -> Result<()> {
    match call {
        HistoryCall::Show(args) => show(&args, request),
        HistoryCall::Export(args) => export(&args, request),
        HistoryCall::Import(args) => import::run(&args, request),
        HistoryCall::Verify(args) => verify::run(*args, request),
        HistoryCall::Forget(args) => forget(&args, request),
    }
}

fn show(args: &ShowArgs, request: &Request) -> Result<()> {
    let before = args.before.as_deref();
    let before = before.map(|place| format!("&before={}", escaped(place)));
    let more = format!("limit={}{}", args.limit, before.unwrap_or_default());
    let page = args
        .room
        .door(request)?
        .call("GET", &args.room.path(&more), None)?;
    if args.json {
        return print::line(format_args!("{page:#}"));
    }
    for event in events(&page) {
        let text = |name: &str| event[name].as_str().unwrap_or("-").to_owned();
        let (at, user, name) = (text("at"), text("user"), text("event"));
        print::line(format_args!("{at}  {user:<12}  {name}  {}", event["args"]))?;
    }
    if let Some(next) = page["next"].as_str() {
        eprintln!("there are more: --before {next}");
    }
    Ok(())
}

fn export(args: &ExportArgs, request: &Request) -> Result<()> {
    let door = args.room.door(request)?;
    let (mut after, mut count, mut progress) = (args.after.clone(), 0, Progress::new());
    loop {
        let more = format!("limit={PAGE}&after={}", escaped(&after));
        let page = door.call("GET", &args.room.path(&more), None)?;
        let lines: Vec<_> = events(&page).map(|event| format!("{event}\n")).collect();
        count += lines.len();
        print::print(lines.concat())?;
        progress.at(|| format!("{count} events"));
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => {
                progress.end(&format!("{count} events"));
                return Ok(());
            }
        }
    }
}

fn forget(args: &ForgetArgs, request: &Request) -> Result<()> {
    let door = Door::of(request, args.key.needed("delete what a room said")?)?;
    let mut path = format!("/v1/history?namespace={}", escaped(&args.namespace));
    for (name, value) in [("room", &args.room), ("at", &args.at), ("user", &args.user)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", escaped(value)));
        }
    }
    let answer = door.patient(FORGET_TIME).call("DELETE", &path, None)?;
    print::line(format_args!("{} deleted", answer["deleted"]))?;
    if answer["everywhere"] == Value::Bool(false) {
        eprintln!(
            "other nodes cannot be reached now: their rooms may still show their last events to those who join"
        );
    }
    Ok(())
}

fn events(page: &Value) -> impl Iterator<Item = &Value> {
    page["events"].as_array().into_iter().flatten()
}
