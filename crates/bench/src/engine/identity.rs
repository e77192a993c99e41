//! Owns what a counted message carries: who sent it, to which room, which one it is, and when it
//! was due. Fixed-width letters and digits, so that a delivery costs the receiver one short scan
//! and no codec on the way escapes anything.
//!
//! `~` + run (2) + room (8) + worker (2) + publisher (5) + sequence (6) + back (5) + due (10), six bits a
//! letter. *Sequence* counts the messages of one worker to one room; *back* is the distance to
//! the same publisher's message before, 0 for its first: with it a receiver can tell order by
//! publisher while it keeps one stream a worker, not one a publisher.

/// Bytes of a written identity.
pub const IDENTITY_BYTES: usize = 1 + 38;
const MARK: u8 = b'~';
const WIDTHS: [u32; 7] = [2, 8, 2, 5, 6, 5, 10];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Tells runs apart that share a server.
    pub run: u16,
    /// Hash of the room's name, see [`room_key`].
    pub room: u64,
    pub worker: u16,
    /// Number of the user that sent it.
    pub publisher: u32,
    pub sequence: u64,
    pub back: u32,
    /// When the schedule wanted it sent, on the machine's monotonic clock.
    pub due_ns: u64,
}

/// 48 bits of FNV-1a, the same in every worker.
pub fn room_key(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 48)) & ((1 << 48) - 1)
}

impl Identity {
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut letters = [MARK; IDENTITY_BYTES];
        let fields = [
            u64::from(self.run),
            self.room,
            u64::from(self.worker),
            u64::from(self.publisher),
            self.sequence,
            u64::from(self.back),
            self.due_ns,
        ];
        let mut at = 1;
        for (value, width) in fields.into_iter().zip(WIDTHS) {
            for place in (0..width).rev() {
                letters[at] = LETTERS[(value >> (place * 6)) as usize & 63];
                at += 1;
            }
        }
        out.extend_from_slice(&letters);
    }

    /// Finds the identity in a message, whatever envelope surrounds it. `hint` is where the last
    /// one was: messages of a run look alike.
    pub fn find(message: &[u8], hint: &mut usize) -> Option<Identity> {
        if message.get(*hint) != Some(&MARK) {
            *hint = message.iter().position(|&byte| byte == MARK)?;
        }
        Identity::read(message.get(*hint + 1..*hint + IDENTITY_BYTES)?)
    }

    fn read(letters: &[u8]) -> Option<Identity> {
        let letters: &[u8; IDENTITY_BYTES - 1] = letters.try_into().ok()?;
        let mut bad = 0;
        let identity = Identity {
            run: number::<0, 2>(letters, &mut bad) as u16,
            room: number::<2, 8>(letters, &mut bad),
            worker: number::<10, 2>(letters, &mut bad) as u16,
            publisher: number::<12, 5>(letters, &mut bad) as u32,
            sequence: number::<17, 6>(letters, &mut bad),
            back: number::<23, 5>(letters, &mut bad) as u32,
            due_ns: number::<28, 10>(letters, &mut bad),
        };
        // One test at the end keeps the way free of branches.
        (bad & 0x80 == 0).then_some(identity)
    }
}

/// The last two letters of the sequence number among an identity's, as a number below 4096.
#[inline]
pub fn sequence_end(letters: &[u8; IDENTITY_BYTES]) -> usize {
    let value = |letter: u8| usize::from(VALUES[usize::from(letter)] & 63);
    value(letters[22]) << 6 | value(letters[23])
}

/// The number in letters `AT..AT + WIDTH`: constants, so that every check is done at compile time.
#[inline(always)]
fn number<const AT: usize, const WIDTH: usize>(
    letters: &[u8; IDENTITY_BYTES - 1],
    bad: &mut u8,
) -> u64 {
    let mut value = 0;
    let mut at = AT;
    while at < AT + WIDTH {
        let bits = VALUES[letters[at] as usize];
        *bad |= bits;
        value = value << 6 | u64::from(bits & 63);
        at += 1;
    }
    value
}

static LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
static VALUES: [u8; 256] = values();

const fn values() -> [u8; 256] {
    let mut table = [0x80u8; 256];
    let mut value = 0;
    while value < 64 {
        table[LETTERS[value] as usize] = value as u8;
        value += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_without_a_whole_identity_has_none() {
        assert_eq!(Identity::find(b"42[\"pub\",\"hello\"]", &mut 0), None);
        assert_eq!(Identity::find(b"~short", &mut 0), None);
        let mut damaged = Vec::new();
        Identity::default().write(&mut damaged);
        damaged[9] = b'!';
        assert_eq!(Identity::find(&damaged, &mut 0), None);
    }

    #[test]
    fn room_keys_differ_and_fit() {
        let keys: std::collections::HashSet<u64> = (0..100_000)
            .map(|n| room_key(&format!("room-{n}")))
            .collect();
        assert_eq!(keys.len(), 100_000);
        assert!(keys.iter().all(|key| *key < 1 << 48));
    }

    proptest! {
        #[test]
        fn survives_any_envelope_and_any_hint(
            run in 0u16..4096, room in 0u64..1 << 48, worker in 0u16..4096, publisher in 0u32..1 << 30,
            sequence in 0u64..1 << 36, back in 0u32..1 << 30, due_ns in 0u64..1 << 60,
            envelope in "[ -}]{0,59}", mut hint in 0usize..200)
        {
            let identity = Identity { run, room, worker, publisher, sequence, back, due_ns };
            let mut message = envelope.into_bytes();
            identity.write(&mut message);
            message.extend_from_slice(b"xx\"]");
            prop_assert_eq!(Identity::find(&message, &mut hint), Some(identity));
        }
    }
}
