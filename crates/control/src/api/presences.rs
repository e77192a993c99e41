//! The members of a room, for programs.

use super::lists::TURN_TIMEOUT;
use super::model::{Member, Members};
use super::problem::{Kind, Problem};
use super::{Api, may, raw, stopping};
use hub::bounds::WATCHED_MAX;
use hub::{Person, Presence, Unwatched, Who};
use identity::keys::{Caller, Scope};
use rules::{Outcome, Wanted};
use std::time::Duration;
use types::Target;

/// A node that has no member of the room, and did not hear of it before, asks the others, and is asked again after each of these times.
const OTHERS_ANSWER: [Duration; 2] = [Duration::from_millis(750), Duration::from_millis(250)];

impl Api {
    pub(super) async fn members(
        &self,
        caller: &Caller,
        namespace: &str,
        room: &str,
    ) -> Result<Members, Problem> {
        may(caller, Scope::Read, namespace)?;
        super::check::rooms("room", &[room.to_owned()], self.room_name_bytes_max)?;
        let mut found = self.present(namespace, room).await?;
        for wait in OTHERS_ANSWER {
            if !found.complete && self.readiness.hears_others() {
                tokio::time::sleep(wait).await;
                found = self.present(namespace, room).await?;
            }
        }
        Ok(Members {
            room: room.to_owned(),
            count: found.count,
            // While this node hears no other, its list may be old.
            complete: found.complete && self.readiness.hears_others(),
            members: (!found.nameless).then(|| found.joined.into_iter().map(member).collect()),
        })
    }

    async fn present(&self, namespace: &str, room: &str) -> Result<Presence, Problem> {
        let of = Target::room(namespace, room);
        let wanted = (Wanted::Present, None);
        let found = self.ask(of, wanted, TURN_TIMEOUT).await?;
        let Outcome::Present(found) = found else {
            return Err(stopping());
        };
        found.map_err(|why| match why {
            Unwatched::NoPresence => {
                let detail = format!(
                    "rooms like {room:?} have no presence: namespaces.{namespace:?}.presence says which do"
                );
                Problem::new(Kind::NotFound, detail)
            }
            Unwatched::TooMany => {
                let detail = format!(
                    "cannot ask other nodes for the members of {room:?}: {WATCHED_MAX} rooms without members on this node were asked for within \
                     a minute; ask a node that has members of it, or later"
                );
                Problem::new(Kind::Busy, detail)
            }
        })
    }
}

fn member(person: Person) -> Member {
    let (user, id) = match person.who {
        Who::User(user) => (Some(user.to_string()), None),
        Who::Socket(id) => (None, Some(id.to_string())),
    };
    let info = (!person.info.is_empty()).then(|| raw(person.info.to_string()));
    Member { user, id, info }
}
