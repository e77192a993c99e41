//! The exporters of the last two rows of the dashboard: Debian's, of this machine and of a Redis.

use crate::harness::{PATIENCE, RawConn, eventually};
use servers::{Redis, free_addr};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// Metrics of node_exporter in the dashboard and in the rules.
pub const OF_MACHINES: &[&str] = &[
    "node_cpu_seconds_total",
    "node_memory_MemAvailable_bytes",
    "node_memory_MemTotal_bytes",
    "node_netstat_Tcp_RetransSegs",
    "node_network_receive_bytes_total",
    "node_network_transmit_bytes_total",
    "node_sockstat_TCP_inuse",
    "node_sockstat_TCP_mem_bytes",
];

/// Metrics of redis_exporter there.
pub const OF_REDIS: &[&str] = &[
    "redis_commands_processed_total",
    "redis_connected_clients",
    "redis_cpu_sys_seconds_total",
    "redis_cpu_user_seconds_total",
    "redis_evicted_keys_total",
    "redis_memory_max_bytes",
    "redis_memory_used_bytes",
    "redis_net_input_bytes_total",
    "redis_net_output_bytes_total",
    "redis_rejected_connections_total",
    "redis_up",
];

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
        let addr = free_addr();
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

#[test]
#[ignore = "needs Prometheus: cargo xtask test foreign"]
fn the_exporters_have_what_is_taken_from_them() {
    let redis = Redis::start_with(&["--maxmemory", "100mb"]);
    let machine = (Exporter::of_this_machine(), OF_MACHINES);
    for (exporter, names) in [machine, (Exporter::of(&redis), OF_REDIS)] {
        assert!(eventually(PATIENCE, || std::net::TcpStream::connect(
            exporter.addr
        )
        .is_ok()));
        let request = "GET /metrics HTTP/1.0\r\nHost: a\r\n\r\n";
        let page = RawConn::exchange(exporter.addr, request).body;
        let has = |name: &&&str| page.contains(&format!("\n# TYPE {name} "));
        let missing: Vec<_> = names.iter().filter(|name| !has(name)).collect();
        assert_eq!(missing, Vec::<&&str>::new(), "of {}", exporter.addr);
    }
}
