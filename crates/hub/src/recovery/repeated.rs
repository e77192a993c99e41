//! What came from a stream again in one turn, and where it stood when it was told before: after a failover that may be much, so all that was for
//! the same receivers is one thing.

use crate::recovery::headings::Kind;
use crate::recovery::members::Aim;
use std::collections::BTreeMap;

/// The numbers of the first and the last of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stood {
    pub(crate) from: u64,
    pub(crate) upto: u64,
}

impl Stood {
    pub(crate) fn at(number: u64) -> Self {
        Self {
            from: number,
            upto: number,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.from = self.from.min(other.from);
        self.upto = self.upto.max(other.upto);
    }
}

/// By name.
type Names = BTreeMap<Box<str>, Stood>;

/// The same by whom it named, so that one walk finds all who did not hear some of it.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    namespaces: BTreeMap<Box<str>, BTreeMap<Kind, Names>>,
}

impl Repeated {
    pub(crate) fn add(&mut self, aim: &Aim<'_>, stood: Stood) {
        for heading in aim.headings() {
            let kinds = self.namespaces.entry(heading.namespace.into()).or_default();
            let names = kinds.entry(heading.kind).or_default();
            let all = names.entry(heading.name.into()).or_insert(stood);
            all.add(stood);
        }
    }

    pub(crate) fn of(&self, namespace: &str, kind: Kind, name: &str) -> Option<Stood> {
        let kinds = self.namespaces.get(namespace)?;
        kinds.get(&kind)?.get(name).copied()
    }
}
