//! How far a publisher was heard, as a record, and back.

use super::{Held, Inlet, Limits, Track};
use crate::frame::{Peer, Stream, bounded};
use crate::part::Part;
use handoff::cluster as record;

impl Inlet {
    /// Both sequences.
    pub(crate) fn tracks_record(&self) -> [record::Track; 2] {
        [&self.inbox, &self.flood].map(|track| record::Track {
            got: track.got,
            top: track.top,
            held: track
                .held
                .iter()
                .map(|(first, held)| record::Held {
                    first: *first,
                    other_before: held.other_before,
                    letters: held.letters.iter().map(|letter| letter.to_vec()).collect(),
                })
                .collect(),
        })
    }

    /// The inlet of a record. What is missing is asked for anew.
    ///
    /// # Errors
    /// The record contradicts itself: in what.
    pub(crate) fn restored(
        peer: Peer,
        limits: Limits,
        record: &record::Peer,
    ) -> Result<Self, &'static str> {
        let mut inlet = Self::new(peer, limits);
        inlet.lane = record.lane;
        for (stream, track) in [
            (Stream::Inbox, &record.inbox),
            (Stream::Flood, &record.flood),
        ] {
            let Some(track) = track else { continue };
            inlet.restore_track(stream, track)?;
        }
        Ok(inlet)
    }

    fn restore_track(
        &mut self,
        stream: Stream,
        record: &record::Track,
    ) -> Result<(), &'static str> {
        let mut own = Track {
            got: bounded(record.got)?,
            top: bounded(record.top)?.max(record.got),
            ..Track::default()
        };
        let mut next = record.got + 1;
        let mut bytes = 0;
        for held in &record.held {
            let last = (held.first)
                .checked_add(held.letters.len() as u64)
                .and_then(|end| end.checked_sub(1));
            let last = last.filter(|last| *last >= held.first && *last <= record.top);
            let last = last.ok_or("a frame that waits and has no letters")?;
            // One that begins before the end of a gap that was given up comes first.
            if last < next {
                return Err("frames that wait and are not in order");
            }
            next = last + 1;
            let letters: Vec<Part> = held.letters.iter().cloned().map(Part::from).collect();
            let size = letters.iter().map(|letter| letter.len() + 16).sum();
            bytes += size;
            own.held.insert(
                held.first,
                Held {
                    last,
                    other_before: held.other_before,
                    letters,
                    bytes: size,
                },
            );
        }
        self.held_bytes += bytes;
        let (track, _) = self.tracks(stream);
        *track = own;
        Ok(())
    }
}
