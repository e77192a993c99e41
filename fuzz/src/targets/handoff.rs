//! Records of sessions and of what shards keep and have counted, from another process: any bytes are refused, or are a record that is written
//! as it was read.
use crate::rig::{self, Rig};
use handoff::{Batch, Keepsakes, Ledger, Session};
use hub::config::{Config, Offsets, Recover, Recovery};
use std::time::Duration;

pub fn run(bytes: &[u8]) {
    count(bytes);
    if let Some(session) = Session::read(bytes) {
        admit(&session);
    }
    if let Some(keepsakes) = Keepsakes::read(bytes) {
        keep(&keepsakes);
    }
}

fn admit(session: &Session) {
    let mut ledger = Ledger::default();
    let fits = ledger.admit(session).is_ok();
    assert_eq!(ledger.len(), usize::from(fits));
    // So many descriptors are taken for it.
    assert!(!fits || session.conns().count() <= 2);
    // What was admitted is not admitted again, and what was refused is refused again.
    assert!(ledger.admit(session).is_err());
    assert_eq!(Session::read(&session.write()).as_ref(), Some(session));
}

/// A shard takes in what was admitted, or refuses it, and lives on.
fn keep(keepsakes: &Keepsakes) {
    assert_eq!(
        Keepsakes::read(&keepsakes.write()).as_ref(),
        Some(keepsakes)
    );
    if Ledger::default().admit_keepsakes(keepsakes).is_err() {
        return;
    }
    let recover = Recover {
        window: Duration::from_secs(60),
        offsets: Offsets::All,
        goes_abroad: false,
        chronicle: false,
        replicas: 0,
    };
    let config = Config {
        recovery: Recovery {
            namespaces: [("*".to_owned(), Some(recover))].into(),
        },
        ..Config::default()
    };
    let mut rig = Rig::new(config, rig::handler(&rig::chat_rules()), 7);
    let _ = rig.turn(|turn| turn.keepsakes_arrived(keepsakes));
    rig.finish_turn();
    rig.pass(Duration::from_secs(61));
}

/// Nothing that was counted comes twice.
fn count(bytes: &[u8]) {
    let Some(batch) = Batch::read(bytes) else {
        return;
    };
    let mut ledger = Ledger::default();
    for page in &batch.limiters {
        let _ = ledger.admit_limiters(page);
        assert!(ledger.admit_limiters(page).is_err());
    }
    for share in &batch.shares {
        let _ = ledger.admit_share(share);
        assert!(ledger.admit_share(share).is_err());
    }
    for counter in &batch.counters {
        let _ = ledger.admit_counter(counter);
        assert!(ledger.admit_counter(counter).is_err());
    }
    for call in &batch.calls {
        let _ = ledger.admit_call(call);
        assert!(ledger.admit_call(call).is_err());
    }
    for caller in &batch.callers {
        let _ = ledger.admit_caller(caller);
        assert!(ledger.admit_caller(caller).is_err());
    }
}
