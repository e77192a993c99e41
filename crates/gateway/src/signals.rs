//! Signals of the operating system as two wishes: stop, and look at the configuration again.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// Takes over the signals of the process. Needs the context of a tokio runtime.
pub fn listen() -> io::Result<Receiver<Wish>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let (sender, wishes) = channel();
    tokio::spawn(async move {
        loop {
            let wish = tokio::select! {
                _ = terminate.recv() => Wish::Stop,
                _ = interrupt.recv() => Wish::Stop,
                _ = hangup.recv() => Wish::Reload,
            };
            if sender.send(wish).is_err() {
                return;
            }
        }
    });
    Ok(wishes)
}
