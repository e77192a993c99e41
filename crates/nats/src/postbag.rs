//! Messages that wait: those with the same key leave one after the other, and each key waits for itself.

use async_nats::HeaderMap;
use bridge::Fault;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// One message.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) key: String,
    pub(crate) subject: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) deadline: Instant,
    pub(crate) bytes: usize,
    pub(crate) waiter: oneshot::Sender<Result<(), Fault>>,
}

/// By key. A key is here from its first message to the end of its last one.
#[derive(Debug, Default)]
pub(crate) struct Postbag {
    keys: HashMap<String, VecDeque<Parcel>>,
    /// Keys that have no message under way, in the order in which they came.
    ready: VecDeque<String>,
}

impl Postbag {
    pub(crate) fn add(&mut self, parcel: Parcel) {
        if let Some(waiting) = self.keys.get_mut(&parcel.key) {
            return waiting.push_back(parcel);
        }
        self.ready.push_back(parcel.key.clone());
        self.keys
            .insert(parcel.key.clone(), VecDeque::from([parcel]));
    }

    /// The next one whose key has nothing under way. [`Postbag::done`] must be told of its end.
    pub(crate) fn next(&mut self) -> Option<Parcel> {
        let key = self.ready.pop_front()?;
        self.keys.get_mut(&key)?.pop_front()
    }

    pub(crate) fn done(&mut self, key: String) {
        match self.keys.get(&key) {
            Some(waiting) if waiting.is_empty() => {
                self.keys.remove(&key);
            }
            Some(_) => self.ready.push_back(key),
            None => {}
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(key: &str, subject: &str) -> Parcel {
        Parcel {
            key: key.to_owned(),
            subject: subject.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            deadline: Instant::now(),
            bytes: 0,
            waiter: oneshot::channel().0,
        }
    }

    #[test]
    fn a_key_has_one_message_under_way() {
        let mut bag = Postbag::default();
        for (key, subject) in [("a", "1"), ("a", "2"), ("b", "3")] {
            bag.add(parcel(key, subject));
        }
        let next = |bag: &mut Postbag| bag.next().map(|parcel| parcel.subject);
        assert_eq!(next(&mut bag).as_deref(), Some("1"));
        assert_eq!(next(&mut bag).as_deref(), Some("3"));
        assert_eq!(next(&mut bag), None);
        bag.add(parcel("a", "4"));
        bag.done("b".to_owned());
        assert_eq!(next(&mut bag), None);
        bag.done("a".to_owned());
        assert_eq!(next(&mut bag).as_deref(), Some("2"));
        bag.done("a".to_owned());
        assert_eq!(next(&mut bag).as_deref(), Some("4"));
        bag.done("a".to_owned());
        assert!(bag.keys.is_empty() && !bag.has_ready());
    }
}
