//! Frames and leases carry a code that only nodes with the same secret can make (HMAC-SHA-256, the first 16 bytes). A stranger with access to the
//! engine could otherwise speak for a node.

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::sync::Arc;

const CODE: usize = 16;

/// A key that all nodes with one secret have and nobody else: of the numbers that stand for names.
pub fn name_key(secret: Option<&str>) -> [u64; 2] {
    let key = Key::new(HMAC_SHA256, secret.unwrap_or_default().as_bytes());
    let code = sign(&key, b"names");
    let (words, _) = code.as_ref().as_chunks::<8>();
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
    [word(0), word(1)]
}

/// Makes and checks the codes; without a secret there are none.
#[derive(Clone, Debug)]
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

    /// What stands in a lease for others to read. The code is of this key and this life: it is worth nothing elsewhere.
    pub(super) fn close_card(&self, key: &[u8], epoch: u64, card: &str) -> String {
        match self.card_code(key, epoch, card) {
            None => card.to_owned(),
            Some(code) => format!("{code} {card}"),
        }
    }

    /// The card, if its code is right.
    pub(super) fn open_card<'a>(&self, key: &[u8], epoch: u64, text: &'a str) -> Option<&'a str> {
        if self.0.is_none() {
            return Some(text);
        }
        let (code, card) = text.split_once(' ')?;
        let expected = self.card_code(key, epoch, card)?;
        let same = aws_lc_rs::constant_time::verify_slices_are_equal;
        same(expected.as_bytes(), code.as_bytes()).ok()?;
        Some(card)
    }

    /// Closes a node's sheet of limits. The code is of this key: it is worth nothing elsewhere.
    pub(super) fn close_sheet(&self, key: &[u8], sheet: &[u8]) -> Vec<u8> {
        match self.sheet_code(key, sheet) {
            None => sheet.to_vec(),
            Some(code) => [sheet, &code].concat(),
        }
    }

    /// The sheet, if its code is right.
    pub(super) fn open_sheet<'a>(&self, key: &[u8], body: &'a [u8]) -> Option<&'a [u8]> {
        if self.0.is_none() {
            return Some(body);
        }
        let (sheet, code) = body.split_at_checked(body.len().checked_sub(CODE)?)?;
        let expected = self.sheet_code(key, sheet)?;
        let same = aws_lc_rs::constant_time::verify_slices_are_equal;
        same(&expected, code).ok()?;
        Some(sheet)
    }

    fn sheet_code(&self, key: &[u8], sheet: &[u8]) -> Option<Vec<u8>> {
        let text = [b"limits ", key, b" ", sheet].concat();
        let code = sign(self.0.as_ref()?, &text);
        Some(code.as_ref()[..CODE].to_vec())
    }

    fn card_code(&self, key: &[u8], epoch: u64, card: &str) -> Option<String> {
        let epoch = epoch.to_le_bytes();
        // No frame begins so.
        let text = [b"lease ", key, b" ", &epoch, card.as_bytes()].concat();
        let code = sign(self.0.as_ref()?, &text);
        Some(URL_SAFE_NO_PAD.encode(&code.as_ref()[..CODE]))
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

    #[test]
    fn a_sheet_counts_under_its_own_key_only_and_is_no_frame() {
        let (ours, theirs, none) = (Seal::new(Some("a")), Seal::new(Some("b")), Seal::new(None));
        let body = ours.close_sheet(b"k:1", b"sheet");
        assert_eq!(ours.open_sheet(b"k:1", &body), Some(&b"sheet"[..]));
        assert_eq!(ours.open_sheet(b"k:2", &body), None);
        assert_eq!(theirs.open_sheet(b"k:1", &body), None);
        assert_eq!(ours.open_sheet(b"k:1", b"short"), None);
        assert_eq!(ours.open(&body), None);
        assert_eq!(none.open_sheet(b"k:1", b"sheet"), Some(&b"sheet"[..]));
    }

    /// A stranger that could write to the engine took a number, and its holder ended.
    #[test]
    fn a_card_counts_under_its_own_key_for_its_own_life_only() {
        let (ours, theirs, none) = (Seal::new(Some("a")), Seal::new(Some("b")), Seal::new(None));
        let text = ours.close_card(b"k:1", 7, "{card}");
        assert_eq!(ours.open_card(b"k:1", 7, &text), Some("{card}"));
        assert_eq!(ours.open_card(b"k:2", 7, &text), None);
        assert_eq!(ours.open_card(b"k:1", 8, &text), None);
        assert_eq!(theirs.open_card(b"k:1", 7, &text), None);
        assert_eq!(ours.open_card(b"k:1", 7, "{card}"), None);
        assert_eq!(ours.open_card(b"k:1", 7, " "), None);
        let bare = none.close_card(b"k:1", 7, "{card}");
        assert_eq!(none.open_card(b"k:1", 7, &bare), Some("{card}"));
    }
}
