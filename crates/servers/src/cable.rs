//! A network between a client and a server that can be cut: nothing passes, nothing is refused, and nobody is told.

use crate::wait_for;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Connect to [`Cable::addr`] instead of the server.
#[derive(Debug)]
pub struct Cable {
    addr: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    cut: Mutex<bool>,
    changed: Condvar,
    /// Each byte is so long under way.
    delay: Duration,
}

impl State {
    fn wait_until_whole(&self) {
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        while *cut {
            cut = self
                .changed
                .wait(cut)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn set(&self, cut: bool) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = cut;
        self.changed.notify_all();
    }
}

impl Cable {
    /// To a server on this port of the machine.
    pub fn to(port: u16) -> Cable {
        Cable::far(port, Duration::ZERO)
    }

    /// The same, with so much time from one end to the other.
    pub fn far(port: u16, delay: Duration) -> Cable {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let cable = Cable {
            addr: listener.local_addr().expect("its address"),
            state: Arc::new(State {
                delay,
                ..State::default()
            }),
        };
        let state = Arc::clone(&cable.state);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || join(near, port, &state));
            }
        });
        wait_for("the cable is there", || {
            TcpStream::connect(cable.addr).ok().map(drop)
        });
        cable
    }

    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    pub fn addr(&self) -> String {
        self.addr.to_string()
    }

    /// From now on nothing passes.
    pub fn cut(&self) {
        self.state.set(true);
    }

    /// What was on its way arrives, and all is as before.
    pub fn mend(&self) {
        self.state.set(false);
    }
}

fn join(near: TcpStream, port: u16, state: &Arc<State>) {
    state.wait_until_whole();
    let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else {
        return;
    };
    let (Ok(near_too), Ok(far_too)) = (near.try_clone(), far.try_clone()) else {
        return;
    };
    let other = Arc::clone(state);
    let back = thread::spawn(move || copy(far_too, near_too, &other));
    copy(near, far, state);
    let _ = back.join();
}

fn copy(mut from: TcpStream, to: TcpStream, state: &Arc<State>) {
    let (sender, pieces) = channel();
    let Ok(far) = to.try_clone() else { return };
    let carried = Arc::clone(state);
    let carrying = thread::spawn(move || carry(&pieces, to, &carried));
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        state.wait_until_whole();
        let piece = (Instant::now() + state.delay, buffer[..read].to_vec());
        if read == 0 || sender.send(piece).is_err() {
            break;
        }
    }
    drop(sender);
    let _ = carrying.join();
    let _ = far.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Writes each piece when it is due.
fn carry(pieces: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream, state: &State) {
    for (due, piece) in pieces {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        state.wait_until_whole();
        if to.write_all(&piece).is_err() {
            // Its reader notices, too.
            let _ = to.shutdown(Shutdown::Both);
            break;
        }
    }
}
