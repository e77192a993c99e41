//! Messages between the servers of a cluster, beside their clients: Socket.IO's `serverSideEmit`.

use crate::cluster::letter::{Answer, Target};
use crate::cluster::wire::Ask;
use crate::cluster::{asking, send};
use crate::dialect::speech::Emit;
use crate::parts::Parts;
use crate::seam::context::{Context, millis};
use crate::seam::effect::Notice;
use crate::seam::event::ServerAck;
use crate::seam::inside::Inside;
use crate::seam::outbound::Outbound;
use crate::seam::told::{Collected, Told};
use std::time::Duration;

/// Socket.IO's own events of a namespace: a server that heard them would take them for connections.
const RESERVED: [&str; 3] = ["connect", "connection", "new_namespace"];

/// The other servers of a cluster that serve a namespace: nodes, and Socket.IO servers of Node.
#[derive(Debug)]
pub struct Servers<'a, 't> {
    parts: &'a mut Parts,
    of: Target<'t>,
}

impl<'a> Context<'a> {
    /// The other servers that serve a namespace.
    pub fn servers<'t>(&mut self, namespace: &'t str) -> Servers<'_, 't> {
        let of = Target {
            namespace,
            ..Target::default()
        };
        Servers {
            parts: self.parts,
            of,
        }
    }
}

impl Context<'_> {
    /// Answers another server. A server that waits no longer hears nothing.
    pub fn answer_server(&mut self, ack: ServerAck, args: &str, attachments: &[Vec<u8>]) {
        let _inside = Inside::enter();
        let answer = Answer {
            args: args.to_owned(),
            attachments: attachments.to_vec(),
        };
        asking::answer_server(self.parts, ack, answer);
    }
}

impl Servers<'_, '_> {
    /// Tells their handlers.
    pub fn emit(self, event: &Emit<'_>) {
        let _inside = Inside::enter();
        if may_say(&mut self.parts.outbound, event) {
            // A word that finds no room is counted; nobody waits to be told.
            let _ = send::send_away(self.parts, &self.of, Ask::Server(event, None));
        }
    }

    /// Asks their handlers; `Handler::collected` follows, with one answer of each.
    pub fn ask(self, event: &Emit<'_>, timeout: Duration, token: u64) {
        let _inside = Inside::enter();
        if may_say(&mut self.parts.outbound, event) {
            return asking::ask_servers(self.parts, &self.of, event, millis(timeout), token);
        }
        let collected = Collected::default();
        let told = Told::Collected { token, collected };
        self.parts.outbound.tell(told);
    }

    /// How many they are with this one, as far as it knows now.
    pub fn count(self) -> u64 {
        let _inside = Inside::enter();
        let away = self.parts.away.as_ref();
        away.map_or(1, |away| away.servers(self.of.namespace))
    }
}

fn may_say(outbound: &mut Outbound, event: &Emit<'_>) -> bool {
    let reserved = RESERVED.into_iter().find(|name| *name == event.name);
    if let Some(name) = reserved {
        outbound.log(Notice::ReservedEvent { name });
    }
    reserved.is_none()
}
