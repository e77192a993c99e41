//! The folder from within: the memory of its trees, and what an older version wrote.

use super::*;

fn event(n: u64) -> Event {
    Event {
        namespace: "/".to_owned(),
        room: "a".to_owned(),
        name: "say".to_owned(),
        args: n.to_string(),
        user: Some("ada".to_owned()),
        time_ms: 1_000 + n,
    }
}

fn opened(folder: &tempfile::TempDir) -> Inner {
    let keep = Keep {
        events: 1_000,
        bytes: 1 << 20,
        age_ms: 1 << 40,
    };
    Inner {
        folder: folder.path().to_owned(),
        sync: Sync::Os,
        plan: Plan::new([("/".to_owned(), "*".to_owned(), keep)]),
        state: Mutex::default(),
    }
}

/// Whatever the threads of fjall are busy with: no tree grows in memory, and no writer waits for ever.
#[test]
fn no_tree_holds_more_than_its_part_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = opened(&folder);
    let text = format!("\"{}\"", "x".repeat(60_000));
    for number in 1..=1_000 {
        let said = |n| Event {
            args: text.clone(),
            ..event(n)
        };
        let batch = Batch {
            writer: 1,
            number,
            events: vec![said(number)],
        };
        inner.append(&batch).expect("stored");
        let open = inner.state().expect("it is open").open;
        for tree in open.trees() {
            let bytes = tree.tree.active_memtable().size();
            assert!(bytes <= TREE_BYTES, "{bytes} after {number} batches");
        }
    }
    inner.close().expect("closed");
}

/// Older versions wrote nothing beside the times of events.
#[test]
fn no_more_makes_way_where_an_older_version_wrote() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = opened(&folder);
    let batch = Batch {
        writer: 1,
        number: 1,
        events: (0..10).map(event).collect(),
    };
    let places = inner.append(&batch).expect("stored");
    let times = inner.state().expect("it is open").open.times.clone();
    for at in &places[..7] {
        let name = keys::event(&keys::room("/", "a"), *at);
        let emptied = times.insert(keys::time(*at, &name), Vec::new());
        emptied.expect("written");
    }
    let bytes = event(0).bytes() as u64;
    assert_eq!(inner.shed("/", &Shed::Bytes(3 * bytes)), Ok(3));
    let usage = inner.usage("/").expect("counted");
    assert_eq!((usage.rooms, usage.bytes), (1, 7 * bytes));
    assert_eq!(inner.shed("/", &Shed::Bytes(5 * bytes + 1)), Ok(6));
    let user = Forget::User {
        namespace: None,
        user: "ada".to_owned(),
    };
    assert_eq!(inner.forget(&user), Ok(1));
    assert_eq!(inner.usage("/"), Ok(Usage::default()));
}
