//! Which poll of a session was the last one, by the `t` that clients make up for each request.
//!
//! A proxy may repeat a GET whose answer it lost. The packets of that answer exist nowhere any more, and a session that went on
//! would have a hole that nobody sees.

use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// A `t` of fewer digits is a time in seconds: two polls may come within one.
const UNIQUE_DIGITS: usize = 11;
/// The hash of a `t` lies above these bits.
const KIND: u64 = 0b11;
/// The client gives one `t` to several requests: it says nothing.
const SHARED: u64 = 0b01;
/// The latest `t` was that of another request than a poll.
const OTHER: u64 = 0b10;
/// The latest `t` was that of a poll.
const POLL: u64 = 0b11;

/// A session's latest `t`; 0 = it had none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastPoll(u64);

impl LastPoll {
    /// The number by which another process knows it.
    pub(crate) fn said(self) -> u64 {
        self.0
    }

    pub(crate) fn heard(said: u64) -> Self {
        Self(said)
    }

    /// The session was opened with this.
    pub(crate) fn opened(t: Option<&str>) -> Self {
        Self(hash(t).map_or(0, |hash| hash | OTHER))
    }

    /// A POST came with this.
    pub(crate) fn posted(&mut self, t: Option<&str>) {
        if hash(t).is_some_and(|hash| self.has(hash)) {
            self.0 = SHARED;
        }
    }

    /// A poll comes with this; `true` = it is the last one, said again.
    pub(crate) fn polled(&mut self, t: Option<&str>) -> bool {
        if self.0 == SHARED {
            return false;
        }
        // The last poll is one without a `t` now, so an older `t` is no repeat.
        let Some(hash) = hash(t) else {
            self.0 = 0;
            return false;
        };
        let same = self.has(hash);
        if same && self.0 & KIND == POLL {
            return true;
        }
        self.0 = if same { SHARED } else { hash | POLL };
        false
    }

    fn has(self, hash: u64) -> bool {
        self.0 > SHARED && self.0 & !KIND == hash
    }
}

/// `None`: nothing, or no word of one request. A client that finds two words with one hash harms itself only: no secret is needed.
fn hash(t: Option<&str>) -> Option<u64> {
    let t = t.filter(|t| !t.is_empty())?;
    let seconds = t.len() < UNIQUE_DIGITS && t.bytes().all(|byte| byte.is_ascii_digit());
    (!seconds).then(|| FixedState::with_seed(0).hash_one(t) & !KIND)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word is a request: `o` opens, `p` posts, `g` polls; the rest is its `t`. The number of the poll that is a repeat.
    fn repeat(requests: &str) -> Option<usize> {
        let mut last = LastPoll::default();
        requests.split(' ').position(|request| {
            let (kind, t) = request.split_at(1);
            let t = (t != "-").then_some(t);
            match kind {
                "o" => last = LastPoll::opened(t),
                "p" => last.posted(t),
                _ => return last.polled(t),
            }
            false
        })
    }

    #[test]
    fn a_poll_that_is_said_again_is_known() {
        for (requests, found) in [
            ("oPk1a pPk1b gPk1c gPk1d gPk1d", Some(4)),
            (
                "o1732412345.123456 g1732412345.223456 g1732412345.223456",
                Some(2),
            ),
            ("o- gPk1a p- gPk1a", Some(3)),
            // No proxy repeats a poll after others have come.
            ("oPk1a gPk1b gPk1c gPk1b", None),
            ("o- g- p- g- g-", None),
            ("ox gy g- gy", None),
        ] {
            assert_eq!(repeat(requests), found, "{requests}");
        }
    }

    /// Some clients write the time in seconds, and load scripts the same word always.
    #[test]
    fn a_word_that_a_client_gives_to_several_requests_says_nothing() {
        for requests in [
            "o1732412345 p1732412345 g1732412346 g1732412346 g1732412346",
            "ox gx gx gx",
            "o- gx px gx gx",
            "o- gx px gy gy",
        ] {
            assert_eq!(repeat(requests), None, "{requests}");
        }
    }
}
