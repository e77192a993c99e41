//! Bodies above the server's `max_payload` go as several messages, which the receiver puts together. Those of one publisher come one behind the
//! other; those of several may be mixed.

use async_nats::{HeaderMap, HeaderValue};
use bytes::Bytes;
use std::collections::VecDeque;

const HEADER: &str = "Sockeye-Part";
/// Of a message's bytes: its header and what stands around it.
const AROUND_BYTES: usize = 256;
/// Incomplete bodies that are kept, and their bytes; older ones make way, and their publisher is asked again.
const OPEN_MAX: usize = 16;
const OPEN_BYTES_MAX: usize = 64 << 20;

/// Which one it is of how many, of which body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    body: u64,
    at: u32,
    count: u32,
}

impl Place {
    fn text(self) -> String {
        format!("{:x} {} {}", self.body, self.at, self.count)
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let body = u64::from_str_radix(words.next()?, 16).ok()?;
        let at = words.next()?.parse().ok()?;
        let count = words.next()?.parse().ok()?;
        (at < count).then_some(Self { body, at, count })
    }
}

/// The messages for a body, each with its headers.
pub(super) fn split(
    body: &Bytes,
    payload_max: usize,
    number: u64,
) -> impl Iterator<Item = (Option<HeaderMap>, Bytes)> {
    let is_whole = body.len() <= payload_max;
    let size = match is_whole {
        true => body.len().max(1),
        false => payload_max.saturating_sub(AROUND_BYTES).max(1),
    };
    let count = body.len().div_ceil(size).max(1);
    (0..count).map(move |at| {
        let (from, to) = (at * size, body.len().min((at + 1) * size));
        let headers = (!is_whole).then(|| {
            let place = Place {
                body: number,
                at: at as u32,
                count: count as u32,
            };
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from(place.text()));
            headers
        });
        (headers, body.slice(from..to))
    })
}

struct Open {
    body: u64,
    next: u32,
    bytes: Vec<u8>,
}

/// Of one subject.
#[derive(Default)]
pub(super) struct Parts {
    open: VecDeque<Open>,
}

impl Parts {
    /// The body, if this is the whole or the last of it.
    pub(super) fn join(&mut self, headers: Option<&HeaderMap>, payload: Bytes) -> Option<Vec<u8>> {
        let header = headers.and_then(|headers| headers.get(HEADER));
        let Some(header) = header else {
            return Some(payload.into());
        };
        let place = Place::read(header.as_str())?;
        if place.at == 0 {
            self.open.retain(|open| open.body != place.body);
            self.open.push_back(Open {
                body: place.body,
                next: 0,
                bytes: Vec::new(),
            });
        }
        let found = self.open.iter().position(|open| open.body == place.body)?;
        let open = self.open.get_mut(found)?;
        if open.next != place.at {
            // One is missing.
            self.open.remove(found);
            return None;
        }
        open.bytes.extend_from_slice(&payload);
        open.next += 1;
        if open.next == place.count {
            return self.open.remove(found).map(|open| open.bytes);
        }
        self.make_way();
        None
    }

    fn make_way(&mut self) {
        let bytes = |open: &VecDeque<Open>| open.iter().map(|open| open.bytes.len()).sum::<usize>();
        while self.open.len() > OPEN_MAX || bytes(&self.open) > OPEN_BYTES_MAX {
            self.open.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(body: &'static [u8], number: u64) -> Vec<(Option<HeaderMap>, Bytes)> {
        split(&Bytes::from_static(body), AROUND_BYTES + 4, number).collect()
    }

    const LONG: [u8; 270] = [7; 270];

    #[test]
    fn a_body_that_fits_goes_as_it_is() {
        let mut joined = Parts::default();
        for body in [&b""[..], b"abc"] {
            let parts = parts(body, 1);
            assert_eq!(parts.len(), 1);
            let (headers, payload) = parts[0].clone();
            assert!(headers.is_none());
            assert_eq!(joined.join(None, payload), Some(body.to_vec()));
        }
    }

    #[test]
    fn parts_of_several_publishers_are_put_together() {
        let (one, other) = (parts(&LONG, 1), parts(&LONG, 2));
        assert_eq!(one.len(), LONG.len().div_ceil(4));
        let mut joined = Parts::default();
        let mut came = Vec::new();
        for (one, other) in one.into_iter().zip(other) {
            for (headers, payload) in [one, other] {
                came.extend(joined.join(headers.as_ref(), payload));
            }
        }
        assert_eq!(came, [LONG.to_vec(), LONG.to_vec()]);
    }

    #[test]
    fn a_body_with_a_hole_never_comes_and_costs_nothing() {
        let mut joined = Parts::default();
        for (at, (headers, payload)) in parts(&LONG, 1).into_iter().enumerate() {
            if at != 3 {
                assert_eq!(joined.join(headers.as_ref(), payload), None);
            }
        }
        assert!(joined.open.is_empty());
        for number in 0..100 {
            let (headers, payload) = parts(&LONG, number).remove(0);
            assert_eq!(joined.join(headers.as_ref(), payload), None);
        }
        assert!(joined.open.len() <= OPEN_MAX);
    }
}
