//! Records of sessions from another process: any bytes are refused, or are a record that is written as it was read.
use handoff::{Ledger, Session};

pub fn run(bytes: &[u8]) {
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
