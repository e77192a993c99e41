//! Durations ("25s", "1.5m"), sizes ("64KiB") and rates ("100/60s") as people write them, in configuration and scenarios alike,
//! and back; names as people mistype them; patterns of names; places in their files.
//!
//! A bare number has no unit and is refused: 25 could be seconds or milliseconds.

mod nearest;
mod pattern;

pub use nearest::nearest;
pub use pattern::fits;
use std::time::Duration;

/// In microseconds; largest first, so that formatting picks the shortest exact spelling.
const DURATIONS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Binary units before decimal ones, largest first.
const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

pub fn duration(text: &str) -> Option<Duration> {
    amount(text, |unit| {
        let found = DURATIONS.iter().find(|(name, _)| *name == unit);
        found.map(|(_, micros)| *micros)
    })
    .map(Duration::from_micros)
}

pub fn size(text: &str) -> Option<u64> {
    amount(text, |unit| {
        let mut units = SIZES.iter();
        let found = units.find(|(name, _)| name.eq_ignore_ascii_case(unit));
        found.map(|(_, bytes)| *bytes)
    })
}

/// `10/s`, `100/60s`: what is counted, as it is written, and the time it is counted over, which is not zero.
pub fn rate(text: &str) -> Option<(&str, Duration)> {
    let (count, per) = text.split_once('/')?;
    let per = per.trim();
    // "10/s" means one second.
    let per = match per.starts_with(|c: char| c.is_ascii_digit()) {
        true => duration(per)?,
        false => duration(&format!("1{per}"))?,
    };
    (!per.is_zero()).then_some((count.trim(), per))
}

/// Line and column of a byte, both counted from 1.
pub fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() + 1)
}

/// `18000` as `18,000`.
pub fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

pub fn format_duration(duration: Duration) -> String {
    match u64::try_from(duration.as_micros()).unwrap_or(u64::MAX) {
        0 => "0s".to_owned(),
        micros => format(micros, &DURATIONS),
    }
}

pub fn format_size(bytes: u64) -> String {
    match bytes {
        0 => "0B".to_owned(),
        bytes => format(bytes, &SIZES),
    }
}

fn format(amount: u64, units: &[(&str, u64)]) -> String {
    let exact = units.iter().find(|(_, unit)| amount.is_multiple_of(*unit));
    exact.map_or_else(
        || amount.to_string(),
        |(name, unit)| format!("{}{name}", amount / unit),
    )
}

/// A number, with a fraction perhaps, and its unit; `None` if it is no whole number of the smallest unit.
fn amount(text: &str, unit: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')?;
    let (number, name) = text.split_at(end);
    let unit = unit(name.trim_start())?;
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, "0"));
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let digits = u32::try_from(fraction.len()).ok()?;
    let parts = fraction.parse::<u64>().ok()?.checked_mul(unit)?;
    let scale = 10_u64.checked_pow(digits)?;
    let is_whole = parts.is_multiple_of(scale);
    whole.checked_add(parts / scale).filter(|_| is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        for text in ["25s", "300ms", "5m", "2h", "90s", "250us", "0s"] {
            let read = duration(text).expect(text);
            assert_eq!(format_duration(read), text);
        }
        assert_eq!(duration("1500 ms"), Some(Duration::from_millis(1_500)));
        assert_eq!(duration("1.5m"), Some(Duration::from_secs(90)));
        assert_eq!(duration("10_000s"), Some(Duration::from_secs(10_000)));
    }

    #[test]
    fn what_has_no_unit_or_no_number_is_no_amount() {
        for text in [
            "25", "s", "", "-1s", "1..5s", ".s", "1.s", "3 days", "nans", "1e3s",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
        // Neither wraps nor rounds.
        for text in [
            "99999999999999999999s",
            "0.0000001us",
            "18446744073709551615h",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(size("99999999999GiB"), None);
        assert_eq!(size("0.5B"), None);
    }

    #[test]
    fn sizes_keep_binary_and_decimal_units_apart() {
        for (text, bytes) in [
            ("64KiB", 65_536),
            ("64 kb", 64_000),
            ("1MB", 1_000_000),
            ("1MiB", 1_048_576),
            ("1.5KiB", 1_536),
            ("7B", 7),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for (bytes, text) in [
            (65_536, "64KiB"),
            (1_000_000, "1MB"),
            (1_001, "1001B"),
            (0, "0B"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }

    #[test]
    fn a_place_counts_lines_and_characters_from_one() {
        let text = "a = 1\nä = 2\n";
        let places = [0, text.find("= 2").unwrap_or(0), 999].map(|at| position(text, at));
        assert_eq!(places, [(1, 1), (2, 3), (3, 1)]);
    }

    #[test]
    fn rates_name_a_count_and_a_time() {
        assert_eq!(rate("10/s"), Some(("10", Duration::from_secs(1))));
        assert_eq!(rate("100 / 60s"), Some(("100", Duration::from_secs(60))));
        assert_eq!(rate("2.5/m"), Some(("2.5", Duration::from_secs(60))));
        for text in ["10", "10/", "10/0s", "1/w"] {
            assert_eq!(rate(text), None, "{text}");
        }
    }
}
