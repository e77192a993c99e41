//! Faults that this crate once had. With the feature `faults` a test puts one of them back and shows that the simulator finds it;
//! without it, they do not exist.

/// A fault, by what was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A join that the home of a namespace passed on was not expected: an event right after it missed the shard that had it still to do.
    JoinUnexpected,
}

#[cfg(feature = "faults")]
thread_local! {
    static BACK: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Puts a fault back into all handlers of this thread, in place of the one before.
#[cfg(feature = "faults")]
pub fn put_back(fault: Option<Fault>) {
    BACK.set(fault);
}

#[cfg(feature = "faults")]
pub(crate) fn is_back(fault: Fault) -> bool {
    BACK.get() == Some(fault)
}

#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) const fn is_back(_: Fault) -> bool {
    false
}
