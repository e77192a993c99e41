//! News on their way from an engine to its user, bounded in bytes.

use super::engine::{Engine, News};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What a message costs besides its bytes.
const OVERHEAD_BYTES: usize = 128;

#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    /// Messages thrown away that were not told of yet.
    dropped: AtomicU64,
}

/// The end that an engine writes to.
#[derive(Clone, Debug)]
pub(super) struct Source {
    news: UnboundedSender<News>,
    waiting: Arc<Waiting>,
    bytes_max: usize,
}

/// The end that is read.
#[derive(Debug)]
pub struct Feed {
    news: UnboundedReceiver<News>,
    waiting: Arc<Waiting>,
}

/// An engine and what it reports.
pub type Opened = (Engine, Feed);

/// Both ends. Of messages, `bytes_max` wait at most; the other news are few and always pass.
pub(super) fn feed(bytes_max: usize) -> (Source, Feed) {
    let (sender, receiver) = unbounded_channel();
    let waiting = Arc::new(Waiting::default());
    let source = Source {
        news: sender,
        waiting: Arc::clone(&waiting),
        bytes_max,
    };
    let feed = Feed {
        news: receiver,
        waiting,
    };
    (source, feed)
}

/// Bytes that count against the bound.
fn weight(news: &News) -> usize {
    match news {
        News::Message(message) => message.channel.len() + message.body.len() + OVERHEAD_BYTES,
        _ => 0,
    }
}

impl Source {
    pub(super) fn tell(&self, news: News) {
        let bytes = weight(&news);
        let waiting = self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
        // A message larger than the bound passes when nothing else waits.
        if bytes > 0 && waiting > 0 && waiting + bytes > self.bytes_max {
            self.waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.waiting.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // An error means that nobody reads any more.
        let _ = self.news.send(news);
    }
}

impl Feed {
    /// Waits for the next; `None` = the engine ended.
    pub async fn next(&mut self) -> Option<News> {
        if let Some(dropped) = self.dropped() {
            return Some(dropped);
        }
        let news = self.news.recv().await?;
        Some(self.taken(news))
    }

    /// The next, if it is there already.
    pub fn next_now(&mut self) -> Option<News> {
        if let Some(dropped) = self.dropped() {
            return Some(dropped);
        }
        let news = self.news.try_recv().ok()?;
        Some(self.taken(news))
    }

    fn taken(&self, news: News) -> News {
        let bytes = weight(&news);
        self.waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
        news
    }

    fn dropped(&self) -> Option<News> {
        let dropped = self.waiting.dropped.swap(0, Ordering::Relaxed);
        (dropped > 0).then_some(News::Dropped(dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Kind, Message};

    fn message(bytes: usize) -> News {
        News::Message(Message {
            kind: Kind::Classic,
            pattern: None,
            channel: Vec::new(),
            body: vec![0; bytes],
        })
    }

    #[test]
    fn what_nobody_takes_is_dropped_and_told() {
        let (source, mut feed) = feed(1_000);
        (0..3).for_each(|_| source.tell(message(400)));
        source.tell(News::Up);
        assert_eq!(feed.next_now(), Some(News::Dropped(2)));
        assert_eq!(feed.next_now(), Some(message(400)));
        assert_eq!(feed.next_now(), Some(News::Up));
        assert_eq!(feed.next_now(), None);
        source.tell(message(700));
        assert_eq!(feed.next_now(), Some(message(700)));
    }

    #[test]
    fn a_message_beyond_the_bound_passes_alone() {
        let (source, mut feed) = feed(1_000);
        source.tell(message(5_000));
        source.tell(message(1));
        assert_eq!(feed.next_now(), Some(News::Dropped(1)));
        assert_eq!(feed.next_now(), Some(message(5_000)));
        assert_eq!(feed.next_now(), None);
    }
}
