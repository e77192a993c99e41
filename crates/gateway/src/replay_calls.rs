//! `sockeye replay`: the clients of a recording do against another gateway what they did, and differences of what they hear are told.

use crate::door::plain;
use crate::print;
use crate::token::Signer;
use anyhow::{Context, Result};
use clap::Args;
use control::recording::{Count, Orders, Progress, Recording, Report, Script, Target, play};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const WORD_EVERY: Duration = Duration::from_secs(5);

/// Play a recording (`sockeye record`) against a gateway, and tell what its clients hear otherwise. Ends with 0 if nothing differs, 1 if
/// something does, 2 if it cannot be played.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: sockeye replay ada.jsonl --against http://127.0.0.1:3000 --speed 10 --secret-file test.secret"
)]
pub struct ReplayArgs {
    /// The recording.
    file: PathBuf,
    /// The gateway, such as http://127.0.0.1:3000.
    #[arg(long, value_name = "URL")]
    against: String,
    /// Times the recorded pace.
    #[arg(long, value_name = "N", default_value = "1", value_parser = speed)]
    speed: f64,
    /// Sign a token for each user with this secret; the configuration names the claims.
    #[arg(long, value_name = "TEXT", conflicts_with = "secret_file")]
    secret: Option<String>,
    /// The same from a file.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Judge also events of names that no client of the recording has said, and the order of all that a client hears.
    #[arg(long)]
    strict: bool,
    /// Play what there is of a file that is torn off.
    #[arg(long)]
    torn: bool,
    /// As JSON, for programs.
    #[arg(long)]
    json: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "a number is needed")?;
    match (0.01..=1_000.0).contains(&speed) {
        true => Ok(speed),
        false => Err("a number from 0.01 to 1000 is needed".to_owned()),
    }
}

pub fn run(args: &ReplayArgs) -> Result<ExitCode> {
    let target = Target::parse(&args.against).map_err(anyhow::Error::msg)?;
    let recording = Recording::read(&args.file, args.torn).map_err(anyhow::Error::msg)?;
    let script = Script::of(&recording).map_err(anyhow::Error::msg)?;
    let ((sockets, steps), length) = (script.size(), script.length().div_f64(args.speed));
    let of = plain(recording.of());
    drop(recording);
    let orders = Orders {
        target,
        speed: args.speed,
        strict: args.strict,
        tokens: tokens(args, &script)?,
    };
    eprintln!(
        "playing {of}: {sockets} sockets, {steps} steps, {:.1} s",
        length.as_secs_f64()
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let report = runtime.block_on(async {
        let progress = Progress::default();
        let playing = play(script, orders, &progress);
        tokio::pin!(playing);
        loop {
            tokio::select! {
                report = &mut playing => return report,
                () = tokio::time::sleep(WORD_EVERY) => {
                    eprintln!("{} of {steps} steps", progress.steps());
                }
            }
        }
    });
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string(&report)?),
        false => words(&report),
    };
    print::aside(text)?;
    Ok(ExitCode::from(u8::from(!report.equal)))
}

fn tokens(args: &ReplayArgs, script: &Script) -> Result<HashMap<String, String>> {
    if args.secret.is_none() && args.secret_file.is_none() {
        return Ok(HashMap::new());
    }
    let mut signer = Signer::new(args.secret.clone(), args.secret_file.clone())?;
    let mut tokens = HashMap::new();
    for user in script.users() {
        if !tokens.contains_key(user) {
            let token = signer.token(user).map_err(anyhow::Error::msg)?;
            tokens.insert(user.to_owned(), token);
        }
    }
    Ok(tokens)
}

/// For people.
fn words(report: &Report) -> String {
    let mut rows = vec![format!(
        "{:<32} {:>9} {:>9} {:>8} {:>10}",
        "", "recorded", "replayed", "missing", "additional"
    )];
    let mut row = |name: &str, count: &Count| {
        rows.push(format!(
            "{:<32} {:>9} {:>9} {:>8} {:>10}",
            plain(name),
            count.recorded,
            count.replayed,
            count.missing,
            count.additional
        ));
    };
    row("answers", &report.answers);
    for (name, count) in &report.events {
        row(name, count);
    }
    for (name, count) in &report.not_judged {
        row(&format!("{name} (not judged)"), count);
    }
    rows.push(format!(
        "{} sockets came, {} failed; {} steps were taken, {} were not",
        report.sockets, report.failed, report.said, report.unsaid
    ));
    for (number, what) in [
        (
            report.other_answers,
            "answers have arguments of other types",
        ),
        (
            report.other_order as u64,
            "sockets heard the same in another order",
        ),
        (report.unheard, "words were heard beyond what is kept"),
    ] {
        if number > 0 {
            rows.push(format!("{number} {what}"));
        }
    }
    let gaps = report.gaps.iter();
    rows.extend(gaps.map(|gap| format!("the recording has a gap: {}", plain(gap))));
    rows.extend(
        report
            .samples
            .iter()
            .map(|sample| format!("  {}", plain(sample))),
    );
    rows.push(match report.equal {
        true => "nothing differs".to_owned(),
        false => "something differs".to_owned(),
    });
    rows.join("\n") + "\n"
}
