//! Frames: the messages that nodes publish to each other's channels.
//!
//! A frame is `version u8 | kind u8 | node u16 | epoch u64 | body | crc32c u32`, little-endian. Letters have positions: the first
//! letter of a lane has position 1, and a frame says the position of its first. A receiver that misses frames thus knows how many
//! letters are gone, not only how many frames.

use std::ops::Range;
use std::sync::Arc;

/// Version of the format. Frames of a version above [`NEWEST`] are counted and skipped.
pub const VERSION: u8 = 1;
/// Of a heartbeat that says which heartbeats of others arrived. Nodes before it read version 1 alone, and so all else is written in that.
pub const NEWEST: u8 = 2;
/// Bytes before the body.
const HEAD: usize = 12;
/// Bytes behind the body.
const CRC: usize = 4;

/// Number of a node, leased in the engine or given by configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u16);

/// Tells one life of a node from its next: a later start has a larger epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// One life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer {
    /// Its number.
    pub node: NodeId,
    /// Which life of it.
    pub epoch: Epoch,
}

/// Which of a publisher's sequences a letter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Letters to one node, through its inbox.
    Inbox,
    /// Letters to all nodes.
    Flood,
}

/// A batch of letters.
#[derive(Clone, Copy, Debug)]
pub struct Letters<'a> {
    /// The sequence they belong to.
    pub stream: Stream,
    /// Inbox: the receiver. A frame for an earlier life of a node is not for its present one.
    pub to: Option<(Peer, u32)>,
    /// Position of the first letter.
    pub first: u64,
    /// How many letters.
    pub count: u16,
    /// Inbox: position of the flood that comes before these letters.
    pub flood_before: u64,
    links: &'a [u8],
    letters: &'a [u8],
}

impl<'a> Letters<'a> {
    /// Position of the last letter.
    pub fn last(&self) -> u64 {
        self.first + u64::from(self.count) - 1
    }

    /// Flood: position in the inbox of `lane` that comes before these letters; 0 = none.
    pub fn inbox_before(&self, lane: u32) -> u64 {
        let mut links = Reader(self.links);
        while let (Some(to), Some(position)) = (links.u32(), links.u64()) {
            if to == lane {
                return position;
            }
        }
        0
    }

    /// Where the letters stand in a frame of so many bytes, in order: they are the last of its body.
    pub(crate) fn places(
        &self,
        frame_bytes: usize,
    ) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let mut rest = Reader(self.letters);
        std::iter::from_fn(move || {
            let len = rest.u32()? as usize;
            let start = frame_bytes - CRC - rest.0.len();
            rest.bytes(len)?;
            Some(start..start + len)
        })
    }
}

/// What a heartbeat says of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The peer.
    pub peer: Peer,
    /// Names the sequence of letters to this peer. A peer that was given up and came back has another lane.
    pub lane: u32,
    /// Flood position when the lane began: floods behind it are owed to the peer.
    pub base: u64,
    /// Position of the last letter sent to its inbox.
    pub sent: u64,
    /// Position up to which its own flood arrived here.
    pub got_flood: u64,
    /// The last of its heartbeats that arrived here; 0 while there are own keys that were not flooded yet. What the peer hears of
    /// this node up to here is all that this node held when that heartbeat was made.
    pub heard: u64,
}

/// A frame, decoded.
#[derive(Debug)]
pub enum Frame<'a> {
    /// Letters with positions: repaired if they get lost.
    Letters(Letters<'a>),
    /// The publisher lives, and this is how far it is. Never repaired: the next one says more.
    Heartbeat {
        /// Which of its heartbeats: one that was recorded and is repeated says nothing.
        beat: u64,
        /// Position of the last flooded letter.
        flood: u64,
        /// Its own probe came back of late: it can hear questions.
        hears: bool,
        /// Its peers.
        known: Vec<Known>,
        /// Its publisher reads version 1 alone.
        is_old: bool,
    },
    /// The publisher's own probe through its own inbox.
    Probe,
    /// The publisher of this frame misses letters of the receiver.
    Nack {
        /// In which sequence; for an inbox with its lane.
        stream: Stream,
        /// Lane of the asker.
        lane: u32,
        /// First position that is missing.
        from: u64,
        /// Last position that is missing.
        to: u64,
    },
    /// Answer to a Nack: letters up to a position are no longer kept.
    Gone {
        /// In which sequence.
        stream: Stream,
        /// Lane of the asker.
        lane: u32,
        /// Last position that cannot be had any more.
        upto: u64,
    },
    /// The publisher leaves on purpose; its positions are final.
    Bye {
        /// Position of the last flooded letter.
        flood: u64,
    },
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Another version of the format: a newer or older node.
    Version(u8),
    /// Bytes were changed or cut off.
    Checksum,
    /// The body does not hold what its kind says.
    Body,
}

/// In a heartbeat: its publisher hears. In one of version 1 beside another of version 2, which old nodes take for the same.
const HEARS: u8 = 1;
const HEARS_AS_WELL: u8 = 3;

const LETTERS: u8 = 0;
const HEARTBEAT: u8 = 1;
const PROBE: u8 = 2;
const NACK: u8 = 3;
const GONE: u8 = 4;
const BYE: u8 = 5;

/// Reads a frame and its publisher.
///
/// # Errors
/// See [`Malformed`]. Nothing of a malformed frame is used.
pub fn read(bytes: &[u8]) -> Result<(Peer, Frame<'_>), Malformed> {
    let version = *bytes.first().ok_or(Malformed::Body)?;
    if !(VERSION..=NEWEST).contains(&version) {
        return Err(Malformed::Version(version));
    }
    let body_len = bytes
        .len()
        .checked_sub(HEAD + CRC)
        .ok_or(Malformed::Checksum)?;
    let (covered, crc) = bytes.split_at(HEAD + body_len);
    if crc32c::crc32c(covered).to_le_bytes() != *crc {
        return Err(Malformed::Checksum);
    }
    let mut head = Reader(&covered[1..]);
    let parsed = (|| {
        let kind = head.u8()?;
        let peer = head.peer()?;
        let frame = read_body(kind, version, &mut head)?;
        Some((peer, frame))
    })();
    parsed.ok_or(Malformed::Body)
}

/// Who says that it published a message; the rest of it is not looked at. `None`: that cannot be read.
pub fn publisher(bytes: &[u8]) -> Option<Peer> {
    let mut head = Reader(bytes.get(2..HEAD)?);
    (VERSION..=NEWEST)
        .contains(&bytes[0])
        .then(|| head.peer())?
}

fn read_body<'a>(kind: u8, version: u8, body: &mut Reader<'a>) -> Option<Frame<'a>> {
    Some(match kind {
        LETTERS => Frame::Letters(read_letters(body)?),
        HEARTBEAT => {
            let (beat, flood, hears) = (body.u64()?, body.u64()?, body.u8()?);
            let mut known = Vec::new();
            while !body.0.is_empty() {
                known.push(Known {
                    peer: body.peer()?,
                    lane: body.u32()?,
                    base: body.u64()?,
                    sent: body.u64()?,
                    got_flood: body.u64()?,
                    heard: if version < NEWEST { 0 } else { body.u64()? },
                });
            }
            Frame::Heartbeat {
                beat,
                flood,
                hears: hears != 0,
                known,
                is_old: hears == HEARS && version < NEWEST,
            }
        }
        PROBE => Frame::Probe,
        NACK => {
            let (stream, lane) = (body.stream()?, body.u32()?);
            let (from, to) = (body.u64()?, body.u64()?);
            (from > 0 && from <= to).then_some(())?;
            Frame::Nack {
                stream,
                lane,
                from,
                to,
            }
        }
        GONE => Frame::Gone {
            stream: body.stream()?,
            lane: body.u32()?,
            upto: body.u64()?,
        },
        BYE => Frame::Bye { flood: body.u64()? },
        _ => return None,
    })
}

fn read_letters<'a>(body: &mut Reader<'a>) -> Option<Letters<'a>> {
    let stream = body.stream()?;
    let to = match stream {
        Stream::Inbox => Some((body.peer()?, body.u32()?)),
        Stream::Flood => None,
    };
    let (first, count, flood_before) = (body.u64()?, body.u16()?, body.u64()?);
    let links = body.u16()?;
    let links = body.bytes(usize::from(links) * 12)?;
    let letters = Letters {
        stream,
        to,
        first,
        count,
        flood_before,
        links,
        letters: body.0,
    };
    let whole = first > 0 && first.checked_add(u64::from(count)).is_some();
    // A count that does not match would shift the positions of all later letters.
    (count > 0 && whole && letters.is_whole()).then_some(letters)
}

impl Letters<'_> {
    fn is_whole(&self) -> bool {
        let mut rest = Reader(self.letters);
        for _ in 0..self.count {
            let Some(_) = rest.u32().and_then(|len| rest.bytes(len as usize)) else {
                return false;
            };
        }
        rest.0.is_empty()
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn peer(&mut self) -> Option<Peer> {
        Some(Peer {
            node: NodeId(self.u16()?),
            epoch: Epoch(self.u64()?),
        })
    }

    fn stream(&mut self) -> Option<Stream> {
        match self.u8()? {
            0 => Some(Stream::Inbox),
            1 => Some(Stream::Flood),
            _ => None,
        }
    }
}

/// A position or a time of a record: later ones must find room behind it.
pub(crate) fn bounded(number: u64) -> Result<u64, &'static str> {
    let fits = number < 1 << 62;
    fits.then_some(number).ok_or("a position that is too large")
}

/// The node with a number of a record.
pub(crate) fn node_id(number: u32) -> Result<NodeId, &'static str> {
    let number = u16::try_from(number).map_err(|_| "a number that no node can have")?;
    Ok(NodeId(number))
}

/// A frame that this node made.
pub(crate) fn own_frame(me: Peer, bytes: &[u8]) -> Result<Arc<[u8]>, &'static str> {
    match read(bytes) {
        Ok((peer, Frame::Letters(_) | Frame::Bye { .. })) if peer == me => Ok(bytes.into()),
        _ => Err("a frame that this node did not make"),
    }
}

/// How many letters these are, each behind its length; `None`: something else.
pub(crate) fn count_letters(letters: &[u8]) -> Option<usize> {
    let (mut rest, mut count) = (Reader(letters), 0);
    while !rest.0.is_empty() {
        let len = rest.u32()?;
        rest.bytes(len as usize)?;
        count += 1;
    }
    Some(count)
}

/// Writes frames of one publisher.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    fn new(me: Peer, kind: u8, room: usize) -> Self {
        Self::of_version(VERSION, me, kind, room)
    }

    fn of_version(version: u8, me: Peer, kind: u8, room: usize) -> Self {
        let mut out = Vec::with_capacity(HEAD + room + CRC);
        out.extend_from_slice(&[version, kind]);
        let mut writer = Self(out);
        writer.peer(me);
        writer
    }

    fn peer(&mut self, peer: Peer) {
        self.u16(peer.node.0);
        self.u64(peer.epoch.0);
    }

    fn u16(&mut self, number: u16) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn stream(&mut self, stream: Stream) {
        self.0.push(match stream {
            Stream::Inbox => 0,
            Stream::Flood => 1,
        });
    }

    fn finish(mut self) -> Vec<u8> {
        let crc = crc32c::crc32c(&self.0);
        self.u32(crc);
        self.0
    }
}

/// Positions of a batch of letters that is about to be closed.
pub(crate) struct Batch<'a> {
    pub(crate) to: Option<(Peer, u32)>,
    pub(crate) first: u64,
    pub(crate) count: u16,
    pub(crate) flood_before: u64,
    /// Flood: the inbox lanes and their positions.
    pub(crate) links: &'a [(u32, u64)],
    /// Letters, each behind its length.
    pub(crate) letters: &'a [u8],
}

pub(crate) fn write_letters(me: Peer, batch: &Batch<'_>) -> Vec<u8> {
    let room = 40 + batch.links.len() * 12 + batch.letters.len();
    let mut out = Writer::new(me, LETTERS, room);
    match batch.to {
        Some((peer, lane)) => {
            out.stream(Stream::Inbox);
            out.peer(peer);
            out.u32(lane);
        }
        None => out.stream(Stream::Flood),
    }
    out.u64(batch.first);
    out.u16(batch.count);
    out.u64(batch.flood_before);
    out.u16(batch.links.len() as u16);
    for (lane, position) in batch.links {
        out.u32(*lane);
        out.u64(*position);
    }
    out.0.extend_from_slice(batch.letters);
    out.finish()
}

/// Puts one letter behind its length.
pub(crate) fn push_letter(letters: &mut Vec<u8>, letter: &[u8]) {
    letters.extend_from_slice(&(letter.len() as u32).to_le_bytes());
    letters.extend_from_slice(letter);
}

/// What a heartbeat says of its publisher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat {
    pub(crate) number: u64,
    pub(crate) flood: u64,
    pub(crate) hears: bool,
}

/// `version`: [`NEWEST`], or [`VERSION`] for nodes that read nothing else.
pub(crate) fn write_heartbeat(me: Peer, version: u8, beat: Beat, known: &[Known]) -> Vec<u8> {
    let mut out = Writer::of_version(version, me, HEARTBEAT, 17 + known.len() * 46);
    out.u64(beat.number);
    out.u64(beat.flood);
    out.0.push(match (beat.hears, version) {
        (false, _) => 0,
        (true, NEWEST) => HEARS,
        (true, _) => HEARS_AS_WELL,
    });
    for known in known {
        out.peer(known.peer);
        out.u32(known.lane);
        out.u64(known.base);
        out.u64(known.sent);
        out.u64(known.got_flood);
        if version == NEWEST {
            out.u64(known.heard);
        }
    }
    out.finish()
}

pub(crate) fn write_probe(me: Peer) -> Vec<u8> {
    Writer::new(me, PROBE, 0).finish()
}

pub(crate) fn write_nack(me: Peer, stream: Stream, lane: u32, from: u64, to: u64) -> Vec<u8> {
    let mut out = Writer::new(me, NACK, 21);
    out.stream(stream);
    out.u32(lane);
    out.u64(from);
    out.u64(to);
    out.finish()
}

pub(crate) fn write_gone(me: Peer, stream: Stream, lane: u32, upto: u64) -> Vec<u8> {
    let mut out = Writer::new(me, GONE, 13);
    out.stream(stream);
    out.u32(lane);
    out.u64(upto);
    out.finish()
}

pub(crate) fn write_bye(me: Peer, flood: u64) -> Vec<u8> {
    let mut out = Writer::new(me, BYE, 8);
    out.u64(flood);
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Peer = Peer {
        node: NodeId(7),
        epoch: Epoch(3),
    };

    fn batch(letters: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        letters
            .iter()
            .for_each(|letter| push_letter(&mut bytes, letter));
        write_letters(
            ME,
            &Batch {
                to: None,
                first: 9,
                count: letters.len() as u16,
                flood_before: 0,
                links: &[(1, 4), (2, 80)],
                letters: &bytes,
            },
        )
    }

    #[test]
    fn letters_survive() {
        let bytes = batch(&[b"one", b"", b"three"]);
        let (peer, frame) = read(&bytes).expect("a frame");
        assert_eq!(peer, ME);
        let Frame::Letters(letters) = frame else {
            panic!("{frame:?}")
        };
        assert_eq!((letters.first, letters.last()), (9, 11));
        let letter = |place: Range<usize>| &bytes[place];
        assert_eq!(
            letters.places(bytes.len()).map(letter).collect::<Vec<_>>(),
            [&b"one"[..], b"", b"three"]
        );
        assert_eq!([1, 2, 3].map(|lane| letters.inbox_before(lane)), [4, 80, 0]);
    }

    #[test]
    fn any_changed_or_missing_byte_is_noticed() {
        let bytes = batch(&[b"one", b"two"]);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(read(&changed).is_err(), "byte {at}");
            assert!(read(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn counts_that_lie_are_refused() {
        for (count, claimed) in [(2_u16, 1_u16), (2, 3), (1, 0)] {
            let mut letters = Vec::new();
            (0..count).for_each(|_| push_letter(&mut letters, b"x"));
            let bytes = write_letters(
                ME,
                &Batch {
                    to: Some((ME, 1)),
                    first: 1,
                    count: claimed,
                    flood_before: 0,
                    links: &[],
                    letters: &letters,
                },
            );
            assert_eq!(read(&bytes).err(), Some(Malformed::Body));
        }
    }
}
