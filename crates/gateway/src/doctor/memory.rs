//! Memory: what a connection costs in this process and in the kernel, against what there is.

use super::cgroup;
use super::finding::{Finding, Need};
use super::snapshot::{MEMINFO, Snapshot};

/// Resident bytes of an idle Socket.IO session over WebSocket (docs/performance.md: 520 between 2,000 and 18,000), rounded up
/// for the rooms and names that real ones have.
const CONNECTION_BYTES: u64 = 700;
/// What TLS 1.3 adds to an idle one.
const TLS_BYTES: u64 = 4_608;
/// Kernel memory of an established connection's one side: sockets, inodes, epoll items, files.
const KERNEL_BYTES: u64 = 5_120;
/// The process before its first connection, with room for outboxes, history and the page cache of its binary.
const BASE_BYTES: u64 = 128 * 1024 * 1024;
/// A page of socket buffer: the least that a connection with anything unsent or unread is charged.
const PAGE: u64 = 4_096;
/// A receive buffer of this size for everyone by default is a mistake rather than a wish.
const RMEM_DEFAULT_MAX: u64 = 1024 * 1024;

fn per_connection(need: &Need) -> u64 {
    CONNECTION_BYTES + KERNEL_BYTES + if need.tls { TLS_BYTES } else { 0 }
}

pub fn limits(snapshot: &Snapshot, need: &Need) -> [Finding; 2] {
    [available(snapshot, need), limit(snapshot, need)]
}

/// What so many connections take.
fn needed(need: &Need) -> u64 {
    BASE_BYTES + need.connections * per_connection(need)
}

/// For how many connections there is room.
fn ceiling(available: u64, need: &Need) -> u64 {
    available.saturating_sub(BASE_BYTES) / per_connection(need)
}

fn available(snapshot: &Snapshot, need: &Need) -> Finding {
    let finding = Finding::new("memory available", "what the machine can still give")
        .needed(bytes(needed(need)));
    let Some(available) = snapshot.memory("MemAvailable:") else {
        return finding.unknown(MEMINFO);
    };
    let finding = finding
        .value(bytes(available))
        .ceiling(ceiling(available, need))
        .note(format!(
            "{} B for each idle connection, {KERNEL_BYTES} of them the kernel's, and {} for everything else",
            per_connection(need),
            bytes(BASE_BYTES)
        ));
    if available >= needed(need) {
        return finding;
    }
    finding.fail("more memory, or fewer connections: limits.conns_max")
}

fn limit(snapshot: &Snapshot, need: &Need) -> Finding {
    let needed = needed(need);
    let finding = Finding::new(
        "memory limit",
        "of this control group, sockets in the kernel included",
    )
    .needed(bytes(needed));
    if let Some(path) = cgroup::missing(snapshot) {
        return finding.unknown(path);
    }
    let Some(limit) = cgroup::memory_limit(snapshot) else {
        return finding.value("unlimited");
    };
    let used = cgroup::memory_used(snapshot);
    let used = used.map_or(String::new(), |used| format!(" ({} in use)", bytes(used)));
    let finding = finding
        .value(format!("{}{used}", bytes(limit)))
        .ceiling(ceiling(limit, need));
    if limit >= needed {
        return finding;
    }
    let mebibytes = needed.div_ceil(1 << 20);
    finding.fail(format!(
        "docker run --memory {mebibytes}m …, or MemoryMax={mebibytes}M"
    ))
}

/// Idle connections have no socket buffers; those that are sent something at the same time have a page each.
pub fn kernel_buffers(snapshot: &Snapshot, need: &Need) -> [Finding; 3] {
    [
        tcp_mem(snapshot, need),
        tcp_rmem(snapshot),
        tcp_wmem(snapshot),
    ]
}

fn triple(snapshot: &Snapshot, path: &str) -> Option<[u64; 3]> {
    snapshot.numbers(path)?.try_into().ok()
}

fn tcp_rmem(snapshot: &Snapshot) -> Finding {
    let finding = Finding::new(
        "net.ipv4.tcp_rmem",
        "receive buffer of a connection: least, default, most",
    );
    let path = "/proc/sys/net/ipv4/tcp_rmem";
    let Some([min, default, max]) = triple(snapshot, path) else {
        return finding.unknown(path);
    };
    let finding = finding.value(format!("{min} {default} {max}"));
    if default <= RMEM_DEFAULT_MAX {
        return finding;
    }
    finding
        .needed(format!("a default of at most {RMEM_DEFAULT_MAX}"))
        .warn("sysctl -w net.ipv4.tcp_rmem=\"4096 131072 6291456\"")
        .note("every client may have that much unread")
}

fn tcp_wmem(snapshot: &Snapshot) -> Finding {
    let finding = Finding::new(
        "net.ipv4.tcp_wmem",
        "send buffer of a connection: least, default, most",
    );
    let path = "/proc/sys/net/ipv4/tcp_wmem";
    let Some([min, default, max]) = triple(snapshot, path) else {
        return finding.unknown(path);
    };
    let note = format!(
        "a client that does not read can hold {} of unsent data in the kernel",
        bytes(max)
    );
    finding.value(format!("{min} {default} {max}")).note(note)
}

fn tcp_mem(snapshot: &Snapshot, need: &Need) -> Finding {
    let finding = Finding::new(
        "net.ipv4.tcp_mem",
        "pages of socket buffers of the whole machine: low, pressure, most",
    );
    let path = "/proc/sys/net/ipv4/tcp_mem";
    let Some([low, pressure, most]) = triple(snapshot, path) else {
        if !cgroup::in_container(snapshot) {
            return finding.unknown(path);
        }
        return finding
            .value("not visible")
            .note("belongs to the host, and this container does not show it");
    };
    let finding = finding
        .value(format!("{low} {pressure} {most}"))
        .needed(format!("… {}", need.connections));
    if most >= need.connections {
        return finding;
    }
    let (low, pressure) = (need.connections / 2, need.connections / 4 * 3);
    let fix = format!(
        "sysctl -w net.ipv4.tcp_mem=\"{low} {pressure} {}\"",
        need.connections
    );
    let fix = if cgroup::in_container(snapshot) {
        format!("on the host: {fix}")
    } else {
        fix
    };
    finding.warn(fix).note(format!(
        "a broadcast to everybody at once takes a page ({PAGE} B) for each; with less, sending to {most} at a time works and the rest waits"
    ))
}

/// For people: `1.5 GiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{n} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}
