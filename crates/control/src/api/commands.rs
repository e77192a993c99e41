//! Orders of programs that are no callers: they have no key, since the place where they write has rights of its own.

use super::problem::{Kind, Problem};
use super::{Api, check, name_of};
use crate::bridge::{Carrying, Uncarried};
use rules::{Errand, Wanted};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use types::Target;

impl Api {
    /// Sends an order that a topic has the right to. Blocks while a store takes a large event; whoever reads the topic has to be held back
    /// until the shards have it.
    pub fn carry_out_for_topic(
        self: &Arc<Self>,
        runtime: &Handle,
        of: Target,
        wanted: Wanted,
    ) -> Result<Carrying, Uncarried> {
        let wanted = self
            .checked(&of, wanted)
            .map_err(|problem| flaw(&problem))?;
        tracing::debug!(
            namespace = of.namespace,
            "{} ordered by a program",
            name_of(&wanted)
        );
        let what = match runtime.block_on(self.make_small(&of.namespace, wanted)) {
            Ok(wanted) => wanted,
            Err(problem) if problem.kind() == Kind::Busy => {
                tracing::warn!("an order of a program waits: {}", problem.message());
                return Err(Uncarried::Later);
            }
            Err(problem) => return Err(flaw(&problem)),
        };
        let (answer, answered) = oneshot::channel();
        let answer = Box::new(move |outcome| drop(answer.send(outcome)));
        self.shards.send(Errand {
            of,
            what,
            answer,
            begun: None,
        });
        Ok(Carrying::new(answered))
    }

    fn checked(&self, of: &Target, wanted: Wanted) -> Result<Wanted, Problem> {
        check::target(of)?;
        check::namespace(&of.namespace, self.namespaces.as_ref())?;
        match wanted {
            Wanted::Emit(message) => check::event(message, None),
            Wanted::Join(rooms) => {
                check::rooms("join", &rooms, self.room_name_bytes_max)?;
                Ok(Wanted::Join(rooms))
            }
            other => Ok(other),
        }
    }
}

fn flaw(problem: &Problem) -> Uncarried {
    Uncarried::Flaw(problem.message())
}
