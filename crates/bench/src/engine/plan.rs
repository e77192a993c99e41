//! Owns what stays as it is during a run: the scenario, which users and servers one worker has, and what a user's own words are.

use super::connection::Role;
use super::identity::room_key;
use super::socket::open_socket;
use super::timers::Share;
use super::user::User;
use crate::loss::Loss;
use crate::scenario::{Endpoint, Flow, Protocol, Scenario, Scope, Step, Template};
use crate::stream::Stream;
use crate::tls::Trust;
use anyhow::Result;
use mio::{Interest, Registry, Token};
use std::net::SocketAddr;

/// Which part of all users this worker has: those whose number modulo `workers` is `worker`.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Place {
    /// Number of the run, 12 bits, so that another run's messages are known as such.
    pub run: u16,
    pub worker: u16,
    pub workers: u16,
    pub servers: Vec<Server>,
    /// Certificates in PEM to trust, instead of those of the machine.
    pub authorities: Option<String>,
    /// Users of this worker that connect at the same time, where the scenario sets no rate.
    pub in_flight: u32,
}

/// One address that users are spread over.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Server {
    pub addr: SocketAddr,
    /// As the Host header has it.
    pub host: String,
    /// The name that its certificate must have, where it speaks TLS.
    pub tls: Option<String>,
}

#[derive(Debug)]
pub struct Plan {
    scenario: Scenario,
    place: Place,
    /// Whom to trust, where a server speaks TLS.
    trust: Option<Trust>,
    /// Where new sockets are watched.
    registry: Registry,
    /// Users of the whole scenario, for templates.
    users: u32,
}

impl Plan {
    pub fn new(scenario: Scenario, place: Place, registry: Registry) -> Result<Self> {
        let speaks_tls = place.servers.iter().any(|server| server.tls.is_some());
        let trust = speaks_tls.then(|| Trust::new(place.authorities.as_deref()));
        Ok(Plan {
            users: scenario.users(),
            scenario,
            place,
            trust: trust.transpose()?,
            registry,
        })
    }

    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Over all workers, of this worker's user at `index`.
    pub fn number(&self, index: usize) -> u32 {
        index as u32 * u32::from(self.place.workers) + u32::from(self.place.worker)
    }

    pub fn index(&self, number: u32) -> usize {
        (number / u32::from(self.place.workers)) as usize
    }

    /// Chooses the new user's server: neighbours in a room must share one.
    pub fn user(&self, number: u32, due_ns: u64) -> User {
        let mut user = User::new(number, self.scenario.flow_of(number), due_ns);
        let spread = &self.endpoint(&user).spread;
        let text = self.text(&mut user, spread);
        let place = text.parse().unwrap_or_else(|_| room_key(&text) as usize);
        user.server = place % self.place.servers.len().max(1);
        user
    }

    pub fn flow(&self, user: &User) -> &Flow {
        &self.scenario.flows[user.flow]
    }

    /// The step that the user has come to, unless its flow is at its end.
    pub fn step(&self, user: &User) -> Option<&Step> {
        self.flow(user).steps.get(user.course.step)
    }

    pub fn endpoint(&self, user: &User) -> &Endpoint {
        &self.flow(user).endpoint
    }

    pub fn speaks(&self, user: &User, protocol: Protocol) -> bool {
        self.endpoint(user).protocol == protocol
    }

    pub fn host(&self, user: &User) -> &str {
        &self.place.servers[user.server].host
    }

    pub fn scope(&self, user: &User) -> Scope {
        user.scope(self.users)
    }

    pub fn text(&self, user: &mut User, template: &Template) -> String {
        template.text(&self.scope(user), &mut user.dice)
    }

    /// Credentials of protocols that have no greeting to carry them.
    pub fn authorization(&self, user: &User) -> String {
        match &user.auth {
            Some(auth) if !self.speaks(user, Protocol::SocketIo) => {
                format!("Authorization: Bearer {auth}\r\n")
            }
            _ => String::new(),
        }
    }

    /// The flow's path for this user, with `query` behind it.
    pub fn target(&self, user: &mut User, query: &str) -> String {
        let path = &self.endpoint(user).path;
        let path = self.text(user, path);
        match (query, path.contains('?')) {
            ("", _) => path,
            (query, true) => format!("{path}&{query}"),
            (query, false) => format!("{path}?{query}"),
        }
    }

    pub fn open(&self, user: &User, role: Role) -> Result<Stream, Loss> {
        let server = &self.place.servers[user.server];
        let mut socket = open_socket(server.addr, user.number)
            .map_err(|error| Loss::Refused(format!("{error:#}")))?;
        let token = Token(self.index(user.number) << 2 | role as usize);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry
            .register(&mut socket, token, interest)
            .map_err(|error| Loss::Io(error.kind()))?;
        let tls = match (&self.trust, server.tls.as_deref()) {
            (Some(trust), Some(name)) => Some(trust.session(name)?),
            _ => None,
        };
        Ok(Stream::new(socket, tls))
    }

    /// Places of this worker's users among all users with a shared loop, in this phase.
    pub fn paced_share(&self, phase: usize) -> Share {
        let flows = self.scenario.flows.iter();
        let is_paced: Vec<bool> = flows.map(Flow::is_paced).collect();
        let mut share = Share::default();
        for user in 0..self.scenario.users_by(phase) {
            if is_paced[self.scenario.flow_of(user)] {
                if user % u32::from(self.place.workers) == u32::from(self.place.worker) {
                    share.places.push(share.all);
                }
                share.all += 1;
            }
        }
        share
    }
}
