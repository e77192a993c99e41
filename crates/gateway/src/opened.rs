//! The sockets that a process begins with: opened anew, or those of the process that it takes over from.

use crate::config::Resolved;
use crate::listeners;
use crate::operators::Service;
use crate::unix::{self, SocketFiles};
use crate::upgrade::{self, Host, Inheritance, Takeover};
use anyhow::Result;
use shard::Shards;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

/// Where clients come in: inherited listeners of each shard, if there are any, and Unix sockets.
pub type Sockets = (Option<Vec<Vec<TcpListener>>>, Vec<UnixListener>);

/// All of them.
#[derive(Debug)]
pub struct Opened {
    pub admin: Option<TcpListener>,
    pub unix: Vec<UnixListener>,
    pub files: SocketFiles,
    /// Public listeners of another process.
    pub inherited: Option<Vec<Vec<TcpListener>>>,
    /// The way to that process.
    pub takeover: Option<Takeover>,
}

impl Opened {
    pub fn begin(config: &Resolved, takes_over: bool) -> Result<Self> {
        if takes_over {
            return Self::take_over(config);
        }
        let admin = listeners::first(config)?;
        let (unix, files) = unix::listen(&config.server.unix, config.server.unix_mode)?;
        Ok(Self {
            admin,
            unix,
            files,
            inherited: None,
            takeover: None,
        })
    }

    fn take_over(config: &Resolved) -> Result<Self> {
        let (takeover, inheritance) = Takeover::begin(config)?;
        inheritance.check(config)?;
        let Inheritance { tcp, unix, admin } = inheritance;
        Ok(Self {
            admin: listeners::adopted(admin)?,
            unix,
            // They are the other process's until it has handed over.
            files: SocketFiles::default(),
            inherited: Some(tcp),
            takeover: Some(takeover),
        })
    }
}

/// Where another process finds this one later. `takes_over`: the process before listens there still.
pub fn host(
    config: &Resolved,
    shards: &Shards,
    service: Service,
    takes_over: bool,
) -> Result<Option<Host>> {
    let Some(path) = &config.upgrade else {
        return Ok(None);
    };
    let service = (service.listener, service.task);
    let parts = upgrade::Parts::new(config, shards.givers(), service);
    Host::open(path, parts, takes_over).map(Some)
}
