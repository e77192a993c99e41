//! Owns what a scenario asks of durations, rates and sizes beyond how they are written: bounds, and which may be zero.

use std::time::Duration;

/// Longest duration anything may have: a typing error beyond it would look like a hang.
const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Largest payload: a worker keeps one of each in memory while it writes it.
const SIZE_MAX: usize = 64 << 20;

/// `"250ms"`, `"30s"`, `"5m"`, `"1h"`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let duration = units::duration(text).ok_or_else(|| {
        format!("{text:?} is no duration: write \"250ms\", \"30s\", \"5m\" or \"1h\"")
    })?;
    if duration > DURATION_MAX {
        return Err(format!("{text:?} is longer than a week"));
    }
    Ok(duration)
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
    let (count, per) = units::rate(text).ok_or_else(wanted)?;
    let count: f64 = count.replace('_', "").parse().map_err(|_| wanted())?;
    if !(count.is_finite() && count > 0.0) {
        return Err(format!("{text:?} is no rate: it must be above zero"));
    }
    Ok(count / per.as_secs_f64())
}

/// `"128B"`, `"4KiB"`, `"1MB"`.
pub fn size(text: &str) -> Result<usize, String> {
    let bytes = units::size(text)
        .ok_or_else(|| format!("{text:?} is no size: write \"128B\", \"4KiB\" or \"1MB\""))?;
    whole_size(i64::try_from(bytes).unwrap_or(i64::MAX)).map_err(|why| format!("{text:?} {why}"))
}

/// A size in bytes; the error goes behind what was given.
pub fn whole_size(bytes: i64) -> Result<usize, String> {
    let size = usize::try_from(bytes).ok().filter(|&size| size <= SIZE_MAX);
    size.ok_or_else(|| format!("is out of range: from 0 to {} MiB", SIZE_MAX >> 20))
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
        for bad in ["5", "0/s", "x/s", "1/w"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert!(size("12").is_err());
        assert!(size("1000000GB").unwrap_err().contains("64 MiB"));
        assert!(
            duration_above_zero("0s")
                .unwrap_err()
                .contains("\"0s\" is too short")
        );
        assert!(duration_above_zero("0.0000001us").is_err());
    }
}
