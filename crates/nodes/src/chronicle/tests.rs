//! The scripts, on a real Redis.

use super::Stream;
use super::course::{Course, Entry, Found, Known, News, PART_MAX, Ports, id};
use super::writing::Script;
use crate::redis::connect;
use crate::redis::settings::{Mode, Settings};
use ::redis::{Value, cmd};
use servers::Redis;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const APPEND: &str = include_str!("append.lua");
const SOCKET: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAA";

async fn course(redis: &Redis) -> Course {
    let urls = [format!("redis://{}", redis.addr())];
    let settings = Settings::new(&urls, Mode::Single, None).expect("an address");
    let ports = Ports {
        writer: connect(settings.clone()).await.expect("Redis"),
        reader: connect(settings.clone()).await.expect("Redis"),
        claims: connect(settings.clone()).await.expect("Redis"),
    };
    let stream = Stream {
        namespace: "/".to_owned(),
        window: Duration::from_secs(60),
        replicas: 0,
    };
    Course::new(&stream, "t:", ports)
}

/// One batch, of events or of one record.
async fn append(course: &Course, batch: u64, bytes_max: usize, words: &[&[&str]]) -> Vec<Value> {
    let records = words.iter().filter(|word| word[0] == "s");
    let records: Vec<String> = records.map(|_| course.record(SOCKET)).collect();
    let mut call = cmd("EVAL");
    call.arg(APPEND).arg(3 + records.len());
    call.arg(course.stream())
        .arg(course.facts())
        .arg(course.batch("w"))
        .arg(&records);
    call.arg(batch).arg(60_000).arg(60_000).arg(bytes_max);
    call.arg(words.len());
    words.iter().for_each(|word| {
        call.arg(*word);
    });
    let (port, stream) = (&course.ports.writer, course.stream());
    let answers = port.carry_out_together(stream.as_bytes(), vec![call]);
    answers.await.expect("an answer")
}

/// The number of the last that stands up to there; 0: nothing does.
async fn lift(course: &Course, at: u64) -> u64 {
    let last = course.lift(at).await.expect("the last");
    last.map_or(0, |last| last.number)
}

async fn found(course: &Course, after: u64, part: usize, asks_newest: bool) -> Found {
    match course.next(after, part, asks_newest).await.expect("news") {
        News::Found(found) => found,
        News::Another(generation) => panic!("another Redis: {generation}"),
    }
}

fn numbers(found: &Found) -> Vec<u64> {
    found.entries.iter().map(|entry| entry.number).collect()
}

fn is_again(answers: &[Value]) -> bool {
    format!("{answers:?}").contains("again")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_batch_that_comes_late_by_an_old_connection_changes_nothing() {
    let redis = Redis::start();
    let course = course(&redis).await;
    let save = |body: &'static str| ["s", "1", body, "-", "60000", "g"];
    for batch in 1..=11 {
        let (event, save) = (["e", "x"], save("new"));
        let answers = append(&course, batch, 1_000, &[&event, &save]).await;
        assert!(!is_again(&answers), "{batch}: {answers:?}");
    }
    // 9 is before 11, though not as texts.
    for late in [9, 10, 11] {
        let (event, save) = (["e", "x"], save("old"));
        let answers = append(&course, late, 1_000, &[&event, &save]).await;
        assert!(is_again(&answers), "{late}: {answers:?}");
    }
    let (entries, _) = course.range(0, PART_MAX).await.expect("entries");
    assert_eq!(entries.len(), 11);
    let record = redis.ask(&["HGET", &course.record(SOCKET), "body"]);
    assert!(record.contains("new"), "{record}");
}

/// Redis forgets scripts when it is restarted, and a user may have no right to name one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_script_that_redis_does_not_know_by_its_name_is_said_whole() {
    let redis = Redis::start();
    let course = course(&redis).await;
    let write = async |script: &Script, batch: u64| {
        let mut call = script.call();
        call.arg(3).arg(course.stream()).arg(course.facts());
        call.arg(course.batch("w")).arg(batch).arg(60_000);
        call.arg(60_000).arg(1_000).arg(1).arg("e").arg("x");
        course.write(call).await
    };
    let is_named = |script: &Script| script.call().get_packed_command().len() < APPEND.len();
    let mut script = Script::new();
    assert!(!is_named(&script));
    write(&script, 1).await.expect("whole");
    script.is_known();
    assert!(is_named(&script));
    write(&script, 2).await.expect("by its name");
    redis.ask(&["SCRIPT", "FLUSH"]);
    let forgotten = write(&script, 3).await.expect_err("not known");
    assert!(script.is_wanted(&forgotten) && !script.is_wanted(&forgotten));
    write(&script, 3).await.expect("whole again");
    script.is_known();
    assert!(is_named(&script));
    redis.ask(&["ACL", "SETUSER", "default", "-evalsha"]);
    let refused = write(&script, 4).await.expect_err("no right");
    assert!(script.is_wanted(&refused), "{refused}");
    write(&script, 4).await.expect("whole, as before");
    script.is_known();
    assert!(!is_named(&script), "it is not tried with each batch");
    let (entries, _) = course.range(0, PART_MAX).await.expect("entries");
    assert_eq!(entries.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn who_reads_where_the_stream_is_trimmed_is_told_so() {
    let redis = Redis::start();
    let course = course(&redis).await;
    let event = ["e", "0123456789"];
    append(&course, 1, 100, &[&event[..]; 8]).await;
    let (part, trimmed) = course.range(0, 4).await.expect("a part");
    assert_eq!((part.len(), trimmed), (4, 0));
    let upto = part[3].number;
    // Entries 5 and 6 go between two parts.
    append(&course, 2, 100, &[&event[..]; 8]).await;
    let (part, trimmed) = course.range(upto, 4).await.expect("a part");
    assert_eq!(part.len(), 4, "nothing else says that some are missing");
    assert!(trimmed > upto);
    let news = found(&course, upto, 4, true).await;
    assert!(news.trimmed > upto && news.newest.is_some());
    // Who is not so far behind has all.
    let upto = part[0].number;
    let (part, trimmed) = course.range(upto, PART_MAX).await.expect("a part");
    assert!(part.len() == 9 && trimmed < upto, "{part:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn behind_a_failover_numbers_are_larger_than_what_was_read() {
    let redis = Redis::start();
    let course = course(&redis).await;
    append(&course, 1, 1_000, &[&["e", "x"]]).await;
    let (entries, _) = course.range(0, PART_MAX).await.expect("entries");
    let last = entries[0].number;
    // Nothing was lost.
    assert_eq!(lift(&course, last).await, last);
    // The one before was ahead by a minute, and what it said then was lost.
    let read = last + (60_000 << 20);
    assert_eq!(lift(&course, read).await, last);
    append(&course, 2, 1_000, &[&["e", "y"]]).await;
    let numbers = numbers(&found(&course, read, PART_MAX, false).await);
    assert_eq!(numbers.len(), 2, "{:?}", numbers.iter().map(|at| id(*at)));
    // Somebody said something up to there that this node has not read: it is told of it.
    let behind = numbers[1];
    assert_eq!(lift(&course, behind + 1).await, behind);
}

/// Each node that was ahead of the first one which lifted the stream ended all its sockets, though nothing was missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn what_another_node_lifted_the_stream_with_counted_as_missed() {
    let redis = Redis::start();
    let course = course(&redis).await;
    append(&course, 1, 1_000, &[&["e", "x"]]).await;
    let (entries, _) = course.range(0, PART_MAX).await.expect("entries");
    let last = entries[0].number;
    // Three nodes had read further in the Redis before, each further than the one before it.
    for ahead in 1..=3 {
        let read = last + (ahead << 30);
        assert_eq!(lift(&course, read).await, last);
    }
    let (entries, _) = course.range(0, PART_MAX).await.expect("entries");
    assert_eq!(entries.len(), 4, "each has lifted it above its own");
    // One that lost everything.
    redis.ask(&["FLUSHALL"]);
    let read = last + (9 << 30);
    assert_eq!(lift(&course, read).await, 0);
    assert_eq!(lift(&course, read + 9).await, 0);
}

/// A node that has just begun takes nothing for its own that others wrote below its place, in a Redis that lost the last that it was told of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn the_last_entries_are_known_by_their_names() {
    let redis = Redis::start();
    let course = course(&redis).await;
    let end = course.look().await.expect("an empty stream");
    assert_eq!((end.known.len(), end.last()), (0, 0));
    let event = ["e", "0123456789"];
    append(&course, 1, 1_000_000, &[&event[..]; 300]).await;
    let all = found(&course, 0, 300, false).await;
    let end = course.look().await.expect("an end");
    let read: Vec<Known> = all.entries.iter().map(Entry::known).collect();
    assert_eq!(end.known, read[300 - 256..]);
    assert_eq!(end.last(), *numbers(&all).last().expect("the last"));
    // Where all is gone, its place is where it was trimmed.
    append(&course, 2, 5, &[&event[..]]).await;
    let end = course.look().await.expect("an end");
    assert!(end.known.is_empty() && end.last() > *numbers(&all).last().expect("the last"));
}

/// One that failed over lost the last entry, and gave its name to the next one, for its clock was behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn another_entry_of_the_same_name_counted_as_read() {
    let redis = Redis::start();
    let course = course(&redis).await;
    let say = |body: &str| redis.ask(&["XADD", &course.stream(), "7-1", "e", body]);
    say("lost");
    let read = found(&course, 0, PART_MAX, false).await.entries[0].known();
    assert_eq!(course.lift(read.number).await.expect("it"), Some(read));
    redis.ask(&["FLUSHALL"]);
    say("other");
    let other = course.lift(read.number).await.expect("the other");
    assert!(other.is_some_and(|other| other.number == read.number && other != read));
}

/// A node passed its old place in a Redis that had begun anew with its clock behind, before it asked which Redis that is: what stood below was lost,
/// and nobody was told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn what_another_redis_has_was_read_before_anybody_knew_of_it() {
    let mut redis = Redis::start();
    let course = course(&redis).await;
    let end = course.look().await.expect("an empty stream");
    course.note_generation(end.generation.clone());
    let first = end.last();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.expect("a clock").as_millis() as u64;
    let ahead = |ms: u64| (now_ms + ms) << 20;
    let say = |redis: &Redis, number: u64| {
        redis.ask(&["XADD", &course.stream(), &id(number), "e", "x"]);
    };
    let read = ahead(60_000);
    say(&redis, read);
    let before = found(&course, first, PART_MAX, false).await;
    assert_eq!(numbers(&before), [read]);
    redis.kill();
    redis.restart();
    // Others were quicker: one event stands below what this node has read, and one behind it.
    say(&redis, ahead(0));
    say(&redis, ahead(120_000));
    let news = loop {
        // Its connection is no more, which it finds out first.
        if let Ok(news) = course.next(read, PART_MAX, false).await {
            break news;
        }
    };
    assert!(matches!(news, News::Another(_)), "{news:?}");
    assert_eq!(lift(&course, read).await, ahead(0));
}
