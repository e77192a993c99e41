//! Servers of other kinds that say more than shards take.

use super::*;
use compat::clustered;
use compat::plane::{self, Membership};
use hub::{Inbox, Process};
use nodes::foreign::{self, Plan};
use process::vitals::Vitals;
use servers::Redis;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const SAID: usize = 200;

/// What emitters said went into mailboxes that were too long already, and all shards stopped reading from their clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn emitters_filled_mailboxes_that_were_too_long_already() {
    let redis = Redis::start();
    let opened = redis::open(settings(&[redis.addr()], Mode::Single)).await;
    let behind = Arc::new(AtomicBool::new(true));
    let taken = Arc::<AtomicUsize>::default();
    let (are_behind, count) = (Arc::clone(&behind), Arc::clone(&taken));
    let plan = Plan {
        settings: plane::Settings {
            prefix: "socket.io".to_owned(),
            uid: "node-1".to_owned(),
            membership: [Membership::Auto, Membership::Never, Membership::Never],
            mode: clustered::Mode::default(),
            python: false,
            list_bytes_max: 1 << 20,
        },
        namespaces: vec!["/".to_owned()],
        stream: "socket.io".to_owned(),
        inbox: Inbox::new(&Process::new(&hub::config::Config::default().rates), 1, 1),
        postman: Box::new(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
        }),
        are_behind: Box::new(move || are_behind.load(Ordering::SeqCst)),
        gauges: Arc::default(),
        pulse: Vitals::default().pulse("a test"),
    };
    let _ear = foreign::start(opened.expect("Redis is there"), plan).await;
    let channel = "socket.io-request#/#";
    servers::wait_for("a subscriber", || {
        let channels = redis.ask(&["PUBSUB", "CHANNELS"]);
        channels.contains(channel).then_some(())
    });
    for n in 0..SAID {
        let said = format!(r#"{{"uid":"emitter","type":6,"data":["n",{n}]}}"#);
        redis.publish("PUBLISH", channel, said.as_bytes());
    }
    sleep(Duration::from_millis(300)).await;
    assert_eq!(taken.load(Ordering::SeqCst), 0, "it waits");
    behind.store(false, Ordering::SeqCst);
    let all = async {
        while taken.load(Ordering::SeqCst) < SAID {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, all).await.expect("nothing is lost");
    assert_eq!(taken.load(Ordering::SeqCst), SAID);
}
