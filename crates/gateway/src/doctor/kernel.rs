//! Descriptors, queues, connection tracking, ports, threads and clocks.

use super::cgroup;
use super::finding::{Finding, Need};
use super::snapshot::{CLOCK, CLOCKSOURCE, LIMITS, STATUS, Snapshot};

/// Descriptors beside the clients'.
const DESCRIPTORS_RESERVED: u64 = crate::descriptors::RESERVED as u64;
/// Tracking entries for a million connections: those that are closing stay in the table for a while.
const CONNTRACK_PER_MILLION: u64 = 2_262_440;
/// The largest length of the queues: the kernel's own bound of a listen backlog was 16 bits for long.
const QUEUE_MAX: u64 = 65_535;
/// Threads beside the shards: control plane, its blocking calls, logs.
const THREADS_BESIDE: u64 = 32;
/// 2025-01-01: no clock that is right shows an earlier time.
const EARLIEST: u64 = 1_735_689_600;
/// 2100-01-01.
const LATEST: u64 = 4_102_444_800;

/// How to set a kernel parameter from here. Those of a network namespace a container can have for itself.
fn sysctl(snapshot: &Snapshot, name: &str, value: u64, of_namespace: bool) -> String {
    match (cgroup::in_container(snapshot), of_namespace) {
        (false, _) => format!("sysctl -w {name}={value}"),
        (true, true) => format!("docker run --sysctl {name}={value} …"),
        (true, false) => format!("on the host: sysctl -w {name}={value}"),
    }
}

pub fn descriptors(snapshot: &Snapshot, need: &Need) -> Vec<Finding> {
    let needed = need.connections + DESCRIPTORS_RESERVED;
    let mut findings = open_files(snapshot, needed).to_vec();
    findings.push(nr_open(snapshot, needed));
    findings.push(file_max(snapshot, needed));
    findings
}

fn nr_open(snapshot: &Snapshot, needed: u64) -> Finding {
    let finding = Finding::new(
        "fs.nr_open",
        "the most a hard limit of open files can be raised to",
    )
    .needed(needed);
    let path = "/proc/sys/fs/nr_open";
    let Some(value) = snapshot.number(path) else {
        return finding.unknown(path);
    };
    let finding = finding
        .value(value)
        .ceiling(value.saturating_sub(DESCRIPTORS_RESERVED));
    if value >= needed {
        return finding;
    }
    let fix = needed.next_power_of_two();
    finding.fail(sysctl(snapshot, "fs.nr_open", fix, false))
}

fn open_files(snapshot: &Snapshot, needed: u64) -> [Finding; 2] {
    let show = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let at_start = Finding::new("nofile (soft)", "open files of this process");
    let finding =
        Finding::new("nofile (hard)", "open files: one for each connection").needed(needed);
    let Some((soft, hard)) = snapshot.open_files() else {
        return [at_start, finding].map(|finding| finding.unknown(LIMITS));
    };
    let soft = at_start
        .value(show(soft))
        .needed(show(hard))
        .note("raised to the hard limit at start");
    let mut finding = finding.value(show(hard));
    let Some(limit) = hard else {
        return [soft, finding];
    };
    finding = finding.ceiling(limit.saturating_sub(DESCRIPTORS_RESERVED));
    if limit < needed {
        let fix = if cgroup::in_container(snapshot) {
            format!("docker run --ulimit nofile={needed}:{needed} …")
        } else {
            format!("LimitNOFILE={needed} in the systemd unit, or: ulimit -Hn {needed}")
        };
        finding = finding.fail(fix);
    }
    [soft, finding]
}

fn file_max(snapshot: &Snapshot, needed: u64) -> Finding {
    let finding = Finding::new("fs.file-max", "open files of the whole machine");
    let path = "/proc/sys/fs/file-max";
    let Some(value) = snapshot.number(path) else {
        return finding.needed(needed).unknown(path);
    };
    let used = snapshot.number("/proc/sys/fs/file-nr").unwrap_or_default();
    let finding = finding
        .value(format!("{value} ({used} in use)"))
        .needed(needed + used)
        .ceiling(value.saturating_sub(used + DESCRIPTORS_RESERVED));
    if value >= needed + used {
        return finding;
    }
    let fix = (needed + used).next_power_of_two();
    finding.fail(sysctl(snapshot, "fs.file-max", fix, false))
}

/// Queues bound how many can arrive at once, not how many can be connected.
pub fn queues(snapshot: &Snapshot, need: &Need) -> Vec<Finding> {
    let needed = need.connections.min(QUEUE_MAX);
    let queues = [
        (
            "net.core.somaxconn",
            "connections that wait to be accepted, for each shard",
            needed,
            true,
        ),
        (
            "net.ipv4.tcp_max_syn_backlog",
            "handshakes under way; beyond it SYN cookies help, or clients try again",
            needed,
            true,
        ),
        (
            "net.core.netdev_max_backlog",
            "packets that wait for a core after the network card",
            needed.max(1_000),
            false,
        ),
    ];
    queues
        .into_iter()
        .map(|(name, about, needed, of_namespace)| {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            let finding = Finding::new(name, about).needed(needed);
            match snapshot.number(&path) {
                None if of_namespace || !cgroup::in_container(snapshot) => finding.unknown(&path),
                None => invisible(finding, needed),
                Some(value) if value >= needed => finding.value(value),
                Some(value) => finding
                    .value(value)
                    .warn(sysctl(snapshot, name, needed, of_namespace))
                    .note("when many come at once, those beyond it wait a second or more"),
            }
        })
        .collect()
}

/// A parameter of the host that a container does not get to see.
fn invisible(finding: Finding, needed: u64) -> Finding {
    let fix = format!("on the host: sysctl {}   # wants {needed}", finding.name);
    Finding {
        fix: Some(fix),
        ..finding
            .value("not visible")
            .note("belongs to the host, and this container does not show it")
    }
}

pub fn conntrack(snapshot: &Snapshot, need: &Need) -> Option<Finding> {
    let finding = Finding::new(
        "net.netfilter.nf_conntrack_max",
        "connections the firewall keeps in mind; beyond it packets are dropped",
    );
    let Some(value) = snapshot.number("/proc/sys/net/netfilter/nf_conntrack_max") else {
        return Some(finding.value("not loaded").note("nothing is tracked"));
    };
    let needed = (need.connections * CONNTRACK_PER_MILLION).div_ceil(1_000_000);
    let ceiling = value * 1_000_000 / CONNTRACK_PER_MILLION;
    let finding = finding.value(value).needed(needed).ceiling(ceiling);
    if value >= needed {
        return Some(finding);
    }
    let name = "net.netfilter.nf_conntrack_max";
    Some(finding.fail(sysctl(snapshot, name, needed, false)))
}

/// The one value here that is asked for most and matters least.
pub fn ports(snapshot: &Snapshot) -> Finding {
    let finding = Finding::new(
        "net.ipv4.ip_local_port_range",
        "source ports of outgoing connections",
    );
    let path = "/proc/sys/net/ipv4/ip_local_port_range";
    let range = snapshot.numbers(path);
    let range = range.and_then(|range| <[u64; 2]>::try_from(range).ok());
    let Some([first, last]) = range else {
        return finding.unknown(path);
    };
    let ports = last.saturating_sub(first) + 1;
    let note = format!(
        "no bound for a server: all its connections share one port. A proxy or load generator has \
         {ports} source ports for each pair of addresses"
    );
    finding.value(format!("{first} {last}")).note(note)
}

pub fn threads(snapshot: &Snapshot, need: &Need) -> [Finding; 2] {
    [cores(snapshot, need), pids(snapshot, need)]
}

fn cores(snapshot: &Snapshot, need: &Need) -> Finding {
    let finding = Finding::new("cpu", "cores for the shards").needed(need.shards);
    let Some(cores) = snapshot.cores() else {
        return finding.unknown(STATUS);
    };
    if let Some(path) = cgroup::missing(snapshot) {
        let finding = finding.unknown(path);
        return finding.value(format!("{cores} cores, time unknown"));
    }
    let quota = cgroup::cpu_limit(snapshot);
    let finding = finding.value(match quota {
        Some(quota) => format!("{cores} cores, limited to the time of {quota:.1}"),
        None => format!("{cores} cores"),
    });
    let enough = quota.unwrap_or(f64::INFINITY).min(cores as f64);
    let fitting = (enough.floor() as u64).max(1);
    if need.shards as f64 <= enough.max(1.0) {
        return finding;
    }
    finding
        .warn(format!(
            "server.shards = {fitting}, or a larger limit of CPU time"
        ))
        .note("shards that are made to wait for their share hold up everybody on them")
}

fn pids(snapshot: &Snapshot, need: &Need) -> Finding {
    let needed = need.shards + THREADS_BESIDE;
    let finding = Finding::new("pids", "threads of this control group").needed(needed);
    if let Some(path) = cgroup::missing(snapshot) {
        return finding.unknown(path);
    }
    match cgroup::pids_limit(snapshot) {
        None => finding.value("unlimited"),
        Some(limit) if limit >= needed => finding.value(limit),
        Some(limit) => finding.value(limit).fail(format!(
            "docker run --pids-limit {needed} …, or TasksMax={needed}"
        )),
    }
}

pub fn clocks(snapshot: &Snapshot) -> [Finding; 2] {
    [clock(snapshot), clocksource(snapshot)]
}

fn clock(snapshot: &Snapshot) -> Finding {
    let finding = Finding::new("clock", "wall clock: tokens and certificates expire by it");
    let Some(time) = snapshot.number(CLOCK) else {
        let finding = finding.unknown(CLOCK);
        return finding.warn("date +%s");
    };
    let finding = finding.value(format!("{time} s since 1970"));
    if (EARLIEST..LATEST).contains(&time) {
        return finding;
    }
    finding
        .needed("the right time")
        .fail("timedatectl set-ntp true")
}

fn clocksource(snapshot: &Snapshot) -> Finding {
    let finding = Finding::new("clocksource", "how the kernel reads time, twice a turn");
    let Some(source) = snapshot.text(CLOCKSOURCE).filter(|name| !name.is_empty()) else {
        return finding.unknown(CLOCKSOURCE);
    };
    let finding = finding.value(source);
    if matches!(source, "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies") {
        let fix = "boot the host with a TSC that is trusted (kernel parameter tsc=reliable)";
        return finding.needed("tsc, kvm-clock or the like").warn(fix);
    }
    finding
}
