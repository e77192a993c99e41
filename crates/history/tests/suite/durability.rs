//! What was acknowledged as durable is there after a kill, a torn journal, and a server that dies in the middle of a batch; once.

use crate::{Ground, all, append, event, numbers, plan, postgres, redis};
use history::{Batch, Disk, Kind, Store, Sync, Way};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// This test is the child of the next one when it is told so by its environment: it stores events until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn child_of_the_next() {
    let Ok(folder) = std::env::var("HISTORY_CHILD_FOLDER") else {
        return;
    };
    let store = Disk::open(folder.into(), Sync::Always, plan())
        .await
        .expect("a folder");
    let first = numbers(&all(&store, "a", Way::Forward, 1_000).await).len() as u64;
    for n in first.. {
        append(&store, vec![event("a", n)]).await;
        println!("stored {n}");
    }
}

/// The page cache survives a kill, so this is about the store's own order of writing, not about the disk.
#[tokio::test(flavor = "multi_thread")]
async fn disk_keeps_what_it_acknowledged_before_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut acknowledged = 0;
    for life in 0..20 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["durability::child_of_the_next", "--exact", "--nocapture"])
            .env("HISTORY_CHILD_FOLDER", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let stored = lines.map_while(Result::ok).filter_map(|line| {
            let (_, number) = line.split_once("stored ")?;
            number.parse::<u64>().ok()
        });
        for n in stored.take(10 + life) {
            acknowledged = n;
        }
        child.kill().expect("it is ours");
        let _ = child.wait();
        let store = Disk::open(folder.path().to_owned(), Sync::Always, plan())
            .await
            .expect("it opens");
        let events = numbers(&all(&store, "a", Way::Forward, 1_000).await);
        assert!(events.len() as u64 > acknowledged, "life {life}");
        assert_eq!(
            events,
            (0..events.len() as u64).collect::<Vec<_>>(),
            "nothing twice"
        );
        store.close().await.expect("closed");
    }
}

fn journal(folder: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(folder).expect("the folder");
    let files = files.filter_map(Result::ok).map(|entry| entry.path());
    let mut journals = files.filter(|path| path.extension().is_some_and(|end| end == "jnl"));
    journals.next().expect("a journal")
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp")
        .arg("-a")
        .arg(from.join("."))
        .arg(to)
        .status();
    assert!(done.is_ok_and(|done| done.success()));
}

/// The journal is cut at every byte of the last record: what came before is there, and the last is there whole or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_journal_loses_its_last_record_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = tempfile::tempdir().expect("a folder");
    let store = Disk::open(folder.path().to_owned(), Sync::Always, plan())
        .await
        .expect("a folder");
    for n in 0..5 {
        append(&store, vec![event("a", n)]).await;
    }
    // Files of a store that lives, as they are after a kill.
    let before = written(&journal(folder.path()));
    append(&store, vec![event("a", 5)]).await;
    copy(folder.path(), whole.path());
    let after = written(&journal(whole.path()));
    store.close().await.expect("closed");
    assert!(after > before, "{before} {after}");
    let mut with_the_last = 0;
    for end in before..=after {
        let torn = tempfile::tempdir().expect("a folder");
        copy(whole.path(), torn.path());
        let file = std::fs::File::options()
            .write(true)
            .open(journal(torn.path()))
            .expect("the journal");
        file.set_len(end).expect("cut");
        let store = Disk::open(torn.path().to_owned(), Sync::Os, plan()).await;
        let store = store.unwrap_or_else(|fault| panic!("cut at {end} of {after}: {fault}"));
        let events = numbers(&all(&store, "a", Way::Forward, 100).await);
        assert!(
            events == [0, 1, 2, 3, 4] || events == [0, 1, 2, 3, 4, 5],
            "cut at {end}: {events:?}"
        );
        with_the_last += u64::from(events.len() == 6);
        // And it goes on.
        append(&store, vec![event("a", 6)]).await;
        assert_eq!(
            all(&store, "a", Way::Forward, 100).await.len(),
            events.len() + 1
        );
        store.close().await.expect("closed");
    }
    assert!(with_the_last >= 1);
}

/// The journal may be longer than what was written: it ends in zeros.
fn written(journal: &Path) -> u64 {
    let bytes = std::fs::read(journal).expect("the journal");
    let end = bytes.iter().rposition(|byte| *byte != 0);
    end.map_or(0, |end| end as u64 + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_taken_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let _first = Disk::open(folder.path().to_owned(), Sync::Os, plan())
        .await
        .expect("a folder");
    let second = Disk::open(folder.path().to_owned(), Sync::Os, plan()).await;
    let fault = second.expect_err("it is taken");
    assert_eq!(fault.kind(), Kind::Away);
    assert!(fault.to_string().contains("another process"), "{fault}");
}

/// Bytes in the place of files, and a file in the place of the folder.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_something_else_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").expect("a file");
    let fault = Disk::open(file, Sync::Os, plan())
        .await
        .expect_err("it is a file");
    assert!(fault.to_string().contains("file"), "{fault}");
}

/// A server is killed again and again while batches are under way; each batch is tried until it is stored.
async fn killed_in_the_middle(mut ground: Ground) {
    let store = ground.open().await;
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for number in 0..400 {
                let batch = Batch {
                    writer: 5,
                    number,
                    events: vec![event("a", 2 * number), event("a", 2 * number + 1)],
                };
                while let Err(fault) = store.append(&batch).await {
                    assert_ne!(fault.kind(), Kind::Refused, "{fault}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    });
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        match &mut ground {
            Ground::Postgres(server) => server.restart(),
            Ground::Redis(server) => server.restart(),
            Ground::Memory | Ground::Disk(_) => unreachable!("it has no server"),
        }
    }
    writer.await.expect("all is stored");
    let stored = numbers(&all(&*store, "a", Way::Forward, 1_000).await);
    assert_eq!(stored, (0..800).collect::<Vec<_>>(), "everything once");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask test foreign"]
async fn postgres_may_be_killed_in_the_middle() {
    killed_in_the_middle(postgres().await.ground).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn redis_may_be_killed_in_the_middle() {
    killed_in_the_middle(redis().await.ground).await;
}
