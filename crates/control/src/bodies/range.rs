//! The `Range` of a request (RFC 9110 §14): one range of bytes. Others are not understood, and the whole body is the answer.

use std::ops::Range;

/// The part to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Whole,
    Part(Range<u64>),
    /// There is nothing at that place.
    Nothing,
}

/// `size`: of the whole body.
pub(crate) fn wanted(header: Option<&str>, size: u64) -> Wanted {
    let Some(spec) = header.and_then(bytes_spec) else {
        return Wanted::Whole;
    };
    let Some((first, last)) = spec.split_once('-') else {
        return Wanted::Whole;
    };
    let (first, last) = (first.trim(), last.trim());
    let range = match (number(first), number(last)) {
        // The last so many bytes.
        (None, Some(0)) if first.is_empty() => return Wanted::Nothing,
        (None, Some(len)) if first.is_empty() => size.saturating_sub(len)..size,
        (Some(first), None) if last.is_empty() => first..size,
        (Some(first), Some(last)) if first <= last => first..size.min(last.saturating_add(1)),
        _ => return Wanted::Whole,
    };
    match range.start < range.end {
        true => Wanted::Part(range),
        false => Wanted::Nothing,
    }
}

fn bytes_spec(header: &str) -> Option<&str> {
    let (unit, spec) = header.split_once('=')?;
    let one = unit.trim().eq_ignore_ascii_case("bytes") && !spec.contains(',');
    one.then(|| spec.trim())
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A number that is too large for us is larger than any body.
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        use Wanted::{Nothing, Part, Whole};
        for (header, expected) in [
            ("bytes=0-0", Part(0..1)),
            ("bytes=0-9", Part(0..10)),
            ("bytes=0-99", Part(0..10)),
            ("bytes=3-", Part(3..10)),
            ("bytes=-3", Part(7..10)),
            ("bytes=-30", Part(0..10)),
            ("Bytes= 2-4", Part(2..5)),
            ("bytes=9-18446744073709551615", Part(9..10)),
            ("bytes=9-99999999999999999999999", Part(9..10)),
            ("bytes=10-", Nothing),
            ("bytes=10-11", Nothing),
            ("bytes=99999999999999999999999-", Nothing),
            ("bytes=-0", Nothing),
            ("bytes=5-4", Whole),
            ("bytes=", Whole),
            ("bytes=-", Whole),
            ("bytes=--1", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=1-2,4-5", Whole),
            ("bytes=a-b", Whole),
            ("lines=1-2", Whole),
            ("0-1", Whole),
        ] {
            assert_eq!(wanted(Some(header), 10), expected, "{header}");
        }
        assert_eq!(wanted(None, 10), Whole);
        assert_eq!(wanted(Some("bytes=0-"), 0), Nothing);
        assert_eq!(wanted(Some("bytes=-5"), 0), Nothing);
    }
}
