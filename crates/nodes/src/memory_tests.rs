//! The engine in memory behaves like a real one, also in trouble.

use super::*;
use crate::feed::Feed;
use std::time::Duration;

fn name(text: &str) -> Name {
    text.as_bytes().into()
}

fn publish(kind: Kind, channel: &str, body: &str) -> Publish {
    Publish {
        kind,
        channel: name(channel),
        body: body.as_bytes().into(),
    }
}

fn messages(feed: &mut Feed) -> Vec<String> {
    std::iter::from_fn(|| feed.next_now())
        .filter_map(|news| match news {
            News::Message(message) => Some(String::from_utf8(message.body).expect("text")),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_message_reaches_those_that_subscribed_and_no_others() {
    let broker = Broker::default();
    let ((a, mut at_a), (b, mut at_b)) = (broker.open(), broker.open());
    a.subscribe(vec![Topic::Channel(Kind::Classic, name("x"))]);
    b.subscribe(vec![
        Topic::Channel(Kind::Sharded, name("x")),
        Topic::Pattern(name("x*")),
    ]);
    let batch = vec![
        publish(Kind::Classic, "x", "1"),
        publish(Kind::Sharded, "x", "2"),
        publish(Kind::Classic, "xy", "3"),
    ];
    let published = a.publish(&batch).await;
    assert_eq!(published.receivers, [Some(2), Some(1), Some(1)]);
    assert_eq!(messages(&mut at_a), ["1"]);
    assert_eq!(messages(&mut at_b), ["1", "2", "3"]);
    let counted = a.subscribers(Kind::Sharded, &[name("x"), name("y")]).await;
    assert_eq!(counted, Ok(vec![1, 0]));
    drop(b);
    assert_eq!(
        a.subscribers(Kind::Sharded, &[name("x")]).await,
        Ok(vec![0])
    );
}

#[tokio::test]
async fn a_node_that_is_cut_off_is_told_and_hears_again() {
    let broker = Broker::default();
    let ((a, _at_a), (b, mut at_b)) = (broker.open(), broker.open());
    let topics = vec![Topic::Channel(Kind::Classic, name("x"))];
    b.subscribe(topics.clone());
    messages(&mut at_b);
    broker.cut(2, true);
    assert_eq!(at_b.next().await, Some(News::Unheard(topics.clone())));
    assert_eq!(at_b.next().await, Some(News::Down(away())));
    let lost = a.publish(&[publish(Kind::Classic, "x", "1")]).await;
    assert_eq!(lost.receivers, [Some(0)]);
    let refused = b.publish(&[publish(Kind::Classic, "x", "2")]).await;
    assert!(!refused.is_complete() && refused.trouble.is_some());
    broker.cut(2, false);
    assert_eq!(at_b.next().await, Some(News::Heard(topics)));
    assert_eq!(at_b.next().await, Some(News::Up));
    broker.lose(1);
    let batch = ["3", "4"].map(|body| publish(Kind::Classic, "x", body));
    assert!(a.publish(&batch).await.is_complete());
    assert_eq!(messages(&mut at_b), ["4"]);
}

#[tokio::test]
async fn a_lease_has_one_holder_at_a_time() {
    let broker = Broker::default();
    let ((a, _at_a), (b, _at_b)) = (broker.open(), broker.open());
    let lease = |epoch: u64, payload: &str| Lease {
        key: name("k"),
        counter: name("c"),
        epoch,
        payload: payload.to_owned(),
        over: None,
        time: Duration::from_secs(600),
    };
    let (mine, yours) = (lease(1, "of a"), lease(2, "of b"));
    assert_eq!(a.hold(&mine).await, Ok(Held::Mine));
    assert_eq!(a.hold(&mine).await, Ok(Held::Mine));
    let holder = Holder::read(b"1 of a");
    assert_eq!(b.hold(&yours).await, Ok(Held::Other(holder.clone())));
    b.release(&yours).await.expect("nothing to give back");
    assert_eq!(b.holders(&[name("k")]).await, Ok(vec![Some(holder)]));
    a.release(&mine).await.expect("given back");
    assert_eq!(b.hold(&yours).await, Ok(Held::Mine));
    broker.stop(true);
    assert!(a.hold(&mine).await.is_err());
    broker.start();
    assert_eq!(a.hold(&mine).await, Ok(Held::Mine));
    assert_eq!(a.take(&mine).await, Ok(Taken::Mine(1)));
    let taken = b.take(&lease(1, "of b")).await;
    assert!(matches!(taken, Ok(Taken::Other(_))), "{taken:?}");
    a.release(&mine).await.expect("given back");
    assert_eq!(b.take(&lease(1, "of b")).await, Ok(Taken::Mine(2)));
}

#[test]
fn patterns_are_those_of_redis() {
    for (pattern, name, wanted) in [
        ("a*", "abc", true),
        ("a*c", "abd", false),
        ("a?c", "abc", true),
        ("a\\*", "a*", true),
        ("a\\*", "ab", false),
        ("[a-c]x", "bx", true),
        ("[^a-c]x", "bx", false),
        ("#/lab#*", "#/lab#room#", true),
        ("*", "", true),
        ("?", "", false),
    ] {
        let found = matches(pattern.as_bytes(), name.as_bytes());
        assert_eq!(found, wanted, "{pattern} {name}");
    }
}
