//! Owns what one value of a plan may be, in the price file and on the command line: numbers with their range, texts that say
//! something.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::ops::Deref;
use std::str::FromStr;

/// Types of values: `name(made of, as serde names it, or else): test => what it must be;`.
macro_rules! ranges {
    ($($name:ident($raw:ty, $serde:literal $(, or $default:expr)?): $fits:expr => $wanted:literal;)*) => {$(
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
        #[serde(try_from = $serde)]
        pub struct $name($raw);

        $(impl Default for $name {
            fn default() -> Self {
                $name($default)
            }
        })?

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
    AtLeast0(f64, "f64", or 0.0): |given| (0.0..=1e12).contains(given) => "at least 0 and at most 1,000,000,000,000";
    Positive(f64, "f64"): |given| *given > 0.0 && *given <= 1e12 => "above 0 and at most 1,000,000,000,000";
    Most(f64, "f64", or f64::INFINITY): |given| *given > 0.0 && *given <= 1e12 => "above 0 and at most 1,000,000,000,000";
    HoursOfMonth(f64, "f64"): |given| *given > 0.0 && *given <= 744.0 => "above 0 and at most 744";
    Share(f64, "f64"): |given| *given > 0.0 && *given <= 1.0 => "a share, above 0 and at most 1";
    Count(f64, "f64"): |given| (0.0..=1e3).contains(given) && given.fract() == 0.0 => "a whole number from 0 to 1,000";
    Number(f64, "f64", or 1.0): |given| (1.0..=1e3).contains(given) && given.fract() == 0.0 => "a whole number from 1 to 1,000";
    Words(String, "String"): |given| !given.trim().is_empty() => "a text that says something";
}
