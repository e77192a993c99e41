//! Durations ("25s"), sizes ("64KiB") and rates ("10/s") as people write them, and back.
//!
//! A bare number has no unit and is refused for durations: 25 could be seconds or milliseconds.

use hub::config::Rate;
use std::time::Duration;

const DURATION_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Largest first within each family, so that formatting picks the shortest exact spelling.
const BINARY_UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
const DECIMAL_UNITS: [(&str, u64); 4] = [
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

const FIXED: &str = "fixed";

pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let (_, millis) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*millis).map(Duration::from_millis)
}

pub fn format_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let exact = DURATION_UNITS
        .iter()
        .find(|(_, unit)| millis.is_multiple_of(*unit));
    let (name, unit) = exact.unwrap_or(&("ms", 1));
    format!("{}{name}", millis / unit)
}

pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let mut units = BINARY_UNITS.iter().chain(&DECIMAL_UNITS);
    let (_, bytes) = units.find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(*bytes)
}

pub fn format_size(bytes: u64) -> String {
    let mut units = BINARY_UNITS.iter().chain(&DECIMAL_UNITS);
    match units.find(|(_, unit)| bytes != 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

/// `10/s`, `100/60s`, `5/250ms`: events, then the time they are counted over; `100/60s fixed`: nothing more in that time.
pub fn parse_rate(text: &str) -> Option<Rate> {
    let text = text.trim();
    let (text, fixed) = match text.strip_suffix(FIXED) {
        Some(text) if text.ends_with(char::is_whitespace) => (text, true),
        _ => (text, false),
    };
    let (events, per) = text.split_once('/')?;
    let events = events.trim().parse().ok().filter(|events| *events > 0)?;
    let per = per.trim();
    // "10/s" means one second.
    let per = if per.starts_with(|c: char| c.is_ascii_digit()) {
        parse_duration(per)?
    } else {
        parse_duration(&format!("1{per}"))?
    };
    (!per.is_zero()).then_some(Rate { events, per, fixed })
}

pub fn format_rate(rate: Rate) -> String {
    let per = format_duration(rate.per);
    let one = per.strip_prefix('1');
    let unit = one.filter(|unit| !unit.starts_with(|c: char| c.is_ascii_digit()));
    let fixed = if rate.fixed { " fixed" } else { "" };
    format!("{}/{}{fixed}", rate.events, unit.unwrap_or(&per))
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number = text[..digits].parse().ok()?;
    Some((number, text[digits..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        for text in ["25s", "300ms", "5m", "2h", "90s", "0s"] {
            let duration = parse_duration(text).expect(text);
            assert_eq!(format_duration(duration), text);
        }
        assert_eq!(parse_duration("1500 ms"), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn durations_need_a_known_unit() {
        for text in [
            "25",
            "s",
            "",
            "-1s",
            "1.5s",
            "3 days",
            "99999999999999999999s",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_keep_binary_and_decimal_units_apart() {
        assert_eq!(parse_size("64KiB"), Some(65_536));
        assert_eq!(parse_size("64 kb"), Some(64_000));
        assert_eq!(parse_size("1MB"), Some(1_000_000));
        assert_eq!(parse_size("1MiB"), Some(1_048_576));
        assert_eq!(parse_size("7B"), Some(7));
        assert_eq!(
            parse_size("99999999999GiB"),
            None,
            "overflow is refused, not wrapped"
        );
    }

    #[test]
    fn sizes_format_exactly() {
        for (bytes, text) in [
            (65_536, "64KiB"),
            (1_000_000, "1MB"),
            (1_048_576, "1MiB"),
            (1_001, "1001B"),
            (0, "0B"),
        ] {
            assert_eq!(format_size(bytes), text);
            assert_eq!(parse_size(text), Some(bytes));
        }
    }

    #[test]
    fn rates_name_events_and_time() {
        let rate = parse_rate("10/s").expect("rate");
        assert_eq!(rate, Rate::new(10, Duration::from_secs(1)));
        assert_eq!(format_rate(rate), "10/s");
        let window = parse_rate("100 / 60s").expect("rate");
        assert_eq!(window, Rate::new(100, Duration::from_secs(60)));
        assert_eq!(format_rate(window), "100/m");
        assert_eq!(format_rate(Rate::new(5, Duration::from_secs(15))), "5/15s");
        let fixed = parse_rate("100/60s fixed").expect("rate");
        assert_eq!(fixed, window.fixed());
        assert_eq!(format_rate(fixed), "100/m fixed");
        let wrong = [
            "10",
            "0/s",
            "10/",
            "x/s",
            "10/0s",
            "-1/s",
            "1/sfixed",
            "1/s moving",
        ];
        for text in wrong {
            assert_eq!(parse_rate(text), None, "{text}");
        }
    }
}
