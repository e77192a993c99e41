//! Backends that are called: each request takes items to an endpoint, and its answer brings commands back.
//!
//! The endpoint stands where the worker of a socket stands. A socket has one call at a time, so its items arrive in order. A
//! call that fails is made again, later and later; that holds up its own sockets only. Many failures in a row open a circuit:
//! until it closes, one call at a time finds out whether the endpoint is well again.

use crate::bounds::CALL_BYTES;
use crate::check::Fault;
use crate::commands;
use crate::endpoint::ENDPOINT;
use crate::entry::Entry;
use crate::home::{Home, Phase, Turn};
use crate::ledger::Ledger;
use crate::message::{Ack, Down, Refusal, Why};
use crate::name::Name;
use crate::outlet::Outlet;
use crate::parts::Parts;
use crate::proto;
use crate::proto::command::What;
use crate::queue::Queue;
use std::collections::{BTreeMap, BTreeSet};

/// One request to make. [`Backend::call_ended`](crate::Backend::call_ended) ends it.
#[derive(Clone, Debug)]
pub struct Call {
    pub number: u64,
    /// One, or some that nobody waits for.
    pub news: Vec<News>,
}

/// An item, with what an endpoint must be told of its socket each time.
#[derive(Clone, Debug)]
pub struct News {
    /// The id of the socket; of another node that is gone, a name that all nodes give it.
    pub about: String,
    pub item: proto::Item,
    pub namespace: String,
    pub user: String,
    /// Its answer decides about a client.
    pub decides: bool,
}

/// How a call went.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The endpoint took it and wants this.
    Taken(Vec<What>),
    /// It took it, and what it said is no answer.
    Unread,
    /// It will never take this: it is not asked again.
    Refused,
    /// It is asked again.
    Failed,
}

/// Calls under way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    flying: BTreeMap<u64, Vec<Entry>>,
    made: u64,
}

impl Calls {
    /// The next request that is due.
    pub(crate) fn next(&mut self, queue: &mut Queue) -> Option<Call> {
        let endpoint = queue.endpoint.as_ref()?;
        if !endpoint.may_call(queue.now_ms, self.flying.len()) {
            return None;
        }
        let decides = endpoint.calling().decides;
        let alone = |queue: &mut Queue| Some(vec![next_alone(queue)?]);
        let entries = match endpoint.batch_is_first() {
            true => next_batch(queue).or_else(|| alone(queue)),
            false => alone(queue).or_else(|| next_batch(queue)),
        }?;
        self.made += 1;
        let number = self.made;
        let news = entries.iter().map(|entry| tell_of(queue, entry, decides));
        let news: Vec<News> = news.collect();
        let again = news.iter().filter(|news| news.item.redelivered);
        queue.counts().redelivered += again.count() as u64;
        self.flying.insert(number, entries);
        Some(Call { number, news })
    }

    /// A call came back.
    ///
    /// # Errors
    /// The answer lets a client in, beside a command that cannot be carried out: so it is refused.
    pub(crate) fn end(
        &mut self,
        parts: &mut Parts,
        number: u64,
        outcome: Outcome,
    ) -> Result<(), Fault> {
        let Some(entries) = self.flying.remove(&number) else {
            return Ok(());
        };
        let queue = &mut parts.queue;
        let fault = match &outcome {
            Outcome::Taken(commands) if awaits_decision(queue, &entries) => commands
                .iter()
                .find_map(|what| commands::check_target(queue, what).err()),
            _ => None,
        };
        let outcome = match fault {
            Some(_) => Outcome::Refused,
            None => outcome,
        };
        if let Some(endpoint) = &mut queue.endpoint {
            match outcome {
                Outcome::Failed => endpoint.failed(queue.now_ms, self.made),
                _ => endpoint.succeeded(),
            }
        }
        match outcome {
            Outcome::Failed => {
                queue.counts().calls_failed += 1;
                take_back(queue, entries);
            }
            Outcome::Refused => {
                queue.counts().calls_refused += 1;
                finish(queue, entries, false);
            }
            Outcome::Unread => {
                queue.counts().calls_unread += 1;
                finish(queue, entries, true);
            }
            Outcome::Taken(commands) => {
                queue.counts().calls_taken += 1;
                carry_out(parts, &entries, commands);
                finish(&mut parts.queue, entries, true);
            }
        }
        fault.map_or(Ok(()), Err)
    }
}

fn tell_of(queue: &Queue, entry: &Entry, decides: bool) -> News {
    let home = queue.homes.of(entry);
    let connect = home.map(|home| home.introduction.open());
    let connect = connect.unwrap_or_default();
    let about = entry.about.map(|name| name.as_str().to_owned());
    News {
        about: about.unwrap_or_default(),
        item: entry.item(),
        namespace: connect.namespace,
        user: connect.user,
        decides: decides && entry.introduces(),
    }
}

// ---- setting off --------------------------------------------------------------------------------------------------------------

fn next_alone(queue: &mut Queue) -> Option<Entry> {
    loop {
        let name = queue.endpoint.as_ref()?.next_alone(queue.now_ms)?;
        take_turn(queue, name);
        if let Some(entry) = next_wanted(queue, name, true) {
            set_off(queue, name);
            return Some(entry);
        }
        // A single item is not wanted any more.
        line_up(queue, name, queue.now_ms);
    }
}

fn next_batch(queue: &mut Queue) -> Option<Vec<Entry>> {
    let endpoint = queue.endpoint.as_ref()?;
    let max = endpoint.calling().batch_max;
    let until_ms = endpoint.batch_until_ms(queue.now_ms);
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while entries.len() < max
        && bytes < CALL_BYTES
        && let Some(name) = queue.endpoint.as_ref()?.next_together(until_ms)
    {
        take_turn(queue, name);
        let before = entries.len();
        while entries.len() < max
            && bytes < CALL_BYTES
            && let Some(entry) = next_wanted(queue, name, false)
        {
            bytes += entry.bytes;
            entries.push(entry);
        }
        match entries.len() > before {
            true => set_off(queue, name),
            false => line_up(queue, name, queue.now_ms),
        }
    }
    queue.endpoint.as_mut()?.batch_left(entries.len());
    (!entries.is_empty()).then_some(entries)
}

/// The socket's first item, if it goes `alone` or if it does not. Items that nobody waits for any more are dropped.
fn next_wanted(queue: &mut Queue, name: Name, alone: bool) -> Option<Entry> {
    loop {
        let home = queue.homes.get_mut(&name)?;
        let entry = home.items.pop_first()?;
        if !queue.is_wanted(&entry) {
            queue.release(&entry);
        } else if queue.endpoint.as_ref()?.goes_alone(&entry) == alone {
            return Some(entry);
        } else {
            queue.homes.get_mut(&name)?.items.hold_first(entry);
            return None;
        }
    }
}

fn set_off(queue: &mut Queue, name: Name) {
    if let Some(home) = queue.homes.get_mut(&name) {
        home.turn.flying = true;
        home.worker = Some(ENDPOINT);
    }
}

// ---- the row --------------------------------------------------------------------------------------------------------------

fn line_up(queue: &mut Queue, name: Name, due_ms: u64) {
    if let (Some(endpoint), Some(home)) = (&mut queue.endpoint, queue.homes.get_mut(&name)) {
        endpoint.line_up(name, home, due_ms);
    }
}

fn take_turn(queue: &mut Queue, name: Name) {
    if let (Some(endpoint), Some(home)) = (&mut queue.endpoint, queue.homes.get_mut(&name)) {
        endpoint.take_turn(name, home);
    }
}

// ---- coming back --------------------------------------------------------------------------------------------------------------

fn awaits_decision(queue: &Queue, entries: &[Entry]) -> bool {
    entries.iter().any(|entry| is_undecided(queue, entry))
}

fn is_undecided(queue: &Queue, entry: &Entry) -> bool {
    let home = queue.homes.of(entry);
    entry.introduces() && home.is_some_and(Home::is_deciding)
}

fn carry_out(parts: &mut Parts, entries: &[Entry], commands: Vec<What>) {
    let decides = |what: &What| matches!(what, What::Decision(_));
    if !commands.iter().any(decides) {
        // Commands about a newcomer need one that is in.
        for entry in entries {
            if let Some(name) = entry.about
                && is_undecided(&parts.queue, entry)
            {
                parts.queue.decide(name, Ok(()));
            }
        }
    }
    for what in commands {
        // A call of a life that was given up decides about no other one.
        if let What::Decision(decision) = &what {
            let name = Name::parse(&decision.socket);
            let asked = |entry: &&Entry| entry.about == name && entry.introduces();
            let mut entries = entries.iter().filter(asked);
            if entries.any(|entry| parts.queue.homes.of(entry).is_none()) {
                parts.queue.counts().late += 1;
                continue;
            }
        }
        let done = commands::carry_out(parts, ENDPOINT, what);
        parts.queue.counts().commands_failed += u64::from(done.is_err());
    }
}

/// All items of a failed call come again, in their order.
fn take_back(queue: &mut Queue, entries: Vec<Entry>) {
    let mut names = BTreeSet::new();
    for mut entry in entries.into_iter().rev() {
        entry.redelivered = true;
        match queue.homes.of_mut(&entry) {
            Some(home) => {
                names.extend(entry.about);
                home.items.hold_first(entry);
            }
            None => queue.release(&entry),
        }
    }
    for name in names {
        if let (Some(endpoint), Some(home)) = (&mut queue.endpoint, queue.homes.get_mut(&name)) {
            endpoint.send_back(name, home, queue.now_ms);
        }
    }
}

/// The endpoint has them, or will never have them. Nobody waits any longer.
fn finish(queue: &mut Queue, entries: Vec<Entry>, taken: bool) {
    // Those of a life that was given up are nobody's turn.
    let known = entries
        .iter()
        .filter(|entry| queue.homes.of(entry).is_some());
    let names: BTreeSet<Name> = known.filter_map(|entry| entry.about).collect();
    for entry in entries {
        if !taken && !entry.is_event() {
            queue.counts().dead_letters += 1;
        }
        if let Some(name) = entry.about {
            answer_in_its_place(queue, name, &entry, taken);
        }
        queue.finish(&entry);
    }
    for name in names {
        if let Some(home) = queue.homes.get_mut(&name) {
            home.turn = Turn::default();
        }
        line_up(queue, name, queue.now_ms);
    }
}

/// The answer has no word for the client that waits: its event is acked with nothing. There is no answer: it is refused.
fn answer_in_its_place(queue: &mut Queue, name: Name, entry: &Entry, taken: bool) {
    if is_undecided(queue, entry) {
        queue.counts().refused_failed += 1;
        return queue.decide(name, Err(Refusal::unavailable()));
    }
    let Some(ack) = entry.ack() else { return };
    if !queue.settle_ack(name, ack) {
        return;
    }
    if taken {
        let nothing = proto::Ack {
            ack,
            ..proto::Ack::default()
        };
        let nothing = Ack::new(name, nothing);
        queue.outlet.tell(name, Down::Ack(nothing));
    } else {
        queue.outlet.refuse(name, ack, Why::Failed);
    }
}

// ---- time -----------------------------------------------------------------------------------------------------------------

/// Looks at all that wait: some waited for too long.
pub(crate) fn look_at_row(queue: &mut Queue) {
    let Some(endpoint) = &queue.endpoint else {
        return;
    };
    let patience = Patience {
        now_ms: queue.now_ms,
        event_ms: queue.settings.park_timeout_ms,
        news_ms: endpoint.calling().keep_ms,
    };
    for name in endpoint.names() {
        give_up_late(queue, name, patience);
    }
    let Queue {
        homes,
        ledger,
        outlet,
        ..
    } = queue;
    // Lives that wait for the end of the one before have no place in the row.
    homes.retain_later(|name, home| {
        let any = patience.end((name, home), ledger, outlet);
        !any || home.phase != Phase::Gone || !home.items.held().is_empty()
    });
}

fn give_up_late(queue: &mut Queue, name: Name, patience: Patience) {
    let Queue {
        homes,
        ledger,
        outlet,
        ..
    } = queue;
    let Some(home) = homes.get_mut(&name) else {
        return;
    };
    if !patience.end((name, home), ledger, outlet) {
        return;
    }
    if !home.items.held().is_empty() {
        return line_up(queue, name, queue.now_ms);
    }
    let gone = home.phase == Phase::Gone;
    take_turn(queue, name);
    if gone {
        queue.forget(name);
    }
}

/// For how long items wait for a call.
#[derive(Clone, Copy)]
struct Patience {
    now_ms: u64,
    event_ms: u64,
    news_ms: u64,
}

impl Patience {
    fn is_over(self, entry: &Entry) -> bool {
        let kept_ms = match entry.is_event() {
            true => self.event_ms,
            false => self.news_ms,
        };
        entry.came_ms + kept_ms <= self.now_ms
    }

    /// Nobody hears of what this socket has waited with for too long, and its client is told. `false`: there is nothing.
    fn end(
        self,
        (name, home): (Name, &mut Home),
        ledger: &mut Ledger,
        outlet: &mut Outlet,
    ) -> bool {
        let late = home.items.take_held(|entry| self.is_over(entry));
        for entry in &late {
            ledger.release(entry.bytes);
            if !entry.is_event() {
                outlet.counts.dead_letters += 1;
                continue;
            }
            let waits = entry.ack().is_none_or(|ack| home.items.end_wait(ack));
            if waits && home.phase == Phase::In {
                let ack = entry.ack().unwrap_or(0);
                outlet.refuse(name, ack, Why::Absent);
            }
        }
        !late.is_empty()
    }
}
