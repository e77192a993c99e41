//! Faults that this crate once had. With the feature `faults` a test puts one of them back and shows that the simulator finds it;
//! without it, they do not exist.

/// A fault, by what was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A turn did not count the messages that it sent to other shards.
    LettersUncounted,
    /// A turn did not count the lists of sockets that it made.
    ListsUncounted,
    /// One flush answered all waiting polls, however many bytes that were.
    PollsUnbounded,
    /// A kept event and its record took different ways, so a client that joined between them got it twice or never.
    RecordApart,
    /// An event for several rooms was a letter for each of them, less the members of the others.
    RoomByRoom,
    /// A client was told of its CONNECT before other nodes knew of it.
    WelcomeEarly,
    /// Logs of two nodes that began in the same millisecond had one name.
    LogsAlike,
    /// The id of an event did not say of which room: each moved the place of its event stream in all rooms.
    PlaceOfAnyRoom,
    /// A newcomer that waited for other nodes was slow, for much of what it was told could not leave.
    NewcomerSlow,
    /// The ack of an event left before the event was stored.
    AckEarly,
    /// After a failover of the store, records did not say that something may be lost.
    LossUnknown,
    /// A socket that was taken from the store stayed where it was, too.
    TakenTwice,
    /// A client whose socket had been on another node meanwhile got again what it had got there.
    NumberUnheeded,
    /// What a node said in one life was not told from what it said in the life before.
    LivesAlike,
}

#[cfg(feature = "faults")]
thread_local! {
    static BACK: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Puts a fault back into all hubs of this thread, in place of the one before.
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
