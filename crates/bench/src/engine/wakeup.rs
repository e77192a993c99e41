//! Owns the timer that wakes a turn exactly when the schedule is due: epoll's own timeout counts
//! whole milliseconds, which would show up as latency of the server.

use crate::clock::now_ns;
use anyhow::{Context, Result};
use mio::{Events, Poll, Registry, Token};
use std::io::ErrorKind;
use std::time::Duration;

/// Waits for events until `due_ns` of the monotonic clock, but no longer than `timeout`. Setting the timer
/// costs more than looking, so it is set only when there is nothing to do: under load there always is.
pub fn wait(
    timer: &mut Timer,
    poll: &mut Poll,
    events: &mut Events,
    due_ns: Option<u64>,
    timeout: Duration,
) -> Result<()> {
    look(poll, events, Duration::ZERO)?;
    if events.is_empty() && due_ns.is_none_or(|due_ns| due_ns > now_ns()) {
        let timeout = timer.arm(due_ns, timeout)?;
        look(poll, events, timeout)?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
pub use timerfd::Timer;

#[cfg(target_os = "linux")]
mod timerfd {
    use super::{Context, Duration, Registry, Result, Token};
    use mio::Interest;
    use mio::unix::SourceFd;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use std::os::fd::{AsRawFd, OwnedFd};

    const NS_PER_S: u64 = 1_000_000_000;

    #[derive(Debug)]
    pub struct Timer {
        timer: OwnedFd,
        armed_ns: Option<u64>,
    }

    impl Timer {
        pub fn new(registry: &Registry, token: Token) -> Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
                .context("cannot create the schedule's timer")?;
            registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
            Ok(Timer {
                timer,
                armed_ns: None,
            })
        }

        /// Wakes at `due_ns` of the monotonic clock (never when `None`); returns how long to wait for all else.
        pub fn arm(&mut self, due_ns: Option<u64>, timeout: Duration) -> Result<Duration> {
            if due_ns == self.armed_ns {
                return Ok(timeout);
            }
            // A zero value would disarm; a time in the past fires at once, as wanted.
            let at = due_ns.map_or(0, |due_ns| due_ns.max(1));
            let setting = Itimerspec {
                it_interval: timespec(0),
                it_value: timespec(at),
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)
                .context("cannot set the schedule's timer")?;
            self.armed_ns = due_ns;
            Ok(timeout)
        }

        /// Takes the expiry, so that the next one raises an event again.
        pub fn drain(&mut self) {
            // Nothing to do about an error: an empty timer reports would-block.
            let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
            self.armed_ns = None;
        }
    }

    fn timespec(ns: u64) -> Timespec {
        Timespec {
            tv_sec: (ns / NS_PER_S) as i64,
            tv_nsec: (ns % NS_PER_S) as i64,
        }
    }
}

/// The timeout of kqueue counts nanoseconds: it is timer enough.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Timer;

#[cfg(not(target_os = "linux"))]
impl Timer {
    pub fn new(_: &Registry, _: Token) -> Result<Self> {
        Ok(Timer)
    }

    pub fn arm(&mut self, due_ns: Option<u64>, timeout: Duration) -> Result<Duration> {
        let until_due = due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns())));
        Ok(until_due.unwrap_or(timeout).min(timeout))
    }

    pub fn drain(&mut self) {}
}

fn look(poll: &mut Poll, events: &mut Events, timeout: Duration) -> Result<()> {
    match poll.poll(events, Some(timeout)) {
        Err(error) if error.kind() != ErrorKind::Interrupted => {
            Err(error).context("cannot wait for events")
        }
        _ => Ok(()),
    }
}
