//! The engine against real servers, in all the trouble they can be in.

mod access;
mod bridge;
mod cluster;
mod sentinel;
mod single;
mod stream;

use nodes::engine::{Engine, Kind, Message, News, Publish, Topic};
use nodes::feed::Feed;
use nodes::redis;
use nodes::redis::settings::{Mode, Settings};
use servers::PATIENCE;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// A node: it publishes and hears.
struct Node {
    engine: Engine,
    feed: Feed,
    heard: HashSet<Topic>,
    is_up: bool,
}

fn settings(addrs: &[String], mode: Mode) -> Settings {
    let urls: Vec<String> = addrs.iter().map(|addr| format!("redis://{addr}")).collect();
    Settings::new(&urls, mode, None).expect("settings")
}

fn sharded(name: &str) -> Topic {
    Topic::Channel(Kind::Sharded, name.as_bytes().into())
}

fn classic(name: &str) -> Topic {
    Topic::Channel(Kind::Classic, name.as_bytes().into())
}

fn publish(kind: Kind, channel: &str, body: &str) -> Publish {
    Publish {
        kind,
        channel: channel.as_bytes().into(),
        body: body.as_bytes().into(),
    }
}

impl Node {
    async fn open(settings: Settings) -> Node {
        let (engine, feed) = redis::open(settings).await.expect("Redis is there");
        Node {
            engine,
            feed,
            heard: HashSet::new(),
            is_up: false,
        }
    }

    /// Subscribes and waits until all is heard.
    async fn hears(&mut self, topics: &[Topic]) {
        self.engine.subscribe(topics.to_vec());
        self.until("subscribed", |node, _| {
            topics.iter().all(|topic| node.heard.contains(topic))
        })
        .await;
    }

    async fn next(&mut self) -> News {
        let news = self.feed.next().await.expect("the engine runs");
        match &news {
            News::Heard(topics) => self.heard.extend(topics.iter().cloned()),
            News::Unheard(topics) => topics.iter().for_each(|topic| {
                self.heard.remove(topic);
            }),
            News::Up => self.is_up = true,
            News::Down(_) => self.is_up = false,
            _ => {}
        }
        news
    }

    /// Takes news until they are what is waited for.
    async fn until(&mut self, what: &str, mut done: impl FnMut(&Node, &News) -> bool) -> Vec<News> {
        let mut all = Vec::new();
        let waited = timeout(PATIENCE, async {
            loop {
                let news = self.next().await;
                let is_done = done(self, &news);
                all.push(news);
                if is_done {
                    return;
                }
            }
        });
        if waited.await.is_err() {
            panic!("waited in vain: {what}; came: {all:?}");
        }
        all
    }

    /// The next message.
    async fn message(&mut self) -> Message {
        let all = self.until("a message", |_, news| matches!(news, News::Message(_)));
        match all.await.pop() {
            Some(News::Message(message)) => message,
            other => panic!("no message: {other:?}"),
        }
    }

    /// Subscribers of channels.
    async fn counts(&self, kind: Kind, names: &[&str]) -> Vec<u64> {
        let names: Vec<_> = names.iter().map(|name| name.as_bytes().into()).collect();
        let counts = self.engine.subscribers(kind, &names).await;
        counts.expect("Redis counts")
    }

    async fn up(&mut self) {
        if !self.is_up {
            self.until("up", |_, news| *news == News::Up).await;
        }
    }

    async fn down(&mut self) -> String {
        let all = self.until("down", |_, news| matches!(news, News::Down(_)));
        match all.await.pop() {
            Some(News::Down(trouble)) => trouble.to_string(),
            other => panic!("not down: {other:?}"),
        }
    }

    /// Publishes until the server takes it.
    async fn publishes(&self, batch: &[Publish]) {
        let taken = timeout(PATIENCE, async {
            while !self.engine.publish(batch).await.is_complete() {
                sleep(Duration::from_millis(20)).await;
            }
        });
        taken.await.expect("Redis takes a message again");
    }

    /// Every channel works: what is published by `from` on each comes here.
    async fn hears_all(&mut self, from: &Node, kind: Kind, channels: &[String], round: &str) {
        let mut missing: HashSet<Vec<u8>> =
            channels.iter().map(|name| name.clone().into()).collect();
        let all = timeout(PATIENCE, async {
            while !missing.is_empty() {
                let names = missing.iter().map(|name| String::from_utf8_lossy(name));
                let batch: Vec<Publish> = names.map(|name| publish(kind, &name, round)).collect();
                from.engine.publish(&batch).await;
                while let Ok(news) = timeout(Duration::from_millis(100), self.next()).await {
                    if let News::Message(message) = news
                        && message.body == round.as_bytes()
                    {
                        missing.remove(&message.channel);
                    }
                }
            }
        });
        if all.await.is_err() {
            let names: Vec<_> = missing
                .iter()
                .map(|name| String::from_utf8_lossy(name))
                .collect();
            panic!("{round}: nothing comes on {names:?}");
        }
    }
}
