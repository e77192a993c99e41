//! Writes about sockets that come, change and go, while Redis takes it and while it does not.

use super::*;
use std::time::Duration;

fn id(n: u32) -> Id20 {
    let mut bytes = [0; 15];
    bytes[11..].copy_from_slice(&n.to_be_bytes());
    Id20(bytes)
}

fn here(n: u32, user: Option<&str>, rooms: &[&str]) -> RollWord {
    RollWord::Here(Box::new(Listed {
        socket: id(n),
        namespace: "/".into(),
        user: user.map(Into::into),
        rooms: rooms.iter().map(|room| Arc::from(*room)).collect(),
        connected_ms: 7,
    }))
}

fn book() -> Book {
    Book::new(Documents::new(vec!["doc:*".to_owned()]), 300_000)
}

fn words() -> Words {
    Words {
        node: 5,
        now_ms: 1_000,
        keep: Duration::from_secs(900),
    }
}

/// The commands of the next batch, as one would type them.
fn typed(batch: &Batch) -> Vec<String> {
    let mut typed = Vec::new();
    for (at, command) in batch.commands.iter().enumerate() {
        typed.push(command.text());
        let after = batch.expiries.iter().filter(|(place, _)| *place == at);
        typed.extend(after.map(|(_, command)| command.text()));
    }
    typed
}

fn written(book: &mut Book, now_ms: u64) -> Vec<String> {
    let Some(batch) = book.take(&words(), 10_000) else {
        return Vec::new();
    };
    book.done(&batch, now_ms);
    typed(&batch)
}

#[test]
fn a_socket_is_written_once_for_all_that_changed() {
    let mut book = book();
    let name = id(1).to_string();
    book.hear(here(1, None, &[]));
    book.hear(here(1, Some("ada"), &["doc:1", "hall"]));
    let commands = written(&mut book, 1_000);
    let expected = [
        format!(
            "HSET ws:client:{name} node 5 uid ada rooms [\"doc:1\",\"hall\"] connected 7 namespace /"
        ),
        format!("PEXPIRE ws:client:{name} 900000"),
        format!("ZADD ws:user:clients:ada 1000 {name}"),
        "PEXPIRE ws:user:clients:ada 900000".to_owned(),
        format!("ZADD ws:guid:clients:doc:1 1000 {name}"),
        "PEXPIRE ws:guid:clients:doc:1 900000".to_owned(),
    ];
    assert_eq!(commands, expected);
    book.hear(here(1, Some("ada"), &["doc:1", "hall"]));
    assert_eq!(written(&mut book, 2_000), [""; 0], "nothing changed");
    // It moves to another document, and becomes somebody else.
    book.hear(here(1, Some("eve"), &["doc:2"]));
    let commands = written(&mut book, 3_000);
    assert!(commands.contains(&format!("ZREM ws:user:clients:ada {name}")));
    assert!(commands.contains(&format!("ZREM ws:guid:clients:doc:1 {name}")));
    book.hear(RollWord::Gone(id(1)));
    let commands = written(&mut book, 4_000);
    let expected = [
        format!("DEL ws:client:{name}"),
        format!("ZREM ws:user:clients:eve {name}"),
        format!("ZREM ws:guid:clients:doc:2 {name}"),
    ];
    assert_eq!(commands, expected);
    assert_eq!((book.sockets(), book.waiting()), (0, 0));
}

/// Redis is away while a crowd comes and goes.
#[test]
fn an_outage_costs_no_more_memory_than_the_sockets_that_are_there() {
    let mut book = book();
    for n in 0..100 {
        book.hear(here(n, Some("u"), &[]));
    }
    written(&mut book, 1_000);
    for n in 1_000..50_000 {
        book.hear(here(n, Some("u"), &["doc:1"]));
        book.hear(RollWord::Gone(id(n)));
    }
    for n in 0..100 {
        book.hear(RollWord::Gone(id(n)));
    }
    assert_eq!(book.sockets(), 100, "those that stand in Redis");
    let commands = written(&mut book, 2_000);
    assert_eq!(commands.len(), 200, "each is deleted, and nobody else");
    assert_eq!(book.sockets(), 0);
    assert!(book.waiting.len() <= 100);
}

/// Of a batch that failed nobody knows what was carried out: what it may have written is deleted later.
#[test]
fn a_batch_that_failed_leaves_no_trace() {
    let mut book = book();
    book.hear(here(1, Some("ada"), &["doc:1"]));
    let batch = book.take(&words(), 10_000).expect("something to write");
    assert_eq!(batch.new, [id(1)]);
    book.failed(&batch, false);
    let batch = book.take(&words(), 10_000).expect("the same again");
    assert_eq!(batch.new, [id(1)], "it is not in the index");
    book.failed(&batch, true);
    book.hear(here(1, Some("eve"), &[]));
    let batch = book.take(&words(), 10_000).expect("what is true now");
    assert_eq!(batch.new, [], "it is there");
    book.done(&batch, 1_000);
    let (commands, name) = (typed(&batch), id(1).to_string());
    assert!(commands.contains(&format!("ZREM ws:user:clients:ada {name}")));
    assert!(commands.contains(&format!("ZREM ws:guid:clients:doc:1 {name}")));
}

#[test]
fn entries_are_renewed_before_they_expire_each_once() {
    let mut book = book();
    for n in 0..10 {
        book.hear(here(n, Some("u"), &[]));
    }
    assert_eq!(written(&mut book, 0).len(), 40);
    book.renew(299_999);
    assert_eq!(written(&mut book, 299_999), [""; 0]);
    // One was written for another reason.
    book.hear(here(3, Some("u"), &["hall"]));
    assert_eq!(written(&mut book, 299_999).len(), 4);
    book.renew(300_000);
    assert_eq!(written(&mut book, 300_000).len(), 36);
    book.renew(599_999);
    assert_eq!(written(&mut book, 599_999).len(), 4);
    assert_eq!(book.renewals.len(), 10);
}

#[test]
fn a_redis_that_lost_everything_gets_everything_again() {
    let mut book = book();
    for n in 0..10 {
        book.hear(here(n, Some("u"), &[]));
    }
    written(&mut book, 0);
    book.hear(RollWord::Gone(id(3)));
    book.write_anew();
    let batch = book.take(&words(), 10_000).expect("all of it");
    assert_eq!((batch.new.len(), batch.gone.len()), (9, 1));
    book.done(&batch, 1_000);
    assert_eq!((book.sockets(), book.waiting()), (9, 0));
}

/// Redis was away and had lost nothing: sockets stayed for ever under documents that they had left meanwhile, and users that they had been.
#[test]
fn names_of_the_time_before_an_outage_were_forgotten() {
    let mut book = book();
    book.hear(here(1, Some("ada"), &["doc:1", "doc:2"]));
    written(&mut book, 0);
    book.hear(here(1, Some("eve"), &["doc:2"]));
    book.write_anew();
    let (commands, name) = (written(&mut book, 1_000), id(1).to_string());
    assert!(commands.contains(&format!("ZREM ws:user:clients:ada {name}")));
    assert!(commands.contains(&format!("ZREM ws:guid:clients:doc:1 {name}")));
    assert!(!commands.contains(&format!("ZREM ws:guid:clients:doc:2 {name}")));
}

#[test]
fn names_are_bounded_and_counted() {
    let mut book = book();
    let long = "u".repeat(16 * 1_024);
    book.hear(here(1, Some(&long), &[&long, "doc:1"]));
    let commands = written(&mut book, 0);
    assert!(commands.iter().all(|command| command.len() < 200));
    assert_eq!(commands.len(), 4, "its entry and its document");
    assert_eq!(book.left_out(), 2);
    // Spaces, line ends, quotes and braces are names like others.
    let odd = "{a}\r\nDEL x \"\u{1f600}\u{0}";
    book.hear(here(2, Some(odd), &[&format!("doc:{odd}")]));
    let commands = written(&mut book, 0);
    assert!(commands[2].starts_with(&format!("ZADD ws:user:clients:{odd} 1000 ")));
    assert!(commands[4].starts_with(&format!("ZADD ws:guid:clients:doc:{odd} 1000 ")));
}

/// A shard that lost count calls its whole roll: whoever does not answer is gone.
#[test]
fn a_new_roll_call_ends_those_that_do_not_answer() {
    let mut book = book();
    for n in 0..10 {
        book.hear(here(n, Some("u"), &[]));
    }
    written(&mut book, 0);
    book.hear(RollWord::Anew(9));
    assert_eq!(written(&mut book, 1), [""; 0], "another shard's");
    // These ids are of shard 0.
    book.hear(RollWord::Anew(0));
    for n in 0..6 {
        book.hear(here(n, Some("u"), &[]));
    }
    let batch = book.take(&words(), 10_000).expect("changes");
    assert_eq!((batch.new.len(), batch.gone.len()), (0, 4));
    book.done(&batch, 1);
    assert_eq!(book.sockets(), 6);
}
