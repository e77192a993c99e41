//! Pages of sockets and of rooms, made from the lists of all nodes.

use super::model::{Count, Room, Rooms, Socket, Sockets};
use super::problem::{Kind, Problem};
use super::{Api, check, may, raw, stopping};
use hub::Found;
use identity::keys::{Caller, Scope};
use rules::{Outcome, Wanted};
use std::collections::BTreeMap;
use std::time::Duration;
use types::Target;

/// Items of one page at most.
pub const PAGE_MAX: usize = 1_000;
const PAGE: usize = 100;
/// Lists that are made at once: each may take as much memory as a round. More wait.
pub(super) const LISTS_MAX: usize = 4;
/// Nodes that have not answered by then are missing in the list.
const NODES_TIMEOUT: Duration = Duration::from_secs(3);
pub(super) const TURN_TIMEOUT: Duration = Duration::from_secs(5);

/// Which part of a list is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The last one of the page before.
    pub(crate) after: Option<String>,
    pub(crate) limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            after: None,
            limit: PAGE,
        }
    }
}

impl Page {
    /// The items of this page, and where the next one begins. `items` are in order.
    fn of<T>(
        &self,
        items: impl Iterator<Item = T>,
        name: impl Fn(&T) -> &str,
    ) -> (Vec<T>, Option<String>) {
        let after = |item: &T| self.after.as_deref().is_none_or(|after| name(item) > after);
        let mut items = items.filter(after);
        let page: Vec<T> = items.by_ref().take(self.limit).collect();
        let more = items.next().is_some();
        let next = page
            .last()
            .filter(|_| more)
            .map(|last| name(last).to_owned());
        (page, next)
    }

    fn checked(&self) -> Result<(), Problem> {
        match (1..=PAGE_MAX).contains(&self.limit) {
            true => Ok(()),
            false => Err(Problem::field(
                "limit",
                format!("{} is not between 1 and {PAGE_MAX}", self.limit),
            )),
        }
    }
}

impl Api {
    pub(super) async fn sockets(
        &self,
        caller: &Caller,
        of: Target,
        page: &Page,
    ) -> Result<Sockets, Problem> {
        page.checked()?;
        let found = self.found(caller, of).await?;
        let mut sockets = found.sockets;
        sockets.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let (sockets, next) = page.of(sockets.into_iter(), |socket| &socket.id);
        let sockets = sockets.into_iter().map(|socket| Socket {
            id: socket.id,
            rooms: socket.rooms,
            data: raw(socket.data),
        });
        Ok(Sockets {
            sockets: sockets.collect(),
            next,
            complete: found.complete,
        })
    }

    pub(super) async fn rooms(
        &self,
        caller: &Caller,
        of: Target,
        prefix: &str,
        page: &Page,
    ) -> Result<Rooms, Problem> {
        page.checked()?;
        let found = self.found(caller, Target { all: true, ..of }).await?;
        let mut members = BTreeMap::<&str, u64>::new();
        for socket in &found.sockets {
            let shared = socket.rooms.iter().filter(|room| **room != socket.id);
            for room in shared.filter(|room| room.starts_with(prefix)) {
                *members.entry(room).or_default() += 1;
            }
        }
        let (rooms, next) = page.of(members.into_iter(), |(room, _)| room);
        let rooms = rooms.into_iter().map(|(room, sockets)| Room {
            room: room.to_owned(),
            sockets,
        });
        Ok(Rooms {
            rooms: rooms.collect(),
            next,
            complete: found.complete,
        })
    }

    pub(super) async fn count_room(
        &self,
        caller: &Caller,
        of: Target,
        room: String,
    ) -> Result<Count, Problem> {
        let rooms = vec![room.clone()];
        let found = self.found(caller, Target { rooms, ..of }).await?;
        Ok(Count {
            room,
            sockets: found.sockets.len() as u64,
            complete: found.complete,
        })
    }

    async fn found(&self, caller: &Caller, of: Target) -> Result<Found, Problem> {
        may(caller, Scope::Read, &of.namespace)?;
        check::target(&of)?;
        let turn = tokio::time::timeout(TURN_TIMEOUT, self.lists.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            let detail = format!("{LISTS_MAX} lists are being made, and they take long");
            return Err(Problem::new(Kind::Busy, detail));
        };
        match self
            .ask(of, (Wanted::Fetch(NODES_TIMEOUT), None), NODES_TIMEOUT)
            .await?
        {
            Outcome::Found(found) => Ok(found),
            Outcome::Done { .. }
            | Outcome::Collected(_)
            | Outcome::Present(_)
            | Outcome::Moved
            | Outcome::Unwritten => Err(stopping()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_without_gaps() {
        let all: Vec<String> = (0..7).map(|n| format!("s{n}")).collect();
        for limit in 1..=8 {
            let (mut page, mut seen) = (
                Page {
                    limit,
                    ..Page::default()
                },
                Vec::new(),
            );
            loop {
                let (items, next) = page.of(all.iter(), |item| item);
                assert!(items.len() <= limit && !items.is_empty());
                seen.extend(items.into_iter().cloned());
                match next {
                    None => break,
                    after => page.after = after,
                }
            }
            assert_eq!(seen, all, "{limit}");
        }
        // One that has gone meanwhile is no obstacle.
        let page = Page {
            after: Some("s2x".to_owned()),
            limit: 2,
        };
        assert_eq!(
            page.of(all.iter(), |item| item),
            (vec![&all[3], &all[4]], Some("s4".to_owned()))
        );
    }
}
