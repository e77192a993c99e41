//! Bodies of close frames in, whole close frames out (RFC 6455 §5.5.1, §7.4).

use super::frame::{self, OpCode};
use super::violation::Violation;
use crate::bounds::REASON_BYTES_MAX;

/// Code and reason of a close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseFrame<'a> {
    /// A code that may appear on the wire: see [`may_be_sent`].
    pub code: u16,
    /// Text for humans, often empty.
    pub reason: &'a str,
}

/// Parses the (unmasked) payload of a close frame; `Ok(None)` for an empty one.
///
/// # Errors
/// [`Violation::BadClose`] for one byte or a code nobody may send, [`Violation::InvalidUtf8`] for
/// the reason.
pub fn parse(payload: &[u8]) -> Result<Option<CloseFrame<'_>>, Violation> {
    if payload.is_empty() {
        return Ok(None);
    }
    let (code, reason) = payload
        .split_first_chunk::<2>()
        .ok_or(Violation::BadClose)?;
    let code = u16::from_be_bytes(*code);
    if !may_be_sent(code) {
        return Err(Violation::BadClose);
    }
    let reason = std::str::from_utf8(reason).map_err(|_| Violation::InvalidUtf8)?;
    Ok(Some(CloseFrame { code, reason }))
}

/// Whether a close frame may carry `code`: the registered ones of RFC 6455 §7.4.1 and the IANA
/// registry (1000-1003, 1007-1014), those of libraries (3000-3999) and applications (4000-4999).
pub fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// Appends a complete unmasked close frame. `None` sends no status code, as Engine.IO does, and no
/// reason. The reason is cut to 123 bytes at a character boundary.
pub fn write(out: &mut Vec<u8>, code: Option<u16>, reason: &str) {
    let Some(code) = code else {
        frame::write_frame(out, OpCode::Close, &[]);
        return;
    };
    let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
    frame::write_header(out, OpCode::Close, false, 2 + reason.len());
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(reason.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_or_refused() {
        let frame = |code, reason| Ok(Some(CloseFrame { code, reason }));
        let cases = [
            (b"".as_slice(), Ok(None)),
            (b"\x03\xe8", frame(1000, "")),
            (b"\x0f\xa0bye", frame(4000, "bye")),
            (b"\x03\xe8\xc3\xa9", frame(1000, "é")),
            (b"\x03", Err(Violation::BadClose)),
            (b"\x03\xed", Err(Violation::BadClose)),
            (b"\x03\xe8\xc3", Err(Violation::InvalidUtf8)),
            (b"\x03\xed\xff", Err(Violation::BadClose)),
        ];
        for (payload, expected) in cases {
            assert_eq!(parse(payload), expected, "{payload:02x?}");
        }
    }

    #[test]
    fn codes_that_only_exist_inside_a_peer_are_refused() {
        let bad = (0..1000)
            .chain(1004..=1006)
            .chain(1015..3000)
            .chain(5000..=u16::MAX);
        for code in bad {
            assert_eq!(
                parse(&code.to_be_bytes()),
                Err(Violation::BadClose),
                "{code}"
            );
        }
        for code in (1000..=1003_u16).chain(1007..=1014).chain(3000..5000) {
            assert!(parse(&code.to_be_bytes()).is_ok(), "{code}");
        }
    }

    #[test]
    fn frames_carry_no_code_or_a_reason_cut_between_characters() {
        let mut out = Vec::new();
        write(&mut out, None, "not sent");
        assert_eq!(out, [0x88, 0]);
        out.clear();
        write(&mut out, Some(1001), "away");
        assert_eq!(out, *b"\x88\x06\x03\xe9away");
        out.clear();
        // 62 two-byte characters are 124 bytes: one too many.
        write(&mut out, Some(1001), &"é".repeat(62));
        assert_eq!(out.len(), 2 + 2 + 122);
        assert_eq!(
            parse(&out[2..]).map(|frame| frame.map(|frame| frame.reason.len())),
            Ok(Some(122))
        );
    }
}
