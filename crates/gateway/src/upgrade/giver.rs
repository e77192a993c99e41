//! The process that hands over. Until the last word it can go on as if nothing had been.

use super::backends;
use super::course::Course;
use super::journals::Journals;
use super::line::{Broken, Line};
use super::memories;
use super::parts::Parts;
use super::seat;
use super::standing::{self, Rest, Stand};
use super::taker::{ADMIN, PUBLIC, RELAY, UNIX, WORKERS};
use crate::errands;
use control::history::Position;
use handoff::bounds::DESCRIPTORS_MAX;
use handoff::{Batch, Hello, Kind, Listener, OLDEST, Tally, VERSION, Welcome, agree};
use shard::{Frozen, Listening, Unquiet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// One step of the successor.
const STEP: Duration = Duration::from_secs(10);
/// From its first word until it could serve: it reads files, and asks for keys.
const START: Duration = Duration::from_secs(60);
/// The answer of a shard that lives as ever.
const SHARD: Duration = Duration::from_secs(5);
/// Other nodes that knock have so long to say what they want.
const GREETINGS: Duration = Duration::from_millis(100);
/// A node of a cluster stands still for less than a newcomer listens before it takes a number.
const STAND_MAX: Duration = Duration::from_millis(1_800);
/// A store that was closed for a successor is opened again within this time, or the log tells of it.
const HISTORY_BACK: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How it went.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub sessions: u64,
    /// Sockets without a connection whose records would have been too large.
    pub left_behind: u64,
    /// From the moment at which nobody was read any more until the last word.
    pub stood_still: Duration,
}

impl From<Unquiet> for Broken {
    fn from(unquiet: Unquiet) -> Self {
        Self::Strange(unquiet.0)
    }
}

/// Hands over. After an error nothing has changed here.
pub fn give(
    line: &mut Line,
    hello: &Hello,
    parts: &Parts,
    course: &Course,
) -> Result<Given, Broken> {
    let given = until_commit(line, hello, parts, course);
    if let Err(why) = &given {
        errands::reopen();
        if let Some(relays) = &parts.relays {
            relays.go_on();
        }
        take_back(parts);
        let text = match why {
            Broken::Refused(text) => text.clone(),
            why => why.to_string(),
        };
        // It may be the one that is lost.
        let _ = line.send(Kind::Refused, &handoff::Said { text }, STEP);
    }
    given
}

fn until_commit(
    line: &mut Line,
    hello: &Hello,
    parts: &Parts,
    course: &Course,
) -> Result<Given, Broken> {
    let version = agreed(hello, parts)?;
    let census = parts.givers.census(hello.takes, SHARD)?;
    let welcome = Welcome {
        version,
        sessions: census.goes,
        member: parts.seat.as_ref().map(|seat| seat.membership.clone()),
        onset: Some(parts.books.limiting.onset()),
    };
    line.send(Kind::Welcome, &welcome, STEP)?;
    send_listeners(line, parts)?;
    line.expect::<()>(Kind::Ready, START)?;
    // It may have taken a while to start.
    course.may_go_on()?;
    standing::store(parts, STEP)?;
    let remembers = parts
        .history
        .as_deref()
        .filter(|history| history.remembers());
    remembers.map_or(Ok(()), |_| lend(parts))?;
    // It may be long: calls and commands stand still behind it.
    let told = memories::send(line, remembers, Position::START)?;
    let mut journals = Journals::of(parts, hello);
    journals.send(line, parts)?;
    let rest = Rest::of(parts)?;
    let told = memories::send(line, remembers, told)?;
    journals.send(line, parts)?;
    errands::hold();
    hold_door(parts);
    let began = Instant::now();
    let stand = Stand::bring(parts, hello.takes)?;
    lend(parts)?;
    memories::send(line, remembers, told)?;
    let wants_stays = parts.workers.drivers.are_there() || parts.seat.is_some();
    let (sessions, left_behind) = send_sessions(line, &stand.frozen, wants_stays, &journals)?;
    parts.books.send(line)?;
    in_time(parts, began)?;
    backends::send(line, &stand.drivers)?;
    if let Some(node) = &stand.node {
        seat::send(line, node)?;
    }
    if let Some(streams) = &stand.streams {
        seat::send_streams(line, streams)?;
    }
    line.say(Kind::Complete, STEP)?;
    line.expect::<()>(Kind::Built, STEP)?;
    in_time(parts, began)?;
    course.leave()?;
    let tally = tally(parts, began.elapsed());
    line.send(Kind::Commit, &tally, STEP)?;
    stand.commit();
    rest.commit();
    Ok(Given {
        sessions,
        left_behind,
        stood_still: began.elapsed(),
    })
}

/// The version of the record that both know, if the successor fits in the place of this process.
fn agreed(hello: &Hello, parts: &Parts) -> Result<u32, Broken> {
    if let Some(differs) = hello.fit.as_ref().and_then(|fit| parts.fit.differs(fit)) {
        return Err(Broken::Refused(format!(
            "the successor has another configuration: {differs}; restart instead, or take the change back"
        )));
    }
    agree((OLDEST, VERSION), (hello.oldest, hello.newest)).ok_or_else(|| {
        Broken::Refused(format!(
            "this process writes records of version {OLDEST} to {VERSION}, and the successor reads {} to {}: restart instead, which sends clients away and lets them come back",
            hello.oldest, hello.newest
        ))
    })
}

/// What the next process goes on counting from.
fn tally(parts: &Parts, pause: Duration) -> Tally {
    let before = parts.readiness.upgrades().tally();
    Tally {
        done: before.done + 1,
        refused: before.refused,
        failed: before.failed,
        sessions: before.sessions,
        connections: before.connections,
        pause_us: pause.as_micros() as u64,
    }
}

/// Nothing comes from other nodes any more; what is at the door waits there for the next process.
fn hold_door(parts: &Parts) {
    let Some(relays) = &parts.relays else {
        return;
    };
    relays.hold();
    let deadline = Instant::now() + GREETINGS;
    // What was just taken over has a moment to say what it wants.
    std::thread::sleep(LOOK_INTERVAL * 2);
    while relays.greetings() > 0 && Instant::now() < deadline {
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// A node of a cluster that stands still for long is missed by others.
fn in_time(parts: &Parts, began: Instant) -> Result<(), Broken> {
    let stood = began.elapsed();
    match parts.seat.is_some() && stood > STAND_MAX {
        true => Err(Broken::Refused(format!(
            "this node would have to stand still for more than {} ms (it did for {} ms), and others would miss it: try again when there is less to do",
            STAND_MAX.as_millis(),
            stood.as_millis()
        ))),
        false => Ok(()),
    }
}

/// A store in a folder is the next process's.
fn lend(parts: &Parts) -> Result<(), Broken> {
    let lent = parts.history.as_ref().map(|history| history.lend(STEP));
    lent.unwrap_or(Ok(()))
        .map_err(|fault| Broken::Strange(format!("cannot close the store of history: {fault}")))
}

/// It is this process's again, once the successor has ended. What is said meanwhile waits for it.
fn take_back(parts: &Parts) {
    let Some(history) = parts.history.clone() else {
        return;
    };
    let take = move || {
        while let Err(fault) = history.take(HISTORY_BACK) {
            tracing::error!(
                %fault,
                "the store of history cannot be opened again after an upgrade that was given up: it is tried again; end the successor if it hangs"
            );
        }
    };
    let thread = std::thread::Builder::new().name("history-back".to_owned());
    if let Err(error) = thread.spawn(take) {
        tracing::error!(%error, "the store of history stays closed until a restart: no thread can be started");
    }
}

fn send_listeners(line: &mut Line, parts: &Parts) -> Result<(), Broken> {
    let shards = parts.givers.listeners(SHARD)?.into_iter();
    let mut all: Vec<(Listener, OwnedFd)> = shards.map(described).collect();
    if let Some(admin) = &parts.admin {
        let copy = admin.try_clone().map_err(|error| {
            Broken::Strange(format!("cannot copy the operators' listener: {error}"))
        })?;
        let of = Listener {
            role: ADMIN,
            shard: 0,
            place: 0,
        };
        all.push((of, copy.into()));
    }
    if let Some(workers) = &parts.workers.listener {
        let copy = workers.try_clone().map_err(|error| {
            Broken::Strange(format!("cannot copy the workers' listener: {error}"))
        })?;
        let of = Listener {
            role: WORKERS,
            shard: 0,
            place: 0,
        };
        all.push((of, copy));
    }
    let relay = parts.seat.as_ref().and_then(|seat| seat.relay.as_ref());
    if let Some(relay) = relay {
        let copy = relay.try_clone().map_err(|error| {
            Broken::Strange(format!("cannot copy the listener for other nodes: {error}"))
        })?;
        let of = Listener {
            role: RELAY,
            shard: 0,
            place: 0,
        };
        all.push((of, copy.into()));
    }
    while !all.is_empty() {
        let some = all.drain(..all.len().min(DESCRIPTORS_MAX));
        let (listeners, sockets): (Vec<_>, Vec<_>) = some.unzip();
        let batch = Batch {
            listeners,
            ..Batch::default()
        };
        line.send(Kind::Listeners, &batch, STEP)?;
        line.send_descriptors(&sockets, STEP)?;
        line.expect::<()>(Kind::Taken, STEP)?;
    }
    line.say(Kind::Complete, STEP)
}

fn described(listening: Listening) -> (Listener, OwnedFd) {
    let of = Listener {
        role: if listening.unix { UNIX } else { PUBLIC },
        shard: u32::from(listening.shard),
        place: listening.place as u32,
    };
    (of, listening.socket)
}

/// How many went, and how many sockets and rooms are left behind. `stays`: the successor wants to know which sockets do not go.
fn send_sessions(
    line: &mut Line,
    frozen: &Frozen,
    stays: bool,
    journals: &Journals,
) -> Result<(u64, u64), Broken> {
    let (mut sessions, mut left_behind) = (0, 0);
    for (number, onward) in frozen.shards() {
        let shard = u32::from(number);
        line.send(Kind::Shard, &onward, STEP)?;
        while let Some(more) = frozen.more(number, journals.copied(number), SHARD)? {
            sessions += more.records.len() as u64;
            left_behind += more.left_behind;
            let batch = Batch {
                shard,
                sessions: more.records,
                visitors: more.visitors,
                marks: more.marks,
                keepsakes: more.keepsakes,
                ..Batch::default()
            };
            line.send(Kind::Sessions, &batch, STEP)?;
            line.send_descriptors(&more.sockets, STEP)?;
            line.expect::<()>(Kind::Taken, STEP)?;
            if stays {
                backends::send_stays(line, more.stays)?;
            }
        }
    }
    Ok((sessions, left_behind))
}
