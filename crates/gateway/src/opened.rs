//! The sockets that a process begins with: opened anew, or those of the process that it takes over from.

use crate::config::Resolved;
use crate::foyer::Listeners;
use crate::listeners;
use crate::operators::Service;
use crate::tls::Rotation;
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
    inherited: Option<Vec<Vec<TcpListener>>>,
    /// The way to that process.
    takeover: Option<Takeover>,
    /// That process listens for upgrades still.
    replaces: bool,
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
            replaces: false,
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
            replaces: false,
        })
    }

    /// All that is listened on.
    pub fn listeners<'a>(&'a self, certificates: Option<&'a Rotation>) -> Listeners<'a> {
        Listeners::new(&self.unix, self.admin.as_ref(), certificates)
    }

    /// Where clients come in.
    pub fn sockets(&mut self) -> Sockets {
        (self.inherited.take(), std::mem::take(&mut self.unix))
    }

    /// The shards are there: what another process has goes to them. They begin when all is here.
    pub fn finish(&mut self, config: &Resolved, shards: &mut Shards) -> Result<()> {
        if let Some(takeover) = self.takeover.take() {
            takeover.finish(shards)?;
            self.files = unix::adopt(&config.server.unix)?;
            self.replaces = true;
        }
        Ok(())
    }

    /// All serve: supervisors are told, and another process finds this one from now on.
    pub fn host(
        &self,
        config: &Resolved,
        shards: &Shards,
        service: Service,
    ) -> Result<Option<Host>> {
        upgrade::ready();
        let Some(path) = &config.upgrade else {
            return Ok(None);
        };
        let service = (service.listener, service.task);
        let parts = upgrade::Parts::new(config, shards.givers(), service);
        Host::open(path, parts, self.replaces).map(Some)
    }
}
