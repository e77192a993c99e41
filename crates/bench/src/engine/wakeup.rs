//! Owns the timer that wakes a turn exactly when the schedule is due: epoll's own timeout counts
//! whole milliseconds, which would show up as latency of the server.

use crate::clock::now_ns;
use anyhow::{Context, Result};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

const NS_PER_S: u64 = 1_000_000_000;

#[derive(Debug)]
pub struct Wakeup {
    timer: OwnedFd,
    armed_ns: Option<u64>,
}

impl Wakeup {
    pub fn new(registry: &Registry, token: Token) -> Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .context("cannot create the schedule's timer")?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Wakeup {
            timer,
            armed_ns: None,
        })
    }

    /// Waits for events until `due_ns` of the monotonic clock, but no longer than `timeout`. Setting the timer
    /// costs more than looking, so it is set only when there is nothing to do: under load there always is.
    pub fn wait(
        &mut self,
        poll: &mut Poll,
        events: &mut Events,
        due_ns: Option<u64>,
        timeout: Duration,
    ) -> Result<()> {
        look(poll, events, Duration::ZERO)?;
        if events.is_empty() && due_ns.is_none_or(|due_ns| due_ns > now_ns()) {
            self.arm(due_ns)?;
            look(poll, events, timeout)?;
        }
        Ok(())
    }

    /// Wakes at `due_ns` of the monotonic clock; never when `None`.
    fn arm(&mut self, due_ns: Option<u64>) -> Result<()> {
        if due_ns == self.armed_ns {
            return Ok(());
        }
        // A zero value would disarm; a time in the past fires at once, as wanted.
        let at = due_ns.map_or(0, |due_ns| due_ns.max(1));
        let value = Timespec {
            tv_sec: (at / NS_PER_S) as i64,
            tv_nsec: (at % NS_PER_S) as i64,
        };
        let interval = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let setting = Itimerspec {
            it_interval: interval,
            it_value: value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)
            .context("cannot set the schedule's timer")?;
        self.armed_ns = due_ns;
        Ok(())
    }

    /// Takes the expiry, so that the next one raises an event again.
    pub fn drain(&mut self) {
        // Nothing to do about an error: an empty timer reports would-block.
        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
        self.armed_ns = None;
    }
}

fn look(poll: &mut Poll, events: &mut Events, timeout: Duration) -> Result<()> {
    match poll.poll(events, Some(timeout)) {
        Err(error) if error.kind() != ErrorKind::Interrupted => {
            Err(error).context("cannot wait for events")
        }
        _ => Ok(()),
    }
}
