//! Memory that was freed goes back to the system. The allocator keeps it for the next who asks, and looks at what it keeps only
//! when somebody asks: after a crowd has left nobody does.

/// Gives back what the allocator keeps and nobody uses; `at_once`: also what was freed a moment ago, and may be wanted again in
/// another. To be called now and then, by any thread. It does nothing in a program that has another allocator.
#[expect(unsafe_code, reason = "the allocator is written in C")]
pub fn give_back(at_once: bool) {
    // SAFETY: the function takes no pointer, and any thread may call it at any time.
    unsafe { libmimalloc_sys::mi_collect(at_once) }
}
