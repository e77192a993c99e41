//! Bodies of close frames in, whole close frames out (RFC 6455 §5.5.1, §7.4).

use super::frame::{self, CONTROL_PAYLOAD_MAX, OpCode};
use super::message::Violation;

/// Longest reason, bytes: a control payload less the code.
pub const REASON_BYTES_MAX: usize = CONTROL_PAYLOAD_MAX - 2;

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
