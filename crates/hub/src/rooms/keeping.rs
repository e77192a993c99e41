//! What namespaces keep of their events. The configuration says it by the names of events, so it holds whoever says an event: a client, a
//! worker, a program or another server.

use crate::bounds::HISTORY_BYTES_MAX;
use crate::dialect::speech::Emit;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use wire::json;

/// What clients that join a room later get of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Nothing: it only has its place among the others.
    #[default]
    Passing,
    /// `{"event":NAME,"args":[ARGS]}`.
    Named,
    /// Its first argument as it is.
    Bare,
}

/// A namespace whose rooms keep events. All its events have one order, which one shard gives them: their home.
#[derive(Clone, Debug, Default)]
pub struct Keeps {
    /// Namespaces with one key have one home: those that one backend serves.
    pub home: String,
    /// The forms of these events.
    pub forms: HashMap<String, Form, FixedState>,
    /// The form of all other events.
    pub others: Form,
}

/// What all namespaces keep.
#[derive(Debug, Default)]
pub struct Keeping {
    namespaces: Vec<(String, Option<Keeps>)>,
    /// What namespaces keep that have no name here.
    others: Option<Keeps>,
}

/// An event's part in the history of its rooms.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    /// It is not to be kept.
    Passing,
    /// It is to be kept, and can not be: a history that should hold it has a hole.
    Lost,
    Kept(Arc<str>),
}

impl Keeping {
    /// `*` in place of a name: all namespaces that are not named. `None`: rooms keep nothing there.
    pub fn new(namespaces: impl IntoIterator<Item = (String, Option<Keeps>)>) -> Self {
        let (others, namespaces): (Vec<_>, Vec<_>) = namespaces
            .into_iter()
            .partition(|(namespace, _)| namespace == "*");
        let others = others.into_iter().find_map(|(_, keeps)| keeps);
        let any = others.is_some() || namespaces.iter().any(|(_, keeps)| keeps.is_some());
        match any {
            true => Self { namespaces, others },
            // Where nothing is kept, the look for each event ends at once (`of`).
            false => Self::default(),
        }
    }

    /// What a namespace keeps.
    #[inline]
    pub(crate) fn of(&self, namespace: &str) -> Option<&Keeps> {
        if self.namespaces.is_empty() && self.others.is_none() {
            return None;
        }
        let named = self.namespaces.iter().find(|(name, _)| name == namespace);
        named.map_or(self.others.as_ref(), |(_, keeps)| keeps.as_ref())
    }

    /// Whether rooms of a namespace keep events of this name.
    pub fn keeps(&self, namespace: &str, event: &str) -> bool {
        let keeps = self.of(namespace);
        keeps.is_some_and(|keeps| keeps.form(event) != Form::Passing)
    }

    /// The shard that gives the events of a namespace their order; `None`: nobody does.
    pub fn home_of(&self, namespace: &str, shards: u16) -> Option<u16> {
        self.of(namespace).map(|keeps| home(&keeps.home, shards))
    }

    /// The same of the namespaces with this key.
    pub fn home_of_key(&self, key: &str, shards: u16) -> Option<u16> {
        let named = self
            .namespaces
            .iter()
            .filter_map(|(_, keeps)| keeps.as_ref());
        let mut all = named.chain(&self.others);
        let found = all.find(|keeps| keeps.home == key)?;
        Some(home(&found.home, shards))
    }
}

/// The home of a key. The seed is fixed, so that every shard has the same answer.
fn home(key: &str, shards: u16) -> u16 {
    if shards == 1 {
        return 0;
    }
    let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
    hasher.write(key.as_bytes());
    (hasher.finish() % u64::from(shards)) as u16
}

impl Keeps {
    fn form(&self, event: &str) -> Form {
        self.forms.get(event).copied().unwrap_or(self.others)
    }

    /// What is kept of an event. A volatile one is for this instant only, and attachments would be copied for every room. `rule`: the event
    /// whose rule counts.
    pub(crate) fn record(&self, event: &Emit<'_>, rule: &str) -> Record {
        let form = self.form(rule);
        if event.volatile || form == Form::Passing {
            return Record::Passing;
        }
        if !event.attachments.is_empty() || event.args.len() > HISTORY_BYTES_MAX {
            return Record::Lost;
        }
        let text = match form {
            Form::Named => named(event),
            // A history is a list: each event is one value in it, also without arguments.
            _ => json::first(event.args).unwrap_or("null").into(),
        };
        match text.len() > HISTORY_BYTES_MAX {
            true => Record::Lost,
            false => Record::Kept(text),
        }
    }
}

/// One value, whatever the number of its arguments.
fn named(event: &Emit<'_>) -> Arc<str> {
    let mut kept = b"{\"event\":".to_vec();
    json::quote(&mut kept, event.name);
    kept.extend_from_slice(b",\"args\":[");
    kept.extend_from_slice(event.args.as_bytes());
    kept.extend_from_slice(b"]}");
    String::from_utf8_lossy(&kept).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(form: Form, event: &Emit<'_>) -> Option<String> {
        let keeps = Keeps {
            others: form,
            ..Keeps::default()
        };
        match keeps.record(event, event.name) {
            Record::Kept(text) => Some(text.to_string()),
            Record::Passing | Record::Lost => None,
        }
    }

    /// A worker may say anything under the name of an event: a list of messages must stay a list with one more.
    #[test]
    fn what_is_kept_is_one_value_whatever_the_arguments() {
        for args in ["", "1", "1,{\"a\":[2,3]}"] {
            for form in [Form::Named, Form::Bare] {
                let text = kept(form, &Emit::new("e\"", args)).expect("kept");
                assert!(json::validate(text.as_bytes()).is_ok(), "{text}");
            }
        }
        let volatile = Emit {
            volatile: true,
            ..Emit::new("e", "1")
        };
        assert_eq!(kept(Form::Named, &volatile), None);
    }

    #[test]
    fn a_namespace_that_is_named_is_not_one_of_the_others() {
        let keeps = Keeps::default();
        let all = [("*", Some(keeps.clone())), ("/", None), ("/x", Some(keeps))];
        let keeping = Keeping::new(all.map(|(name, keeps)| (name.to_owned(), keeps)));
        let homes = ["/", "/x", "/y"].map(|name| keeping.home_of(name, 4).is_some());
        assert_eq!(homes, [false, true, true]);
    }
}
