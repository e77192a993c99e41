//! Events that came from a stream again in one turn, and where they stood when they were told before. After a failover they may be many, so
//! all that were for the same receivers are one item.

use crate::recovery::headings::Kind;
use crate::recovery::members::Aim;
use std::collections::BTreeMap;

/// The numbers of the first and the last of such events.
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

/// What stood under each name.
type Names = BTreeMap<Box<str>, Stood>;

/// The same by receivers: one walk over the sockets finds those that did not hear some of it.
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
