//! Milliseconds to the text of `Date.prototype.toISOString` (ECMA-262 §21.4.1.32).

use crate::bounds::{DATE_MS_MAX, DAY_MS};
use crate::calendar::civil;

/// `2023-11-14T22:13:20.123Z`; `None` outside the range of a Date.
pub(super) fn to_iso(millis: i64) -> Option<String> {
    if !(-DATE_MS_MAX..=DATE_MS_MAX).contains(&millis) {
        return None;
    }
    let (year, month, day) = civil(millis.div_euclid(DAY_MS));
    let ms = millis.rem_euclid(DAY_MS);
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, ms) = (ms / 1000 % 60, ms % 1000);
    let year = match year {
        0..=9999 => format!("{year:04}"),
        _ => format!("{year:+07}"),
    };
    Some(format!(
        "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_javascript_does() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (4_107_456_000_000, "2100-02-28T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_735_603_200_000, "2024-12-31T00:00:00.000Z"),
            (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
            (-62_167_219_200_001, "-000001-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
            (DATE_MS_MAX, "+275760-09-13T00:00:00.000Z"),
            (-DATE_MS_MAX, "-271821-04-20T00:00:00.000Z"),
        ];
        for (millis, expected) in cases {
            assert_eq!(to_iso(millis).as_deref(), Some(expected));
        }
        for millis in [DATE_MS_MAX + 1, -DATE_MS_MAX - 1, i64::MAX, i64::MIN] {
            assert_eq!(to_iso(millis), None);
        }
    }
}
