//! The process that hands over. Until the last word it can go on as if nothing had been.

use super::course::Course;
use super::line::{Broken, Line};
use super::parts::Parts;
use super::taker::{ADMIN, PUBLIC, UNIX};
use crate::errands;
use handoff::bounds::DESCRIPTORS_MAX;
use handoff::{Batch, Hello, Kind, Listener, OLDEST, ShardWord, VERSION, Welcome, agree};
use shard::{Frozen, Listening, Unquiet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// One step of the successor.
const STEP: Duration = Duration::from_secs(10);
/// From its first word until it could serve: it reads files, and asks for keys.
const START: Duration = Duration::from_secs(60);
/// The answer of a shard that lives as ever.
const SHARD: Duration = Duration::from_secs(5);
/// Until no message is under way between shards.
const QUIET: Duration = Duration::from_secs(5);

/// How it went.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub sessions: u64,
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
    let own = (OLDEST, VERSION);
    let version = agree(own, (hello.oldest, hello.newest)).ok_or_else(|| {
        Broken::Refused(format!(
            "this process writes records of version {OLDEST} to {VERSION}, and the successor reads {} to {}: restart instead, which sends clients away and lets them come back",
            hello.oldest, hello.newest
        ))
    })?;
    if let Some(differs) = hello.fit.as_ref().and_then(|fit| parts.fit.differs(fit)) {
        return Err(Broken::Refused(format!(
            "the successor has another configuration: {differs}; restart instead, or take the change back"
        )));
    }
    let census = parts.givers.census(SHARD)?;
    let welcome = Welcome {
        version,
        sessions: census.goes,
    };
    line.send(Kind::Welcome, &welcome, STEP)?;
    send_listeners(line, parts)?;
    line.expect::<()>(Kind::Ready, START)?;
    // It may have taken a while to start.
    course.may_go_on()?;
    errands::hold();
    let began = Instant::now();
    let frozen = parts.givers.freeze(QUIET)?;
    let sessions = send_sessions(line, &frozen)?;
    line.expect::<()>(Kind::Built, STEP)?;
    course.leave()?;
    line.say(Kind::Commit, STEP)?;
    frozen.commit();
    Ok(Given {
        sessions,
        stood_still: began.elapsed(),
    })
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

fn send_sessions(line: &mut Line, frozen: &Frozen) -> Result<u64, Broken> {
    let mut sessions = 0;
    for (number, next_ack) in frozen.shards() {
        let shard = u32::from(number);
        line.send(Kind::Shard, &ShardWord { shard, next_ack }, STEP)?;
        while let Some(more) = frozen.more(number, SHARD)? {
            sessions += more.records.len() as u64;
            let batch = Batch {
                shard,
                sessions: more.records,
                visitors: more.visitors,
                ..Batch::default()
            };
            line.send(Kind::Sessions, &batch, STEP)?;
            line.send_descriptors(&more.sockets, STEP)?;
            line.expect::<()>(Kind::Taken, STEP)?;
        }
    }
    line.say(Kind::Complete, STEP)?;
    Ok(sessions)
}
