//! The successor: it gets listeners, starts with them, gets sessions, and serves when the process before it says so.

use super::backends::Records;
use super::counted::Gathered;
use super::fit;
use super::line::{Broken, Line, decode};
use super::memories;
use super::seat::{self, Heritage, Record};
use crate::cli::VERSION;
use crate::config::Resolved;
use crate::workers::Counter;
use anyhow::{Context, Result, anyhow, bail};
use control::metrics::node::Node as Facts;
use handoff::bounds::LISTENERS_MAX;
use handoff::cluster::Streams;
use handoff::{
    Batch, Hello, Kind, Ledger, Listener, OLDEST, ShardWord, Tally, VERSION as RECORD, Welcome,
    takes,
};
use nodes::Member;
use process::upgrades::Tally as Upgraded;
use shard::{Limiting, Onset, Sessions, Shards, Takers};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// One step of the other process.
const STEP: Duration = Duration::from_secs(10);
/// From the last session until the word that all is ours.
const COMMIT: Duration = Duration::from_secs(30);
/// The answer of a shard.
const SHARD: Duration = Duration::from_secs(10);

/// The process before has closed the folder of the store of history.
const HISTORY: Duration = Duration::from_secs(5);

/// Roles of listening sockets.
pub const PUBLIC: u32 = 1;
pub const UNIX: u32 = 2;
pub const ADMIN: u32 = 3;
pub const WORKERS: u32 = 4;
pub const RELAY: u32 = 5;

/// The sockets of the process before, which listens on them still.
#[derive(Debug, Default)]
pub struct Inheritance {
    /// Of each shard, those of each address.
    pub tcp: Vec<Vec<TcpListener>>,
    /// In the order of the configuration.
    pub unix: Vec<UnixListener>,
    pub admin: Option<TcpListener>,
    pub workers: Option<OwnedFd>,
    /// Where other nodes bring connections.
    pub relay: Option<TcpListener>,
    /// The place in the cluster.
    pub heritage: Option<Heritage>,
    /// What the process before says of its clock and of rates.
    pub onset: Option<Onset>,
}

impl Inheritance {
    /// What came must be what the configuration has.
    pub fn check(&self, config: &Resolved) -> Result<()> {
        let (unix, admin) = (self.unix.len(), self.admin.is_some());
        let same = unix == config.server.unix.len()
            && admin == config.server.admin.is_some()
            && config.workers.is_some() == self.workers.is_some()
            && config.cluster.is_some() == self.heritage.is_some();
        if !same {
            bail!(
                "cannot take over: the process before has other listeners than this configuration"
            );
        }
        Ok(())
    }
}

/// The parts that go on with what the process before had: backends, the place in the cluster, and those that are among the facts.
pub type Goes<'a> = (Option<&'a mut Counter>, Option<&'a mut Member>, &'a Facts);

/// The way to the process before.
#[derive(Debug)]
pub struct Takeover {
    line: Line,
    /// Sessions that were there when it began.
    expected: u64,
}

impl Takeover {
    /// Finds the process before, and gets what it listens on.
    pub fn begin(config: &Resolved) -> Result<(Self, Inheritance)> {
        if let Some(part) = fit::obstacle(config) {
            bail!(
                "cannot take over: this configuration has {part}, and a process with it takes no connections over yet; take the change back, or restart"
            );
        }
        let path = config.upgrade.as_ref().ok_or_else(|| {
            anyhow!("cannot take over: upgrade.socket is not set, so no process can be found")
        })?;
        let stream = UnixStream::connect(path).with_context(|| {
            format!(
                "cannot take over from a process at {}: is one running with this upgrade.socket?",
                path.display()
            )
        })?;
        let mut line = Line::new(stream);
        let hello = Hello {
            oldest: OLDEST,
            newest: RECORD,
            pid: std::process::id(),
            program: VERSION.to_owned(),
            fit: Some(fit::of(config)),
            takes: takes::ALL,
        };
        let begun = ask_for_listeners(&mut line, &hello, config.server.shards);
        let begun = begun.map_err(|why| anyhow!("cannot take over: {why}"))?;
        let (welcome, mut inheritance) = begun;
        let relay = inheritance.relay.take();
        inheritance.onset = welcome.onset.as_ref().map(Onset::of);
        inheritance.heritage = welcome
            .member
            .map(|membership| Heritage { membership, relay });
        let expected = welcome.sessions;
        Ok((Self { line, expected }, inheritance))
    }

    /// Gets the sessions, and lets the shards begin when that is allowed. Before that nothing is read and nothing is written; if it fails,
    /// the process before goes on. After it nobody else has the sessions: what fails then must not end this process.
    pub fn finish(mut self, shards: &mut Shards, goes: Goes<'_>) -> Result<Owner> {
        let takers = shards
            .takers()
            .context("cannot take over: the shards have begun")?;
        tracing::info!(sessions = self.expected, "ready to take over");
        let began = Instant::now();
        let streams = goes.2.chronicle.get().and_then(|acks| acks.streams());
        let taken = self.gather(&takers, shards.limiting(), goes);
        let taken = taken.map_err(|why| anyhow!("cannot take over: {why}"))?;
        takers.begin();
        streams.iter().for_each(|streams| streams.begin());
        tracing::info!(
            sessions = taken.sessions,
            parked = taken.parked,
            took_ms = began.elapsed().as_millis() as u64,
            "took over from the process before"
        );
        Ok(Owner {
            line: self.line,
            taken,
        })
    }

    fn gather(
        &mut self,
        takers: &Takers,
        limiting: Limiting,
        (workers, member, facts): Goes<'_>,
    ) -> Result<Taken, Broken> {
        let line = &mut self.line;
        line.say(Kind::Ready, STEP)?;
        let (mut ledger, mut onward) = (Ledger::default(), Vec::new());
        let (mut backends, mut place) = (Records::default(), Record::default());
        let mut streams = Streams::default();
        let mut gathered = Gathered::new(limiting);
        let (mut connections, mut left_out) = (0, 0);
        // It may be a while until its calls have ended and its shards stand still.
        let mut within = COMMIT;
        loop {
            let (kind, body) = line.hear(within)?;
            // Behind what it sends before it stands still, too.
            if kind == Kind::Shard {
                within = STEP;
            }
            match kind {
                Kind::Shard => {
                    let word: ShardWord = decode(&body)?;
                    onward.push(word);
                }
                Kind::Sessions => {
                    let mut batch: Batch = decode(&body)?;
                    gathered.take(&mut ledger, &mut batch)?;
                    let taken = take_batch(line, takers, &mut ledger, batch)?;
                    connections += taken.0;
                    left_out += taken.1;
                    line.say(Kind::Taken, STEP)?;
                }
                Kind::Stays => backends.take_stays(&body)?,
                Kind::Backend => backends.take(&body)?,
                Kind::Place => place.take(&body)?,
                Kind::Kept => memories::take(facts.history.get().map(AsRef::as_ref), &body)?,
                Kind::Streams => streams = decode(&body)?,
                Kind::Complete => break,
                other => return Err(Broken::Strange(format!("it says {other:?} among sessions"))),
            }
        }
        let shards = u16::try_from(onward.len()).unwrap_or(u16::MAX);
        for word in onward {
            takers.complete(word, SHARD).map_err(Broken::Strange)?;
        }
        let some_stay = backends.some_stay();
        backends.restore(workers, &ledger, shards)?;
        place.restore(member, some_stay)?;
        seat::go_on_with(facts, &streams)?;
        gathered.go_on(facts);
        if let Some(history) = facts.history.get() {
            let taken = history.take(HISTORY);
            taken.map_err(|fault| {
                Broken::Strange(format!("cannot open the store of history: {fault}"))
            })?;
        }
        tell_left_out(left_out);
        line.say(Kind::Built, STEP)?;
        // An end without a word is no word: nobody may serve clients that another process may still have.
        let tally = line.expect::<Tally>(Kind::Commit, COMMIT)?;
        Ok(Taken {
            sessions: ledger.len() as u64,
            parked: ledger.parked() as u64,
            connections,
            tally,
        })
    }
}

fn tell_left_out(left_out: u64) {
    if left_out > 0 {
        tracing::warn!(
            left_out,
            "rooms with their events, or sockets without a connection, of the process before have no place in this configuration: their clients begin anew"
        );
    }
}

/// What was taken over, and what became of upgrades before.
#[derive(Debug)]
struct Taken {
    sessions: u64,
    /// Sockets without a connection.
    parked: u64,
    connections: u64,
    tally: Tally,
}

/// A process that has what another one had.
#[derive(Debug)]
pub struct Owner {
    line: Line,
    taken: Taken,
}

impl Owner {
    /// What became of upgrades, this one included.
    pub fn tally(&self) -> Upgraded {
        let Taken {
            sessions,
            connections,
            tally,
            ..
        } = &self.taken;
        Upgraded {
            // A process of an earlier version tells nothing.
            done: tally.done.max(1),
            refused: tally.refused,
            failed: tally.failed,
            sessions: tally.sessions + sessions,
            connections: tally.connections + connections,
            pause: Some(Duration::from_micros(tally.pause_us)).filter(|pause| !pause.is_zero()),
        }
    }

    /// All has begun.
    pub fn serves(mut self) {
        // The process before may have ended since: what it gave is here.
        let _ = self.line.say(Kind::Serving, STEP);
    }
}

fn ask_for_listeners(
    line: &mut Line,
    hello: &Hello,
    shards: usize,
) -> Result<(Welcome, Inheritance), Broken> {
    line.send(Kind::Hello, hello, STEP)?;
    let welcome: Welcome = line.expect(Kind::Welcome, STEP)?;
    let onset = welcome.onset.as_ref();
    let checked = onset.map_or(Ok(()), handoff::Onset::check);
    checked.map_err(|unfit| Broken::Strange(format!("its welcome has {unfit}")))?;
    if !(OLDEST..=RECORD).contains(&welcome.version) {
        return Err(Broken::Strange(format!(
            "it speaks version {} of the record, and this process {OLDEST} to {RECORD}",
            welcome.version
        )));
    }
    let mut all = Vec::new();
    loop {
        let (kind, body) = line.hear(STEP)?;
        match kind {
            Kind::Complete => break,
            Kind::Listeners => {
                let batch: Batch = decode(&body)?;
                let sockets = line.take_descriptors(batch.listeners.len(), STEP)?;
                all.extend(batch.listeners.into_iter().zip(sockets));
                line.say(Kind::Taken, STEP)?;
            }
            other => {
                return Err(Broken::Strange(format!(
                    "it says {other:?} among listeners"
                )));
            }
        }
        if all.len() > LISTENERS_MAX {
            return Err(Broken::Strange(format!(
                "it has more than {LISTENERS_MAX} listeners"
            )));
        }
    }
    Ok((welcome, sorted(all, shards)?))
}

/// Each listener in its place; one that is missing, or there twice, is an error.
fn sorted(all: Vec<(Listener, OwnedFd)>, shards: usize) -> Result<Inheritance, Broken> {
    let mut inheritance = Inheritance::default();
    let (mut tcp, mut unix) = (BTreeMap::new(), BTreeMap::new());
    let strange = |of: &Listener| {
        let (role, shard, place) = (of.role, of.shard, of.place);
        Broken::Strange(format!(
            "a listener of role {role} at {shard}/{place} has no place here"
        ))
    };
    for (of, socket) in all {
        let (shard, place) = (of.shard as usize, of.place as usize);
        let is_new = match of.role {
            _ if shard >= shards || place >= LISTENERS_MAX => false,
            PUBLIC => tcp
                .insert((shard, place), TcpListener::from(socket))
                .is_none(),
            // They were dealt to the shards in turn.
            UNIX => unix
                .insert(place * shards + shard, UnixListener::from(socket))
                .is_none(),
            ADMIN => inheritance
                .admin
                .replace(TcpListener::from(socket))
                .is_none(),
            WORKERS => inheritance.workers.replace(socket).is_none(),
            RELAY => inheritance
                .relay
                .replace(TcpListener::from(socket))
                .is_none(),
            _ => false,
        };
        if !is_new {
            return Err(strange(&of));
        }
    }
    inheritance.tcp = (0..shards).map(|_| Vec::new()).collect();
    for ((shard, place), listener) in tcp {
        if inheritance.tcp[shard].len() != place {
            return Err(Broken::Strange(format!(
                "listener {place} of shard {shard} is not the next one"
            )));
        }
        inheritance.tcp[shard].push(listener);
    }
    if unix.keys().copied().ne(0..unix.len()) {
        return Err(Broken::Strange("a Unix listener is missing".to_owned()));
    }
    inheritance.unix = unix.into_values().collect();
    Ok(inheritance)
}

/// Returns how many connections came, and how much of what was kept for those who come has no place here.
fn take_batch(
    line: &mut Line,
    takers: &Takers,
    ledger: &mut Ledger,
    batch: Batch,
) -> Result<(u64, u64), Broken> {
    let carried = batch.sessions.iter().map(|one| one.conns().count());
    let count = carried.sum::<usize>() + batch.visitors.len();
    let sockets = line.take_descriptors(count, STEP)?;
    let unfit = |unfit| Broken::Strange(format!("a record has {unfit}"));
    for session in &batch.sessions {
        ledger.admit(session).map_err(unfit)?;
    }
    for visitor in &batch.visitors {
        ledger.admit_visitor(visitor).map_err(unfit)?;
    }
    for marks in &batch.marks {
        marks.check().map_err(unfit)?;
    }
    for keepsakes in &batch.keepsakes {
        ledger.admit_keepsakes(keepsakes).map_err(unfit)?;
    }
    let sessions = Sessions {
        records: batch.sessions,
        visitors: batch.visitors,
        sockets,
        stays: Vec::new(),
        marks: batch.marks,
        keepsakes: batch.keepsakes,
        left_behind: 0,
    };
    let shard = u16::try_from(batch.shard).unwrap_or(u16::MAX);
    let brought = takers.bring(shard, sessions, SHARD);
    let left_out = brought.map_err(Broken::Strange)?;
    Ok((count as u64, left_out))
}
