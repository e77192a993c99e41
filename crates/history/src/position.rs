//! Where an event stands.

use std::fmt;
use std::str::FromStr;

/// Bits below the time: so many events of one millisecond have places of their own.
const COUNTER_BITS: u32 = 20;
/// Digits of a position as text.
const DIGITS: usize = 13;
/// Crockford's alphabet without capitals: its order is that of the numbers.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The place of an event: the time when it was published in ms since 1970, and a counter. It grows in the order of the store, also when
/// a clock goes back. As text it is opaque, has 13 characters, and sorts like the place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

/// Text that is no position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPosition(String);

impl Position {
    /// Before all events.
    pub const START: Self = Self(0);

    /// The first place of a millisecond.
    pub fn at_time(time_ms: u64) -> Self {
        Self(time_ms.min(u64::MAX >> COUNTER_BITS) << COUNTER_BITS)
    }

    /// The place of an event of that time, after `self`.
    #[must_use]
    pub fn next(self, time_ms: u64) -> Self {
        Self(self.0.saturating_add(1)).max(Self::at_time(time_ms))
    }

    /// The place just before.
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// ms since 1970; later than the event's own time if a clock went back.
    pub fn time_ms(self) -> u64 {
        self.0 >> COUNTER_BITS
    }

    /// For stores that keep numbers.
    pub fn as_u64(self) -> u64 {
        self.0
    }

    /// The same, read.
    pub fn from_u64(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for digit in (0..DIGITS).rev() {
            let at = (self.0 >> (5 * digit)) & 31;
            f.write_str(char::from(ALPHABET[at as usize]).encode_utf8(&mut [0; 4]))?;
        }
        Ok(())
    }
}

impl FromStr for Position {
    type Err = NoPosition;

    /// Leading zeros may be left out: `0` is before all events.
    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let wrong = || NoPosition(text.chars().take(2 * DIGITS).collect());
        if text.is_empty() || text.len() > DIGITS {
            return Err(wrong());
        }
        let mut number = 0_u64;
        for byte in text.bytes() {
            let digit = ALPHABET.iter().position(|known| *known == byte);
            let digit = digit.ok_or_else(wrong)? as u64;
            number = number.checked_mul(32).ok_or_else(wrong)? | digit;
        }
        Ok(Self(number))
    }
}

impl fmt::Display for NoPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no place in a history: take `at` or `next` of an answer, or 0 for the beginning",
            self.0
        )
    }
}

impl std::error::Error for NoPosition {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_it_was_written_and_sorts_alike() {
        let numbers = [0, 1, 31, 32, 1 << 20, 1_764_170_000_123 << 20, u64::MAX];
        let places = numbers.map(Position);
        let texts = places.map(|place| place.to_string());
        for (place, text) in places.iter().zip(&texts) {
            assert_eq!((text.len(), text.parse()), (DIGITS, Ok(*place)));
        }
        assert!(texts.is_sorted());
        assert_eq!("0".parse(), Ok(Position::START));
    }

    #[test]
    fn strange_text_is_refused() {
        for text in [
            "",
            "i",
            "O",
            " 0",
            "zzzzzzzzzzzzz",
            "00000000000000",
            "ä",
            "-1",
        ] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }

    #[test]
    fn places_grow_when_the_clock_goes_back() {
        let mut last = Position::START;
        for time_ms in [5, 5, 9, 3, 3, 10] {
            let next = last.next(time_ms);
            assert!(next > last && next.time_ms() >= time_ms);
            last = next;
        }
        assert_eq!(last, Position::at_time(10));
    }
}
