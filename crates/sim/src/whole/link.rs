//! A client's connection to a node.

use hub::ConnId;

/// Who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Person(usize),
    Stream(usize),
    /// Whoever had it is cut off.
    Nobody,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) owner: Owner,
    pub(crate) life: usize,
    pub(crate) hub: usize,
    /// The life of another node that relays it.
    pub(crate) via: Option<usize>,
    /// The hub's name for it; `None`: it is not there yet, moves or is over.
    pub(crate) conn: Option<ConnId>,
    /// Its hub closed it.
    pub(crate) is_over: bool,
    /// What the client can read.
    pub(crate) out: Vec<u8>,
    /// Bytes that the kernel still takes for a client that reads slowly.
    pub(crate) room: Option<usize>,
    /// When the last bytes of the client arrive: those that it sends later come later.
    pub(crate) last_us: u64,
}

impl Link {
    pub(crate) fn new(owner: Owner, life: usize, hub: usize) -> Self {
        Self {
            owner,
            life,
            hub,
            via: None,
            conn: None,
            is_over: false,
            out: Vec::new(),
            room: None,
            last_us: 0,
        }
    }

    pub(crate) fn end(&mut self) {
        (self.conn, self.is_over) = (None, true);
    }
}
