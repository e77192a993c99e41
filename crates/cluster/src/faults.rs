//! Faults that this crate once had. With the feature `faults` a test puts one of them back and shows that a simulator finds it;
//! without it, they do not exist.

/// A fault, by what was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Letters that waited while the engine was away left before others had told which keys they hold by now.
    SentBeforeHearing,
}

#[cfg(feature = "faults")]
thread_local! {
    static BACK: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Puts a fault back into all nodes of this thread, in place of the one before.
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
