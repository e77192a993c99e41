//! A new process takes over while large events are stored.

use super::{LARGE, config, fetch, join, reference, text};
use crate::harness::Stop;
use crate::upgrade::chain::Chain;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

const UPGRADES: usize = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// Large and small events of one client come once and in its order, and addresses of before are good in the next process.
#[test]
fn large_events_keep_their_order_while_processes_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut chain = Chain::start(&config(
        folder.path(),
        "secret = \"a-secret-of-more-than-thirty-two-bytes\"",
        "",
    ));
    let addr = chain.first.addr;
    let (mut speaker, mut listener) = (join(addr, "/", "r"), join(addr, "/", "r"));
    let ends = AtomicBool::new(false);
    let said = scope(|scope| {
        let _stop = Stop(&ends);
        let ends = &ends;
        let speaks = scope.spawn(move || {
            let mut n = 0_u64;
            while !ends.load(Ordering::Acquire) {
                let filler = if n.is_multiple_of(3) {
                    text(LARGE)
                } else {
                    String::new()
                };
                speaker.emit("say", &[json!({ "n": n, "filler": filler })]);
                n += 1;
                sleep(Duration::from_millis(5));
            }
            speaker.emit("end", &[]);
            // It stays until all is said.
            sleep(PAUSE);
            n
        });
        for _ in 0..UPGRADES {
            sleep(PAUSE);
            let (said, took) = chain.upgrade();
            println!("{took:?}; {}", said.lines().last().unwrap_or_default());
        }
        sleep(PAUSE);
        ends.store(true, Ordering::Release);
        speaks.join().expect("it speaks")
    });
    let mut first = None;
    for n in 0..said {
        let body = match n % 3 {
            0 => {
                let reference = reference(&mut listener, "say");
                let body = fetch(addr, &reference)[0].clone();
                first = first.or(Some(reference));
                body
            }
            _ => listener.expect("say")[0].clone(),
        };
        assert_eq!(body["n"], n);
    }
    listener.expect("end");
    let first: Value = first.expect("a large one");
    assert_eq!(
        fetch(addr, &first)[0]["n"],
        0,
        "it was stored by the first process"
    );
}

/// Nobody else would know its addresses.
#[test]
fn without_a_secret_the_process_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut chain = Chain::start(&config(folder.path(), "", ""));
    let refused = chain.failing_upgrade(&["--dry-run"]);
    assert!(refused.contains("[large] without a secret"), "{refused}");
}
