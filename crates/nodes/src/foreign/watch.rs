//! Servers of other kinds that are not let in: the first one that speaks is named in the log, with the key that lets it in.

use super::{name, topics_of};
use crate::engine::{News, StreamNews};
use crate::feed::Opened;
use compat::plane::{Plane, Settings, Task};

/// Listens until one is heard. Without the right to listen there is nothing to wait for.
pub async fn watch(
    (engine, mut feed): Opened,
    settings: Settings,
    stream: &str,
    namespaces: &[String],
) {
    let mut plane = Plane::new(settings);
    for namespace in namespaces {
        plane.enter(namespace, 0);
    }
    for task in plane.take() {
        if let Task::Subscribe(topics) = task {
            engine.subscribe(topics_of(topics));
        }
    }
    let mut entries = engine.read(name(stream));
    let heard = loop {
        tokio::select! {
            news = feed.next() => match news {
                Some(News::Message(message)) => break String::from_utf8_lossy(&message.channel).into_owned(),
                Some(News::Down(trouble)) if trouble.lasts() => return,
                None => return,
                Some(_) => {}
            },
            Some(news) = entries.recv() => if let StreamNews::Entries(_) = news {
                break stream.to_owned();
            },
        }
    };
    tracing::warn!(
        channel = heard,
        "a Socket.IO adapter or emitter speaks on this Redis and is not heard, because cluster.secret is set: set compat.enabled = true to \
         share rooms with it. Then whoever can publish to Redis reaches all clients"
    );
}
