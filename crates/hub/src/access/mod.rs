//! Who may do how much: tokens, origins, proxies, addresses, rates, admission.

use crate::access::held::Held;
use crate::cluster::shared::{Distrusted, Process};
use crate::config::Config;
use crate::tables::slot::ConnId;
use addresses::Addresses;
use admission::Admission;
use drain::Drain;
use gcra::Meters;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

pub mod addresses;
pub mod admission;
pub(crate) mod drain;
pub(crate) mod gcra;
pub(crate) mod held;
pub mod origin;
pub(crate) mod rates;
pub(crate) mod tokens;
pub mod trust;

pub(crate) struct Access {
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) meters: Meters,
    pub(crate) admission: Admission,
    /// Opening requests that wait for a handler.
    pub(crate) held: Held,
    /// Proxies behind the connections whose peer is a client of theirs, while more requests may come on them.
    pub(crate) via: HashMap<ConnId, IpAddr>,
    pub(crate) distrusted: Arc<Distrusted>,
    pub(crate) drain: Drain,
}

impl Access {
    pub(crate) fn new(config: &Config, process: &Process) -> Self {
        Self {
            addresses: Arc::clone(&process.addresses),
            meters: Meters::new(&config.rates, Arc::clone(&process.meters)),
            admission: Admission::new(Arc::clone(&process.pressure)),
            held: Held::default(),
            via: HashMap::new(),
            distrusted: Arc::clone(&process.distrusted),
            drain: Drain::default(),
        }
    }
}
