//! What a shard says to the others of its people in a room.

use super::entry::{Entry, Flag};
use super::roll::Roll;
use super::speech::Speech;
use super::word::{Person, Who, Word};
use crate::bounds::INFO_BYTES_MAX;
use crate::clients::people::People;
use std::sync::Arc;
use wire::json;

impl Roll {
    pub(super) fn has_news(&self) -> bool {
        let Speech {
            again, whole, asks, ..
        } = self.speech;
        self.crowd.has_unsaid() || again || whole || asks
    }

    /// What others are told. `withheld`: nodes cannot be told now.
    pub(super) fn say(
        &mut self,
        people: &People,
        now_ms: u64,
        versions: &mut u64,
        withheld: bool,
    ) -> Option<Word> {
        if !self.has_news() {
            return None;
        }
        let mut word = Word {
            count: self.crowd.here(),
            nameless: !self.speech.names,
            ..Word::default()
        };
        let news = self.crowd.take_unsaid();
        let again = std::mem::take(&mut self.speech.again);
        if news.is_empty() && !(again || self.speech.whole || self.speech.asks) {
            return None;
        }
        if self.speech.version == 0 {
            self.speech.first_ms = Some(now_ms);
        }
        *versions += 1;
        word.since = std::mem::replace(&mut self.speech.version, *versions);
        word.version = self.speech.version;
        word.asks = std::mem::take(&mut self.speech.asks);
        if std::mem::take(&mut self.speech.whole) {
            word.since = 0;
            word.joined = self.all_here(people);
        } else if self.speech.names {
            for (who, is_here) in news {
                match is_here {
                    true => word.joined.push(self.person(who, people)),
                    false => word.left.push(who),
                }
            }
        }
        if withheld {
            // Nodes miss this word, so the next one says all, and asks if this one did.
            (self.speech.whole, self.speech.asks) = (true, word.asks);
        } else {
            self.speech.is_believed = word.count > 0;
        }
        Some(word)
    }

    fn all_here(&mut self, people: &People) -> Vec<Person> {
        if !self.speech.names {
            return Vec::new();
        }
        let here = self.crowd.which(Entry::is_here);
        here.into_iter()
            .map(|who| self.person(who, people))
            .collect()
    }

    /// All that others were told of the people here. `None`: nothing yet, and it will be all.
    pub(super) fn told(&self) -> Option<Word> {
        if self.speech.version == 0 {
            return None;
        }
        // The answer has what the others were told, so that the next change follows it.
        let told = self.crowd.iter().filter(|entry| entry.is(Flag::Told));
        let joined = told.clone().map(|entry| Person {
            who: entry.who(),
            info: entry.info().unwrap_or_default(),
        });
        Some(Word {
            version: self.speech.version,
            count: told.clone().count() as u32,
            nameless: !self.speech.names,
            joined: match self.speech.names {
                true => joined.collect(),
                false => Vec::new(),
            },
            ..Word::default()
        })
    }

    /// A member as others see it from now on.
    pub(super) fn person(&mut self, who: Who, people: &People) -> Person {
        let entry = self.crowd.get(&who);
        let info = entry.map(|entry| self.info(entry, people));
        let info = info.unwrap_or_default();
        self.crowd.set_info(&who, &info);
        Person { who, info }
    }

    /// What others may see of a member.
    pub(super) fn info(&self, entry: &Entry, people: &People) -> Arc<str> {
        entry.info().unwrap_or_else(|| {
            let socket = entry.socket().and_then(|socket| people.sockets.get(socket));
            let extra = socket.and_then(|socket| socket.extra.as_ref());
            let data = extra.and_then(|extra| extra.data.as_deref());
            info_of(data.unwrap_or_default(), &self.rule.info)
        })
    }
}

/// The chosen members of a socket's data, as an object.
fn info_of(data: &str, members: &[String]) -> Arc<str> {
    let mut info = String::new();
    for name in members {
        if let Some(value) = json::member(data, name) {
            info.push(if info.is_empty() { '{' } else { ',' });
            info.push_str(name);
            info.push(':');
            info.push_str(value);
        }
    }
    if !info.is_empty() {
        info.push('}');
    }
    match info.len() {
        ..=INFO_BYTES_MAX => info.into(),
        _ => Arc::from(""),
    }
}
