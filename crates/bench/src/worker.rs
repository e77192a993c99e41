//! Owns one swarm and the commands it obeys: in a thread of the same process or, because a process
//! holds a limited number of files, in a process of its own with JSON lines on stdin and stdout.

use crate::orders::{self, Commander};
use crate::swarm::connect::{ConnectPlan, ConnectReport};
use crate::swarm::load::Load;
use crate::swarm::{Counters, LoadReport, Swarm, WAKE};
use anyhow::{Context, Result};
use mio::Poll;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// What a worker can be told. Each command is answered by one final notice.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    Connect(ConnectPlan),
    Start(Load),
    Snapshot {
        reset: bool,
    },
    Stop,
    /// Waits for stragglers up to the grace period, then accounts for the load.
    Settle {
        published: Vec<u64>,
        grace_ms: u64,
    },
    Disconnect,
    Exit,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// Not final: a connect phase is under way.
    Progress {
        ready: u32,
        failed: u32,
    },
    Connected(ConnectReport),
    Started,
    Snapshot(Counters),
    Stopped {
        published: Vec<u64>,
    },
    Settled(LoadReport),
    Disconnected,
    Failed(String),
}

const TURN_TIMEOUT: Duration = Duration::from_millis(20);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The ear of a worker: where commands arrive and how it is woken for them.
#[derive(Debug)]
pub struct Worker {
    swarm: Swarm,
    commands: Receiver<Command>,
    settling: Option<Settling>,
    progress_at: Instant,
}

#[derive(Debug)]
struct Settling {
    published: Vec<u64>,
    deadline: Instant,
}

impl Worker {
    pub fn new() -> Result<(Worker, Commander<Command>)> {
        let poll = Poll::new().context("cannot create an epoll instance")?;
        let (commander, commands) = Commander::new(poll.registry(), WAKE)?;
        let swarm = Swarm::new(poll)?;
        let worker = Worker {
            swarm,
            commands,
            settling: None,
            progress_at: Instant::now(),
        };
        Ok((worker, commander))
    }

    /// Works until told to exit or until nobody commands any more.
    pub fn run(mut self, mut notify: impl FnMut(Notice)) -> Result<()> {
        let mut events = Swarm::new_events();
        loop {
            if let Err(error) = self.swarm.turn(&mut events, TURN_TIMEOUT) {
                notify(Notice::Failed(format!("{error:#}")));
                return Err(error);
            }
            match self.commands.try_recv() {
                Ok(Command::Exit) | Err(TryRecvError::Disconnected) => return Ok(()),
                Ok(command) => {
                    if let Some(notice) = self.obey(command) {
                        notify(notice);
                    }
                }
                Err(TryRecvError::Empty) => {}
            }
            if let Some(notice) = self.finished() {
                notify(notice);
            }
        }
    }

    fn obey(&mut self, command: Command) -> Option<Notice> {
        let result = match command {
            Command::Connect(plan) => self.swarm.connect(plan).map(|()| None),
            Command::Start(load) => self.swarm.start(load).map(|()| Some(Notice::Started)),
            Command::Snapshot { reset } => Ok(Some(Notice::Snapshot(self.swarm.snapshot(reset)))),
            Command::Stop => Ok(Some(Notice::Stopped {
                published: self.swarm.stop(),
            })),
            Command::Settle {
                published,
                grace_ms,
            } => {
                let deadline = Instant::now() + Duration::from_millis(grace_ms);
                self.settling = Some(Settling {
                    published,
                    deadline,
                });
                Ok(None)
            }
            Command::Disconnect => {
                self.swarm.disconnect();
                Ok(Some(Notice::Disconnected))
            }
            Command::Exit => Ok(None),
        };
        result.unwrap_or_else(|error| Some(Notice::Failed(format!("{error:#}"))))
    }

    /// The notice of a phase that ended by itself in the last turn.
    fn finished(&mut self) -> Option<Notice> {
        if let Some(report) = self.swarm.take_connected() {
            return Some(Notice::Connected(report));
        }
        let swarm = &mut self.swarm;
        let settled = self.settling.take_if(|settling| {
            swarm.is_settled(&settling.published) || Instant::now() >= settling.deadline
        });
        if let Some(settling) = settled {
            return Some(Notice::Settled(swarm.settle(&settling.published)));
        }
        let (ready, failed) = swarm.connect_progress()?;
        if self.progress_at.elapsed() < PROGRESS_INTERVAL {
            return None;
        }
        self.progress_at = Instant::now();
        Some(Notice::Progress { ready, failed })
    }
}

/// The body of a worker process.
pub fn serve_stdio() -> Result<()> {
    let (worker, commander) = Worker::new()?;
    orders::serve_stdio(commander, Command::Exit, |notify| worker.run(notify))
}
