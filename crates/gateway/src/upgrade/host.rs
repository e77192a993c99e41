//! The Unix socket at which operators and successors find this process. Whoever comes is of the same user, or root; one upgrade is under
//! way at a time.

use super::course::{Came, Course};
use super::giver::{self, Given};
use super::line::{Broken, Line};
use super::notify;
use super::parts::Parts;
use crate::errands;
use crate::program;
use crate::unix::{self, SocketFiles};
use anyhow::{Context, Result};
use handoff::{Hello, Kind, Order, Said, takes};
use hub::Stays;
use nodes::relay::Relays;
use shard::Census;
use std::ffi::OsString;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Permissions of the socket's file.
const MODE: u32 = 0o600;
/// The first word of whoever comes.
const HELLO: Duration = Duration::from_secs(5);
/// One word to or from a caller.
const STEP: Duration = Duration::from_secs(5);
/// From the start of the successor until it has come.
const START: Duration = Duration::from_secs(30);
/// From the last word until the successor says that it serves.
const SERVING: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Callers at once; more are sent away.
const CALLERS_MAX: usize = 8;
/// The flag by which a successor knows what it is.
const TAKE_OVER: &str = "--take-over";

#[derive(Debug)]
struct Desk {
    parts: Parts,
    course: Course,
    callers: AtomicUsize,
    own_uid: u32,
}

/// The socket and whoever waits there.
#[derive(Debug)]
pub struct Host {
    desk: Arc<Desk>,
    files: SocketFiles,
}

impl Host {
    /// Listens at this socket.
    pub fn open(door: Door, parts: Parts) -> Result<Self> {
        let (listeners, files) = door.open()?;
        let course = Course::new(parts.readiness.clone());
        let desk = Arc::new(Desk {
            parts,
            course,
            callers: AtomicUsize::new(0),
            own_uid: rustix::process::geteuid().as_raw(),
        });
        for listener in listeners {
            listener.set_nonblocking(false)?;
            let desk = Arc::clone(&desk);
            let thread = std::thread::Builder::new().name("upgrade".to_owned());
            thread.spawn(move || wait_for_callers(&listener, &desk))?;
        }
        Ok(Self { desk, files })
    }

    /// Another process serves in place of this one.
    pub fn is_gone(&self) -> bool {
        self.desk.course.is_gone()
    }

    /// Clients are about to be sent away: nothing is handed over from now on. `false`: another process has them.
    pub fn stop(&self) -> bool {
        self.desk.course.stop()
    }

    /// Waits until an upgrade that is under way has ended, and whoever ordered it was told.
    pub fn settle(&self) {
        let callers = || self.desk.callers.load(Ordering::Acquire);
        self.desk.course.settle(callers);
    }

    /// The socket's file is another process's.
    pub fn let_go(&mut self) {
        self.files.let_go();
    }
}

/// The socket before anybody is waited for. What can fail of it fails here, while another process may still have the sessions.
#[derive(Debug)]
pub enum Door {
    Open(Vec<UnixListener>, SocketFiles),
    /// Beside that of the process before, which is found until all has begun.
    Beside(unix::Beside),
}

impl Door {
    /// `replaces`: the process before listens there still.
    pub fn make(path: &Path, replaces: bool) -> Result<Self> {
        let door = match replaces {
            true => unix::beside(path, MODE).map(Self::Beside),
            false => unix::listen(std::slice::from_ref(&path.to_owned()), MODE)
                .map(|(listeners, files)| Self::Open(listeners, files)),
        };
        door.context("cannot listen for upgrades (upgrade.socket)")
    }

    fn open(self) -> Result<(Vec<UnixListener>, SocketFiles)> {
        match self {
            Self::Open(listeners, files) => Ok((listeners, files)),
            Self::Beside(beside) => beside.replace(),
        }
    }
}

fn wait_for_callers(listener: &UnixListener, desk: &Arc<Desk>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // No descriptor is free: it is tried again.
            std::thread::sleep(Duration::from_secs(1));
            continue;
        };
        let (mut line, theirs) = (Line::new(stream), Arc::clone(desk));
        if desk.callers.fetch_add(1, Ordering::AcqRel) >= CALLERS_MAX {
            desk.callers.fetch_sub(1, Ordering::AcqRel);
            refuse(&mut line, "too many callers at once: try again");
            continue;
        }
        let thread = std::thread::Builder::new().name("upgrade-caller".to_owned());
        let spawned = thread.spawn(move || {
            serve(line, &theirs);
            theirs.callers.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            desk.callers.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn refuse(line: &mut Line, text: &str) {
    let text = text.to_owned();
    let _ = line.send(Kind::Refused, &Said { text }, STEP);
}

fn serve(mut line: Line, desk: &Desk) {
    let caller = match line.caller() {
        Ok(caller) if caller.uid == desk.own_uid || caller.uid == 0 => caller,
        Ok(caller) => {
            tracing::warn!(
                uid = caller.uid,
                pid = caller.pid,
                "a stranger came for an upgrade"
            );
            return refuse(
                &mut line,
                "another user runs this process: upgrade it as that one, or as root",
            );
        }
        Err(error) => return refuse(&mut line, &format!("cannot see who comes: {error}")),
    };
    let heard = line.expect::<Hello>(Kind::Hello, HELLO);
    let hello = match heard {
        Ok(hello) => hello,
        Err(why) => {
            tracing::warn!(uid = caller.uid, pid = caller.pid, %why, "somebody came for an upgrade and made no sense");
            return refuse(&mut line, &why.to_string());
        }
    };
    if hello.fit.is_some() {
        return meet(line, hello, caller.pid, desk);
    }
    match line.expect::<Order>(Kind::Order, STEP) {
        Ok(order) => carry_out(line, &order, desk),
        Err(why) => refuse(&mut line, &why.to_string()),
    }
}

impl Desk {
    /// Nothing is begun. An operator who only asked has refused nothing.
    fn decline(&self, line: &mut Line, why: &str, is_asked: bool) {
        if !is_asked {
            self.parts.readiness.upgrades().note_refused();
        }
        refuse(line, why);
    }

    /// All is another process's.
    fn leave(&self, given: Given, pid: u32) {
        // First: whoever sees that parts of this process end must know why. It waits for the caller that is being served here.
        self.course.set_gone();
        errands::close();
        if let Some(relays) = &self.parts.relays {
            relays.close();
        }
        if let Some(service) = &self.parts.admin_service {
            service.abort();
        }
        notify::main_is(pid);
        tracing::info!(
            successor = pid,
            sessions = given.sessions,
            stood_still_ms = given.stood_still.as_millis() as u64,
            "handed over to another process"
        );
        if given.left_behind > 0 {
            tracing::warn!(
                left_behind = given.left_behind,
                "some sockets without a connection, or rooms with their events, have too much for a record, or a name that is longer than 64 KiB: they are left behind, and their clients begin anew"
            );
        }
    }
}

/// A successor has come: for an operator who waits for it, or started by a supervisor.
fn meet(mut line: Line, hello: Hello, pid: u32, desk: &Desk) {
    if let Some(sender) = desk.course.met(pid) {
        // The operator may have gone: then the line ends.
        let _ = sender.send((line, hello));
        return;
    }
    if let Some(obstacle) = desk.parts.obstacle {
        return desk.decline(&mut line, &unable(obstacle), false);
    }
    if let Err(why) = desk.course.begin() {
        return desk.decline(&mut line, why, false);
    }
    match giver::give(&mut line, &hello, &desk.parts, &desk.course) {
        Ok(given) => desk.leave(given, pid),
        Err(why) => {
            desk.course.give_up();
            tracing::error!(%why, successor = pid, "an upgrade was given up: this process goes on");
        }
    }
}

fn unable(obstacle: &str) -> String {
    format!(
        "connections of a process with {obstacle} cannot be handed over yet: restart it, which sends its clients away and lets them come back"
    )
}

/// An operator's order.
fn carry_out(mut line: Line, order: &Order, desk: &Desk) {
    let mut tell = |text: String| {
        // Nobody needs to listen.
        let _ = line.send(Kind::Line, &Said { text }, STEP);
    };
    if let Some(obstacle) = desk.parts.obstacle {
        return desk.decline(&mut line, &unable(obstacle), order.dry_run);
    }
    if let Err(why) = desk.course.may_begin() {
        return desk.decline(&mut line, why, order.dry_run);
    }
    match desk.parts.givers.census(takes::ALL, STEP) {
        Ok(census) => {
            describe(&census).into_iter().for_each(&mut tell);
            let relayed = desk.parts.relays.as_ref().map_or(0, Relays::open);
            if relayed > 0 {
                tell(format!(
                    "{relayed} connections for sessions of other nodes stay with this process until they end, or are closed after a while"
                ));
            }
        }
        Err(why) => return desk.decline(&mut line, &why.to_string(), order.dry_run),
    }
    if order.dry_run {
        let text = "nothing was done (--dry-run)".to_owned();
        let _ = line.send(Kind::Done, &Said { text }, STEP);
        return;
    }
    let done = upgrade(order, desk, &mut tell);
    let _ = match done {
        Ok(text) => line.send(Kind::Done, &Said { text }, STEP),
        Err(text) => {
            tracing::error!(why = text, "an upgrade was given up: this process goes on");
            line.send(Kind::Refused, &Said { text }, STEP)
        }
    };
}

/// What goes and what stays, in lines.
fn describe(census: &Census) -> Vec<String> {
    let mut lines = vec![format!(
        "{} sessions go over and notice nothing",
        census.goes
    )];
    let stays = Stays::ALL
        .iter()
        .zip(census.stays)
        .filter(|(_, count)| *count > 0);
    let (streams, upgrading) = (census.streams, census.upgrading);
    if streams + upgrading > 0 {
        lines.push(format!(
            "among them are {streams} event streams and {upgrading} sessions on their way up from long-polling, which a program of an earlier build sends away"
        ));
    }
    if census.without_probe > 0 {
        lines.push(format!(
            "{} of them go on polling: the WebSocket by which they began to go up is closed",
            census.without_probe
        ));
    }
    if census.windows > 0 {
        lines.push(format!(
            "{} sockets can come back to what they missed, and so they can after it, those that are away now among them",
            census.windows
        ));
    }
    let (rooms, events) = census.kept;
    if rooms > 0 {
        lines.push(format!(
            "{events} events that {rooms} rooms keep for those who join go over"
        ));
    }
    if census.claimed > 0 {
        lines.push(format!(
            "{} sockets are claimed just now by clients who come back: one that still is when all stand still comes back as a new one",
            census.claimed
        ));
    }
    lines.extend(stays.map(|(why, count)| {
        format!(
            "{count} sessions are sent away and come back by themselves: {}",
            why.name()
        )
    }));
    lines
}

/// What a successor does not take that this process could give.
fn describe_lacks(hello: &Hello, desk: &Desk, tell: &mut impl FnMut(String)) -> Result<(), String> {
    if hello.takes & takes::ALL == takes::ALL {
        return Ok(());
    }
    let census = desk.parts.givers.census(hello.takes, STEP);
    let census = census.map_err(|why| why.to_string())?;
    tell("the successor is of an earlier build, which takes less than this one:".to_owned());
    describe(&census).into_iter().for_each(&mut *tell);
    if hello.takes & takes::KEEPSAKES == 0 {
        tell("it takes no events of rooms and no recovery: rooms begin with nothing, and a client that is away, or loses its connection later, comes back as a new one".to_owned());
    }
    Ok(())
}

fn upgrade(order: &Order, desk: &Desk, tell: &mut impl FnMut(String)) -> Result<String, String> {
    if let Err(why) = desk.course.begin() {
        desk.parts.readiness.upgrades().note_refused();
        return Err(why.to_owned());
    }
    let result = start_and_give(order, desk, tell);
    if result.is_err() {
        desk.course.give_up();
    }
    result
}

fn start_and_give(
    order: &Order,
    desk: &Desk,
    tell: &mut impl FnMut(String),
) -> Result<String, String> {
    let binary = binary(order)?;
    let mut command = Command::new(&binary);
    let args = std::env::args_os().skip(1).filter(|arg| arg != TAKE_OVER);
    let args: Vec<OsString> = args.chain([TAKE_OVER.into()]).collect();
    command.args(args).stdin(Stdio::null());
    let spawned = command.spawn();
    let child = spawned.map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
    let mut child = Successor(Some(child));
    let pid = child.pid();
    tell(format!("started {} as process {pid}", binary.display()));
    let (sender, came) = mpsc::channel();
    desk.course.wait_for(pid, sender)?;
    let (mut line, hello) = wait_for(&mut child, &came, &desk.course)?;
    describe_lacks(&hello, desk, tell)?;
    let given = giver::give(&mut line, &hello, &desk.parts, &desk.course);
    let given = given.map_err(|why| {
        // It ends by itself when it is refused; its exit tells nothing more.
        format!("{why}; this process goes on")
    })?;
    child.stays();
    desk.leave(given, pid);
    let serves = line.expect::<()>(Kind::Serving, SERVING);
    let still_ms = given.stood_still.as_millis();
    match serves {
        Ok(()) => Ok(format!(
            "process {pid} serves {} sessions; nobody was read for {still_ms} ms",
            given.sessions
        )),
        Err(why) => Ok(format!(
            "process {pid} has {} sessions, and has not said that it serves ({why}): look at its log",
            given.sessions
        )),
    }
}

/// The program as it is on the disk now.
fn binary(order: &Order) -> Result<PathBuf, String> {
    if !order.binary.is_empty() {
        return Ok(PathBuf::from(&order.binary));
    }
    program::own().map_err(|error| {
        format!("cannot find the program of this process: {error}; name it with --binary")
    })
}

/// The process that was started; ended and waited for unless it took over.
struct Successor(Option<Child>);

impl Successor {
    fn pid(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }

    fn stays(&mut self) {
        self.0 = None;
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn wait_for(child: &mut Successor, came: &Receiver<Came>, course: &Course) -> Result<Came, String> {
    let deadline = Instant::now() + START;
    loop {
        let heard = came.recv_timeout(LOOK_INTERVAL);
        if heard.is_err() {
            course.may_go_on()?;
        }
        match heard {
            Ok(came) => return Ok(came),
            Err(RecvTimeoutError::Disconnected) => {
                return Err("the successor's line broke".to_owned());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let ended = child
            .0
            .as_mut()
            .and_then(|child| child.try_wait().ok().flatten());
        if let Some(status) = ended {
            return Err(format!(
                "the successor ended before it came ({status}): its log says why; this process goes on"
            ));
        }
        if Instant::now() >= deadline {
            return Err(format!(
                "the successor did not come within {} s; this process goes on",
                START.as_secs()
            ));
        }
    }
}

impl From<Broken> for String {
    fn from(broken: Broken) -> Self {
        broken.to_string()
    }
}
