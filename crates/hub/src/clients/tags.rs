//! Texts that many sessions share, such as the names of their programs: each is kept once, and a session keeps a number.

use crate::bounds::{TAG_BYTES_MAX, TAGS_MAX};
use std::collections::HashMap;
use std::sync::Arc;

/// The number of a text; zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag(u16);

#[derive(Debug)]
struct Entry {
    text: Arc<str>,
    /// How many have its number.
    uses: usize,
}

/// The texts in use.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    /// Number 1 comes first.
    entries: Vec<Option<Entry>>,
    free: Vec<u16>,
    numbers: HashMap<Arc<str>, u16>,
}

impl Tags {
    /// The number of a text, to be given back by `release`; none if there are too many, or the text is empty.
    pub(crate) fn take(&mut self, text: &str) -> Tag {
        let text = cut(text);
        if text.is_empty() {
            return Tag::default();
        }
        if let Some(number) = self.numbers.get(text).copied() {
            if let Some(entry) = self.entry(number) {
                entry.uses += 1;
            }
            return Tag(number);
        }
        let Some(number) = self.free_number() else {
            return Tag::default();
        };
        let text: Arc<str> = text.into();
        self.numbers.insert(Arc::clone(&text), number);
        self.entries[usize::from(number) - 1] = Some(Entry { text, uses: 1 });
        Tag(number)
    }

    fn free_number(&mut self) -> Option<u16> {
        self.free.pop().or_else(|| {
            let next = self.entries.len() + 1;
            (next <= TAGS_MAX).then(|| {
                self.entries.push(None);
                next as u16
            })
        })
    }

    fn entry(&mut self, number: u16) -> Option<&mut Entry> {
        let at = usize::from(number).checked_sub(1)?;
        self.entries.get_mut(at)?.as_mut()
    }

    /// A number is given back. The text goes with its last use.
    pub(crate) fn release(&mut self, tag: Tag) {
        let Some(entry) = self.entry(tag.0) else {
            return;
        };
        entry.uses -= 1;
        if entry.uses == 0 {
            let text = Arc::clone(&entry.text);
            self.numbers.remove(&text);
            self.entries[usize::from(tag.0) - 1] = None;
            self.free.push(tag.0);
        }
    }

    pub(crate) fn get(&self, tag: Tag) -> Option<&Arc<str>> {
        let at = usize::from(tag.0).checked_sub(1)?;
        Some(&self.entries.get(at)?.as_ref()?.text)
    }

    /// The kept copy of an equal text, or this text where none is kept.
    pub(crate) fn shared(&self, text: Arc<str>) -> Arc<str> {
        let known = self.numbers.get_key_value(&*text);
        known.map_or(text, |(known, _)| Arc::clone(known))
    }

    /// How often numbers are in use.
    pub(crate) fn uses(&self) -> usize {
        self.entries.iter().flatten().map(|entry| entry.uses).sum()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let entries = self.entries.iter().flatten();
        let texts: usize = entries.map(|entry| entry.text.len() + 16).sum();
        texts
            + self.entries.capacity() * size_of::<Option<Entry>>()
            + self.numbers.capacity() * size_of::<(Arc<str>, u16)>()
            + self.free.capacity() * 2
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TAG_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_as_long_as_somebody_has_it() {
        let mut tags = Tags::default();
        let (one, other) = (tags.take("a"), tags.take("a"));
        assert_eq!((one, tags.uses()), (other, 2));
        tags.release(one);
        assert_eq!(tags.get(other).map(|text| &**text), Some("a"));
        tags.release(other);
        assert_eq!((tags.get(other), tags.uses()), (None, 0));
        assert_eq!(tags.take("b"), one, "its number is free again");
        assert_eq!(tags.take(""), Tag::default());
        assert_eq!(tags.get(Tag::default()), None);
        tags.release(Tag::default());
    }

    #[test]
    fn a_flood_of_texts_finds_a_bound() {
        let mut tags = Tags::default();
        let taken: Vec<Tag> = (0..5_000)
            .map(|n| tags.take(&format!("agent {n}")))
            .collect();
        assert_eq!(tags.uses(), TAGS_MAX);
        assert_eq!(tags.take("late"), Tag::default());
        assert!(tags.heap_bytes() < 300_000, "{}", tags.heap_bytes());
        taken.into_iter().for_each(|tag| tags.release(tag));
        assert_ne!(tags.take("late"), Tag::default());
        let long = tags.take(&"ö".repeat(5_000));
        assert_eq!(tags.get(long).map(|text| text.len()), Some(TAG_BYTES_MAX));
    }
}
