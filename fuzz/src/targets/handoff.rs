//! Records of sessions from another process, and what it has counted: any bytes are refused, or are a record that is written as it was read.
use handoff::{Batch, Ledger, Session};

pub fn run(bytes: &[u8]) {
    count(bytes);
    let Some(session) = Session::read(bytes) else {
        return;
    };
    let mut ledger = Ledger::default();
    let fits = ledger.admit(&session).is_ok();
    assert_eq!(ledger.len(), usize::from(fits));
    // So many descriptors are taken for it.
    assert!(!fits || session.conns().count() <= 2);
    // What was admitted is not admitted again, and what was refused is refused again.
    assert!(ledger.admit(&session).is_err());
    assert_eq!(Session::read(&session.write()), Some(session));
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
}
