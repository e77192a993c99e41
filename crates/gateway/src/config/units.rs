//! What configuration asks of durations and rates beyond how they are written: whole milliseconds, whole events.

use hub::config::Rate;
use std::time::Duration;
pub use units::{format_duration, format_size, size as parse_size};

const FIXED: &str = "fixed";

pub fn parse_duration(text: &str) -> Option<Duration> {
    units::duration(text).filter(|duration| duration.subsec_nanos().is_multiple_of(1_000_000))
}

/// `10/s`, `100/60s`, `5/250ms`: events, then the time they are counted over; `100/60s fixed`: nothing more in that time.
pub fn parse_rate(text: &str) -> Option<Rate> {
    let text = text.trim();
    let (text, fixed) = match text.strip_suffix(FIXED) {
        Some(text) if text.ends_with(char::is_whitespace) => (text, true),
        _ => (text, false),
    };
    let (events, per) = units::rate(text)?;
    let events = events.parse().ok().filter(|events| *events > 0)?;
    Some(Rate { events, per, fixed })
}

pub fn format_rate(rate: Rate) -> String {
    let per = format_duration(rate.per);
    let one = per.strip_prefix('1');
    let unit = one.filter(|unit| !unit.starts_with(|c: char| c.is_ascii_digit()));
    let fixed = if rate.fixed { " fixed" } else { "" };
    format!("{}/{}{fixed}", rate.events, unit.unwrap_or(&per))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_milliseconds() {
        assert_eq!(parse_duration("1.5s"), Some(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("250us"), None);
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
