//! Owns how a worker gets its orders and tells what comes of them: a queue that wakes its reactor,
//! fed by the same process or by JSON lines on stdin.

use anyhow::Result;
use mio::{Registry, Token, Waker};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Whoever gives orders.
#[derive(Debug)]
pub struct Commander<Order> {
    orders: Sender<Order>,
    waker: Waker,
}

impl<Order> Commander<Order> {
    /// A queue whose orders wake the reactor of `registry` with `wake`.
    pub fn new(registry: &Registry, wake: Token) -> Result<(Commander<Order>, Receiver<Order>)> {
        let waker = Waker::new(registry, wake)?;
        let (orders, receiver) = channel();
        Ok((Commander { orders, waker }, receiver))
    }

    /// `false` when the worker is gone.
    pub fn send(&self, order: Order) -> bool {
        self.orders.send(order).is_ok() && self.waker.wake().is_ok()
    }
}

/// The body of a worker process: orders on stdin, notices on stdout, one JSON value a line. Orders
/// it to `exit` when stdin ends, so that no worker outlives its commander.
pub fn serve_stdio<Order, Notice: Serialize>(
    commander: Commander<Order>,
    exit: Order,
    work: impl FnOnce(&mut dyn FnMut(Notice)) -> Result<()>,
) -> Result<()>
where
    Order: DeserializeOwned + Debug + Send + 'static,
{
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str(&line) {
                Ok(order) => {
                    if !commander.send(order) {
                        break;
                    }
                }
                Err(error) => eprintln!("cannot read order {line:?}: {error}"),
            }
        }
        commander.send(exit);
    });
    let mut stdout = std::io::stdout().lock();
    work(&mut |notice| {
        // A commander that no longer listens also closes stdin, which ends the work.
        if let Ok(line) = serde_json::to_string(&notice) {
            let _ = writeln!(stdout, "{line}");
            let _ = stdout.flush();
        }
    })
}
