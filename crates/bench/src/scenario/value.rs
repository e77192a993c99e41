//! Owns the units of a scenario file: durations, rates and sizes as people write them.

use std::time::Duration;

/// Longest duration anything may have: a typing error beyond it would look like a hang.
const DURATION_MAX_S: f64 = 7.0 * 24.0 * 3600.0;
/// Largest payload: a worker keeps one of each in memory while it writes it.
const SIZE_MAX: usize = 64 << 20;

/// `"250ms"`, `"30s"`, `"5m"`, `"1h"`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let units = [
        ("ms", 1e-3),
        ("us", 1e-6),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let seconds = in_units(text, &units).ok_or_else(|| {
        format!("{text:?} is no duration: write \"250ms\", \"30s\", \"5m\" or \"1h\"")
    })?;
    if seconds > DURATION_MAX_S {
        return Err(format!("{text:?} is longer than a week"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The same where nothing is too short.
pub fn duration_above_zero(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!("{text:?} is too short: it must be above zero")),
        duration => Ok(duration),
    }
}

/// `"100/s"`, `"6/m"`, `"2.5/s"`: events per second.
pub fn rate(text: &str) -> Result<f64, String> {
    let wanted = || format!("{text:?} is no rate: write \"100/s\" or \"6/m\"");
    let (count, per) = text.split_once('/').ok_or_else(wanted)?;
    let seconds = match per.trim() {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wanted()),
    };
    let count: f64 = count
        .trim()
        .replace('_', "")
        .parse()
        .map_err(|_| wanted())?;
    if !(count.is_finite() && count > 0.0) {
        return Err(format!("{text:?} is no rate: it must be above zero"));
    }
    Ok(count / seconds)
}

/// `"128B"`, `"4KiB"`, `"1MB"`.
pub fn size(text: &str) -> Result<usize, String> {
    let units = [
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("KB", 1e3),
        ("MB", 1e6),
        ("B", 1.0),
    ];
    let bytes = in_units(text, &units)
        .ok_or_else(|| format!("{text:?} is no size: write \"128B\", \"4KiB\" or \"1MB\""))?;
    whole_size(bytes as i64).map_err(|why| format!("{text:?} {why}"))
}

/// A size in bytes; the error goes behind what was given.
pub fn whole_size(bytes: i64) -> Result<usize, String> {
    let size = usize::try_from(bytes).ok().filter(|&size| size <= SIZE_MAX);
    size.ok_or_else(|| format!("is out of range: from 0 to {} MiB", SIZE_MAX >> 20))
}

fn in_units(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(rate("6/m"), Ok(0.1));
        assert_eq!(rate("10_000/s"), Ok(10_000.0));
        assert_eq!(size("4KiB"), Ok(4096));
        for bad in ["5", "s", "-1s", "1 day", "nans"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        for bad in ["5", "0/s", "x/s", "1/d"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert!(size("12").is_err());
        assert!(size("1e15MB").unwrap_err().contains("64 MiB"));
        assert!(
            duration_above_zero("0s")
                .unwrap_err()
                .contains("\"0s\" is too short")
        );
        assert!(duration_above_zero("0.0000001us").is_err());
    }
}
