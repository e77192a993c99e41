//! Owns the tables of the suite, which sets Sockeye beside Node and the floors case by case: on the
//! terminal, and as the generated part of a page.

use super::number::{digits, short};
use super::table::Table;
use crate::measure::{Case, Unit};
use crate::results::{Median, Results};
use std::fmt::Write;

/// A generator that lags by more than this share of the p99 has measured itself.
const LAG_SHARE_MAX: f64 = 0.25;
/// One-minute load average below which a machine counts as doing nothing else.
const QUIET_LOAD_MAX: f64 = 1.0;
/// Contenders that ratios are drawn between.
pub(super) const OURS: &str = "sockeye";
const NODE: &str = "socket.io";
pub(super) const FLOOR: &str = "floor";

/// Tables as text, aligned so that they read well on a terminal too.
pub fn tables(results: &Results) -> String {
    let mut text = String::new();
    let sections = [
        ("Cost per operation", cost_table(results)),
        ("Rate while saturated", rate_table(results)),
        ("At a constant rate", latency_table(results)),
        ("CPUs used while measured", load_table(results)),
    ];
    for (title, table) in sections {
        if !table.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(text, "### {title}\n\n{table}\n");
        }
    }
    if text.contains('†') {
        text += "† The generator itself was late by more than a quarter of this figure: the machine \
                 was busy with other work, or too small for both sides.\n\n";
    }
    let faults = results.faults();
    if !faults.is_empty() {
        text += "### Invalid runs (left out of the medians)\n\n";
        for fault in faults {
            let _ = writeln!(text, "- {fault}");
        }
    }
    text
}

/// What a page shows of the result file called `source`, with the chart at `chart`.
pub fn page(results: &Results, source: &str, chart: &str) -> String {
    format!(
        "{}\n\n![CPU and memory per operation, lower is better]({chart})\n\n{}",
        facts(results, source),
        tables(results)
    )
}

fn facts(results: &Results, source: &str) -> String {
    let machine = &results.machine;
    let node = machine.node.as_deref().unwrap_or("not installed");
    let socket_io = machine.socket_io.as_deref().unwrap_or("not installed");
    let busy = match machine.load_before {
        load if load > QUIET_LOAD_MAX => ": the machine was busy with other work",
        _ => "",
    };
    let quick = if results.quick {
        " (quick: small sizes, short spans)"
    } else {
        ""
    };
    format!(
        "Measured {} at commit {} on {} ({} cores, {:.0} GiB), kernel {}; Node {node}, socket.io \
         {socket_io}. Load average before the run {:.1}{busy}. Median of up to {} rounds{quick}, range in \
         brackets. Raw data: `benchmarks/results/{source}`.",
        machine.date(),
        machine.commit.as_deref().unwrap_or("unknown"),
        machine.cpu,
        machine.cores,
        machine.memory_gib,
        machine.kernel,
        machine.load_before,
        results.rounds(),
    )
}

/// Contenders that are not floors; floors share one column, each with the cases it fits.
pub(super) fn columns(results: &Results) -> Vec<String> {
    let named = results
        .servers
        .iter()
        .filter(|server| !server.starts_with(FLOOR));
    named.cloned().chain([FLOOR.to_string()]).collect()
}

/// The median of a column, where `floor` is whichever floor the case was run on.
pub(super) fn figure(results: &Results, case: &Case, column: &str) -> Option<Median> {
    if column == FLOOR {
        let mut floors = results
            .servers
            .iter()
            .filter(|server| server.starts_with(FLOOR));
        return floors.find_map(|server| results.median(case, server));
    }
    results.median(case, column)
}

fn valid_value(results: &Results, case: &Case, column: &str) -> Option<f64> {
    figure(results, case, column)
        .filter(|median| median.valid > 0)
        .map(|median| median.value)
}

fn cost_table(results: &Results) -> Table {
    let columns = columns(results);
    let mut header = vec!["".to_string(), "unit".to_string()];
    header.extend(columns.iter().cloned());
    header.extend([format!("{NODE} ÷ {OURS}"), format!("{OURS} ÷ {FLOOR}")]);
    let mut table = Table::new(header);
    for case in results.cases() {
        let unit = match case.unit() {
            Unit::BytesPerConnection => "B/connection",
            Unit::CpuUs => "CPU us",
            Unit::P99Ms => continue,
        };
        let mut row = vec![label(&case), unit.to_string()];
        row.extend(
            columns
                .iter()
                .map(|column| spread(figure(results, &case, column))),
        );
        row.push(ratio(results, &case, NODE, OURS));
        row.push(ratio(results, &case, OURS, FLOOR));
        table.push(row);
    }
    table
}

fn rate_table(results: &Results) -> Table {
    let columns = columns(results);
    let mut header = vec!["per second".to_string()];
    header.extend(columns.iter().cloned());
    let mut table = Table::new(header);
    for case in results
        .cases()
        .iter()
        .filter(|case| case.unit() == Unit::CpuUs)
    {
        let mut row = vec![label(case)];
        row.extend(columns.iter().map(|column| {
            let median = figure(results, case, column);
            thousands(median.filter(|m| m.valid > 0).and_then(|m| m.per_second))
        }));
        table.push(row);
    }
    table
}

fn latency_table(results: &Results) -> Table {
    let header = [
        "",
        "server",
        "deliveries/s",
        "CPU us",
        "p50 ms",
        "p99 ms",
        "max ms",
        "p99 ÷ ours",
    ];
    let mut table = Table::new([&header[..], &["generator lag p99 ms"]].concat());
    for case in results
        .cases()
        .iter()
        .filter(|case| case.unit() == Unit::P99Ms)
    {
        let ours = valid_value(results, case, OURS);
        for server in &results.servers {
            let Some(median) = results.median(case, server) else {
                continue;
            };
            if median.valid == 0 {
                let mut row = vec![label(case), server.clone(), "invalid".into()];
                row.resize(header.len() + 1, String::new());
                table.push(row);
                continue;
            }
            let times = ours.map(|ours| median.value / ours);
            table.push(vec![
                label(case),
                server.clone(),
                thousands(median.per_second),
                number(median.cpu_us),
                number(median.p50_ms),
                spread(Some(median.clone())) + distrust(&median),
                number(median.max_ms),
                number(times),
                number(median.lag_p99_ms),
            ]);
        }
    }
    table
}

/// Marks a p99 that the generator's own lateness may have made.
fn distrust(median: &Median) -> &'static str {
    match median.lag_p99_ms {
        Some(lag_ms) if lag_ms > median.value * LAG_SHARE_MAX => " †",
        _ => "",
    }
}

fn load_table(results: &Results) -> Table {
    let columns = columns(results);
    let mut header = vec!["server + generator".to_string()];
    header.extend(columns.iter().cloned());
    let mut table = Table::new(header);
    for case in results.cases() {
        let mut row = vec![label(&case)];
        row.extend(columns.iter().map(|column| {
            let median = figure(results, &case, column).filter(|median| median.valid > 0);
            let cores = |m: Median| format!("{:.2} + {:.2}", m.server_cores, m.generator_cores);
            median.map_or("–".into(), cores)
        }));
        table.push(row);
    }
    table
}

/// What a row is called.
pub(super) fn label(case: &Case) -> String {
    match case {
        Case::Idle { low, high, plain } => {
            let what = if *plain {
                "idle, plain WebSocket"
            } else {
                "idle connection"
            };
            format!("{what} ({} → {})", digits(*low), digits(*high))
        }
        Case::Connect { .. } => "connect".into(),
        Case::Ack { connections, depth } => {
            format!(
                "acked event, {} connections, depth {depth}",
                digits(*connections)
            )
        }
        Case::Delivery { members, window } => {
            format!("delivery, room of {}, window {window}", digits(*members))
        }
        Case::Latency {
            members,
            deliveries_per_second,
        } => {
            format!(
                "room of {}, {}/s",
                digits(*members),
                digits(*deliveries_per_second)
            )
        }
        Case::Hold {
            connections,
            per_second,
            rooms,
            ..
        } => {
            let rooms = match rooms {
                1 => "to everyone".to_string(),
                _ => format!("in {rooms} rooms"),
            };
            let held = digits(*connections);
            format!("{held} held, {per_second} messages/s {rooms}")
        }
    }
}

fn ratio(results: &Results, case: &Case, of: &str, to: &str) -> String {
    let (of, to) = (
        valid_value(results, case, of),
        valid_value(results, case, to),
    );
    of.zip(to)
        .map_or("–".into(), |(of, to)| format!("{:.1} x", of / to))
}

/// Median and range, or why there is none.
fn spread(median: Option<Median>) -> String {
    match median {
        None => "–".into(),
        Some(median) if median.valid == 0 => "invalid".into(),
        Some(median) if median.valid == 1 => short(median.value),
        Some(m) => format!("{} ({}–{})", short(m.value), short(m.low), short(m.high)),
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or("–".into(), short)
}

fn thousands(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| digits(value.round() as u64))
}
