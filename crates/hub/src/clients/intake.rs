//! Input that waits: for a turn with room, or for the mailbox of another shard to be short again. The mark in a connection's slot and its
//! place in a list are set together here.

use crate::books::limits::Limits;
use crate::clients::conn::Conn;
use crate::clients::table::Table;
use crate::tables::loads::Loads;
use crate::tables::slot::ConnId;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Intake {
    /// How full the mailboxes of the shards are.
    pub(crate) loads: Arc<Loads>,
    /// Connections that stopped in the middle of their input.
    stalled: Vec<ConnId>,
    /// Connections that sent to a shard with a long mailbox, each with that shard: they wait until it is short.
    held: Vec<(ConnId, u16)>,
    /// The shard with the long mailbox to which the input being worked on sent a message.
    held_by: Option<u16>,
    /// The message being worked on made up for a rejected one.
    forgiven: bool,
}

impl Intake {
    pub(crate) fn new(loads: &Arc<Loads>) -> Self {
        Self {
            loads: Arc::clone(loads),
            stalled: Vec::new(),
            held: Vec::new(),
            held_by: None,
            forgiven: false,
        }
    }

    /// Another connection's input is worked on from here.
    pub(crate) fn begin(&mut self) {
        self.held_by = None;
    }

    /// The input being worked on sent a message to a shard whose mailbox is long.
    pub(crate) fn wait_for(&mut self, shard: u16) {
        self.held_by = Some(shard);
    }

    pub(crate) fn waits_for_mailbox(&self) -> bool {
        self.held_by.is_some()
    }

    /// The connection being worked on stops here; `false` = it had stopped before.
    pub(crate) fn stall(&mut self, conn: ConnId, slot: &mut Conn) -> bool {
        if !slot.unread.stall() {
            return false;
        }
        match self.held_by {
            // The next turn would only send more there: it waits for that mailbox.
            Some(shard) => self.held.push((conn, shard)),
            None => self.stalled.push(conn),
        }
        true
    }

    /// What waits on the connection can be worked on now.
    pub(crate) fn go_on(&mut self, conn: ConnId, slot: &mut Conn) {
        if slot.unread.stall() {
            self.stalled.push(conn);
        }
    }

    /// Goes on with what waits on a connection, if something does.
    pub(crate) fn revive(&mut self, conns: &mut Table<ConnId, Conn>, conn: ConnId) {
        if let Some(slot) = conns.get_mut(conn)
            && !slot.unread.is_empty()
        {
            self.go_on(conn, slot);
        }
    }

    /// Takes all connections whose input may go on; the caller takes their marks away, or puts them back.
    pub(crate) fn take_stalled(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.stalled)
    }

    /// Puts connections back in front of those that stopped meanwhile: a connection that had no turn comes before one that had.
    pub(crate) fn put_back(&mut self, mut first: Vec<ConnId>) {
        first.append(&mut self.stalled);
        self.stalled = first;
    }

    /// Mailboxes that are short again free the connections that waited for them.
    pub(crate) fn release(&mut self, limits: &Limits) {
        let loads = &self.loads;
        let free = self
            .held
            .extract_if(.., |(_, shard)| !loads.is_long(*shard, limits));
        self.stalled.extend(free.map(|(conn, _)| conn));
    }

    pub(crate) fn has_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// How many connections wait for a mailbox.
    pub(crate) fn held_back(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn set_forgiven(&mut self, forgiven: bool) {
        self.forgiven = forgiven;
    }

    pub(crate) fn take_forgiven(&mut self) -> bool {
        std::mem::take(&mut self.forgiven)
    }

    /// For checks: whether the connection will be resumed.
    pub(crate) fn lists(&self, conn: ConnId) -> bool {
        self.stalled.contains(&conn) || self.held.iter().any(|(held, _)| *held == conn)
    }
}
