//! The exporters of the last row of the dashboard: Debian's, of this machine and of a Redis.

use servers::Redis;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

/// Killed when dropped.
pub struct Exporter {
    pub addr: SocketAddr,
    child: Child,
}

impl Exporter {
    pub fn of_this_machine() -> Exporter {
        Exporter::start("prometheus-node-exporter", &[])
    }

    pub fn of(redis: &Redis) -> Exporter {
        let url = format!("--redis.addr={}", redis.url());
        Exporter::start("prometheus-redis-exporter", &[url])
    }

    fn start(program: &str, args: &[String]) -> Exporter {
        let addr = free();
        let mut command = Command::new(program);
        command
            .arg(format!("--web.listen-address={addr}"))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn();
        let child = child.unwrap_or_else(|error| panic!("run {program} (Debian): {error}"));
        Exporter { addr, child }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// For programs that cannot be asked which port they took: one that was free a moment ago.
pub fn free() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("its address")
}
