//! What the hubs of one process share. Everything else belongs to one hub alone; this is touched by handshakes and, where a rate
//! per user or address is set, by one compare of a number per message.

use crate::access::addresses::Addresses;
use crate::access::admission::Pressure;
use crate::access::gcra::Shared;
use crate::access::trust::Distrusted;
use crate::books::config::Rates;
use crate::cluster::away::Uplink;
use crate::cluster::mailbox::Loads;
use crate::output::piece::Waiting;
use crate::rooms::directory::Directory;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Connections by address.
    pub addresses: Arc<Addresses>,
    /// How full the mailboxes of the shards are.
    pub loads: Arc<Loads>,
    /// Where the members of rooms are.
    pub(crate) directory: Arc<Directory>,
    /// How full the process is.
    pub pressure: Arc<Pressure>,
    /// What waits in all outboxes.
    pub waiting: Arc<Waiting>,
    /// Limiter states of users and addresses.
    pub meters: Arc<Shared>,
    /// The way to other nodes, if there are any.
    pub uplink: Option<Arc<Uplink>>,
    /// What the log was told of proxies that nobody trusts.
    pub distrusted: Arc<Distrusted>,
}

impl Process {
    pub fn new(rates: &Rates) -> Self {
        Self {
            meters: Arc::new(Shared::new(rates)),
            ..Self::default()
        }
    }
}
