//! Ports for servers of tests. Each process owns blocks of ports. It listens at the first port of each block for as long as it lives, so
//! that no other process takes a port from there; `conformance/ports.mjs`, `conformance/ports.py` and `sdk/go/ports_test.go` do the same. The kernel gives none
//! of them to a client: its own port may be taken before the server is there, and while the server is away.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

const FIRST: u16 = 12_000;
const BLOCK: u16 = 20;
const BLOCKS: u16 = 1_000;

/// Ports where nobody listens, all different.
pub fn free_ports<const N: usize>() -> [u16; N] {
    static OWN: Mutex<(Vec<TcpListener>, Range<u16>)> = Mutex::new((Vec::new(), 0..0));
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let (guards, rest) = &mut *own;
    std::array::from_fn(|_| {
        loop {
            // A server may have outlived the process that owned the block before.
            if let Some(port) = rest.find(|port| listen(*port).is_some()) {
                return port;
            }
            let (guard, ports) = claim();
            guards.push(guard);
            *rest = ports;
        }
    })
}

/// One of them on loopback.
pub fn free_addr() -> SocketAddr {
    let [port] = free_ports();
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn claim() -> (TcpListener, Range<u16>) {
    // Processes beside each other begin at different places.
    let begin = std::process::id().wrapping_mul(7);
    let mut blocks = (0..u32::from(BLOCKS)).map(|n| begin.wrapping_add(n) % u32::from(BLOCKS));
    let claimed = blocks.find_map(|block| {
        let first = FIRST + u16::try_from(block).ok()? * BLOCK;
        Some((listen(first)?, first + 1..first + BLOCK))
    });
    claimed.expect("a block of free ports")
}

fn listen(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::process::{Command, Stdio};

    /// Two runners found the same port free, and the server of one of them found it taken.
    #[test]
    #[ignore = "needs Node: cargo xtask test foreign"]
    fn processes_beside_each_other_were_given_the_same_port() {
        let own: [u16; 50] = free_ports();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance");
        for (program, script) in [("node", "ports.mjs"), ("python3", "ports.py")] {
            let mut other = Command::new(program);
            other.args([script, "50"]).current_dir(folder);
            other.stdin(Stdio::null());
            // It begins where this process began.
            other.env("PORTS_BEGIN", std::process::id().to_string());
            let output = other.output().expect("Node and Python");
            let said = String::from_utf8_lossy(&output.stdout);
            let ports: BTreeSet<u16> = said.lines().flat_map(str::parse).collect();
            assert_eq!(ports.len(), 50, "{program}: {output:?}");
            assert!(own.iter().all(|port| !ports.contains(port)), "{ports:?}");
        }
    }
}
