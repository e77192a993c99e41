//! An event that somebody may follow: the decision about it is read from what the handler did, so that handlers pay nothing for it.

use crate::books::metrics::{Counts, Dropped};
use crate::clients::followed;
use crate::clients::trace::{self, TraceDecision, TraceWho};
use crate::clients::traces::{Followers, Hearing, Passing, Traces, names_first};
use crate::parts::Parts;
use crate::seam::event::{AckTo, Caller, Event};
use crate::seam::handler::{Explained, Goes};
use crate::seam::stage::Stage;
use std::sync::Arc;

/// What must be known before the handler is called: it may put the socket out.
struct Heard {
    followers: Followers,
    who: Option<TraceWho>,
    namespace: Option<Arc<str>>,
    name: Box<str>,
    args: String,
    attachments: Vec<Vec<u8>>,
    ack: Option<u64>,
    before: Tally,
}

/// The counters that a decision is read from.
#[derive(Clone, Copy)]
struct Tally {
    here: u64,
    shards: u64,
    away: u64,
    broadcasts: u64,
    panics: u64,
    dropped: [u64; Dropped::NAMES.len()],
}

impl Tally {
    fn of(counts: &Counts) -> Self {
        Self {
            here: counts.delivered.iter().sum(),
            shards: counts.relayed,
            away: counts.sent_away,
            broadcasts: counts.broadcasts,
            panics: counts.handler_panics,
            dropped: counts.dropped,
        }
    }

    fn has_dropped(&self, after: &Self, why: Dropped) -> bool {
        after.dropped[why as usize] > self.dropped[why as usize]
    }
}

/// Calls the handler, and tells those who follow the event what became of it.
#[cold]
#[inline(never)]
pub(super) fn on_event(
    stage: &mut Stage,
    from: Caller,
    event: Event<'_>,
    handle: fn(&mut Stage, Caller, Event<'_>),
) {
    let Some(mut heard) = Heard::new(&stage.parts, from, &event) else {
        return handle(stage, from, event);
    };
    if let Some(id) = event.ack.as_ref().map(AckTo::id) {
        let traces = &mut stage.parts.traces;
        traces.expect(from.socket, id, event.name);
    }
    let explained = stage.call(from.session, |handler, cx| {
        handler.explain(cx, from.socket, event.name)
    });
    // `explain` calls the handler, too, and what it counts is no part of the decision.
    heard.before = Tally::of(&stage.parts.books.counts);
    stage.parts.traces.begin_hearing();
    handle(stage, from, event);
    let hearing = stage.parts.traces.end_hearing();
    heard.tell(&mut stage.parts, &hearing, explained.flatten());
    Traces::tell_held(hearing);
}

impl Heard {
    /// `None`: nobody follows it.
    fn new(parts: &Parts, from: Caller, event: &Event<'_>) -> Option<Self> {
        let (people, traces) = (&parts.people, &parts.traces);
        let named = followed::namespace_of(people, from.socket.id());
        let mut followers = traces.followers(people, from.socket.id());
        followers.extend(traces.of_event(named, event.name));
        if followers.is_empty() && !traces.follows_rooms() {
            return None;
        }
        let (who, namespace) = followed::described(people, from.socket.id());
        Some(Self {
            followers,
            who,
            name: trace::name(event.name),
            args: event.args.to_owned(),
            attachments: event.attachments.to_vec(),
            ack: event.ack.as_ref().map(AckTo::id),
            before: Tally::of(&parts.books.counts),
            namespace,
        })
    }

    fn tell(mut self, parts: &mut Parts, hearing: &Hearing, explained: Option<Explained>) {
        let traces = &mut parts.traces;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        // Only now it is known to which rooms the handler sent the event.
        self.followers.extend(traces.of_rooms(namespace, |room| {
            let spoken = hearing.rooms.iter().any(|name| **name == *room);
            spoken || names_first(&self.args, room)
        }));
        if self.followers.is_empty() {
            return;
        }
        let after = Tally::of(&parts.books.counts);
        let goes = explained.as_ref().map(|explained| explained.goes);
        let decision = decided(&self.before, &after, hearing.refusal.clone(), goes);
        let passing = Passing {
            inward: true,
            what: "event",
            who: self.who,
            namespace: self.namespace,
            event: &self.name,
            rooms: hearing.rooms.clone(),
            args: Some(&self.args),
            attachments: &self.attachments,
            rule: explained.map(|explained| trace::name(&explained.rule)),
            ack: self.ack,
        };
        traces.tell(&self.followers, &passing, &decision);
    }
}

fn decided(
    before: &Tally,
    after: &Tally,
    refusal: Option<(Box<str>, Box<str>)>,
    goes: Option<Goes>,
) -> TraceDecision {
    if let Some((code, why)) = refusal {
        return TraceDecision::Refused { code, why };
    }
    if after.panics > before.panics {
        return TraceDecision::Refused {
            code: "handler_failed".into(),
            why: "its handler failed".into(),
        };
    }
    for (dropped, why) in [
        (Dropped::Unknown, "no rule knows this event"),
        (Dropped::Rule, "its rule says so"),
        (Dropped::Invalid, "it cannot be read"),
    ] {
        if before.has_dropped(after, dropped) {
            return TraceDecision::Dropped { why };
        }
    }
    let (shards, away) = (after.shards - before.shards, after.away - before.away);
    let is_sent = after.broadcasts > before.broadcasts || shards + away > 0;
    match goes {
        Some(Goes::ToBackend) => TraceDecision::Backend,
        None | Some(Goes::Nowhere) if !is_sent => TraceDecision::Handled,
        _ => {
            let here = after.here - before.here;
            TraceDecision::Relayed { here, shards, away }
        }
    }
}
