//! Owns the arithmetic that is shown. Value and text of a line are made of the same operands, so a line prints exactly what was
//! computed.

use serde::{Serialize, Serializer};
use std::fmt::{Display, Formatter, Result};
use std::ops::{Add, Div, Mul, Sub};
use units::grouped;

/// Stands for the currency of the price file.
pub const MONEY: &str = "¤";

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub value: f64,
    pub unit: &'static str,
}

/// A result of figures, with its text.
#[derive(Clone, Debug)]
pub struct Term {
    value: f64,
    text: String,
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    what: String,
    value: f64,
    unit: String,
    /// `what: arithmetic = value unit   [source]`, without arithmetic where a figure is taken over as it is.
    text: String,
}

#[derive(Clone, Debug, Serialize)]
struct Section {
    title: String,
    lines: Vec<Line>,
}

/// The answer, a line for each thing that is asked, and the arithmetic in the order in which it was done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sheet {
    #[serde(skip)]
    currency: String,
    answers: Vec<(&'static str, String)>,
    arithmetic: Vec<Section>,
}

pub const fn figure(value: f64, unit: &'static str) -> Figure {
    Figure { value, unit }
}

impl Figure {
    /// The same number under another name.
    pub fn called(self, unit: &'static str) -> Figure {
        Figure { unit, ..self }
    }

    /// The number alone.
    pub fn bare(self) -> Figure {
        self.called("")
    }

    /// The number alone, as a whole one.
    pub fn rounded(self) -> Figure {
        figure(self.value.round(), "")
    }

    pub fn tenths(self) -> Figure {
        figure((self.value * 10.0).round() / 10.0, self.unit)
    }
}

impl Display for Figure {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let text = format!("{} {}", number(self.value), self.unit);
        f.write_str(text.trim_end())
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_f64(self.value)
    }
}

impl From<Figure> for Term {
    fn from(figure: Figure) -> Term {
        // A sum of money needs no currency at each part.
        let shown = match figure.unit {
            MONEY => figure.bare(),
            _ => figure,
        };
        Term {
            value: figure.value,
            text: shown.to_string(),
        }
    }
}

macro_rules! operators {
    ($($operation:ident $name:ident $sign:literal $of:expr;)*) => {$(
        impl<T: Into<Term>> $operation<T> for Term {
            type Output = Term;

            fn $name(self, other: T) -> Term {
                let (of, other): (fn(f64, f64) -> f64, Term) = ($of, other.into());
                Term {
                    value: of(self.value, other.value),
                    text: format!("{} {} {}", self.text, $sign, other.text),
                }
            }
        }

        impl<T: Into<Term>> $operation<T> for Figure {
            type Output = Term;

            fn $name(self, other: T) -> Term {
                Term::from(self).$name(other)
            }
        }
    )*};
}

operators! {
    Mul mul "×" |a, b| a * b;
    Add add "+" |a, b| a + b;
    Sub sub "−" |a, b| a - b;
    Div div "÷" |a, b| if b == 0.0 { 0.0 } else { a / b };
}

impl Term {
    /// Rounded up: how many are needed. Forgives what binary fractions add: 0.3 ÷ 0.1 needs 3, not 4.
    pub fn up(self) -> Term {
        Term {
            value: (self.value - self.value.abs() * 1e-12).ceil(),
            text: format!("⌈{}⌉", self.text),
        }
    }

    /// Rounded down: how many are whole.
    pub fn down(self) -> Term {
        Term {
            value: (self.value + self.value.abs() * 1e-12).floor(),
            text: format!("⌊{}⌋", self.text),
        }
    }

    /// Its value alone.
    pub fn figure(self, unit: &'static str) -> Figure {
        figure(self.value, unit)
    }

    pub fn sum(parts: impl IntoIterator<Item = Figure>) -> Term {
        let sum = parts.into_iter().map(Term::from).reduce(Add::add);
        sum.unwrap_or_else(|| figure(0.0, "").into())
    }

    pub fn greatest(figures: &[Figure]) -> Term {
        let texts: Vec<String> = figures.iter().map(Figure::to_string).collect();
        let values = figures.iter().map(|figure| figure.value);
        Term {
            value: values.fold(f64::NEG_INFINITY, f64::max),
            text: format!("the greatest of {}", texts.join(", ")),
        }
    }
}

impl Sheet {
    pub fn new(currency: &str) -> Sheet {
        let currency = currency.to_owned();
        Sheet {
            currency,
            ..Sheet::default()
        }
    }

    pub fn answer(&mut self, what: &'static str, text: String) {
        self.answers.push((what, text));
    }

    pub fn section(&mut self, title: &str) {
        self.arithmetic.push(Section {
            title: title.to_owned(),
            lines: Vec::new(),
        });
    }

    /// A figure from outside, with its source.
    pub fn given(
        &mut self,
        what: &str,
        value: f64,
        unit: &'static str,
        source: impl Display,
    ) -> Figure {
        self.push(what, "", figure(value, unit), &format!("   [{source}]"))
    }

    /// What follows from other figures.
    pub fn derive(&mut self, what: &str, unit: &'static str, term: impl Into<Term>) -> Figure {
        let Term { value, text } = term.into();
        self.push(what, &format!("{text} = "), figure(value, unit), "")
    }

    fn push(&mut self, what: &str, arithmetic: &str, figure: Figure, source: &str) -> Figure {
        let result = figure.to_string().replace(MONEY, &self.currency);
        if let Some(section) = self.arithmetic.last_mut() {
            section.lines.push(Line {
                what: what.to_owned(),
                value: figure.value,
                unit: figure.unit.replace(MONEY, &self.currency),
                text: format!("{what}: {arithmetic}{result}{source}"),
            });
        }
        figure
    }

    pub fn answers(&self) -> String {
        let line = |(what, text): &(&str, String)| format!("  {what:<10} {text}\n");
        self.answers.iter().map(line).collect()
    }

    /// Sections with their lines below each other.
    pub fn arithmetic(&self) -> String {
        let mut out = String::new();
        for Section { title, lines } in self.arithmetic.iter().filter(|one| !one.lines.is_empty()) {
            let lines: Vec<&str> = lines.iter().map(|line| &*line.text).collect();
            out.push_str(&format!("\n{title}\n  {}\n", lines.join("\n  ")));
        }
        out
    }

    /// Of the last line of this name in the section whose title begins so.
    #[cfg(test)]
    pub fn value(&self, title: &str, what: &str) -> f64 {
        let mut sections = self.arithmetic.iter();
        let section = sections.find(|one| one.title.starts_with(title));
        let mut lines = section.expect(title).lines.iter();
        lines.rfind(|line| line.what == what).expect(what).value
    }
}

/// Thousands apart; four significant digits after the point at most, and none that say nothing.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let magnitude = value.abs();
    let decimals = match magnitude {
        _ if value == value.trunc() => 0,
        m if m >= 1_000.0 => 0,
        m if m >= 1.0 => 2,
        m => (3 - m.log10().floor() as i32).clamp(2, 9) as usize,
    };
    let text = format!("{magnitude:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    let sign = if value < 0.0 { "−" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    let whole = grouped(whole.parse().unwrap_or(u64::MAX));
    format!("{sign}{whole}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::rows;
    use super::*;

    #[test]
    fn what_is_needed_is_rounded_up_but_not_by_binary_dust() {
        let needed = |a, b| (figure(a, "") / figure(b, "")).up().value;
        let seen = [(0.3, 0.1), (7.0, 2.0), (0.0, 2.0), (1.0, 0.0)].map(|(a, b)| needed(a, b));
        assert_eq!(seen, [3.0, 4.0, 0.0, 0.0]);
        let whole = figure(2.0, "") * figure(0.7, "") / figure(0.1, "");
        assert_eq!((whole.value < 14.0, whole.down().value), (true, 14.0));
    }

    #[test]
    fn numbers_read_well() {
        const NUMBERS: &str = "
            172800000 | 172,800,000
            0.003 | 0.003
            0.0725 | 0.0725
            0.000123456 | 0.0001235
            7.742983 | 7.74
            1234.56 | 1,235
            0 | 0
            -12.5 | −12.5
            NaN | –";
        for (value, text) in rows(NUMBERS) {
            assert_eq!(number(value.parse().unwrap()), text);
        }
    }
}
