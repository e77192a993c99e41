//! What a desk tells the process that comes next of its sockets, and what it hears from the one before.

use super::{Desk, Member, Stage, name_of};
use crate::line::Line;
use backend::Name;
use hub::AckTo;
use std::sync::Arc;
use wire::base64url::Id20;

impl Desk {
    /// The answers that this client waits for: our number of each, and its own.
    pub(crate) fn owes(&self, socket: Id20) -> Vec<(u64, u64)> {
        let member = self.members.get(&Name::of(socket));
        let acks = member.map(|member| member.acks.iter());
        let acks = acks.into_iter().flatten();
        acks.map(|(number, to)| (*number, to.id())).collect()
    }

    pub(crate) fn query_of(&self, token: u64) -> Option<u64> {
        self.queries.get(&token).map(|(_, query)| *query)
    }

    /// Its backend waits for the answer to a question. Returns our token of it.
    pub(crate) fn goes_on_with(&mut self, socket: Id20, query: u64) -> Option<u64> {
        let line = Arc::clone(&self.members.get(&Name::of(socket))?.line);
        let token = self.number();
        self.queries.insert(token, (line, query));
        Some(token)
    }

    pub(crate) fn last_number(&self) -> u64 {
        self.numbers
    }

    pub(crate) fn go_on_from(&mut self, number: u64) {
        self.numbers = self.numbers.max(number);
    }

    /// A socket that is in, and of which its backend knows.
    pub(crate) fn arrived(
        &mut self,
        socket: &hub::Member<'_>,
        line: &Arc<dyn Line>,
        owed: Vec<(u64, AckTo)>,
    ) {
        if let Some(name) = name_of(socket) {
            let member = Member {
                line: Arc::clone(line),
                stage: Stage::In(socket.key()),
                arrival: None,
                acks: owed.into_iter().collect(),
            };
            self.members.insert(name, member);
        }
    }
}
