//! Owns the judgement of a run: one headline, the reasons, and the facts that must not be
//! overlooked. Faults are judged before doubts: a lost message stays lost on a busy machine.

use super::document::{Badge, Level, Verdict};
use super::number::{clock, digits, percent, short};
use crate::outcome::{AND_THEN, INTERRUPTED, Outcome, Phase, Totals};

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
    let mut faults = delivery_faults(&outcome.totals);
    faults.extend(connection_faults(&outcome.totals));
    faults.extend(other_faults(outcome));
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

/// What stands beside the title.
pub fn badges(outcome: &Outcome) -> Vec<Badge> {
    let mut badges = Vec::new();
    badges.extend(scale_badges(outcome));
    if let Some(why) = &outcome.partial {
        badges.push(warning(format!(
            "partial: {why} after {}",
            clock(outcome.duration_s)
        )));
    }
    let facts = [&outcome.server, &outcome.protocol];
    badges.extend(
        facts
            .into_iter()
            .filter(|text| !text.is_empty())
            .cloned()
            .map(fact),
    );
    badges.extend(outcome.targets.iter().cloned().map(fact));
    badges.push(fact(clock(outcome.duration_s)));
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
        warning(format!(
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

fn delivery_faults(totals: &Totals) -> Vec<String> {
    let expected = digits(totals.expected);
    let mut faults = Vec::new();
    let kinds = [
        (totals.lost, "lost"),
        (totals.duplicated, "duplicated"),
        (totals.reordered, "out of order"),
        (totals.stray, "that nobody should have got"),
    ];
    let counted = counted(&kinds);
    if !counted.is_empty() {
        faults.push(format!("of {expected} expected deliveries {counted}"));
    }
    let kinds = [
        (totals.acks_missing(), "missing"),
        (totals.acked_late, "too late"),
        (totals.acks_duplicated, "duplicated"),
    ];
    for (count, what) in kinds.iter().filter(|(count, _)| *count > 0) {
        let all = digits(totals.acks_expected);
        faults.push(format!(
            "{} of {all} acknowledgements {what}",
            digits(*count)
        ));
    }
    faults
}

fn connection_faults(totals: &Totals) -> Vec<String> {
    let (failed, dropped) = (totals.failed_connects(), totals.dropped());
    let mut faults = Vec::new();
    if failed > 0 {
        let all = digits(totals.connects_attempted);
        faults.push(format!("{} of {all} connects failed", digits(failed)));
    }
    if dropped > 0 {
        faults.push(format!("{} connections dropped", digits(dropped)));
    }
    faults
}

/// What users waited for in vain, and workers that are gone.
fn other_faults(outcome: &Outcome) -> Vec<String> {
    let failed = outcome.totals.failed();
    let mut faults = Vec::new();
    if failed > 0 {
        faults.push(format!("{} steps failed", digits(failed)));
    }
    if let Some(why) = outcome.partial.as_deref().filter(|why| !is_wanted(why)) {
        faults.push(format!("the run broke off: {why}"));
    }
    faults
}

/// An end that somebody asked for.
fn is_wanted(partial: &str) -> bool {
    partial
        .split(AND_THEN)
        .all(|why| why.starts_with(INTERRUPTED))
}

fn named_failures(totals: &Totals) -> Vec<String> {
    let mut kinds: Vec<(u64, String)> = Vec::new();
    kinds.extend(totals.failures.iter().map(|(why, n)| (*n, why.clone())));
    kinds.extend(
        totals
            .connect_failures
            .iter()
            .map(|(why, n)| (*n, format!("connect failed: {why}"))),
    );
    kinds.extend(
        totals
            .drops
            .iter()
            .map(|(why, n)| (*n, format!("dropped: {why}"))),
    );
    kinds.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let named = kinds.into_iter().take(KINDS_NAMED);
    named
        .map(|(count, why)| format!("{} × {why}", digits(count)))
        .collect()
}

fn doubts(outcome: &Outcome) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(why) = outcome.latency_refused() {
        doubts.push(format!(
            "the generator was saturated, so no latency is shown: {why}"
        ));
    }
    if let Some(why) = &outcome.partial {
        let seconds = clock(outcome.duration_s);
        doubts.push(format!("partial result: {why} after {seconds}"));
    }
    let totals = &outcome.totals;
    doubts.extend(not_waited_for(totals));
    let unbegun = totals.rounds_unbegun();
    if unbegun > 0 {
        let reasons: Vec<&str> = totals.unbegun.keys().map(String::as_str).collect();
        doubts.push(format!(
            "{} rounds were due and not begun ({}): that load was never offered, and no latency \
             has it",
            digits(unbegun),
            reasons.join(", ")
        ));
    }
    if totals.unjudged() >= UNJUDGED_MAX {
        doubts.push(format!(
            "{} of {} deliveries could go either way ({} did arrive), because their receiver was joining or leaving \
             while they may have been under way: what was lost of them is not known",
            digits(totals.either_allowed),
            digits(totals.expected + totals.either_allowed),
            digits(totals.either_received)
        ));
    }
    if totals.foreign > 0 {
        doubts.push(format!(
            "{} messages of another run arrived: the server served two at once",
            digits(totals.foreign)
        ));
    }
    let waited = |phase: &Phase| phase.generator_waited;
    let waited = outcome.phases.iter().map(waited).fold(0.0, f64::max);
    if waited >= WAITED_MAX && outcome.latency_refused().is_none() {
        doubts.push(format!(
            "a worker of the generator was ready and waited for a core {:.0} % of the time: every latency has some of that \
             in it",
            waited * 100.0
        ));
    }
    doubts.extend(starved(outcome));
    doubts.extend(outcome.ended_processes());
    if totals.connects_succeeded == 0 {
        doubts.push("nothing was connected, so nothing was measured".into());
    }
    doubts
}

/// What else had too little of the machine: the server, the generator's turns, or both.
fn starved(outcome: &Outcome) -> Vec<String> {
    let mut doubts = Vec::new();
    let waited = outcome.phases.iter().map(|phase| phase.server_waited);
    let waited = waited.fold(0.0, f64::max);
    if waited >= WAITED_MAX {
        doubts.push(format!(
            "a thread of the server was ready and waited for a core {:.0} % of the time: latencies are those of a \
             machine too small for both",
            waited * 100.0
        ));
    }
    let generator = &outcome.generator;
    let lags = [generator.turn_lag_p99_ms, generator.read_lag_p99_ms];
    let late_ms = lags.into_iter().flatten().fold(0.0, f64::max);
    let measured_ms = outcome.main_latency().at_ms(0.99);
    if late_ms > LATE_MS
        && late_ms > measured_ms * LATE_SHARE
        && outcome.latency_refused().is_none()
    {
        doubts.push(format!(
            "the generator itself was late by {} ms (p99) where {} ms were measured",
            short(late_ms),
            short(measured_ms)
        ));
    }
    let machine = &outcome.machine;
    if machine.cores > 0 && machine.load_before >= machine.cores as f64 {
        doubts.push(format!(
            "the load average was {:.1} on {} cores before the run began: other programs used the machine",
            machine.load_before, machine.cores
        ));
    }
    doubts
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
        let owed = kinds.iter().filter(|(_, owed, _)| *owed > 0);
        let counted: Vec<String> = owed
            .map(|(came, owed, what)| format!("{} of {} {what}", digits(*came), digits(*owed)))
            .collect();
        return format!("{} arrived before the end", counted.join(" and "));
    }
    match (totals.expected, totals.acks_expected) {
        (0, 0) if totals.sent > 0 => format!(
            "{} messages sent to which nothing had to come back",
            digits(totals.sent)
        ),
        (0, 0) => format!(
            "{} of {} connections made and held",
            digits(totals.connects_succeeded),
            digits(totals.connects_attempted)
        ),
        (0, acks) => format!("All {} acknowledgements arrived", digits(acks)),
        (expected, 0) => {
            format!(
                "All {} expected deliveries arrived once and in order",
                digits(expected)
            )
        }
        (expected, acks) => format!(
            "All {} expected deliveries arrived once and in order, all {} acknowledgements too",
            digits(expected),
            digits(acks)
        ),
    }
}

/// The load that the headline holds for.
fn at_load(outcome: &Outcome) -> String {
    let mut text = format!(
        ", with {} connections",
        digits(outcome.totals.connections_peak)
    );
    let returns = &outcome.latency.again;
    // Where everyone comes back, that is what the run is about.
    if returns.count() * 2 > outcome.totals.connections_peak && outcome.latency_refused().is_none()
    {
        return format!(
            "{text}; {} returns, p50 {} ms, p99 {} ms, the last after {} ms",
            digits(returns.count()),
            short(returns.at_ms(0.5)),
            short(returns.at_ms(0.99)),
            short(returns.max_ms())
        );
    }
    if outcome.latency_refused().is_none()
        && let Some(latency) = outcome.main_latency().percentiles()
    {
        text += &format!(", p99 {} ms", short(latency.p99_ms));
    }
    text
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

fn warning(text: String) -> Badge {
    Badge {
        text,
        is_warning: true,
    }
}

fn fact(text: String) -> Badge {
    Badge {
        text,
        is_warning: false,
    }
}

/// Connect success as a figure of its own.
pub fn connect_success(totals: &Totals) -> String {
    percent(totals.connects_succeeded, totals.connects_attempted)
}
