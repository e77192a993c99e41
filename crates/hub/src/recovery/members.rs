//! The memberships of a socket, and the sockets that an event is meant for.

use crate::recovery::headings::{Heading, Kind, Membership};

/// The receivers of an event or a command: the union of rooms and users, or everyone in the namespace when both are empty, less
/// the members of `except`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aim<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) rooms: &'a [&'a str],
    pub(crate) users: &'a [&'a str],
    pub(crate) except: &'a [&'a str],
}

impl<'a> Aim<'a> {
    fn heading(&self, kind: Kind, name: &'a str) -> Heading<'a> {
        Heading {
            namespace: self.namespace,
            kind,
            name,
        }
    }

    /// The room, if it is for one room and nobody else.
    pub(crate) fn one_room(&self) -> Option<&'a str> {
        match (self.rooms, self.users) {
            ([room], []) => Some(room),
            _ => None,
        }
    }

    /// The headings that it names.
    pub(crate) fn headings(&self) -> impl Iterator<Item = Heading<'a>> {
        let all = self.rooms.is_empty() && self.users.is_empty();
        let everyone = all.then(|| self.heading(Kind::Everyone, ""));
        let rooms = self.rooms.iter();
        let users = self.users.iter();
        everyone
            .into_iter()
            .chain(rooms.map(|name| self.heading(Kind::Room, name)))
            .chain(users.map(|name| self.heading(Kind::User, name)))
    }
}

/// The memberships of one socket in its namespace, that of everyone among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    sorted: Vec<Membership>,
}

impl FromIterator<Membership> for Members {
    fn from_iter<I: IntoIterator<Item = Membership>>(members: I) -> Self {
        let mut sorted: Vec<Membership> = members.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self { sorted }
    }
}

impl Members {
    fn search(&self, kind: Kind, name: &str) -> Result<usize, usize> {
        self.sorted
            .binary_search_by(|member| (member.kind, &*member.name).cmp(&(kind, name)))
    }

    pub(crate) fn has(&self, kind: Kind, name: &str) -> bool {
        self.search(kind, name).is_ok()
    }

    /// `false`: it was one already.
    pub(crate) fn join(&mut self, kind: Kind, name: &str) -> bool {
        let place = self.search(kind, name);
        if let Err(at) = place {
            self.sorted.insert(at, Membership::new(kind, name));
        }
        place.is_err()
    }

    /// `false`: it was none.
    pub(crate) fn leave(&mut self, kind: Kind, name: &str) -> bool {
        let place = self.search(kind, name);
        if let Ok(at) = place {
            self.sorted.remove(at);
        }
        place.is_ok()
    }

    /// Whether it is one of those that are meant.
    pub(crate) fn are_meant(&self, aim: &Aim<'_>) -> bool {
        let mut named = aim.headings();
        named.any(|heading| self.has(heading.kind, heading.name))
            && !aim.except.iter().any(|name| self.has(Kind::Room, name))
    }

    pub(crate) fn holds(&self, others: &Self) -> bool {
        let mut others = others.iter();
        others.all(|other| self.has(other.kind, &other.name))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Membership> {
        self.sorted.iter()
    }

    pub(crate) fn rooms(&self) -> usize {
        let rooms = self.sorted.iter();
        rooms.filter(|member| member.kind == Kind::Room).count()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.sorted.iter().map(Membership::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Members {
        let all = [(Kind::Room, "b"), (Kind::Everyone, ""), (Kind::User, "ann")];
        let all = all.map(|(kind, name)| Membership::new(kind, name));
        all.into_iter().collect()
    }

    #[test]
    fn joining_and_leaving_twice_is_once() {
        let mut members = members();
        assert!(members.join(Kind::Room, "a") && !members.join(Kind::Room, "a"));
        assert_eq!((members.rooms(), members.has(Kind::User, "a")), (2, false));
        assert!(members.leave(Kind::Room, "a") && !members.leave(Kind::Room, "a"));
        assert_eq!(members, self::members());
    }

    #[test]
    fn a_socket_is_meant_by_any_of_its_names_and_by_none_that_is_left_out() {
        let aim = |rooms, users, except| {
            members().are_meant(&Aim {
                namespace: "/",
                rooms,
                users,
                except,
            })
        };
        assert!(aim(&[], &[], &[]) && !aim(&[], &[], &["b"]));
        assert!(aim(&["x", "b"], &[], &["x"]) && !aim(&["x"], &[], &[]));
        assert!(aim(&["x"], &["ann"], &[]) && !aim(&[], &["bob"], &[]));
        // A room is no user.
        assert!(!aim(&["ann"], &["b"], &[]) && aim(&[], &["ann"], &["ann"]));
    }
}
