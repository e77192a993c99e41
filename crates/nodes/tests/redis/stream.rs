//! A stream of entries, while its reader is cut off, while it is cut off itself, and while Redis loses it.

use super::*;
use nodes::engine::{Entry, StreamNews};
use servers::Redis;
use tokio::sync::mpsc::Receiver;

const STREAM: &str = "socket.io";

struct Reader {
    node: Node,
    news: Receiver<StreamNews>,
    waiting: Vec<Entry>,
}

impl Reader {
    /// Reads from now on.
    async fn open(redis: &Redis) -> Reader {
        let node = Node::open(settings(&[redis.addr()], Mode::Single)).await;
        let news = node.engine.read(STREAM.as_bytes().into());
        waits_for_entries(redis);
        Reader {
            node,
            news,
            waiting: Vec::new(),
        }
    }

    async fn append(&self, n: u64) -> bool {
        let fields = [("n", n.to_string())];
        let appended = self.node.engine.append(STREAM.as_bytes(), &fields, 10_000);
        appended.await.is_complete()
    }

    /// The next entry's number, or that some are missing. That it cannot be read now is passed over.
    async fn next(&mut self) -> Option<u64> {
        while self.waiting.is_empty() {
            let news = timeout(PATIENCE, self.news.recv()).await.expect("in time");
            match news.expect("the engine runs") {
                StreamNews::Entries(entries) => self.waiting = entries,
                StreamNews::Missed => return None,
                StreamNews::Down(_) => {}
            }
        }
        let [(key, value)] = &self.waiting.remove(0)[..] else {
            panic!("one field was written")
        };
        assert_eq!(key, b"n");
        String::from_utf8_lossy(value).parse().ok()
    }
}

pub fn waits_for_entries(redis: &Redis) {
    servers::wait_for("a reader", || {
        let clients = redis.ask(&["CLIENT", "LIST"]);
        clients.contains("cmd=xread").then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_reader_that_was_thrown_out_goes_on_where_it_was() {
    let redis = Redis::start();
    redis.ask(&["XADD", STREAM, "*", "n", "1000"]);
    let mut reader = Reader::open(&redis).await;
    for n in 0..150 {
        assert!(reader.append(n).await);
    }
    for n in 0..150 {
        assert_eq!(
            reader.next().await,
            Some(n),
            "what was there before is not read"
        );
    }
    redis.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
    for n in 150..300 {
        redis.ask(&["XADD", STREAM, "*", "n", &n.to_string()]);
    }
    for n in 150..300 {
        assert_eq!(reader.next().await, Some(n));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn entries_that_were_cut_off_before_they_were_read_are_told() {
    let redis = Redis::start();
    let mut reader = Reader::open(&redis).await;
    assert!(reader.append(1).await);
    assert_eq!(reader.next().await, Some(1));
    waits_for_entries(&redis);
    // In one step, so that nobody reads in between.
    let script = "for n = 2, 4 do redis.call('XADD', KEYS[1], '*', 'n', n) end \
        redis.call('XTRIM', KEYS[1], 'MAXLEN', 1)";
    redis.ask(&["EVAL", script, "1", STREAM]);
    assert_eq!(reader.next().await, None, "two are missing");
    assert_eq!(reader.next().await, Some(4));
}

/// It waited for entries behind one that the new stream did not have yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_stream_that_redis_lost_is_read_from_its_new_beginning() {
    let mut redis = Redis::start();
    let mut reader = Reader::open(&redis).await;
    // An id far ahead: as if the clock of Redis had been set back since.
    redis.ask(&["XADD", STREAM, "99999999999999-0", "n", "1"]);
    assert_eq!(reader.next().await, Some(1));
    redis.kill();
    redis.restart();
    assert_eq!(reader.next().await, None, "some may be missing");
    redis.ask(&["XADD", STREAM, "*", "n", "2"]);
    assert_eq!(reader.next().await, Some(2));
}
