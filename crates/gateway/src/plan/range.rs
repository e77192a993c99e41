//! Owns what one value of a plan may be, in the price file and on the command line: numbers with their range, days that are days,
//! texts that say something.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::ops::Deref;
use std::str::FromStr;

/// Types of values: `name(made of, as serde names it): test => what it must be;`.
macro_rules! ranges {
    ($($name:ident($raw:ty, $serde:literal): $fits:expr => $wanted:literal;)*) => {$(
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
        #[serde(try_from = $serde)]
        pub struct $name($raw);

        impl TryFrom<$raw> for $name {
            type Error = String;

            fn try_from(given: $raw) -> Result<Self, String> {
                let fits: fn(&$raw) -> bool = $fits;
                match fits(&given) {
                    true => Ok($name(given)),
                    false => Err(format!("cannot plan with {given:?}: it must be {}", $wanted)),
                }
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let given: $raw = text.parse().map_err(|error| format!("{error}"))?;
                Self::try_from(given)
            }
        }

        impl Deref for $name {
            type Target = $raw;

            fn deref(&self) -> &$raw {
                &self.0
            }
        }

        impl Display for $name {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

// Beyond 10^12 a figure is a typing error, and arithmetic would end in infinities.
ranges! {
    AtLeast0(f64, "f64"): |given| (0.0..=1e12).contains(given) => "at least 0 and at most 1,000,000,000,000";
    Positive(f64, "f64"): |given| *given > 0.0 && *given <= 1e12 => "above 0 and at most 1,000,000,000,000";
    HoursOfMonth(f64, "f64"): |given| *given > 0.0 && *given <= 744.0 => "above 0 and at most 744";
    Share(f64, "f64"): |given| *given > 0.0 && *given <= 1.0 => "a share, above 0 and at most 1";
    Count(f64, "f64"): |given| (0.0..=1e3).contains(given) && given.fract() == 0.0 => "a whole number from 0 to 1,000";
    Masters(f64, "f64"): |given| (1.0..=1e3).contains(given) && given.fract() == 0.0 => "a whole number from 1 to 1,000";
    Words(String, "String"): |given| !given.trim().is_empty() => "a text that says something";
    Day(String, "String"): |given| is_day(given) => "a day such as 2026-01-31";
}

fn is_day(text: &str) -> bool {
    let (Ok(year), Ok(month), Ok(day)) = (
        text.get(..4).unwrap_or_default().parse::<u32>(),
        text.get(5..7).unwrap_or_default().parse::<u32>(),
        text.get(8..).unwrap_or_default().parse::<u32>(),
    ) else {
        return false;
    };
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap),
        1..=12 => 31,
        _ => 0,
    };
    // What is written back is what was written: no other separators, signs or lengths.
    (1..=days).contains(&day) && text == format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::is_day;

    #[test]
    fn days_must_be_days() {
        for day in [
            "yesterday",
            "2026-13-01",
            "2026-02-29",
            "26-01-01",
            "2026/01/01",
            "2026-01-00",
            "２０２６-01",
            "+026-01-01",
        ] {
            assert!(!is_day(day), "{day}");
        }
        assert!(is_day("2028-02-29") && is_day("2026-12-31"));
    }
}
