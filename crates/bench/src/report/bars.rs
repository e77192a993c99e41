//! Owns the bar chart: one panel per case, one bar per contender, as a plain SVG that follows the
//! reader's light or dark theme. Scales are linear and start at zero, each panel its own.

use super::number::short;
use super::suite::{FLOOR, OURS, columns, figure, label};
use crate::measure::{Case, Unit};
use crate::results::Results;
use std::fmt::Write;

const PANEL_WIDTH: u32 = 400;
const BAR_HEIGHT: u32 = 20;
const BAR_GAP: u32 = 6;
const TITLE_HEIGHT: u32 = 34;
const LABEL_WIDTH: u32 = 84;
const VALUE_WIDTH: u32 = 64;
const MARGIN: u32 = 16;
const PANELS_PER_ROW: u32 = 2;

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2937}.t{font-weight:600}\
.u{fill:#6b7280;font-size:11px}.o{fill:#0f766e}.p{fill:#94a3b8}.f{fill:#cbd5e1}\
@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.u{fill:#9ca3af}.o{fill:#2dd4bf}\
.p{fill:#64748b}.f{fill:#475569}}";

/// One bar.
struct Bar {
    name: String,
    value: f64,
}

pub fn svg(results: &Results) -> String {
    let panels: Vec<(Case, Vec<Bar>)> = results
        .cases()
        .into_iter()
        .map(|case| (case, bars(results, &case)))
        .filter(|(_, bars)| bars.len() > 1)
        .collect();
    let tallest = panels
        .iter()
        .map(|(_, bars)| bars.len() as u32)
        .max()
        .unwrap_or(1);
    let panel_height = TITLE_HEIGHT + tallest * (BAR_HEIGHT + BAR_GAP) + MARGIN;
    let rows = (panels.len() as u32).div_ceil(PANELS_PER_ROW);
    let width = PANELS_PER_ROW * PANEL_WIDTH + MARGIN;
    let height = rows * panel_height + MARGIN;
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\"><title>Benchmark figures, lower is \
         better</title><style>{STYLE}</style>"
    );
    for (number, (case, bars)) in (0u32..).zip(&panels) {
        let x = MARGIN + number % PANELS_PER_ROW * PANEL_WIDTH;
        let y = MARGIN + number / PANELS_PER_ROW * panel_height;
        write_panel(&mut out, case, bars, x, y);
    }
    out + "</svg>\n"
}

fn bars(results: &Results, case: &Case) -> Vec<Bar> {
    let columns = columns(results).into_iter();
    let bars = columns.filter_map(|name| {
        let median = figure(results, case, &name).filter(|median| median.valid > 0)?;
        Some(Bar {
            name,
            value: median.value,
        })
    });
    bars.collect()
}

fn write_panel(out: &mut String, case: &Case, bars: &[Bar], x: u32, y: u32) {
    let unit = match case.unit() {
        Unit::BytesPerConnection => "bytes",
        Unit::CpuUs => "CPU us",
        Unit::P99Ms => "p99 ms",
    };
    let title = label(case);
    let _ = write!(
        out,
        "<text class=\"t\" x=\"{x}\" y=\"{}\">{title} <tspan class=\"u\">{unit}</tspan></text>",
        y + 14
    );
    let longest = bars
        .iter()
        .map(|bar| bar.value)
        .fold(f64::MIN_POSITIVE, f64::max);
    let room = f64::from(PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH - MARGIN);
    for (number, bar) in (0u32..).zip(bars) {
        let top = y + TITLE_HEIGHT - 10 + number * (BAR_HEIGHT + BAR_GAP);
        let length = (bar.value / longest * room).max(1.0);
        let class = match bar.name.as_str() {
            name if name.starts_with(OURS) => "o",
            FLOOR => "f",
            _ => "p",
        };
        let (base, start) = (top + 14, x + LABEL_WIDTH);
        let _ = write!(
            out,
            "<text x=\"{x}\" y=\"{base}\">{}</text><rect class=\"{class}\" x=\"{start}\" \
             y=\"{top}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/><text \
             x=\"{:.1}\" y=\"{base}\">{}</text>",
            bar.name,
            f64::from(start) + length + 6.0,
            short(bar.value)
        );
    }
}
