//! The secret by which a client takes its socket back, and the offset that names a place in a journal: as bytes and as text.

use crate::tables::id::{Ids, Place};
use crate::tables::position::Position;
use wire::base64url;

const BYTES: usize = 21;
const SECRET: usize = 18;

/// Names a parked socket, and proves that it is the client's: 144 random bits, then the place where the socket began.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Pid([u8; BYTES]);

/// A secret is in no log.
impl std::fmt::Debug for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pid(of {:?})", self.birth())
    }
}

impl Pid {
    /// Characters of its text.
    pub(crate) const LEN: usize = BYTES / 3 * 4;

    pub(crate) fn draw(ids: &mut Ids) -> Self {
        let mut bytes = [0; BYTES];
        bytes[..SECRET].copy_from_slice(&ids.random::<SECRET>());
        // As in ids, ten bits name the node and eight the shard.
        let place = u32::from(ids.me.node & 0x3ff) << 8 | u32::from(ids.me.shard & 0xff);
        bytes[SECRET..].copy_from_slice(&place.to_be_bytes()[1..]);
        Self(bytes)
    }

    /// The shard on which its socket began. The client may say anything.
    pub(crate) fn birth(&self) -> Place {
        let place = u32::from_be_bytes([0, self.0[SECRET], self.0[SECRET + 1], self.0[SECRET + 2]]);
        Place {
            node: (place >> 8) as u16 & 0x3ff,
            shard: place as u16 & 0xff,
        }
    }

    pub(crate) fn text(&self) -> [u8; Self::LEN] {
        let mut text = [0; Self::LEN];
        base64url::write(&self.0, &mut text);
        text
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut bytes = [0; BYTES];
        base64url::read(text.as_bytes(), &mut bytes).then_some(Self(bytes))
    }
}

/// Half of an offset is the name of its log, half the place there.
const HALF: usize = 6;
/// Names and places of a journal stay below.
pub(crate) const OFFSET_LIMIT: u64 = 1 << (8 * HALF);
/// Characters of an offset.
const OFFSET_LEN: usize = 2 * HALF / 3 * 4;
/// The number that follows a place has eight bytes. One more makes the text come out even: three bytes are four characters.
const TAIL: usize = 1 + 8;
/// Characters of an offset with a number.
const LONG_LEN: usize = (2 * HALF + TAIL) / 3 * 4;

/// An offset, as clients keep it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offset {
    text: [u8; LONG_LEN],
    len: usize,
}

impl Offset {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.len]).unwrap_or_default()
    }
}

/// The offset of a place. `number`: where the client is then in the stream that all nodes read, if its namespace has one.
pub(crate) fn offset(at: Position, number: Option<u64>) -> Offset {
    let mut bytes = [0; 2 * HALF + TAIL];
    bytes[..HALF].copy_from_slice(&at.log.to_be_bytes()[8 - HALF..]);
    bytes[HALF..2 * HALF].copy_from_slice(&at.offset.to_be_bytes()[8 - HALF..]);
    let mut offset = Offset {
        text: [0; LONG_LEN],
        len: OFFSET_LEN,
    };
    match number {
        None => base64url::write(&bytes[..2 * HALF], &mut offset.text[..OFFSET_LEN]),
        Some(number) => {
            offset.len = LONG_LEN;
            bytes[2 * HALF + 1..].copy_from_slice(&number.to_be_bytes());
            base64url::write(&bytes, &mut offset.text);
        }
    }
    offset
}

/// The place, and the number if there is one. `None`: it is no offset of ours.
pub(crate) fn read_offset(text: &str) -> Option<(Position, Option<u64>)> {
    let mut bytes = [0; 2 * HALF + TAIL];
    // Only namespaces with a stream give out offsets with a number.
    let is_long = text.len() == LONG_LEN;
    let own = match is_long {
        true => &mut bytes[..],
        false => &mut bytes[..2 * HALF],
    };
    if !base64url::read(text.as_bytes(), own) {
        return None;
    }
    let number = |part: &[u8]| {
        let bytes = part.iter();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let at = Position {
        log: number(&bytes[..HALF]),
        offset: number(&bytes[HALF..2 * HALF]),
    };
    Some((at, is_long.then(|| number(&bytes[2 * HALF..]))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::id::Identity;

    fn ids(seed: u8) -> Ids {
        let me = Identity {
            node: 1023,
            shard: 255,
            shards: 256,
        };
        Ids::new(me, Box::new(move |bytes| bytes.fill(seed)))
    }

    #[test]
    fn a_pid_names_its_shard_and_shows_no_secret_in_logs() {
        let pid = Pid::draw(&mut ids(0xa5));
        let text = pid.text();
        let text = std::str::from_utf8(&text).expect("text");
        assert_eq!((text.len(), Pid::read(text)), (28, Some(pid)));
        assert_eq!((pid.birth().node, pid.birth().shard), (1023, 255));
        let shown = format!("{pid:?}");
        assert!(!shown.contains("paWl") && !shown.contains(text), "{shown}");
        assert_ne!(pid, Pid::draw(&mut ids(1)));
    }

    #[test]
    fn what_is_no_pid_is_none() {
        let long = "A".repeat(29);
        let wide = "ä".repeat(14);
        for text in ["", "AAAA", "mKgUiT0Zjb5bsL3DAAAB", &long, &wide] {
            assert_eq!(Pid::read(text), None, "{text}");
        }
    }

    #[test]
    fn offsets_go_both_ways_and_are_short() {
        for (log, at) in [(1, 0), (OFFSET_LIMIT - 1, OFFSET_LIMIT - 1), (7, 1 << 40)] {
            let position = Position { log, offset: at };
            let text = offset(position, None);
            assert!(text.as_str().len() <= 16);
            assert_eq!(read_offset(text.as_str()), Some((position, None)));
            let long = offset(position, Some(1 << 60 | at));
            let read = read_offset(long.as_str());
            assert_eq!(read, Some((position, Some(1 << 60 | at))));
        }
        for text in [
            "",
            "Q7_ddRX",
            "1795289938420-0",
            "AAAAAAAAAAAAAAA=",
            "ääääääää",
        ] {
            assert_eq!(read_offset(text), None, "{text}");
        }
    }
}
