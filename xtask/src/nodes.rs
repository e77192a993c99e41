//! `cargo xtask nodes`: measures nodes that share rooms over Redis, servers of Socket.IO beside them, and fills in the figures of
//! docs/results/nodes.md.

mod run;

use crate::{bench, install, repository};
use anyhow::{Context, Result, ensure};
use clap::Args;
use run::{Key, Part, Phase, Rig, Run, Side, Store};
use servers::{Cluster, Redis};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const PAGE: &str = "docs/results/nodes.md";
/// Pairs of runs with and without coalescing.
const PAIRS: usize = 12;
/// The failover of this Redis Cluster is not measured here.
const NODE_TIMEOUT_MS: u32 = 5_000;

/// Measures, and tells the figures in Markdown, with the last run.
type Measure = fn(&Rig) -> Result<(String, Run)>;

/// What is measured, by the name that its place in the page has.
const PARTS: [(&str, Measure); 8] = [
    ("beside", beside),
    ("paced", paced),
    ("two-cores", two_cores),
    ("joins", joins),
    ("routing", routing),
    ("coalescing", coalescing),
    ("steady", steady),
    ("chat", chat),
];

#[derive(Debug, Args)]
pub struct NodesArgs {
    /// Only these parts: beside, paced, two-cores, joins, routing, coalescing, steady, chat.
    only: Vec<String>,
    /// Share of the usual time of each phase, to try the command out; the page is left alone then.
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// Rounds whose medians are told.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Folder with `sockeye` and `sockeye-bench`, instead of building them.
    #[arg(long)]
    programs: Option<PathBuf>,
}

pub fn run(args: &NodesArgs) -> Result<()> {
    let is_known = |word: &String| PARTS.iter().any(|(name, _)| name == word);
    if let Some(word) = args.only.iter().find(|word| !is_known(word)) {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        anyhow::bail!("no part is called {word:?}: {}", names.join(", "));
    }
    install::npm("benchmarks/node-socketio")?;
    if args.programs.is_none() {
        bench::production(&["--package", "gateway", "--package", "bench"]).run()?;
    }
    let programs = args.programs.clone();
    let programs = programs.unwrap_or_else(|| repository::built("production"));
    let rig = Rig {
        bench: programs.join("sockeye-bench"),
        sockeye: programs.join("sockeye"),
        folder: run::folder()?,
        time_scale: args.time_scale,
        rounds: args.rounds,
    };
    let mut failed = Vec::new();
    for (name, part) in PARTS {
        if !args.only.is_empty() && !args.only.iter().any(|word| word == name) {
            continue;
        }
        // What was measured stays, whatever becomes of the rest.
        let filled = part(&rig).and_then(|(text, last)| {
            let text = format!("{text}\n{}\n", measured(&last));
            println!("{text}");
            match args.time_scale == 1.0 {
                true => fill(name, &text),
                false => Ok(()),
            }
        });
        if let Err(error) = filled {
            eprintln!("{name}: {error:#}");
            failed.push(name);
        }
    }
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    Ok(())
}

/// Puts the text in its place in the page.
fn fill(name: &str, text: &str) -> Result<()> {
    let page = placed(&repository::read(PAGE)?, name, text)?;
    fs::write(repository::root().join(PAGE), page).context("cannot write the page")
}

fn placed(page: &str, name: &str, text: &str) -> Result<String> {
    let begin = format!("<!-- nodes:begin {name} -->\n");
    let place = page.split_once(&begin);
    let place = place.and_then(|(head, rest)| Some((head, rest.split_once("<!-- nodes:end -->")?)));
    let (head, (_, tail)) = place.with_context(|| format!("{PAGE} has no place {begin:?}"))?;
    Ok(format!("{head}{begin}\n{text}\n<!-- nodes:end -->{tail}"))
}

fn measured(run: &Run) -> String {
    let machine = run.machine();
    let text = |name: &str| machine[name].as_str().unwrap_or("?").to_owned();
    let today = Command::new("date").args(["-u", "+%F"]).output();
    let today = today.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    format!(
        "Measured {} at commit {} on {} ({} cores); load average before the last run {:.1}.",
        today.unwrap_or_default(),
        text("commit"),
        text("cpu"),
        machine["cores"],
        machine["load_before"].as_f64().unwrap_or_default()
    )
}

fn middle(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    let at = |at: usize| all.get(at).copied().unwrap_or(f64::NAN);
    let half = all.len() / 2;
    match all.len() % 2 {
        0 => f64::midpoint(at(half.wrapping_sub(1)), at(half)),
        _ => at(half),
    }
}

/// The middle of the rounds of one phase. A round without the figure counts as worse than all others.
fn of_phase(runs: &[Run], at: usize, figure: impl Fn(Phase) -> Option<f64>) -> Option<f64> {
    let figures = runs.iter().map(|run| figure(run.phases().nth(at)?));
    let middle = middle(
        figures
            .map(|figure| figure.unwrap_or(f64::INFINITY))
            .collect(),
    );
    Some(middle).filter(|middle| middle.is_finite())
}

/// A figure with three digits or whole, `–` where there is none.
fn short(figure: Option<f64>) -> String {
    match figure {
        None => "–".into(),
        Some(figure) if figure >= 99.5 => grouped(figure.round() as u64),
        Some(figure) if figure >= 9.95 => format!("{figure:.1}"),
        Some(figure) => format!("{figure:.2}"),
    }
}

fn grouped(whole: u64) -> String {
    match whole {
        0..1_000 => whole.to_string(),
        _ => format!("{},{:03}", grouped(whole / 1_000), whole % 1_000),
    }
}

fn percentiles(runs: &[Run], at: usize, what: &str) -> String {
    let at = |quantile| short(of_phase(runs, at, |phase| phase.ms(what, quantile)));
    format!("{}, {}", at(0.5), at(0.99))
}

/// `part` on each side in turn, round after round.
fn rounds(rig: &Rig, sides: &[(Part, &Side)]) -> Result<Vec<Vec<Run>>> {
    let mut runs: Vec<Vec<Run>> = sides.iter().map(|_| Vec::new()).collect();
    for round in 1..=rig.rounds {
        for ((part, side), runs) in sides.iter().zip(&mut runs) {
            eprintln!("{} on {}, round {round}", part.scenario, side.name);
            runs.push(rig.run(*part, side)?);
        }
    }
    Ok(runs)
}

const WARM_UP: &str = "warm up";

/// The first phases of a scenario, for a share of their time.
const fn part(scenario: &'static str, phases: usize, share: f64) -> Part {
    Part {
        scenario,
        phases,
        share,
    }
}

/// Two nodes, and two servers of Socket.IO at the rates that they can carry.
fn beside(rig: &Rig) -> Result<(String, Run)> {
    let ours = Side::sockeye(rig, 2, Store::One(Redis::start()), &[])?;
    let theirs = Side::socket_io(2)?;
    let plan = [
        (part("nodes-rooms", 5, 0.625), &ours),
        (part("nodes-rooms", 2, 0.625), &theirs),
        (part("nodes-crowd", 3, 0.625), &ours),
        (part("nodes-crowd", 2, 0.625), &theirs),
    ];
    let all = rounds(rig, &plan)?;
    Ok((table(&plan, &all)?, last(all)?))
}

/// Messages that come one by one, here and on servers of Socket.IO.
fn paced(rig: &Rig) -> Result<(String, Run)> {
    let ours = Side::sockeye(rig, 2, Store::One(Redis::start()), &[])?;
    let theirs = Side::socket_io(2)?;
    let both = part("nodes-paced", 2, 0.6);
    let plan = [(both, &ours), (both, &theirs)];
    let all = rounds(rig, &plan)?;
    Ok((table(&plan, &all)?, last(all)?))
}

/// Nodes with a secret, Redis and generator on two cores.
fn two_cores(rig: &Rig) -> Result<(String, Run)> {
    let secret: Key = ("secret", "as long as thirty-two characters".into());
    let side = Side::sockeye(rig, 2, Store::One(Redis::start()), &[secret])?.on_cores("0,1")?;
    let plan = [
        (part("nodes-rooms", 5, 0.625), &side),
        (part("nodes-crowd", 3, 0.625), &side),
    ];
    let all = rounds(rig, &plan)?;
    Ok((table(&plan, &all)?, last(all)?))
}

/// A row for each phase that is measured.
fn table(plan: &[(Part, &Side)], all: &[Vec<Run>]) -> Result<String> {
    let mut text = "| scenario | server | per second | CPU us each | Redis, of a core | cores of the generator | by core left | p50, p99 ms | wrong |\n\
                    |---|---|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for ((part, side), runs) in plan.iter().zip(all) {
        for (at, phase) in runs[0].phases().enumerate() {
            if phase.name() != WARM_UP {
                let (name, phase, row) = (part.scenario, phase.name(), row(part, runs, at));
                writeln!(text, "| `{name}`, {phase} | {} | {row} |", side.name)?;
            }
        }
    }
    Ok(text)
}

fn row(part: &Part, runs: &[Run], at: usize) -> String {
    let what = match part.scenario {
        "nodes-crowd" => "received",
        _ => "sent",
    };
    let median =
        |figure: &dyn Fn(Phase) -> f64| short(of_phase(runs, at, |phase| Some(figure(phase))));
    let cells = [
        median(&|phase| phase.rate(what)),
        median(&|phase| phase.cpu_us(what)),
        median(&|phase| phase.redis_percent()) + " %",
        median(&|phase| phase.generator_cores()),
        median(&|phase| phase.rate(what) / phase.cores_left()),
        percentiles(runs, at, "delivery"),
        wrong(runs),
    ];
    cells.join(" | ")
}

/// Deliveries that were lost, doubled, out of order or nobody's, in all rounds.
fn wrong(runs: &[Run]) -> String {
    format!("{}", runs.iter().map(Run::faults).sum::<f64>())
}

fn last(all: Vec<Vec<Run>>) -> Result<Run> {
    all.into_iter().flatten().last().context("nothing was run")
}

/// The acknowledgement of joins, on one and four nodes.
fn joins(rig: &Rig) -> Result<(String, Run)> {
    let one = Side::sockeye(rig, 1, Store::One(Redis::start()), &[])?;
    let four = Side::sockeye(rig, 4, Store::One(Redis::start()), &[])?;
    let theirs = Side::socket_io(4)?;
    let part = part("nodes-joins", 3, 0.5);
    let sides = [(part, &one), (part, &four), (part, &theirs)];
    let all = rounds(rig, &sides)?;
    let mut text = "| servers | first of a room: p50, p99 ms | first on another node | later |\n|---|---:|---:|---:|\n".to_owned();
    for (name, runs) in ["one node", "four nodes", "four of Socket.IO"]
        .iter()
        .zip(&all)
    {
        let cells = [0, 1, 2].map(|at| percentiles(runs, at, "ack"));
        writeln!(text, "| {name} | {} |", cells.join(" | "))?;
    }
    Ok((text, last(all)?))
}

/// Messages to the nodes that have members, and to all nodes: one node publishes, another one has the members, all others have none.
fn routing(rig: &Rig) -> Result<(String, Run)> {
    let side = |nodes, mode: &'static str| {
        Side::sockeye(
            rig,
            nodes,
            Store::One(Redis::start()),
            &[("routing", mode.into())],
        )
    };
    let (two, four) = (
        [side(2, "registry")?, side(2, "broadcast")?],
        [side(4, "registry")?, side(4, "broadcast")?],
    );
    let sides: Vec<(Part, &Side)> = two
        .iter()
        .chain(&four)
        .map(|side| (part("nodes-rooms", 3, 0.5), side))
        .collect();
    let all = rounds(rig, &sides)?;
    let mut text = "| nodes | `routing` | per second | CPU us each | Redis, of a core | commands at Redis for 1,000 messages | bytes at Redis each | wrong |\n\
                    |---:|---|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    let modes = [
        (2, "registry"),
        (2, "broadcast"),
        (4, "registry"),
        (4, "broadcast"),
    ];
    for ((nodes, mode), runs) in modes.iter().zip(&all) {
        let redis = |at: usize| middle(runs.iter().map(|run| run.redis_each()[at]).collect());
        for (at, _) in runs[0]
            .phases()
            .enumerate()
            .filter(|(_, phase)| phase.name() != WARM_UP)
        {
            let median = |figure: &dyn Fn(Phase) -> f64| {
                short(of_phase(runs, at, |phase| Some(figure(phase))))
            };
            let cells = [
                median(&|phase| phase.rate("sent")),
                median(&|phase| phase.cpu_us("sent")),
                median(&|phase| phase.redis_percent()) + " %",
                short(Some(redis(0) * 1_000.0)),
                short(Some(redis(1))),
                wrong(runs),
            ];
            writeln!(text, "| {nodes} | `{mode}` | {} |", cells.join(" | "))?;
        }
    }
    Ok((text, last(all)?))
}

/// The same node with frames of one letter, which never wait, against frames as they are.
fn coalescing(rig: &Rig) -> Result<(String, Run)> {
    let with = Side::sockeye(rig, 2, Store::One(Redis::start()), &[])?;
    let without = Side::sockeye(
        rig,
        2,
        Store::One(Redis::start()),
        &[("frame_letters", 1.into())],
    )?;
    let part = part("nodes-paced", 1, 0.27);
    let mut runs = Vec::new();
    let mut ratios = [Vec::new(), Vec::new()];
    for pair in 0..PAIRS {
        eprintln!("coalescing, pair {} of {PAIRS}", pair + 1);
        let mut sides = [&with, &without];
        // Each begins as often as the other.
        sides.rotate_left(pair % 2);
        let mut both = [rig.run(part, sides[0])?, rig.run(part, sides[1])?];
        both.rotate_left(pair % 2);
        for (quantile, ratios) in [0.5, 0.99].into_iter().zip(&mut ratios) {
            let at = |run: &Run| run.phases().next()?.ms("delivery", quantile);
            let both = at(&both[0]).zip(at(&both[1]));
            ratios.extend(both.map(|(with, without)| with / without));
        }
        runs.extend(both);
    }
    let told = |ratios: &[f64]| {
        let (least, most) = ratios
            .iter()
            .fold((f64::MAX, 0.0), |(least, most): (f64, f64), &ratio| {
                (least.min(ratio), most.max(ratio))
            });
        format!("{:.3} ({least:.2} to {most:.2})", middle(ratios.to_vec()))
    };
    let [p50, p99] = [0, 1].map(|at| told(&ratios[at]));
    let text = format!(
        "`nodes-paced`, {} interleaved pairs of runs: latency with coalescing over latency with `frame_letters = 1`, median and range of the \
         ratios: p50 {p50}, p99 {p99}.\n",
        ratios[0].len()
    );
    Ok((text, runs.pop().context("no pairs")?))
}

/// A million messages over four nodes.
fn steady(rig: &Rig) -> Result<(String, Run)> {
    let side = Side::sockeye(rig, 4, Store::One(Redis::start()), &[])?;
    eprintln!("nodes-steady on {}", side.name);
    let runs = [rig.run(part("nodes-steady", 1, 1.0), &side)?];
    let told = told_of(&runs);
    let [run] = runs;
    Ok((
        format!("`nodes-steady`, four nodes, one Redis: {told}.\n"),
        run,
    ))
}

/// The people of a chat on four nodes over a Redis Cluster, and on one node without Redis.
fn chat(rig: &Rig) -> Result<(String, Run)> {
    let cluster = Cluster::start_with(NODE_TIMEOUT_MS, &[]);
    let four = Side::sockeye(rig, 4, Store::Cluster(cluster), &[])?;
    let one = Side::sockeye(rig, 1, Store::Nothing, &[])?;
    // People arrive faster, and then talk for a minute.
    let part = part("nodes-chat", 2, 0.2);
    let mut text = String::new();
    let mut runs = Vec::new();
    for (name, side) in [
        ("four nodes, Redis Cluster of 3 + 3", &four),
        ("one node", &one),
    ] {
        eprintln!("nodes-chat on {name}");
        let run = [rig.run(part, side)?];
        writeln!(text, "* `nodes-chat`, {name}: {}.", told_of(&run))?;
        runs.extend(run);
    }
    Ok((text, runs.pop().context("nothing was run")?))
}

/// The account of a run, with the latencies of its last phase.
fn told_of(runs: &[Run; 1]) -> String {
    let [run] = runs;
    let at = run.phases().count().saturating_sub(1);
    format!(
        "{} connections, {} messages, {} deliveries in all, then {} a second; {} wrong; p50, p99 {} ms",
        grouped(run.total("connections_peak") as u64),
        grouped(run.total("sent") as u64),
        grouped(run.total("received") as u64),
        short(of_phase(runs, at, |phase| Some(phase.rate("received")))),
        wrong(runs),
        percentiles(runs, at, "delivery")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_take_the_place_of_older_ones() {
        let page = "a\n<!-- nodes:begin x -->\nold\n<!-- nodes:end -->\nb\n";
        let new = placed(page, "x", "new").expect("there is such a place");
        assert_eq!(
            new,
            "a\n<!-- nodes:begin x -->\n\nnew\n<!-- nodes:end -->\nb\n"
        );
        assert!(placed(page, "y", "new").is_err());
    }

    /// The page would lose what was measured for an hour.
    #[test]
    fn every_part_has_its_place_in_the_page() {
        let page = repository::read(PAGE).expect("the page");
        for (name, _) in PARTS {
            placed(&page, name, "").expect(name);
        }
    }

    #[test]
    fn figures_have_three_digits() {
        let told = [0.392, 17.24, 292.4, 1_600_012.4].map(|figure| short(Some(figure)));
        assert_eq!(told, ["0.39", "17.2", "292", "1,600,012"]);
        assert_eq!(short(None), "–");
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        assert_eq!(middle(vec![3.0, 1.0, 9.0]), 3.0);
        assert_eq!(middle(vec![3.0, 1.0, 9.0, 2.0]), 2.5);
        assert!(middle(Vec::new()).is_nan());
    }
}
