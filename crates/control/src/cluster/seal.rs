//! Frames carry a code that only nodes with the same secret can make (HMAC-SHA-256, the first 16 bytes). A stranger with access to the
//! engine could otherwise speak for a node.

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use std::sync::Arc;

const CODE: usize = 16;

/// Makes and checks the codes; without a secret there are none.
#[derive(Debug)]
pub(super) struct Seal(Option<Key>);

impl Seal {
    pub(super) fn new(secret: Option<&str>) -> Self {
        Self(secret.map(|secret| Key::new(HMAC_SHA256, secret.as_bytes())))
    }

    pub(super) fn close(&self, frame: &Arc<[u8]>) -> Arc<[u8]> {
        match &self.0 {
            None => Arc::clone(frame),
            Some(key) => [frame, &sign(key, frame).as_ref()[..CODE]].concat().into(),
        }
    }

    /// The frame, if its code is right.
    pub(super) fn open<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        let Some(key) = &self.0 else {
            return Some(body);
        };
        let (frame, code) = body.split_at_checked(body.len().checked_sub(CODE)?)?;
        let expected = sign(key, frame);
        let same = aws_lc_rs::constant_time::verify_slices_are_equal;
        same(&expected.as_ref()[..CODE], code).ok()?;
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_the_secret_is_refused() {
        let (ours, theirs, none) = (Seal::new(Some("a")), Seal::new(Some("b")), Seal::new(None));
        let frame: Arc<[u8]> = b"frame".as_slice().into();
        assert_eq!(ours.open(&ours.close(&frame)), Some(&frame[..]));
        assert_eq!(ours.open(&theirs.close(&frame)), None);
        assert_eq!(ours.open(&none.close(&frame)), None);
        assert_eq!(ours.open(b"short"), None);
        assert_eq!(none.open(&none.close(&frame)), Some(&frame[..]));
    }
}
