//! Owns the judgement of a run: one headline, the reasons, and the facts that must not be
//! overlooked. Faults are judged before doubts: a lost message stays lost on a busy machine.

use crate::number::{clock, digits, percent, short};
use crate::{AND_THEN, INTERRUPTED, Outcome, Phase, Reasons, Totals};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    pub text: String,
    /// A reader who overlooks it misreads every figure: a scale, an interrupted run.
    pub is_warning: bool,
}

/// The judgement of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub level: Level,
    pub headline: String,
    pub reasons: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Good,
    Doubtful,
    /// The server did something else than the scenario asks.
    Mismatched,
    Bad,
}

impl Level {
    pub fn word(self) -> &'static str {
        match self {
            Level::Good => "PASS",
            Level::Doubtful => "DOUBTFUL",
            Level::Mismatched => "MISMATCH",
            Level::Bad => "FAULTS",
        }
    }
}

impl Badge {
    pub fn fact(text: String) -> Badge {
        let is_warning = false;
        Badge { text, is_warning }
    }

    pub fn warning(text: String) -> Badge {
        let is_warning = true;
        Badge { text, is_warning }
    }
}

/// Kinds of failures that the reasons name; the table of errors has the rest.
const KINDS_NAMED: usize = 3;

/// Share of the time that a worker may wait for a core before that shows in latencies: at a quarter their mean is three times
/// what it was (docs/benchmarks.md).
const WAITED_MAX: f64 = 0.1;

/// Lateness of the generator, in milliseconds, that no latency may hide if it is more than `LATE_SHARE` of it.
const LATE_MS: f64 = 10.0;
const LATE_SHARE: f64 = 0.1;

/// Fewer than this may all be lost by chance.
const OFTEN: u64 = 10;

/// Share of the deliveries that may go unjudged.
const UNJUDGED_MAX: f64 = 0.1;

pub fn verdict(outcome: &Outcome) -> Verdict {
    let faults = faults(outcome);
    let doubts = doubts(outcome);
    let mismatches = mismatches(&outcome.totals);
    if !mismatches.is_empty() {
        return mismatched(&mismatches, faults);
    }
    let level = match (faults.is_empty(), doubts.is_empty()) {
        (false, _) => Level::Bad,
        (true, false) => Level::Doubtful,
        (true, true) => Level::Good,
    };
    let headline = match faults.first() {
        Some(_) => format!("{}{}", capital(&faults.join("; ")), at_load(outcome)),
        None => format!("{}{}", kept(outcome), at_load(outcome)),
    };
    Verdict {
        level,
        headline,
        reasons: [named_failures(&outcome.totals), doubts].concat(),
    }
}

/// What was never once done although it was asked for often: that is another application, not a loss.
fn mismatches(totals: &Totals) -> Vec<String> {
    let mut told = Vec::new();
    // A server that went away has done nothing from then on.
    if totals.dropped() > 0 {
        return told;
    }
    let events = totals.acks_expected.saturating_sub(totals.joins_expected);
    let answered = totals.acked.saturating_sub(totals.joined) + totals.acked_late;
    let missing = totals.acks_missing();
    let never = |asked: u64, done: u64, missing: u64| asked >= OFTEN && done == 0 && missing > 0;
    if never(totals.joins_expected, totals.joined, missing) {
        let asked = digits(totals.joins_expected);
        told.push(format!("it confirmed none of {asked} joins and leaves"));
    }
    if never(events, answered, missing) {
        let asked = digits(events);
        told.push(format!("it acknowledged none of {asked} events"));
    }
    let echoes = totals.echoes_expected;
    if never(totals.expected, totals.received, totals.lost) {
        let asked = digits(totals.expected);
        told.push(format!("it made none of {asked} expected deliveries"));
    } else if never(echoes, totals.echoes_received, totals.lost) && totals.lost >= echoes {
        told.push(format!(
            "it sent none of {} messages back to their senders (echo = true)",
            digits(echoes)
        ));
    }
    if totals.outside >= OFTEN && totals.outside > totals.received {
        told.push(format!(
            "it made {} deliveries to users outside of the room, {} to members",
            digits(totals.outside),
            digits(totals.received)
        ));
    }
    told
}

fn mismatched(mismatches: &[String], faults: Vec<String>) -> Verdict {
    let counted = faults.iter().map(|fault| format!("for all that, {fault}"));
    let advice = "Losses cannot be told from that. For the built-in scenarios start Sockeye with \
                  `--config benchmarks/scenarios.toml`; for your own server write a scenario of what it does.";
    Verdict {
        level: Level::Mismatched,
        headline: format!(
            "The server does not do what the scenario asks: {}",
            mismatches.join("; ")
        ),
        reasons: std::iter::once(advice.to_owned()).chain(counted).collect(),
    }
}

/// More servers than this are counted, not listed.
const SERVERS_LISTED_MAX: usize = 8;

/// What stands beside the title.
pub fn badges(outcome: &Outcome) -> Vec<Badge> {
    let lasted = clock(outcome.duration_s);
    let mut badges = scale_badges(outcome);
    let partial = outcome.partial.as_ref();
    badges.extend(partial.map(|why| Badge::warning(format!("partial: {why} after {lasted}"))));
    let servers = match outcome.targets.len() {
        0..=SERVERS_LISTED_MAX => outcome.targets.clone(),
        many => vec![format!("{many} servers")],
    };
    let facts = [outcome.server.clone(), outcome.protocol.clone()].into_iter();
    let facts = facts.filter(|text| !text.is_empty()).chain(servers);
    badges.extend(facts.chain([lasted]).map(Badge::fact));
    badges
}

/// Said first and loud: figures of a scaled run are not those of the scenario.
pub fn scale_badges(outcome: &Outcome) -> Vec<Badge> {
    let scales = [
        ("scale", outcome.scale, "size"),
        ("time scale", outcome.time_scale, "time"),
    ];
    let changed = scales.into_iter().filter(|(_, scale, _)| *scale != 1.0);
    let badges = changed.map(|(name, scale, of)| {
        let percent = (scale * 1e5).round() / 1e3;
        Badge::warning(format!(
            "{name} {scale}: {percent} % of the scenario's full {of}"
        ))
    });
    badges.collect()
}

/// "3 lost, 4 duplicated": those of which there are any.
fn counted(kinds: &[(u64, &str)]) -> String {
    let some = kinds.iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = some
        .map(|(count, what)| format!("{} {what}", digits(*count)))
        .collect();
    told.join(", ")
}

/// Loss first, then connections, what users waited for in vain, and workers that are gone.
fn faults(outcome: &Outcome) -> Vec<String> {
    let totals = &outcome.totals;
    let mut faults = Vec::new();
    let counted = counted(&[
        (totals.lost, "lost"),
        (totals.duplicated, "duplicated"),
        (totals.reordered, "out of order"),
        (totals.stray, "that nobody should have got"),
    ]);
    if !counted.is_empty() {
        let expected = digits(totals.expected);
        faults.push(format!("of {expected} expected deliveries {counted}"));
    }
    let acks = format!(" of {} acknowledgements", digits(totals.acks_expected));
    let connects = format!(" of {} connects failed", digits(totals.connects_attempted));
    let kinds = [
        (totals.acks_missing(), acks.clone() + " missing"),
        (totals.acked_late, acks.clone() + " too late"),
        (totals.acks_duplicated, acks + " duplicated"),
        (totals.failed_connects(), connects),
        (totals.dropped(), " connections dropped".into()),
        (totals.failed(), " steps failed".into()),
    ];
    let some = kinds.into_iter().filter(|(count, _)| *count > 0);
    faults.extend(some.map(|(count, what)| digits(count) + &what));
    let broken = outcome.partial.as_deref().filter(|why| !is_wanted(why));
    faults.extend(broken.map(|why| format!("the run broke off: {why}")));
    faults
}

/// An end that somebody asked for.
fn is_wanted(partial: &str) -> bool {
    partial
        .split(AND_THEN)
        .all(|why| why.starts_with(INTERRUPTED))
}

fn named_failures(totals: &Totals) -> Vec<String> {
    let kinds = [
        ("", &totals.failures),
        ("connect failed: ", &totals.connect_failures),
        ("dropped: ", &totals.drops),
    ];
    let named = |(prefix, reasons): (&'static str, &Reasons)| {
        let reasons = reasons.clone().into_iter();
        reasons.map(move |(why, count)| (count, format!("{prefix}{why}")))
    };
    let mut kinds: Vec<(u64, String)> = kinds.into_iter().flat_map(named).collect();
    kinds.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let kinds = kinds.into_iter().take(KINDS_NAMED);
    kinds
        .map(|(count, why)| format!("{} × {why}", digits(count)))
        .collect()
}

fn doubts(outcome: &Outcome) -> Vec<String> {
    let totals = &outcome.totals;
    let refused = outcome.latency_refused();
    let is_shown = refused.is_none();
    let partial = outcome.partial.as_ref().map(|why| {
        let seconds = clock(outcome.duration_s);
        format!("partial result: {why} after {seconds}")
    });
    let unbegun = (totals.rounds_unbegun() > 0).then(|| {
        let reasons: Vec<&str> = totals.unbegun.keys().map(String::as_str).collect();
        let (rounds, why) = (digits(totals.rounds_unbegun()), reasons.join(", "));
        format!("{rounds} rounds were due and not begun ({why}): that load was never offered, and no latency has it")
    });
    let unjudged = (totals.unjudged() >= UNJUDGED_MAX).then(|| {
        format!(
            "{} of {} deliveries could go either way ({} did arrive), because their receiver was joining or leaving \
             while they may have been under way: what was lost of them is not known",
            digits(totals.either_allowed),
            digits(totals.expected + totals.either_allowed),
            digits(totals.either_received)
        )
    });
    let foreign = (totals.foreign > 0).then(|| {
        let foreign = digits(totals.foreign);
        format!("{foreign} messages of another run arrived: the server served two at once")
    });
    let waited = waited(outcome, |phase| phase.generator_waited).filter(|_| is_shown);
    let waited = waited.map(|percent| {
        format!("a worker of the generator was ready and waited for a core {percent} of the time: every latency has some of that in it")
    });
    let nothing = (totals.connects_succeeded == 0)
        .then(|| "nothing was connected, so nothing was measured".to_owned());
    let refused =
        refused.map(|why| format!("the generator was saturated, so no latency is shown: {why}"));
    let own = [
        refused,
        partial,
        not_waited_for(totals),
        unbegun,
        unjudged,
        foreign,
        waited,
    ];
    let doubts = own.into_iter().flatten().chain(starved(outcome, is_shown));
    doubts
        .chain(outcome.ended_processes())
        .chain(nothing)
        .collect()
}

/// The most that somebody waited for a core in a phase, where it is too much.
fn waited(outcome: &Outcome, of: fn(&Phase) -> f64) -> Option<String> {
    let most = outcome.phases.iter().map(of).fold(0.0, f64::max);
    (most >= WAITED_MAX).then(|| format!("{:.0} %", most * 100.0))
}

/// What else had too little of the machine: the server, the generator's turns, or both.
fn starved(outcome: &Outcome, is_shown: bool) -> impl Iterator<Item = String> {
    let server = waited(outcome, |phase| phase.server_waited).map(|percent| {
        format!(
            "a thread of the server was ready and waited for a core {percent} of the time: latencies are those of a \
             machine too small for both"
        )
    });
    let generator = &outcome.generator;
    let lags = [generator.turn_lag_p99_ms, generator.read_lag_p99_ms];
    let late_ms = lags.into_iter().flatten().fold(0.0, f64::max);
    let measured_ms = outcome.main_latency().at_ms(0.99);
    let is_late = late_ms > LATE_MS && late_ms > measured_ms * LATE_SHARE;
    let late = (is_late && is_shown).then(|| {
        let (late, measured) = (short(late_ms), short(measured_ms));
        format!(
            "the generator itself was late by {late} ms (p99) where {measured} ms were measured"
        )
    });
    let machine = &outcome.machine;
    let is_loaded = machine.cores > 0 && machine.load_before >= machine.cores as f64;
    let loaded = is_loaded.then(|| {
        let (load, cores) = (machine.load_before, machine.cores);
        format!("the load average was {load:.1} on {cores} cores before the run began: other programs used the machine")
    });
    [server, late, loaded].into_iter().flatten()
}

fn not_waited_for(totals: &Totals) -> Option<String> {
    let kinds = [
        (totals.not_waited_for, "deliveries"),
        (totals.acks_not_waited_for, "acknowledgements"),
        (totals.connects_not_waited_for, "connects"),
    ];
    let counted = counted(&kinds);
    (!counted.is_empty()).then(|| {
        format!("{counted} were not waited for: whether they were lost or under way is not known")
    })
}

fn kept(outcome: &Outcome) -> String {
    let totals = &outcome.totals;
    if totals.not_waited_for + totals.acks_not_waited_for > 0 {
        let kinds = [
            (totals.received, totals.expected, "expected deliveries"),
            (totals.acked, totals.acks_expected, "acknowledgements"),
        ];
        let owed = kinds.into_iter().filter(|(_, owed, _)| *owed > 0);
        let counted =
            owed.map(|(came, owed, what)| format!("{} of {} {what}", digits(came), digits(owed)));
        let counted: Vec<String> = counted.collect();
        return format!("{} arrived before the end", counted.join(" and "));
    }
    let (expected, acks) = (digits(totals.expected), digits(totals.acks_expected));
    let (made, asked) = (totals.connects_succeeded, totals.connects_attempted);
    match (totals.expected, totals.acks_expected) {
        (0, 0) if totals.sent > 0 => {
            format!(
                "{} messages sent to which nothing had to come back",
                digits(totals.sent)
            )
        }
        (0, 0) => format!(
            "{} of {} connections made and held",
            digits(made),
            digits(asked)
        ),
        (0, _) => format!("All {acks} acknowledgements arrived"),
        (_, 0) => format!("All {expected} expected deliveries arrived once and in order"),
        _ => format!(
            "All {expected} expected deliveries arrived once and in order, all {acks} acknowledgements too"
        ),
    }
}

/// The load that the headline holds for.
fn at_load(outcome: &Outcome) -> String {
    let connections = outcome.totals.connections_peak;
    let text = format!(", with {} connections", digits(connections));
    let (returns, latency) = (&outcome.latency.again, outcome.main_latency().percentiles());
    match latency {
        _ if outcome.latency_refused().is_some() => text,
        // Where everyone comes back, that is what the run is about.
        _ if returns.count() * 2 > connections => format!(
            "{text}; {} returns, p50 {} ms, p99 {} ms, the last after {} ms",
            digits(returns.count()),
            short(returns.at_ms(0.5)),
            short(returns.at_ms(0.99)),
            short(returns.max_ms())
        ),
        Some(latency) => format!("{text}, p99 {} ms", short(latency.p99_ms)),
        None => text,
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// Connect success as a figure of its own.
pub fn connect_success(totals: &Totals) -> String {
    percent(totals.connects_succeeded, totals.connects_attempted)
}
