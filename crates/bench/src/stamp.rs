//! Owns the fixed-format head of every benchmark payload: who sent it, which one it is, and when it
//! was due. Fixed so that a delivery costs the generator one short scan instead of a JSON parse.
//!
//! `~` + publisher (4 hex) + sequence (16 hex) + nanoseconds (16 hex) + filling up to the wanted
//! size. Only ASCII letters and digits, so no codec on the way escapes anything.

/// Bytes of the stamp itself; the smallest payload.
pub const STAMP_BYTES: usize = 1 + 4 + 16 + 16;
const MARK: u8 = b'~';
/// How far into a message the mark is looked for: past any envelope, short of user data.
const ENVELOPE_BYTES_MAX: usize = 96;
const FILLING: u8 = b'x';

/// Identity and due time of one benchmark message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub publisher: u16,
    pub sequence: u64,
    /// When the schedule wanted it sent (paced loads) or when it was sent (windowed loads).
    pub due_ns: u64,
}

impl Stamp {
    /// Appends a payload of `payload_bytes` (at least `STAMP_BYTES`).
    pub fn write(&self, out: &mut Vec<u8>, payload_bytes: usize) {
        let start = out.len();
        out.push(MARK);
        push_hex(out, u64::from(self.publisher), 4);
        push_hex(out, self.sequence, 16);
        push_hex(out, self.due_ns, 16);
        out.resize(start + payload_bytes.max(STAMP_BYTES), FILLING);
    }

    /// Finds the stamp in a message, whatever envelope surrounds it.
    pub fn find(message: &[u8]) -> Option<Stamp> {
        let reach = message.len().min(ENVELOPE_BYTES_MAX);
        let at = message[..reach].iter().position(|&byte| byte == MARK)?;
        let digits = message.get(at + 1..at + STAMP_BYTES)?;
        Some(Stamp {
            publisher: parse_hex(&digits[..4])? as u16,
            sequence: parse_hex(&digits[4..20])?,
            due_ns: parse_hex(&digits[20..])?,
        })
    }
}

fn push_hex(out: &mut Vec<u8>, value: u64, digits: u32) {
    for shift in (0..digits).rev() {
        let nibble = (value >> (shift * 4)) as u8 & 0xf;
        out.push(if nibble < 10 {
            b'0' + nibble
        } else {
            b'a' + nibble - 10
        });
    }
}

fn parse_hex(digits: &[u8]) -> Option<u64> {
    let mut value = 0u64;
    let mut bad = 0u8;
    for &digit in digits {
        let nibble = NIBBLES[digit as usize];
        bad |= nibble;
        value = value << 4 | u64::from(nibble & 0xf);
    }
    // 0xf0 marks a byte that is no hex digit; one test at the end keeps the loop branch-free.
    (bad & 0xf0 == 0).then_some(value)
}

static NIBBLES: [u8; 256] = nibbles();

const fn nibbles() -> [u8; 256] {
    let mut table = [0xf0u8; 256];
    let mut digit = 0;
    while digit < 16 {
        let byte = if digit < 10 {
            b'0' + digit
        } else {
            b'a' + digit - 10
        };
        table[byte as usize] = digit;
        digit += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn payload_has_the_wanted_size_and_filling() {
        let mut out = Vec::new();
        Stamp {
            publisher: 0xbeef,
            sequence: 18,
            due_ns: 255,
        }
        .write(&mut out, 128);
        assert_eq!(out.len(), 128);
        assert!(out.starts_with(b"~beef000000000000001200000000000000ffx"));
    }

    #[test]
    fn a_message_without_a_whole_stamp_has_none() {
        assert_eq!(Stamp::find(b"42[\"pub\",\"hello\"]"), None);
        assert_eq!(Stamp::find(b"~0001"), None);
        let mut damaged = Vec::new();
        Stamp {
            publisher: 1,
            sequence: 2,
            due_ns: 3,
        }
        .write(&mut damaged, 0);
        damaged[9] = b'G';
        assert_eq!(Stamp::find(&damaged), None);
    }

    proptest! {
        #[test]
        fn survives_any_envelope(publisher: u16, sequence: u64, due_ns: u64,
                                 envelope in "[ -}]{0,59}", size in 0usize..300) {
            let stamp = Stamp { publisher, sequence, due_ns };
            let mut message = envelope.into_bytes();
            stamp.write(&mut message, size);
            message.extend_from_slice(b"\"]");
            prop_assert_eq!(Stamp::find(&message), Some(stamp));
        }
    }
}
