//! Which sockets are meant: the one check of it, for whoever says it.

use crate::Target;
use crate::bounds::NAMES_MAX;
use std::fmt;
use wire::base64url::Id20;

const NOBODY: &str =
    "nobody is meant: name rooms, users or sockets, or set \"all\" to true for the whole namespace";
const BOTH: &str = "rooms, users or sockets are named as well: leave one of both out";

/// Why a target cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    field: String,
    detail: String,
}

impl Fault {
    fn new(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            detail: detail.into(),
        }
    }

    /// The field at fault, with the place in its list.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// For people.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.detail)
    }
}

impl Target {
    /// All sockets of a namespace.
    pub fn all_of(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            all: true,
            ..Self::default()
        }
    }

    /// The members of a room, or the one socket with this id.
    pub fn room(namespace: impl Into<String>, room: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            rooms: vec![room.into()],
            ..Self::default()
        }
    }

    /// Some lists name sockets that are meant.
    pub fn has_names(&self) -> bool {
        !(self.rooms.is_empty() && self.users.is_empty() && self.sockets.is_empty())
    }

    /// Whether it can be carried out. A list that came out empty by mistake means nobody, and never everybody.
    ///
    /// # Errors
    /// The fault, in words for the author of the program.
    pub fn check(&self) -> Result<(), Fault> {
        self.check_with(check_names)
    }

    /// The same for workers, whose rooms may have any name, as in Socket.IO: one without a name is a room that nobody is in.
    ///
    /// # Errors
    /// The fault, in words for the worker's author.
    pub fn check_of_worker(&self) -> Result<(), Fault> {
        self.check_with(check_count)
    }

    fn check_with(&self, list: fn(&str, &[String]) -> Result<(), Fault>) -> Result<(), Fault> {
        if !self.namespace.starts_with('/') {
            let detail = format!("{:?} does not begin with a slash", self.namespace);
            return Err(Fault::new("namespace", detail));
        }
        for (field, names) in self.lists() {
            list(field, names)?;
        }
        if let Some(at) = self.sockets.iter().position(|id| !is_socket_id(id)) {
            let detail = format!("{:?} is no socket's id", self.sockets[at]);
            return Err(Fault::new(format!("sockets[{at}]"), detail));
        }
        match (self.all, self.has_names()) {
            (false, false) => Err(Fault::new("all", NOBODY)),
            (true, true) => Err(Fault::new("all", BOTH)),
            _ => Ok(()),
        }
    }

    fn lists(&self) -> [(&'static str, &[String]); 4] {
        [
            ("rooms", &self.rooms),
            ("users", &self.users),
            ("sockets", &self.sockets),
            ("except", &self.except),
        ]
    }

    /// The rooms whose members are meant, those that hold a single socket among them.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let rooms = self.rooms.iter().chain(&self.sockets);
        rooms.map(String::as_str)
    }

    /// The name of the one room or socket that is meant, if nobody else is and nobody is left out.
    pub fn only(&self) -> Option<&str> {
        let mut names = self.groups();
        let only = names.next()?;
        let alone = names.next().is_none() && self.users.is_empty() && self.except.is_empty();
        alone.then_some(only)
    }

    /// Whether one socket is meant, by its id.
    pub fn is_one_socket(&self) -> bool {
        self.only().is_some_and(is_socket_id)
    }
}

/// For logs and audits: not the exceptions.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.all {
            return f.write_str("the whole namespace");
        }
        let [rooms, users, sockets, _] = self.lists();
        let named = [rooms, users, sockets].into_iter();
        let named = named.filter(|(_, names)| !names.is_empty());
        let named: Vec<String> = named
            .map(|(field, names)| format!("{field} {}", names.join(", ")))
            .collect();
        f.write_str(&named.join("; "))
    }
}

fn is_socket_id(text: &str) -> bool {
    Id20::decode(text.as_bytes()).is_some()
}

/// Names in a field of a target or of a request beside it.
///
/// # Errors
/// There are too many, or one is empty.
pub fn check_names(field: &str, names: &[String]) -> Result<(), Fault> {
    check_count(field, names)?;
    match names.iter().position(String::is_empty) {
        Some(at) => Err(Fault::new(format!("{field}[{at}]"), "a name is empty")),
        None => Ok(()),
    }
}

fn check_count(field: &str, names: &[String]) -> Result<(), Fault> {
    if names.len() > NAMES_MAX {
        let detail = format!("it has {} names, and {NAMES_MAX} are allowed", names.len());
        return Err(Fault::new(field, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `io.to(user.room ?? "")` reached nobody, and was refused with all rooms beside it.
    #[test]
    fn a_room_without_a_name_is_a_room_to_workers() {
        let mut of = Target::room("/", "a");
        of.rooms.push(String::new());
        of.except.push(String::new());
        assert_eq!(of.check_of_worker(), Ok(()));
        assert!(fault(&of).is_some(), "a program is told");
        of.rooms.clear();
        assert!(of.check_of_worker().is_err(), "nobody is meant");
    }

    const ID: &str = "AAAAAAAAAAAAAAAAAAAC";

    fn fault(of: &Target) -> Option<String> {
        of.check().err().map(|fault| fault.to_string())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Everybody heard what a program said to a list that had come out empty.
    #[test]
    fn an_empty_target_was_everybody_to_one_and_nobody_to_another() {
        let mut of = Target::all_of("/");
        assert_eq!(fault(&of), None);
        of.except = names(&["a"]);
        assert_eq!(fault(&of), None);
        of.all = false;
        assert_eq!(fault(&of), Some(format!("all: {NOBODY}")));
        of.users = names(&["ada"]);
        assert_eq!(fault(&of), None);
        of.all = true;
        assert_eq!(fault(&of), Some(format!("all: {BOTH}")));
    }

    #[test]
    fn a_fault_names_its_place_and_the_value() {
        let faulty = |spoil: fn(&mut Target)| {
            let mut of = Target::room("/", "a");
            spoil(&mut of);
            fault(&of).expect("a fault")
        };
        type Spoil = fn(&mut Target);
        let cases: [(Spoil, &str); 5] = [
            (
                |of| of.namespace.clear(),
                "namespace: \"\" does not begin with a slash",
            ),
            (
                |of| of.rooms.push(String::new()),
                "rooms[1]: a name is empty",
            ),
            (
                |of| of.except.push(String::new()),
                "except[0]: a name is empty",
            ),
            (
                |of| of.sockets = names(&[ID, "x"]),
                "sockets[1]: \"x\" is no socket's id",
            ),
            (
                |of| of.users = vec!["u".to_owned(); 1_001],
                "users: it has 1001 names, and 1000 are allowed",
            ),
        ];
        for (spoil, said) in cases {
            assert_eq!(faulty(spoil), said);
        }
    }

    #[test]
    fn one_socket_is_known_by_whichever_list_names_it() {
        for of in [
            Target::room("/", ID),
            Target {
                sockets: names(&[ID]),
                ..Target::default()
            },
        ] {
            assert_eq!(of.only(), Some(ID));
            assert!(of.is_one_socket());
            for more in [
                Target {
                    users: names(&["ada"]),
                    ..of.clone()
                },
                Target {
                    except: names(&["a"]),
                    ..of.clone()
                },
                Target {
                    rooms: names(&[ID, ID]),
                    ..of.clone()
                },
            ] {
                assert_eq!(more.only(), None);
            }
        }
        assert!(!Target::room("/", "a").is_one_socket());
        assert_eq!(Target::all_of("/").only(), None);
    }

    #[test]
    fn people_read_who_is_meant() {
        let mut of = Target::room("/", "a");
        of.rooms.push("b".to_owned());
        of.users = names(&["ada"]);
        assert_eq!(of.to_string(), "rooms a, b; users ada");
        assert_eq!(Target::all_of("/").to_string(), "the whole namespace");
    }
}
