//! Owns the drawing of a plot as SVG, laid by hand so that colours are classes: the same drawing
//! follows light and dark, inside a page (which has the style and shows values under the pointer)
//! and as a file of its own.

use super::scale::Scale;
use super::{Horizontal, Look, Plot};
use crate::report::html::escape;
use outcome::number::{clock, short};

/// Colours and strokes of plots; in a page they stand in its style sheet.
pub const STYLE: &str = include_str!("plot.css");

const LINE_HEIGHT: f64 = 18.0;
const AXIS_LEFT: f64 = 50.0;
const AXIS_BELOW: f64 = 40.0;
const RIGHT: f64 = 14.0;
/// A character of the labels, on average.
const CHAR_WIDTH: f64 = 6.7;
/// Length of the stroke in the legend, with the room behind it.
const KEY_WIDTH: f64 = 24.0;
const COLOURS: usize = 6;

/// Where a drawing is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// In a page: the page has the style, and values are told under the pointer.
    Inline,
    /// A file of its own.
    File,
}

/// The rectangle that lines are drawn in, and its two scales.
struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    x: Scale,
    y: Scale,
}

impl Plot {
    /// The drawing, `width` pixels wide at its natural size.
    pub fn svg(&self, width: u32, shown: Use) -> String {
        let total = f64::from(width);
        let (legend, legend_height) = self.legend(total);
        let marks_height = if self.marks.len() > 1 {
            LINE_HEIGHT
        } else {
            0.0
        };
        let top = 30.0 + legend_height + marks_height;
        let height = (total * 0.36).clamp(190.0, 260.0);
        let area = self.area(total, top, height);
        let full = top + height + AXIS_BELOW;
        let (title, unit) = (escape(&self.title), escape(&self.unit));
        let style = match shown {
            Use::File => format!("<style>{STYLE}</style>"),
            Use::Inline => String::new(),
        };
        let mut out = format!(
            "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {full:.0}\" \
             width=\"{width}\" height=\"{full:.0}\" role=\"img\" aria-label=\"{title}\">{style}\
             <text class=\"title\" x=\"0\" y=\"15\">{title}<tspan class=\"unit\" dx=\"8\">{unit}</tspan></text>{legend}"
        );
        self.write_axes(&mut out, &area);
        self.write_marks(&mut out, &area);
        for line in &self.lines {
            write_line(&mut out, &area, line.look, &line.points);
        }
        if shown == Use::Inline {
            self.write_values(&mut out, &area);
        }
        out + "</svg>"
    }

    fn area(&self, total: f64, top: f64, height: f64) -> Area {
        let width = total - AXIS_LEFT - RIGHT;
        let max = self.values().fold(0.0, f64::max);
        let positive = self.values().filter(|&value| value > 0.0);
        let min = positive.fold(f64::INFINITY, f64::min);
        Area {
            left: AXIS_LEFT,
            top,
            width,
            height,
            x: match self.x {
                Horizontal::Seconds { end_s } => Scale::of_time(end_s, (width / 70.0) as usize),
                Horizontal::Nines { nines } => Scale::of_nines(nines),
            },
            y: Scale::of_values(self.y, min, max),
        }
    }

    /// The legend, in as many lines as the width asks for, and its height.
    fn legend(&self, total: f64) -> (String, f64) {
        let (mut out, mut x, mut y) = (String::new(), 0.0, 36.0);
        for line in self.lines.iter().filter(|line| line.has_values()) {
            let width = KEY_WIDTH + width_of(&line.name) + 14.0;
            if x > 0.0 && x + width > total {
                x = 0.0;
                y += LINE_HEIGHT;
            }
            write_path(
                &mut out,
                &class(line.look),
                format!("M{x:.0} {:.0}h16", y - 4.0),
            );
            let at = format!("x=\"{:.0}\" y=\"{y:.0}\"", x + KEY_WIDTH - 2.0);
            write_text(&mut out, &at, &line.name);
            x += width;
        }
        (out, y - 36.0 + LINE_HEIGHT)
    }

    fn write_axes(&self, out: &mut String, area: &Area) {
        let (left, right, bottom) = (area.left, area.left + area.width, area.bottom());
        for tick in &area.y.ticks {
            let y = area.y_at(tick.value);
            write_path(out, "grid", format!("M{left:.0} {y:.1}H{right:.0}"));
            let (x, y) = (left - 6.0, y + 4.0);
            let at = format!("class=\"tick\" x=\"{x:.0}\" y=\"{y:.1}\" text-anchor=\"end\"");
            write_text(out, &at, &tick.label);
        }
        write_path(out, "axis", format!("M{left:.0} {bottom:.1}H{right:.0}"));
        for tick in &area.x.ticks {
            let x = area.x_at(tick.value);
            write_path(out, "axis", format!("M{x:.1} {bottom:.1}v4"));
            let (x, y) = (
                x.min(right + RIGHT - width_of(&tick.label) / 2.0),
                bottom + 17.0,
            );
            let at = format!("class=\"tick\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\"");
            write_text(out, &at, &tick.label);
        }
        let name = match self.x {
            Horizontal::Seconds { .. } => "time since the start",
            Horizontal::Nines { .. } => "percentile (each step one nine more)",
        };
        let y = bottom + 34.0;
        let at = format!("class=\"unit\" x=\"{right:.0}\" y=\"{y:.1}\" text-anchor=\"end\"");
        write_text(out, &at, name);
    }

    /// Phase names above the area, left out where the one before needs the room.
    fn write_marks(&self, out: &mut String, area: &Area) {
        if self.marks.len() < 2 {
            return;
        }
        let mut free_from = 0.0;
        for (number, (at, name)) in self.marks.iter().enumerate() {
            let x = area.x_at(*at);
            if number > 0 {
                let (from, to) = (area.top - 12.0, area.bottom());
                write_path(out, "mark", format!("M{x:.1} {from:.1}V{to:.1}"));
            }
            let next = self.marks.get(number + 1);
            let end = next.map_or(area.left + area.width, |mark| area.x_at(mark.0));
            let name = fitted(name, end - x - 8.0);
            if x >= free_from && !name.is_empty() {
                let (at, y) = (x + 3.0, area.top - 5.0);
                write_text(
                    out,
                    &format!("class=\"tick\" x=\"{at:.1}\" y=\"{y:.1}\""),
                    &name,
                );
                free_from = x + width_of(&name) + 8.0;
            }
        }
    }

    /// A column for each point that tells its values.
    fn write_values(&self, out: &mut String, area: &Area) {
        let longest = self.lines.iter().max_by_key(|line| line.points.len());
        let points = longest.map_or(&[][..], |line| &line.points);
        let xs: Vec<f64> = points.iter().map(|point| area.x_at(point.0)).collect();
        let (top, height) = (area.top, area.height);
        for (index, (x, _)) in points.iter().enumerate() {
            let middle = xs[index];
            let between = |other: &f64| (other + middle) / 2.0;
            let from = index
                .checked_sub(1)
                .map_or(area.left, |before| between(&xs[before]));
            let to = xs.get(index + 1).map_or(area.left + area.width, between);
            let (width, told) = ((to - from).max(0.1), escape(&self.told(index, *x)));
            *out += &format!(
                "<rect class=\"value\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">\
                 <title>{told}</title></rect>"
            );
        }
    }

    fn told(&self, index: usize, x: f64) -> String {
        let mut text = match self.x {
            Horizontal::Seconds { .. } => clock(x),
            Horizontal::Nines { .. } => percentile(x) + " %",
        };
        for line in &self.lines {
            if let Some(value) = line.points.get(index).and_then(|point| point.1) {
                text += &format!("\n{} {} {}", line.name, short(value), self.unit);
            }
        }
        text
    }
}

fn write_path(out: &mut String, class: &str, path: String) {
    *out += &format!("<path class=\"{class}\" d=\"{path}\"/>");
}

fn write_text(out: &mut String, attributes: &str, text: &str) {
    *out += &format!("<text {attributes}>{}</text>", escape(text));
}

/// Pixels that a text takes, about.
fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * CHAR_WIDTH
}

impl Area {
    fn x_at(&self, value: f64) -> f64 {
        self.left + self.x.share(value) * self.width
    }

    fn y_at(&self, value: f64) -> f64 {
        self.top + (1.0 - self.y.share(value)) * self.height
    }

    fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// A missing value interrupts the line. A point without neighbours is a dot: round caps show a line without length.
fn write_line(out: &mut String, area: &Area, look: Look, points: &[(f64, Option<f64>)]) {
    let mut path = String::new();
    let known = |point: &(f64, Option<f64>)| point.1.is_some_and(f64::is_finite);
    for run in points
        .chunk_by(|a, b| known(a) && known(b))
        .filter(|run| known(&run[0]))
    {
        let at = run
            .iter()
            .map(|(x, value)| (area.x_at(*x), area.y_at(value.unwrap_or_default())));
        let steps: Vec<String> = at.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        path += &format!(
            "M{}{}",
            steps.join("L"),
            if run.len() == 1 { "h0" } else { "" }
        );
    }
    if !path.is_empty() {
        write_path(out, &class(look), path);
    }
}

fn class(look: Look) -> String {
    match look {
        Look::Plain(index) => format!("line c{}", index % COLOURS),
        Look::Dashed(index) => format!("line dashed c{}", index % COLOURS),
        Look::Faint => "line faint".into(),
    }
}

/// As much of a name as `width` pixels hold, up to a comma rather than to the middle of a word; nothing when that says
/// nothing.
fn fitted(name: &str, width: f64) -> String {
    let room = (width / CHAR_WIDTH).max(0.0) as usize;
    let fits = |name: &str| name.chars().count() <= room;
    let commas = name.rmatch_indices(',').map(|(at, _)| &name[..at]);
    match std::iter::once(name).chain(commas).find(|name| fits(name)) {
        Some(whole) => whole.into(),
        None if room < 4 => String::new(),
        None => name.chars().take(room - 1).chain(['…']).collect(),
    }
}

/// 2.0 nines as `99`, with as many digits as the nines ask for.
fn percentile(nines: f64) -> String {
    let share = 100.0 - 100.0 / 10f64.powf(nines);
    format!("{share:.*}", (nines.floor() as usize).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::{Kind, Line, Reduce};

    fn plot() -> Plot {
        let points = [
            (1.0, Some(1.0)),
            (2.0, None),
            (3.0, Some(4.0)),
            (4.0, Some(10.0)),
        ];
        Plot {
            id: "latency",
            title: "Latency <of> \"all\"".into(),
            unit: "ms".into(),
            y: Kind::Linear,
            x: Horizontal::Seconds { end_s: 4.0 },
            lines: vec![Line::over_time(
                "p99 & more",
                Look::Plain(7),
                Reduce::Max,
                points,
            )],
            marks: vec![(0.0, "ramp".into()), (2.0, "hold".into())],
        }
    }

    #[test]
    fn lines_stop_at_a_gap_and_a_lone_point_is_a_dot() {
        let svg = plot().svg(464, Use::File);
        // 400 pixels for 4 s, 190 for 0 to 10 ms, below title, legend and phase names at 66.
        assert!(
            svg.contains("class=\"line c1\" d=\"M150.0 237.0h0M350.0 180.0L450.0 66.0\""),
            "{svg}"
        );
        assert!(svg.contains("<style>") && !svg.contains("<title>"));
    }

    #[test]
    fn names_are_escaped_and_values_told() {
        let svg = plot().svg(464, Use::Inline);
        assert!(svg.contains("Latency &lt;of&gt; &quot;all&quot;"));
        assert!(
            svg.contains("<title>4 s\np99 &amp; more 10.0 ms</title>"),
            "{svg}"
        );
        assert!(!svg.contains("<style>") && !svg.contains("p99 & more"));
    }

    #[test]
    fn a_phase_name_takes_no_more_than_its_phase() {
        assert_eq!(fitted("warm-up", 100.0), "warm-up");
        assert_eq!(fitted("ten thousand", 50.0), "ten th…");
        assert_eq!(fitted("1k, 10k msg/s", 90.0), "1k, 10k msg/s");
        assert_eq!(fitted("1k, 10k msg/s", 80.0), "1k");
        assert_eq!(fitted("one thousand, and so on", 50.0), "one th…");
        assert_eq!(fitted("ramp", 20.0), "");
    }

    #[test]
    fn percentiles_have_the_digits_of_their_nines() {
        assert_eq!([1.0, 2.0, 3.5].map(percentile), ["90.0", "99.00", "99.968"]);
    }
}
