//! What happened in a history.

/// What happened in a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Messages that somebody had to hear, and did; those that were told to be lost.
    pub due: usize,
    pub excused: usize,
    /// Letters of hubs and nodes that came.
    pub letters: usize,
    pub joins: usize,
    pub moves: usize,
    pub upgrades: usize,
    pub asks: usize,
    pub histories: usize,
    pub troubles: usize,
    pub deaths: usize,
    /// Lives that ended because they were told of a later one.
    pub superseded: usize,
    /// Messages of clients that stayed on their node, as those clients were told.
    pub only_here: usize,
    /// Answers of workers, refusals in their place, and events that came again with a mark.
    pub answered: usize,
    pub refused: usize,
    pub redelivered: usize,
    /// News of workers that clients heard, what they heard in rooms and alone, and lists that workers got.
    pub news: usize,
    pub told: usize,
    pub notes: usize,
    pub lists: usize,
    /// Messages that the server of Node heard.
    pub crossed: usize,
    /// Processes that went on as others, and what went to them.
    pub successions: usize,
    pub carried: usize,
    /// Clients that came back as the same socket, those that came back as another, and times that one was told that it missed something.
    pub returns: usize,
    /// Those of them that got their socket with the workers, too.
    pub guests: usize,
    pub strangers: usize,
    pub gaps: usize,
    /// Connections that came by another node, and clients that were told that nobody knows their session.
    pub relays: usize,
    pub unknown: usize,
    /// Times that hubs stopped reading all their clients, for a mailbox was overfull.
    pub congested: usize,
    /// The longest mailbox.
    pub mailbox_max: usize,
    /// Times that a node was told that letters are lost.
    pub losses: usize,
}
