//! Owns the arithmetic that is shown: every line of a plan carries its operands, and both its
//! value and its text are made of them, so that what is printed is what was reckoned.

use serde::Serialize;
use units::grouped;

/// A number with its text in a line: a figure with its unit, or what was made of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    pub value: f64,
    text: String,
}

/// One line: `what: arithmetic = value unit`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    pub what: String,
    /// Operands and operators; empty where a figure is taken over as it is.
    pub arithmetic: String,
    pub value: f64,
    pub unit: String,
    /// Where a figure comes from that is not reckoned here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    pub title: String,
    pub lines: Vec<Line>,
}

/// The sections of a plan in the order they were reckoned.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sheet {
    pub sections: Vec<Section>,
}

pub fn term(value: f64, unit: &str) -> Term {
    let text = format!("{} {unit}", number(value));
    Term {
        value,
        text: text.trim_end().to_owned(),
    }
}

macro_rules! operators {
    ($($operation:ident $name:ident $sign:literal $of:expr;)*) => {$(
        impl std::ops::$operation for Term {
            type Output = Term;

            fn $name(self, other: Term) -> Term {
                let of: fn(f64, f64) -> f64 = $of;
                Term {
                    value: of(self.value, other.value),
                    text: format!("{} {} {}", self.text, $sign, other.text),
                }
            }
        }
    )*};
}

operators! {
    Mul mul "×" |a, b| a * b;
    Add add "+" |a, b| a + b;
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

    pub fn sum(terms: impl IntoIterator<Item = Term>) -> Term {
        let sum = terms.into_iter().reduce(|sum, more| sum + more);
        sum.unwrap_or_else(|| term(0.0, ""))
    }

    pub fn greatest(terms: &[Term]) -> Term {
        let texts: Vec<&str> = terms.iter().map(|term| &*term.text).collect();
        let values = terms.iter().map(|term| term.value);
        Term {
            value: values.fold(f64::NEG_INFINITY, f64::max),
            text: format!("the greatest of {}", texts.join(", ")),
        }
    }
}

impl Sheet {
    pub fn section(&mut self, title: &str) {
        self.sections.push(Section {
            title: title.to_owned(),
            lines: Vec::new(),
        });
    }

    /// A figure from outside, with its source.
    pub fn given(&mut self, what: &str, value: f64, unit: &str, source: &str) -> f64 {
        self.push(what, String::new(), value, unit, source)
    }

    /// What follows from other figures.
    pub fn reckon(&mut self, what: &str, unit: &str, term: Term) -> f64 {
        self.push(what, term.text, term.value, unit, "")
    }

    /// A whole number that was reckoned as such; `arithmetic` says how.
    pub fn exact(&mut self, what: &str, arithmetic: &str, value: u64, unit: &str) {
        self.push(what, arithmetic.to_owned(), value as f64, unit, "");
    }

    fn push(
        &mut self,
        what: &str,
        arithmetic: String,
        value: f64,
        unit: &str,
        source: &str,
    ) -> f64 {
        if self.sections.is_empty() {
            self.section("");
        }
        if let Some(section) = self.sections.last_mut() {
            section.lines.push(Line {
                what: what.to_owned(),
                arithmetic,
                value,
                unit: unit.to_owned(),
                source: source.to_owned(),
            });
        }
        value
    }

    /// Sections with their lines below each other.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let told = |section: &&Section| !section.lines.is_empty();
        for section in self.sections.iter().filter(told) {
            out.push_str(&format!("\n{}\n", section.title));
            for line in &section.lines {
                out.push_str(&format!("  {}\n", line.text()));
            }
        }
        out
    }
}

impl Line {
    fn text(&self) -> String {
        let result = format!("{} {}", number(self.value), self.unit);
        let from = match self.source.is_empty() {
            true => String::new(),
            false => format!("   [{}]", self.source),
        };
        let result = result.trim_end();
        match self.arithmetic.is_empty() {
            true => format!("{}: {result}{from}", self.what),
            false => format!("{}: {} = {result}{from}", self.what, self.arithmetic),
        }
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
    format!(
        "{sign}{}{point}{fraction}",
        grouped(whole.parse().unwrap_or(u64::MAX))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_operands_its_value_is_made_of() {
        let mut sheet = Sheet::default();
        sheet.section("Load");
        let deliveries = term(2_000.0, "messages/s") * term(10.0, "members");
        let per_second = sheet.reckon("deliveries", "/s", deliveries);
        assert_eq!(per_second, 20_000.0);
        assert!(
            sheet
                .text()
                .contains("deliveries: 2,000 messages/s × 10 members = 20,000 /s"),
            "{}",
            sheet.text()
        );
    }

    #[test]
    fn what_is_needed_is_rounded_up_but_not_by_binary_dust() {
        let needed = |a, b| (term(a, "") / term(b, "")).up().value;
        assert_eq!(
            [needed(0.3, 0.1), needed(7.0, 2.0), needed(0.0, 2.0)],
            [3.0, 4.0, 0.0]
        );
        assert_eq!(needed(1.0, 0.0), 0.0);
    }

    #[test]
    fn numbers_read_well() {
        for (value, text) in [
            (172_800_000.0, "172,800,000"),
            (0.003, "0.003"),
            (0.0725, "0.0725"),
            (0.000123456, "0.0001235"),
            (7.742983, "7.74"),
            (1_234.56, "1,235"),
            (0.0, "0"),
            (-12.5, "−12.5"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
