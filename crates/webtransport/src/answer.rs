//! The shard's answer to an opening request: a WebSocket, or a refusal in words.

/// Longest head of an answer, bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// What a client is told of a refusal, bytes at most.
const TEXT_BYTES_MAX: usize = 256;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// More bytes are needed.
    Incomplete,
    /// Frames follow behind so many bytes.
    Open(usize),
    /// A status; what follows is for people.
    Refused(u16),
    /// It is no answer.
    Broken,
}

pub(crate) fn read(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n");
    let Some(end) = end.map(|at| at + 4) else {
        return match bytes.len() > HEAD_BYTES_MAX {
            true => Answer::Broken,
            false => Answer::Incomplete,
        };
    };
    let status = bytes
        .strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    let status = status.and_then(|digits| std::str::from_utf8(digits).ok());
    match status.and_then(|digits| digits.parse().ok()) {
        Some(101) => Answer::Open(end),
        Some(status) => Answer::Refused(status),
        None => Answer::Broken,
    }
}

/// What a refusal says, as far as it has come.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n");
    let body = end.map_or(&[][..], |at| &bytes[at + 4..]);
    String::from_utf8_lossy(&body[..body.len().min(TEXT_BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_open_a_session_or_say_why_not() {
        let open = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x01x";
        for cut in 0..open.len() - 3 {
            assert_eq!(read(&open[..cut]), Answer::Incomplete, "{cut}");
        }
        assert_eq!(read(open), Answer::Open(open.len() - 3));
        let refused = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno!";
        assert_eq!(
            (read(refused), text(refused).as_str()),
            (Answer::Refused(403), "no!")
        );
        assert_eq!(read(b"HTTP/1.1 x\r\n\r\n"), Answer::Broken);
        assert_eq!(read(&[b'x'; HEAD_BYTES_MAX + 1]), Answer::Broken);
    }
}
