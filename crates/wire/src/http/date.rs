//! The date of an answer, as HTTP writes it (RFC 9110 §5.6.7).

use crate::bounds::DATE_SECONDS_MAX;
use crate::calendar::civil;

/// Bytes of a date: `Tue, 14 Nov 2023 22:13:20 GMT`.
const LEN: usize = 29;
/// From the day of the week of 1 January 1970.
const WEEKDAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

/// A second in HTTP's words. A writer of many answers makes one of each second and keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    text: [u8; LEN],
    unix_seconds: u64,
}

impl Date {
    /// 1 January 1970.
    pub const EPOCH: Self = Self {
        text: *b"Thu, 01 Jan 1970 00:00:00 GMT",
        unix_seconds: 0,
    };

    /// Of a Unix time.
    pub fn new(unix_seconds: u64) -> Self {
        let second = unix_seconds.min(DATE_SECONDS_MAX);
        let days = second / 86_400;
        let (year, month, day) = civil(days as i64);
        let mut text = Self::EPOCH.text;
        let name = |names: &[u8], at: usize| [names[3 * at], names[3 * at + 1], names[3 * at + 2]];
        text[..3].copy_from_slice(&name(WEEKDAYS, (days % 7) as usize));
        text[8..11].copy_from_slice(&name(MONTHS, month - 1));
        for (at, number) in [
            (5, day as u64),
            (12, year as u64 / 100),
            (14, year as u64 % 100),
            (17, second / 3_600 % 24),
            (20, second / 60 % 60),
            (23, second % 60),
        ] {
            text[at] = b'0' + (number / 10) as u8;
            text[at + 1] = b'0' + (number % 10) as u8;
        }
        Self { text, unix_seconds }
    }

    /// The second it was made of.
    pub fn unix_seconds(&self) -> u64 {
        self.unix_seconds
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }
}

impl Default for Date {
    fn default() -> Self {
        Self::EPOCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_rfc() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_700_000_000, "Tue, 14 Nov 2023 22:13:20 GMT"),
            (DATE_SECONDS_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            let date = Date::new(seconds);
            assert_eq!(std::str::from_utf8(date.as_bytes()), Ok(text));
            assert_eq!(date.unix_seconds(), seconds);
        }
    }
}
