//! Owns axes: where ticks stand, what they are called, and where a value falls.

use outcome::number::{clock, short};

/// How values are laid along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From zero.
    Linear,
    /// Positive values only.
    Log,
}

/// One axis: its ends in the axis' own measure, and the ticks.
#[derive(Clone, Debug)]
pub struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    pub ticks: Vec<Tick>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub value: f64,
    pub label: String,
}

impl Scale {
    fn new(kind: Kind, low: f64, high: f64, ticks: Vec<Tick>) -> Scale {
        Scale {
            kind,
            low,
            high,
            ticks,
        }
    }

    /// An axis of values up to `max`; `min` (the least positive one) matters to logarithms only.
    pub fn of_values(kind: Kind, min: f64, max: f64) -> Scale {
        match kind {
            Kind::Linear => linear(max),
            Kind::Log => log(min, max),
        }
    }

    /// Seconds of a run from zero.
    pub fn of_time(end_s: f64, wanted: usize) -> Scale {
        const STEPS_S: [f64; 14] = [
            1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0,
            7_200.0,
        ];
        let end_s = end_s.max(1.0);
        let fits = |step: &&f64| end_s / **step <= wanted as f64;
        let step = STEPS_S.iter().find(fits).copied().unwrap_or(end_s / 4.0);
        let count = (end_s / step + 1e-9).floor() as usize;
        let ticks = (0..=count).map(|index| {
            let value = index as f64 * step;
            Tick {
                value,
                label: clock(value),
            }
        });
        Scale::new(Kind::Linear, 0.0, end_s, ticks.collect())
    }

    /// Percentiles by their nines: 0, 90, 99, 99.9 … stand at 0, 1, 2, 3 …
    pub fn of_nines(nines: u32) -> Scale {
        let ticks = (0..=nines).map(|nine| Tick {
            value: f64::from(nine),
            label: match nine {
                0 => "0".into(),
                1 => "90".into(),
                2 => "99".into(),
                _ => format!("99.{}", "9".repeat(nine as usize - 2)),
            },
        });
        let high = f64::from(nines.max(1));
        Scale::new(Kind::Linear, 0.0, high, ticks.collect())
    }

    /// Where `value` falls, from 0 at the low end to 1 at the high end.
    pub fn share(&self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Log => {
                let value = value.max(self.low);
                (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
            }
        };
        share.clamp(0.0, 1.0)
    }
}

fn positive(value: f64) -> Option<f64> {
    Some(value).filter(|value| *value > 0.0 && value.is_finite())
}

fn linear(max: f64) -> Scale {
    let max = positive(max).unwrap_or(1.0);
    let step = nice(nice_exponent(max / 5.0));
    let count = (max / step - 1e-9).ceil() as usize;
    let ticks = (0..=count).map(|index| tick(index as f64 * step));
    Scale::new(Kind::Linear, 0.0, count as f64 * step, ticks.collect())
}

fn log(min: f64, max: f64) -> Scale {
    let max = positive(max).unwrap_or(1.0);
    let min = positive(min).filter(|min| *min <= max);
    let low = -nice_exponent(1.0 / min.unwrap_or(max / 10.0));
    let high = nice_exponent(max).max(low + 1);
    // Thirds of decades: 1, 2, 5. All of them while there is room, else decades alone.
    let every = if high - low <= 9 { 1 } else { 3 };
    let ticks = (low..=high).filter(|index| index % every == 0);
    let ticks = ticks.map(|index| tick(nice(index)));
    Scale::new(Kind::Log, nice(low), nice(high), ticks.collect())
}

/// The series … 0.1, 0.2, 0.5, 1, 2, 5, 10 …; 1 is number 0.
fn nice(index: i32) -> f64 {
    let digit = [1.0, 2.0, 5.0][index.rem_euclid(3) as usize];
    digit * 10f64.powi(index.div_euclid(3))
}

/// Number of the least nice value that is at least `value`.
fn nice_exponent(value: f64) -> i32 {
    let mut index = value.log10().floor() as i32 * 3;
    while nice(index) < value * (1.0 - 1e-9) {
        index += 1;
    }
    index
}

fn tick(value: f64) -> Tick {
    Tick {
        value,
        label: compact(value),
    }
}

/// Few characters: `0.5`, `20`, `15k`, `2.5M`.
fn compact(value: f64) -> String {
    let (scaled, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e4 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let text = match scaled {
        scaled if scaled >= 1_000.0 => short(scaled),
        scaled => ((scaled * 1e6).round() / 1e6).to_string(),
    };
    text + unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_reach_beyond_the_greatest_value() {
        let of = |max| Scale::of_values(Kind::Linear, 0.0, max);
        assert_eq!(labels(&of(87.0)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(
            labels(&of(84_000.0)),
            ["0", "20k", "40k", "60k", "80k", "100k"]
        );
        assert_eq!(labels(&of(0.0)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert!((of(87.0).share(50.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn logarithms_show_thirds_of_decades_only_where_there_is_room() {
        let narrow = Scale::of_values(Kind::Log, 0.3, 4.0);
        assert_eq!(labels(&narrow), ["0.2", "0.5", "1", "2", "5"]);
        let wide = Scale::of_values(Kind::Log, 0.013, 800.0);
        assert_eq!(labels(&wide), ["0.01", "0.1", "1", "10", "100", "1,000"]);
        assert_eq!(wide.share(0.0), 0.0);
        assert_eq!(labels(&Scale::of_values(Kind::Log, 2.0, 2.0)), ["2", "5"]);
        assert_eq!(
            Scale::of_values(Kind::Log, f64::NAN, f64::NAN).ticks.len(),
            4
        );
    }

    #[test]
    fn time_and_nines_are_named_as_people_say_them() {
        assert_eq!(
            labels(&Scale::of_time(300.0, 6)),
            ["0 s", "1:00", "2:00", "3:00", "4:00", "5:00"]
        );
        assert_eq!(labels(&Scale::of_time(12.5, 6)), ["0 s", "5 s", "10 s"]);
        assert_eq!(
            labels(&Scale::of_nines(4)),
            ["0", "90", "99", "99.9", "99.99"]
        );
    }
}
