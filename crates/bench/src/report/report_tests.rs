//! Tests of whole reports: the exact text, what is refused, and that nothing a scenario or a server
//! says becomes markup.

use super::{Document, document, html, markdown, text};
use outcome::machine::Machine;
use outcome::verdict::{Level, verdict as judge};
use outcome::{
    Comparison, Contestant, Distribution, Generator, Outcome, Phase, ResultFile, Second,
    ServerProcess, Totals,
};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// Ten seconds of ramp, ten of load: every figure is easy to check by hand.
pub(super) fn outcome() -> Outcome {
    // 98 of 100 deliveries take 1 ms, two take 7.77 ms.
    let delivery = Distribution::of(&[(1_000_000, 9_800), (7_770_000, 200)]);
    let ramp = Phase {
        name: "ramp".into(),
        duration_s: 10.0,
        connections: 1_000,
        connects: 1_000,
        server_cpu_s: Some(0.05),
        server_rss_bytes: Some(12 * MIB),
        ..Phase::default()
    };
    let load = Phase {
        name: "load".into(),
        from_s: 10.0,
        duration_s: 10.0,
        connections: 1_000,
        sent: 100,
        expected: 10_000,
        received: 10_000,
        delivery: delivery.clone(),
        server_cpu_s: Some(2.0),
        server_rss_bytes: Some(13 * MIB),
        ..Phase::default()
    };
    let mut outcome = Outcome {
        scenario: "ticker".into(),
        server: "sockeye".into(),
        protocol: "socket.io".into(),
        scale: 1.0,
        time_scale: 1.0,
        targets: vec!["http://127.0.0.1:3000".into()],
        duration_s: 20.0,
        machine: machine(),
        generator: Generator {
            workers: 2,
            cpu_s: 1.0,
            ..Generator::default()
        },
        phases: vec![ramp, load],
        totals: totals(),
        processes: vec![process()],
        timeline: timeline(),
        ..Outcome::default()
    };
    outcome.latency.delivery = delivery;
    outcome
}

fn machine() -> Machine {
    Machine {
        started_unix_s: 86_400 * 365,
        cpu: "Testium".into(),
        cores: 2,
        kernel: "6.18".into(),
        memory_gib: 24.0,
        load_before: 0.1,
        ..Machine::default()
    }
}

fn totals() -> Totals {
    Totals {
        connects_attempted: 1_000,
        connects_succeeded: 1_000,
        connections_peak: 1_000,
        sent: 100,
        expected: 10_000,
        received: 10_000,
        ..Totals::default()
    }
}

fn process() -> ServerProcess {
    let mut process = ServerProcess {
        pid: 4_711,
        name: "sockeye".into(),
        cpu_s: 2.05,
        rss_before_bytes: 10 * MIB,
        rss_peak_bytes: 13 * MIB,
        rss_after_bytes: 11 * MIB,
        ..ServerProcess::default()
    };
    process.settle(1_000, 10_000);
    process
}

fn timeline() -> Vec<Second> {
    let delivery = outcome_percentiles();
    let second = |t: u32| Second {
        t_s: f64::from(t),
        phase: usize::from(t > 10),
        connections: u64::from(t.min(10)) * 100,
        connects: if t <= 10 { 100 } else { 0 },
        received: if t > 10 { 1_000 } else { 0 },
        delivery: (t > 10).then_some(delivery),
        server_cpu_percent: Some(20.0),
        server_rss_bytes: Some(13 * MIB),
        ..Second::default()
    };
    (1..=20).map(second).collect()
}

fn outcome_percentiles() -> outcome::Percentiles {
    let one = Distribution::of(&[(1_000_000, 980), (7_770_000, 20)]);
    one.percentiles().unwrap()
}

#[track_caller]
fn tells(seen: &str, words: &str) {
    assert!(seen.contains(words), "{words} is not in {seen}");
}

fn report(outcome: Outcome) -> Document {
    document(&ResultFile::Run(Box::new(outcome)), "ticker.json")
}

fn seen_of(outcome: &Outcome) -> String {
    text(&report(outcome.clone()), false)
}

fn saturated() -> Outcome {
    let mut outcome = outcome();
    outcome.generator.saturated = Some("turn lag p99 31 ms, above 10 ms".into());
    outcome.phases[1].generator_saturated = outcome.generator.saturated.clone();
    outcome
}

#[test]
fn the_text_of_a_clean_run() {
    let seen = seen_of(&outcome());
    let expected = "\
ticker on sockeye
sockeye  ·  socket.io  ·  http://127.0.0.1:3000  ·  20 s

PASS  All 10,000 expected deliveries arrived once and in order, with 1,000 connections, p99 7.77 ms

Summary
  phase      connections  msgs/s  avg ms  p95 ms  p99 ms    memory    CPU  errors
  ramp             1,000       0       –       –       –  12.0 MiB  0.5 %       0
  load             1,000   1,000    1.14    1.00    7.77  13.0 MiB   20 %       0
  whole run        1,000     500    1.14    1.00    7.77  13.0 MiB   10 %       0
";
    assert!(seen.starts_with(expected), "{seen}");
    let latency = "
Latency
  ms         count   avg   p50   p90   p95   p99  p99.9  p99.99   max
  delivery  10,000  1.14  1.00  1.00  1.00  7.77   7.77    7.77  7.77
";
    tells(&seen, latency);
    let account = "
Loss, duplicates and order
                              deliveries  share
  expected                        10,000  100 %
  arrived                         10,000  100 %
  lost                                 0    0 %
";
    tells(&seen, account);
    let process = "  sockeye (4711)   2.05              205       10.0 MiB  13.0 MiB  11.0 MiB             3,146\n";
    tells(&seen, process);
    assert!(seen.ends_with(
        "\nMeasured 1971-01-01 on Testium (2 cores, 24 GiB), kernel 6.18; load average before the \
         run 0.1. Figures: ticker.json.\n"
    ));
}

#[test]
fn the_markdown_of_the_summary() {
    let seen = markdown(&report(outcome()));
    let expected = "\
# ticker on sockeye

sockeye · socket.io · http://127.0.0.1:3000 · 20 s

**PASS: All 10,000 expected deliveries arrived once and in order, with 1,000 connections, p99 7.77 ms**

## Summary

| phase     | connections | msgs/s | avg ms | p95 ms | p99 ms |   memory |   CPU | errors |
|-----------|------------:|-------:|-------:|-------:|-------:|---------:|------:|-------:|
| ramp      |       1,000 |      0 |      – |      – |      – | 12.0 MiB | 0.5 % |      0 |
| load      |       1,000 |  1,000 |   1.14 |   1.00 |   7.77 | 13.0 MiB |  20 % |      0 |
| whole run |       1,000 |    500 |   1.14 |   1.00 |   7.77 | 13.0 MiB |  10 % |      0 |
";
    assert!(seen.starts_with(expected), "{seen}");
}

#[test]
fn what_nobody_could_judge_is_a_doubt() {
    let mut outcome = outcome();
    let level = |outcome: &Outcome| report(outcome.clone()).verdict.level;
    outcome.totals.either_allowed = 1_000;
    assert_eq!(level(&outcome), Level::Good);
    (
        outcome.totals.either_allowed,
        outcome.totals.either_received,
    ) = (24_871, 20_000);
    assert_eq!(level(&outcome), Level::Doubtful);
    let seen = markdown(&report(outcome));
    let reason = "24,871 of 34,871 deliveries could go either way (20,000 did arrive)";
    tells(&seen, reason);
}

#[test]
fn loss_duplicates_and_order_come_first() {
    let mut outcome = outcome();
    outcome.totals.received -= 3;
    outcome.totals.lost = 3;
    outcome.totals.duplicated = 2;
    outcome.totals.reordered = 1;
    outcome.totals.connects_attempted += 4;
    outcome.totals.connect_failures = BTreeMap::from([("refused".into(), 4)]);
    let seen = seen_of(&outcome);
    let headline = "FAULTS  Of 10,000 expected deliveries 3 lost, 2 duplicated, 1 out of order; 4 of \
        1,004 connects failed, with 1,000 connections, p99 7.77 ms\n  - 4 × connect failed: refused\n";
    tells(&seen, headline);
    tells(&seen, "  lost                                 3   0.03 %\n");
    tells(&seen, "  connect success         99.60 %\n");
}

#[test]
fn no_latency_of_a_saturated_generator_is_shown() {
    let document = report(saturated());
    for seen in [text(&document, false), markdown(&document), html(&document)] {
        tells(&seen, "turn lag p99 31 ms, above 10 ms (phase load)");
        assert!(seen.to_lowercase().contains("not shown:"), "{seen}");
        // What the refused run would have shown: its p99 and its mean.
        assert!(!seen.contains("7.77") && !seen.contains("1.14"), "{seen}");
    }
    let seen = text(&document, false);
    tells(
        &seen,
        "  load             1,000   1,000  refused  refused  refused  13.0 MiB   20 %",
    );
    tells(&seen, "\nDOUBTFUL  All 10,000");
    assert!(document.plots().all(|plot| !plot.id.contains("latency")));
}

#[test]
fn phases_before_the_saturated_one_keep_their_figures() {
    let mut outcome = saturated();
    outcome.phases[0].generator_saturated = outcome.phases[1].generator_saturated.take();
    let seen = seen_of(&outcome);
    tells(
        &seen,
        "  load             1,000   1,000     1.14     1.00     7.77  13.0 MiB",
    );
    tells(
        &seen,
        "  whole run        1,000     500  refused  refused  refused  13.0 MiB",
    );
}

#[test]
fn scale_and_interruption_stand_before_the_figures() {
    let mut outcome = outcome();
    outcome.scale = 0.02;
    outcome.partial = Some("interrupted".into());
    let document = report(outcome);
    let seen = text(&document, false);
    let second = seen.lines().nth(1).unwrap();
    let loud =
        "SCALE 0.02: 2 % OF THE SCENARIO'S FULL SIZE  ·  PARTIAL: INTERRUPTED AFTER 20 S  ·  ";
    assert!(second.starts_with(loud), "{second}");
    assert!(
        seen.contains("\nDOUBTFUL  ") && seen.contains("partial result: interrupted after 20 s")
    );
    assert!(
        markdown(&document).contains("**scale 0.02: 2 % of the scenario's full size** · **partial")
    );
}

#[test]
fn what_nobody_waited_for_is_in_doubt_and_what_broke_off_is_a_fault() {
    let mut outcome = outcome();
    outcome.partial = Some("interrupted; interrupted while stragglers were waited for".into());
    (outcome.totals.received, outcome.totals.not_waited_for) = (9_600, 400);
    let seen = seen_of(&outcome);
    let verdict = "\nDOUBTFUL  9,600 of 10,000 expected deliveries arrived before the end";
    tells(&seen, verdict);
    tells(&seen, "400 deliveries were not waited for");
    outcome.partial = Some("interrupted; a worker does not answer".into());
    let seen = seen_of(&outcome);
    tells(&seen, "\nFAULTS  ");
}

#[test]
fn a_run_without_messages_is_judged_by_its_connections() {
    let mut outcome = outcome();
    outcome.totals = Totals {
        sent: 0,
        expected: 0,
        received: 0,
        ..outcome.totals
    };
    outcome.latency.delivery = Distribution::default();
    let seen = seen_of(&outcome);
    tells(
        &seen,
        "PASS  1,000 of 1,000 connections made and held, with",
    );
    tells(&seen, "Nothing was sent, so nothing could be lost.");
}

/// The same run on three servers; the second is ten times as expensive.
fn comparison() -> Comparison {
    let contestant = |name: &str, times: f64| {
        let mut run = outcome();
        run.server = name.into();
        run.processes[0].cpu_s *= times;
        Contestant {
            name: name.into(),
            runs: vec![run.clone(), run.clone(), run],
        }
    };
    Comparison {
        scenario: "ticker".into(),
        servers: vec![contestant("sockeye", 1.0), contestant("socket.io", 10.0)],
        notes: Vec::new(),
    }
}

#[test]
fn ratios_are_drawn_to_the_first_server() {
    let mut slow = comparison();
    slow.servers[1].runs[2].processes[0].cpu_s = 41.0;
    let document = document(&ResultFile::Comparison(slow), "c.json");
    let seen = text(&document, false);
    let cpu = "  server CPU us per message  205  2,050 (2,050–4,100)                 10.0 x\n";
    let squeezed: Vec<String> = [seen.as_str(), cpu].map(squeeze).into();
    assert!(squeezed[0].contains(&squeezed[1]), "{seen}");
    assert!(seen.contains(
        "PASS  socket.io takes 1.00 x the p99 latency, 10.0 x the CPU per message, 1.00 x the \
         memory per connection of sockeye\n"
    ));
    let plots: Vec<&str> = document.plots().map(|plot| plot.id).collect();
    assert_eq!(
        plots,
        [
            "latency",
            "distribution",
            "throughput",
            "connections",
            "cpu",
            "memory"
        ]
    );
}

#[test]
fn one_saturated_round_takes_the_latencies_from_the_ratios() {
    let mut doubtful = comparison();
    doubtful.servers[1].runs[1] = saturated();
    let document = document(&ResultFile::Comparison(doubtful), "c.json");
    let seen = text(&document, false);
    tells(
        &seen,
        "NOT SHOWN: latencies, because the generator was saturated",
    );
    assert!(
        !seen.contains("p99.9 ms") && !seen.contains("the p99 latency"),
        "{seen}"
    );
    assert!(
        document
            .plots()
            .all(|plot| plot.id != "latency" && plot.id != "distribution")
    );
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A report of 56 gateways began with a screen of their addresses.
#[test]
fn many_servers_are_counted_and_not_listed() {
    let head = |count: u16| {
        let mut outcome = outcome();
        outcome.targets = (1..=count).map(|port| format!("http://a:{port}")).collect();
        markdown(&report(outcome))
    };
    assert!(head(8).contains("· http://a:1 · ") && head(8).contains("· http://a:8 · "));
    assert!(head(9).contains("· 9 servers · ") && !head(9).contains("http://a:1"));
}

#[test]
fn names_stay_text_in_every_output() {
    let odd = "<script>alert(1)</script>|&\"'\u{1b}[2J\u{0}";
    let mut outcome = outcome();
    outcome.scenario = odd.into();
    outcome.description = odd.into();
    outcome.server = odd.into();
    outcome.targets = vec![odd.into()];
    outcome.phases[0].name = odd.into();
    outcome.phases[1].name = odd.into();
    outcome.processes[0].name = odd.into();
    outcome.errors.insert(odd.into(), 1);
    outcome.totals.drops.insert(odd.into(), 1);
    outcome.notes = vec![odd.into()];
    outcome.partial = Some(odd.into());
    let single = report(outcome.clone());
    let runs = vec![outcome];
    let both = Comparison {
        scenario: odd.into(),
        servers: vec![Contestant {
            name: odd.into(),
            runs,
        }],
        notes: vec![odd.into()],
    };
    for document in [single, document(&ResultFile::Comparison(both), odd)] {
        let page = html(&document);
        assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
        assert_well_formed(&page);
        for plain in [text(&document, false), markdown(&document)] {
            assert!(
                plain.chars().all(|c| c == '\n' || !c.is_control()),
                "{plain}"
            );
        }
        let unescaped = markdown(&document).replace("\\<", "").replace("\\|", "");
        assert!(!unescaped.contains('<'), "{unescaped}");
    }
}

#[test]
fn the_page_is_well_formed_and_needs_no_network() {
    for document in [
        report(outcome()),
        report(saturated()),
        document(&ResultFile::Comparison(comparison()), "c.json"),
        report(Outcome::default()),
    ] {
        let page = html(&document);
        assert_well_formed(&page);
        for foreign in [" src=", " href=", "url(", "@import", "fetch("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        // The name of SVG is the only address that is not text.
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains("https://"), "{page}");
    }
}

/// As strict as XML: every element closed in order, every attribute quoted, every `&` an entity.
fn assert_well_formed(page: &str) {
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    roxmltree::Document::parse_with_options(page, options).unwrap();
}

#[test]
fn what_had_too_little_of_the_machine_is_doubtful() {
    let mut outcomes = [(); 3].map(|()| outcome());
    outcomes[0].phases[1].server_waited = 0.3;
    outcomes[1].machine.load_before = 4.8;
    // Doubtful before its latencies are refused.
    outcomes[2].latency.delivery = Distribution::of(&[(466_000_000, 10_000)]);
    outcomes[2].generator.turn_lag_p99_ms = Some(92.5);
    let told = [
        "a thread of the server was ready and waited for a core 30 %",
        "load average was 4.8 on 2 cores",
        "late by 92.5 ms (p99) where 466 ms",
    ];
    for (outcome, told) in outcomes.iter().zip(told) {
        assert_eq!(judge(outcome).level, Level::Doubtful);
        tells(&verdict_of(outcome), told);
    }
}

/// One lost message may be chance, and a broken connection explains the rest.
#[test]
fn only_what_was_never_done_is_a_mismatch() {
    let mut outcome = outcome();
    let totals = &mut outcome.totals;
    (totals.lost, totals.received) = (1_500, 8_500);
    (totals.echoes_expected, totals.echoes_received) = (1_500, 1);
    assert_eq!(judge(&outcome).level, Level::Bad);
    outcome.totals.echoes_received = 0;
    assert_eq!(judge(&outcome).level, Level::Mismatched);
    outcome.totals.drops.insert("closed".into(), 1);
    assert_eq!(judge(&outcome).level, Level::Bad);
}

#[test]
fn a_suite_draws_ratios_between_runs_that_lost_nothing() {
    use outcome::{CaseResult, Figure, Suite};
    let run = |cpu_s: f64, lost: u64| {
        let mut run = outcome();
        run.phases[1].server_cpu_s = Some(cpu_s);
        run.totals.lost = lost;
        run
    };
    let server = |name: &str, runs: Vec<Outcome>| Contestant {
        name: name.into(),
        runs,
    };
    let suite = Suite {
        cases: vec![CaseResult {
            case: "delivery".into(),
            about: "delivery, room of 1,000".into(),
            figure: Figure::CpuUsPerMessage,
            servers: vec![
                server("ours", vec![run(0.01, 0), run(0.03, 0), run(0.02, 0)]),
                server("other", vec![run(0.08, 0), run(9.0, 7)]),
            ],
            failures: vec!["other, round 3: it exited".into()],
        }],
    };
    let seen = text(&document(&ResultFile::Suite(suite), "suite.json"), false);
    let row = "  delivery, room of 1,000  CPU us  2.00 (1.00–3.00)   8.00        4.00 x\n";
    tells(&seen, row);
    for told in [
        "other, round 3: it exited",
        "Of 10,000 expected deliveries 7 lost",
        "2 left out",
    ] {
        assert!(seen.contains(told), "{told}: {seen}");
    }
}

#[test]
fn a_crowd_is_told_by_connection() {
    use outcome::{BothEnds, Memory};
    let memory = |mib: u64| Memory {
        machine_bytes: mib * 10 * MIB,
        servers_bytes: mib * MIB,
        generator_bytes: mib * 2 * MIB,
    };
    let mut outcome = outcome();
    outcome.both_ends = Some(BothEnds {
        before: memory(10),
        most: memory(30),
    });
    outcome.totals.heartbeats = 77;
    let seen = seen_of(&outcome);
    assert!(!seen.contains("Crowd"), "{seen}");
    outcome.totals.connections_peak = 20 * 1024;
    let seen = seen_of(&outcome);
    let rows = seen
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let rows: Vec<String> = rows.collect();
    for row in [
        "connects per second, first tenth 100 –",
        "heartbeats answered 77 –",
        "memory of the servers 20.0 MiB 1,024 B",
        "kernel, both ends, and other programs 140 MiB 7,168 B",
    ] {
        assert!(rows.contains(&row.to_owned()), "{row}: {seen}");
    }
}

fn verdict_of(outcome: &Outcome) -> String {
    judge(outcome).reasons.join("\n")
}
