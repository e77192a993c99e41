//! Requests for sessions that a worker decides about.

use super::worker::{introduced, open, runtime};
use super::{KEY, Kitchen};
use crate::harness::RawConn;
use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, Command, FromWorker};

/// Lets each request in, with a cookie of its own.
fn verdicts(openings: &[u64]) -> FromWorker {
    let commands = openings.iter().map(|opening| {
        let header = proto::Header {
            name: "Set-Cookie".to_owned(),
            value: format!("table={opening}").into(),
        };
        let verdict = proto::Verdict {
            opening: *opening,
            admit: true,
            headers: vec![header],
            ..proto::Verdict::default()
        };
        Command {
            what: Some(Order::Verdict(verdict)),
            ..Command::default()
        }
    });
    FromWorker {
        first: 1,
        handled: openings.len() as u64,
        openings: true,
        commands: commands.collect(),
        ..FromWorker::default()
    }
}

/// A shard remembered 1,024 of them until it answered.
#[test]
fn newcomers_of_a_storm_that_were_let_in_together_got_no_cookies() {
    const STORM: usize = 1_500;
    let limits = "[limits]\nhandshake_timeout = \"60s\"";
    let more = "openings = true\nwindow = \"8MiB\"\nsilent_after = \"60s\"";
    let kitchen = Kitchen::start(&["--shards", "1"], limits, more);
    let get = "GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut clients: Vec<RawConn> = (0..STORM)
        .map(|_| RawConn::connect(kitchen.gateway.addr))
        .collect();
    clients.iter_mut().for_each(|client| client.send(get));
    let waiting = kitchen
        .gateway
        .reaches("sockeye_backend_openings_waiting", STORM as f64);
    assert_eq!(waiting, STORM as f64);
    let hello = introduced("kitchen", "a");
    runtime().block_on(async {
        let attached = open(kitchen.workers, &KEY.0, hello).await;
        let (frames, mut messages) = attached.expect("attached");
        frames.send(verdicts(&[])).await.expect("sent");
        let mut asked = Vec::new();
        while asked.len() < STORM {
            let message = messages.message().await.expect("no error");
            let items = message.expect("more").items.into_iter();
            asked.extend(items.filter_map(|item| match item.what {
                Some(What::Opening(opening)) => Some(opening.opening),
                _ => None,
            }));
        }
        frames.send(verdicts(&asked)).await.expect("sent");
        // The link stays until all is taken in.
        while messages
            .message()
            .await
            .expect("no error")
            .expect("more")
            .commands
            < STORM as u64
        {}
    });
    let answers = clients.iter_mut().map(RawConn::response);
    let without = answers.filter(|answer| answer.header("Set-Cookie").is_none());
    assert_eq!(without.count(), 0);
    let admitted = "sockeye_backend_openings_total{outcome=\"admitted\"}";
    // It is published at the next tick of the backend.
    assert_eq!(
        kitchen.gateway.reaches(admitted, STORM as f64),
        STORM as f64
    );
}
