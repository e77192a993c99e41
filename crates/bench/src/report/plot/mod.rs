//! Owns line plots: what one shows ([`Plot`]), apart from where the figures come from and from how
//! it is drawn (`svg`) and measured (`scale`).

mod scale;
mod svg;

pub use scale::Kind;
pub use svg::{STYLE, Use};

/// Points that one line may have: more than that, the eye does not see and files grow.
const POINTS_MAX: usize = 240;

/// Values over time that make a curve, and the part of the time that they must cover: a few dots at the start of an
/// empty drawing tell less than the table beside it.
const SECONDS_MIN: usize = 3;
const COVERED_PERCENT_MIN: usize = 10;

/// One plot with its lines.
#[derive(Clone, Debug)]
pub struct Plot {
    /// File name and anchor: `latency`, `throughput`.
    pub id: &'static str,
    pub title: String,
    /// Of the vertical axis: `ms`, `per second`.
    pub unit: String,
    pub y: Kind,
    pub x: Horizontal,
    pub lines: Vec<Line>,
    /// Where phases begin, with their names.
    pub marks: Vec<(f64, String)>,
}

/// What runs along the horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Horizontal {
    Seconds {
        end_s: f64,
    },
    /// Percentiles by their nines.
    Nines {
        nines: u32,
    },
}

/// One line; a missing value interrupts it.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub look: Look,
    pub points: Vec<(f64, Option<f64>)>,
}

/// Colour and stroke, as classes of the style sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// One of several things of equal rank.
    Plain(usize),
    /// What should have been.
    Dashed(usize),
    /// Thin and grey: an extreme beside the others.
    Faint,
}

/// How several seconds become one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    Mean,
    Max,
    /// Like `Mean`, but a second without a sample keeps the value before it.
    Level,
}

impl Line {
    /// A line of at most `POINTS_MAX` points; `reduce` says what a point of several seconds is.
    pub fn over_time(
        name: &str,
        look: Look,
        reduce: Reduce,
        points: impl IntoIterator<Item = (f64, Option<f64>)>,
    ) -> Line {
        let mut points: Vec<(f64, Option<f64>)> = points.into_iter().collect();
        if reduce == Reduce::Level {
            hold(&mut points);
        }
        let each = points.len().div_ceil(POINTS_MAX).max(1);
        let points = points
            .chunks(each)
            .map(|chunk| reduced(chunk, reduce))
            .collect();
        Line {
            name: name.into(),
            look,
            points,
        }
    }

    pub fn has_values(&self) -> bool {
        self.value_count() > 0
    }

    pub fn value_count(&self) -> usize {
        self.points
            .iter()
            .filter(|(_, value)| value.is_some())
            .count()
    }
}

fn hold(points: &mut [(f64, Option<f64>)]) {
    let mut level = None;
    for (_, value) in points {
        level = value.or(level);
        *value = level;
    }
}

fn reduced(chunk: &[(f64, Option<f64>)], reduce: Reduce) -> (f64, Option<f64>) {
    let at = chunk.last().map_or(0.0, |point| point.0);
    let values = || chunk.iter().filter_map(|point| point.1);
    let count = values().count();
    let value = match reduce {
        Reduce::Mean | Reduce::Level => values().sum::<f64>() / count as f64,
        Reduce::Max => values().fold(f64::NEG_INFINITY, f64::max),
    };
    (at, (count > 0).then_some(value))
}

impl Plot {
    /// Whether there is nothing to see.
    pub fn is_empty(&self) -> bool {
        let least = |line: &Line| match self.x {
            Horizontal::Seconds { .. } => {
                let covered = line.points.len() * COVERED_PERCENT_MIN;
                covered.div_ceil(100).max(SECONDS_MIN)
            }
            Horizontal::Nines { .. } => 1,
        };
        let is_short = |line: &Line| line.value_count() < least(line);
        self.lines.iter().all(is_short)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let points = self.lines.iter().flat_map(|line| &line.points);
        points
            .filter_map(|point| point.1)
            .filter(|value| value.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_thinned_and_its_peak_stays() {
        let points = (0..3_600).map(|t| (f64::from(t), Some(if t == 1_234 { 9.0 } else { 1.0 })));
        let line = Line::over_time("p99", Look::Plain(0), Reduce::Max, points.clone());
        assert_eq!(line.points.len(), POINTS_MAX);
        let peaks = line
            .points
            .iter()
            .filter(|point| point.1 == Some(9.0))
            .count();
        assert_eq!(peaks, 1);
        let mean = Line::over_time("sent", Look::Plain(0), Reduce::Mean, points);
        let sum: f64 = mean.points.iter().filter_map(|point| point.1).sum();
        assert!((sum * 15.0 - 3_608.0).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn a_few_seconds_of_many_are_no_plot() {
        let with = |values: u32, seconds: u32| {
            let points = (0..seconds).map(|t| (f64::from(t), (t < values).then_some(1.0)));
            Plot {
                id: "latency",
                title: String::new(),
                unit: "ms".into(),
                y: Kind::Log,
                x: Horizontal::Seconds {
                    end_s: f64::from(seconds),
                },
                lines: vec![Line::over_time("p99", Look::Faint, Reduce::Max, points)],
                marks: Vec::new(),
            }
        };
        assert!(with(2, 4).is_empty() && !with(3, 4).is_empty());
        assert!(with(5, 60).is_empty() && !with(6, 60).is_empty());
        assert!(with(6, 61).is_empty() && !with(7, 61).is_empty());
    }

    #[test]
    fn a_gap_stays_a_gap() {
        let points = [(1.0, Some(2.0)), (2.0, None), (3.0, Some(4.0))];
        let line = Line::over_time("p99", Look::Faint, Reduce::Max, points);
        assert_eq!(line.points, points);
        let level = Line::over_time("memory", Look::Faint, Reduce::Level, points);
        assert_eq!(
            level.points,
            [(1.0, Some(2.0)), (2.0, Some(2.0)), (3.0, Some(4.0))]
        );
    }
}
