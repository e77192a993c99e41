//! Where the store is.

use ::history::Sync;
use identity::Secret;
use nodes::redis::settings::Mode;
use std::path::PathBuf;

/// The store.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// In this process, for as long as it lives.
    Memory {
        /// Of all rooms.
        bytes_max: u64,
    },
    /// In files of this node.
    Disk {
        /// Made if it is not there.
        folder: PathBuf,
        /// When they are written through.
        sync: Sync,
    },
    /// In streams of Redis.
    Redis(Redis),
    /// In tables of PostgreSQL.
    Postgres {
        /// With user and password.
        url: Secret,
    },
}

/// Redis as a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Redis {
    /// Addresses with user and password, separated by commas.
    pub urls: Secret,
    /// How they belong together.
    pub mode: Mode,
    /// An event counts as stored when so many replicas have it.
    pub replicas: u16,
    /// Certificates for `rediss://`.
    pub tls: TlsFiles,
}

impl Redis {
    /// Its addresses.
    pub fn urls(urls: &Secret) -> Vec<String> {
        let urls = urls.reveal().split(',');
        urls.map(|url| url.trim().to_owned()).collect()
    }
}

/// Files in PEM.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TlsFiles {
    /// Those to trust; `None`: those of the machine.
    pub authorities: Option<PathBuf>,
    /// This node's own.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}
