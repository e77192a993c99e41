//! Owns what a price file may say in one value: numbers with their range, days that are days, texts that say something.

use serde::Deserialize;
use std::fmt;
use std::ops::Deref;
use units::grouped;

/// Beyond it a figure is a typing error, and arithmetic would end in infinities.
const MOST: f64 = 1e12;
const HOURS_OF_A_MONTH: f64 = 744.0;

/// Types of numbers: `name: test => what it must be;`.
macro_rules! ranges {
    ($($(#[$about:meta])* $name:ident: $fits:expr => $wanted:expr;)*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
        #[serde(try_from = "f64")]
        pub struct $name(f64);

        impl TryFrom<f64> for $name {
            type Error = String;

            fn try_from(given: f64) -> Result<Self, String> {
                let fits: fn(f64) -> bool = $fits;
                match fits(given) {
                    true => Ok($name(given)),
                    false => Err(format!("{given} is no figure for a plan: it must be {}", $wanted)),
                }
            }
        }

        impl Deref for $name {
            type Target = f64;

            fn deref(&self) -> &f64 {
                &self.0
            }
        }
    )*};
}

ranges! {
    AtLeast0: |given| (0.0..=MOST).contains(&given) => format!("at least 0 and at most {}", grouped(MOST as u64));
    Positive: |given| given > 0.0 && given <= MOST => format!("above 0 and at most {}", grouped(MOST as u64));
    HoursOfMonth: |given| given > 0.0 && given <= HOURS_OF_A_MONTH => format!("above 0 and at most {HOURS_OF_A_MONTH}");
    Share: |given| (0.01..=1.0).contains(&given) => "a share between 0.01 and 1";
    Count: |given| (0.0..=1e3).contains(&given) && given.fract() == 0.0 => "a whole number from 0 to 1,000";
    Masters: |given| (1.0..=1e3).contains(&given) && given.fract() == 0.0 => "a whole number from 1 to 1,000";
}

/// Types of texts: `name: test => what is wrong, given the text;`.
macro_rules! texts {
    ($($(#[$about:meta])* $name:ident: $fits:expr => $wrong:literal;)*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(given: String) -> Result<Self, String> {
                let fits: fn(&str) -> bool = $fits;
                match fits(&given) {
                    true => Ok($name(given)),
                    false => Err(format!($wrong, given)),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }
    )*};
}

texts! {
    Words: |given| !given.trim().is_empty() => "{:?} is empty: write a text that says something";
    Day: is_day => "{:?} is no day: write YYYY-MM-DD, such as 2026-01-31";
}

fn is_day(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else {
        return false;
    };
    let is_number = |(part, len): (&str, usize)| {
        part.len() == len && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if ![(year, 4), (month, 2), (day, 2)].into_iter().all(is_number) {
        return false;
    }
    let number = |part: &str| part.parse::<u32>().unwrap_or(0);
    (1..=days(number(year), number(month))).contains(&number(day))
}

fn days(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap),
        1..=12 => 31,
        _ => 0,
    }
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
