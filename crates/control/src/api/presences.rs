//! Who is in a room, for programs.

use super::lists::TURN_TIMEOUT;
use super::model::{Member, Members};
use super::problem::{Kind, Problem};
use super::{Api, may, raw, stopping};
use crate::admin::keys::{Caller, Scope};
use hub::{Person, Presence, Who};
use rules::{Chosen, Outcome, Wanted};
use std::time::Duration;

/// A node that has no member of the room, and did not hear of it before, asks the others, who answer within this time.
const OTHERS_ANSWER: Duration = Duration::from_millis(750);

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
        if found.fresh {
            tokio::time::sleep(OTHERS_ANSWER).await;
            found = self.present(namespace, room).await?;
        }
        Ok(Members {
            room: room.to_owned(),
            count: found.count,
            members: (!found.nameless).then(|| found.joined.into_iter().map(member).collect()),
        })
    }

    async fn present(&self, namespace: &str, room: &str) -> Result<Presence, Problem> {
        let of = Chosen {
            namespace: namespace.to_owned(),
            rooms: vec![room.to_owned()],
            ..Chosen::default()
        };
        let found = self.ask(of, Wanted::Present, TURN_TIMEOUT).await?;
        let Outcome::Present(found) = found else {
            return Err(stopping());
        };
        found.ok_or_else(|| {
            let detail = format!(
                "rooms like {room:?} have no presence: namespaces.{namespace:?}.presence says which do; or too many rooms are asked for"
            );
            Problem::new(Kind::NotFound, detail)
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
