//! The sockets that a process begins with: opened anew, or those of the process that it takes over from.

use crate::config::Resolved;
use crate::foyer::Listeners;
use crate::listeners;
use crate::operators::{Front, Service};
use crate::relay;
use crate::tls::Rotation;
use crate::unix::{self, SocketFiles};
use crate::upgrade::{self, Door, Goes, Heritage, Host, Inheritance, Owner, Seat, Takeover};
use crate::workers::Held;
use anyhow::Result;
use control::metrics::node::Node as Facts;
use nodes::Member;
use shard::{Onset, Shards};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use workers::Socket;

/// Where clients come in: inherited listeners of each shard, if there are any, and Unix sockets; and where limiters go on.
pub type Sockets = (
    Option<Vec<Vec<TcpListener>>>,
    Vec<UnixListener>,
    Option<Onset>,
);

/// All of them.
#[derive(Debug)]
pub struct Opened {
    pub admin: Option<TcpListener>,
    pub unix: Vec<UnixListener>,
    pub files: SocketFiles,
    /// Public listeners of another process.
    inherited: Option<Vec<Vec<TcpListener>>>,
    /// What that process says of its clock and of rates.
    onset: Option<Onset>,
    /// The way to that process.
    takeover: Option<Takeover>,
    /// Its successor, which this process is now.
    owner: Option<Owner>,
    /// Where another process will find this one.
    door: Option<Door>,
    /// Where workers attach.
    pub workers: Option<Socket>,
    /// The place in the cluster of another process.
    pub heritage: Option<Heritage>,
    /// What a successor gets of backends.
    held: Held,
    /// What it gets of the place in the cluster.
    seat: Option<Seat>,
}

impl Opened {
    pub fn begin(config: &Resolved, takes_over: bool) -> Result<Self> {
        if takes_over {
            return Self::take_over(config);
        }
        let admin = listeners::first(config)?;
        let (unix, mut files) = unix::listen(&config.server.unix, config.server.unix_mode)?;
        let (workers, of_workers) = listeners::of_workers(config)?;
        files.join(of_workers);
        Ok(Self {
            admin,
            unix,
            files,
            inherited: None,
            onset: None,
            takeover: None,
            owner: None,
            door: None,
            workers,
            heritage: None,
            held: Held::default(),
            seat: None,
        })
    }

    fn take_over(config: &Resolved) -> Result<Self> {
        let (takeover, inheritance) = Takeover::begin(config)?;
        inheritance.check(config)?;
        let Inheritance {
            tcp,
            unix,
            admin,
            workers,
            heritage,
            onset,
            ..
        } = inheritance;
        Ok(Self {
            admin: listeners::adopted(admin)?,
            unix,
            // They are the other process's until it has handed over.
            files: SocketFiles::default(),
            inherited: Some(tcp),
            onset,
            takeover: Some(takeover),
            owner: None,
            door: None,
            workers: listeners::of_its_workers(config, workers)?,
            heritage,
            held: Held::default(),
            seat: None,
        })
    }

    /// Notes what a successor gets of the place in the cluster.
    pub fn note_seat(&mut self, member: Option<&Member>, door: Option<&relay::Door>) -> Result<()> {
        let seat = member.map(|member| Seat::of(member, door));
        self.seat = seat.transpose()?;
        Ok(())
    }

    /// All that is listened on.
    pub fn listeners<'a>(&'a self, certificates: Option<&'a Rotation>) -> Listeners<'a> {
        Listeners::new(&self.unix, self.admin.as_ref(), certificates)
    }

    /// Where clients come in.
    pub fn sockets(&mut self) -> Sockets {
        (
            self.inherited.take(),
            std::mem::take(&mut self.unix),
            self.onset,
        )
    }

    /// The shards are there: what another process has goes to them, and they begin. If this fails, that process goes on. What can fail of
    /// the rest of the start is done before, for after this nobody else has the sessions. Returns the operators' listener, as it is served.
    pub fn finish(
        &mut self,
        config: &Resolved,
        shards: &mut Shards,
        (workers, member, facts): Goes<'_>,
    ) -> Result<Front> {
        let front = Front::of(self.admin.take())?;
        let (takeover, path) = (self.takeover.take(), config.upgrade.as_ref());
        let door = path.map(|path| Door::make(path, takeover.is_some()));
        self.door = door.transpose()?;
        if let Some(workers) = &workers {
            self.held = workers.held()?;
        }
        if let Some(takeover) = takeover {
            let owner = takeover.finish(shards, (workers, member, facts))?;
            // Before anybody looks: a count that begins anew and jumps would be one more upgrade that failed.
            facts.readiness.upgrades().go_on(owner.tally());
            self.owner = Some(owner);
            self.files = unix::adopt(&listeners::socket_files(config));
        }
        Ok(front)
    }

    /// All serve: supervisors are told, and another process finds this one from now on.
    pub fn host(
        &mut self,
        config: &Resolved,
        shards: &Shards,
        facts: &Arc<Facts>,
        service: Service,
    ) -> Result<Option<Host>> {
        let door = self.door.take();
        let host = door.map(|door| {
            let service = (service.listener, service.task);
            let held = (std::mem::take(&mut self.held), self.seat.take());
            let parts = upgrade::Parts::new(config, shards, service, held, facts);
            Host::open(door, parts)
        });
        let host = match (host.transpose(), self.owner.take()) {
            (host, None) => host?,
            (host, Some(owner)) => {
                owner.serves();
                host.unwrap_or_else(|error| {
                    tracing::error!(
                        error = format!("{error:#}"),
                        "took over, and no other process can take over from this one: the next upgrade needs a restart"
                    );
                    None
                })
            }
        };
        upgrade::ready();
        Ok(host)
    }
}
