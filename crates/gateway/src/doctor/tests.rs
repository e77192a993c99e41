//! The doctor's judgement of machines that are written down in `snapshots/`, and of this one.

use super::cgroup;
use super::checks::examine;
use super::finding::{Finding, Need, Status};
use super::machine;
use super::report::Report;
use super::snapshot::Snapshot;

const BARE_METAL: &str = include_str!("snapshots/bare-metal.txt");
const CONTAINER_V1: &str = include_str!("snapshots/container-v1.txt");
const CONTAINER_V2: &str = include_str!("snapshots/container-v2.txt");

fn need(connections: u64) -> Need {
    Need {
        connections,
        shards: 2,
        tls: false,
    }
}

fn report(text: &str, need: Need) -> Report {
    let snapshot = Snapshot::from_text(text).expect("a snapshot");
    Report {
        connections: need.connections,
        in_container: cgroup::in_container(&snapshot),
        findings: examine(&snapshot, &need),
    }
}

fn find<'a>(report: &'a Report, name: &str) -> &'a Finding {
    let found = report.findings.iter().find(|finding| finding.name == name);
    found.unwrap_or_else(|| panic!("nothing about {name}"))
}

/// Name, verdict and fix of all that is not as it should be.
fn wrong(report: &Report) -> Vec<(&str, Status, &str)> {
    let findings = report.findings.iter();
    findings
        .filter(|finding| finding.status != Status::Ok)
        .map(|finding| {
            (
                finding.name,
                finding.status,
                finding.fix.as_deref().unwrap_or(""),
            )
        })
        .collect()
}

#[test]
fn a_large_machine_holds_what_its_limits_allow() {
    let small = report(BARE_METAL, need(1_000));
    assert_eq!(wrong(&small), []);
    assert_eq!(small.exit_code(), 0);
    assert!(!small.in_container);
    assert_eq!(small.ceiling(), Some((524_160, "nofile (hard)")));
    let storm = report(BARE_METAL, need(100_000));
    assert_eq!(
        wrong(&storm),
        [
            (
                "net.core.somaxconn",
                Status::Warn,
                "sysctl -w net.core.somaxconn=65535"
            ),
            (
                "net.ipv4.tcp_max_syn_backlog",
                Status::Warn,
                "sysctl -w net.ipv4.tcp_max_syn_backlog=65535"
            ),
            (
                "net.core.netdev_max_backlog",
                Status::Warn,
                "sysctl -w net.core.netdev_max_backlog=65535"
            ),
        ]
    );
    assert_eq!(storm.exit_code(), 1);
}

#[test]
fn a_million_needs_what_a_million_needs() {
    let million = report(BARE_METAL, need(1_000_000));
    assert_eq!(million.exit_code(), 2);
    let fix = find(&million, "nofile (hard)").fix.as_deref();
    assert!(
        fix.is_some_and(|fix| fix.starts_with("LimitNOFILE=1000128 ")),
        "{fix:?}"
    );
    assert_eq!(find(&million, "fs.nr_open").status, Status::Ok);
    assert_eq!(find(&million, "memory available").status, Status::Ok);
    assert_eq!(find(&million, "net.ipv4.tcp_mem").status, Status::Ok);
    // Nothing is tracked where the module is not loaded.
    let tracked = find(&million, "net.netfilter.nf_conntrack_max");
    assert_eq!(
        (tracked.status, &*tracked.value),
        (Status::Ok, "not loaded")
    );
    let more = report(BARE_METAL, need(4_000_000));
    assert_eq!(
        find(&more, "fs.nr_open").fix.as_deref(),
        Some("sysctl -w fs.nr_open=4194304")
    );
    let tcp_mem = find(&more, "net.ipv4.tcp_mem");
    assert_eq!(
        (tcp_mem.status, tcp_mem.fix.as_deref()),
        (
            Status::Warn,
            Some("sysctl -w net.ipv4.tcp_mem=\"2000000 3000000 4000000\"")
        )
    );
}

#[test]
fn a_container_is_judged_by_its_own_limits() {
    let container = report(CONTAINER_V2, need(100_000));
    assert!(container.in_container);
    let memory = find(&container, "memory limit");
    assert_eq!(
        (memory.status, &*memory.value),
        (Status::Fail, "512.0 MiB (20.0 MiB in use)")
    );
    // (512 MiB - 128 MiB) / 5,820 B
    assert_eq!(memory.ceiling, Some(69_184));
    assert_eq!(container.ceiling(), Some((69_184, "memory limit")));
    assert_eq!(find(&container, "memory available").status, Status::Ok);
    let cpu = find(&container, "cpu");
    assert_eq!(
        (cpu.status, &*cpu.value),
        (Status::Warn, "8 cores, limited to the time of 1.5")
    );
    assert_eq!(find(&container, "pids").status, Status::Fail);
    // Values that a container can have for itself, and those that only its host can give.
    assert_eq!(
        find(&container, "net.core.somaxconn").fix.as_deref(),
        Some("docker run --sysctl net.core.somaxconn=65535 …")
    );
    let host = find(&container, "net.core.netdev_max_backlog");
    assert_eq!((host.status, &*host.value), (Status::Ok, "not visible"));
    let fix = find(&container, "net.netfilter.nf_conntrack_max")
        .fix
        .as_deref();
    assert_eq!(fix, None, "262,144 entries are enough for 115,867");
    let many = report(CONTAINER_V2, need(1_000_000));
    let tracked = find(&many, "net.netfilter.nf_conntrack_max");
    assert_eq!(
        (
            tracked.needed.as_str(),
            tracked.fix.as_deref(),
            tracked.ceiling
        ),
        (
            "2262440",
            Some("on the host: sysctl -w net.netfilter.nf_conntrack_max=2262440"),
            Some(115_867)
        )
    );
}

#[test]
fn version_one_is_read_through_its_mounts() {
    let snapshot = Snapshot::from_text(CONTAINER_V1).expect("a snapshot");
    assert_eq!(
        cgroup::memory_limit(&snapshot),
        None,
        "that number means unlimited"
    );
    assert_eq!(cgroup::memory_used(&snapshot), Some(20 << 20));
    assert_eq!(cgroup::cpu_limit(&snapshot), Some(0.5));
    assert_eq!(cgroup::pids_limit(&snapshot), None);
    let report = report(CONTAINER_V1, need(50_000));
    assert_eq!(find(&report, "nofile (hard)").value, "unlimited");
    let cpu = find(&report, "cpu");
    assert_eq!(cpu.value, "2 cores, limited to the time of 0.5");
    assert_eq!(cpu.status, Status::Warn);
    // 1970: no token would ever expire.
    assert_eq!(find(&report, "clock").status, Status::Fail);
}

#[test]
fn the_tightest_limit_on_the_way_up_holds() {
    let text = BARE_METAL.replace(
        "system.slice/memory.max <==\nmax",
        "system.slice/memory.max <==\n1073741824",
    );
    let snapshot = Snapshot::from_text(&text).expect("a snapshot");
    assert_eq!(cgroup::memory_limit(&snapshot), Some(1 << 30));
}

/// A value that is missing is a warning: readers of the report must see that nothing is known of it.
#[test]
fn what_a_snapshot_does_not_tell_is_unknown() {
    let whole = report(BARE_METAL, need(1_000));
    let names = |report: &Report| -> Vec<&str> {
        let findings = report.findings.iter();
        findings.map(|finding| finding.name).collect()
    };
    let clock_only = report("==> clock <==\n1795300000\n", need(1_000));
    assert_eq!(names(&clock_only), names(&whole));
    for finding in &clock_only.findings {
        let known = ["clock", "net.netfilter.nf_conntrack_max"].contains(&finding.name);
        let status = if known { Status::Ok } else { Status::Warn };
        assert_eq!(finding.status, status, "{finding:?}");
        assert!(known || finding.value == "unknown", "{finding:?}");
    }
    assert_eq!(clock_only.exit_code(), 1);
    let without = BARE_METAL.replace("Max open files", "Max closed files");
    assert_ne!(without, BARE_METAL);
    assert_eq!(
        wrong(&report(&without, need(1_000))),
        [
            ("nofile (soft)", Status::Warn, "cat /proc/self/limits"),
            ("nofile (hard)", Status::Warn, "cat /proc/self/limits"),
        ]
    );
}

#[test]
fn connections_that_are_encrypted_need_more() {
    let plain = report(CONTAINER_V2, need(60_000));
    assert_eq!(find(&plain, "memory limit").status, Status::Ok);
    let tls = Need {
        tls: true,
        ..need(60_000)
    };
    let tls = report(CONTAINER_V2, tls);
    assert_eq!(find(&tls, "memory limit").status, Status::Fail);
}

#[test]
fn ports_are_said_to_be_no_bound() {
    let report = report(BARE_METAL, need(1_000_000));
    let ports = find(&report, "net.ipv4.ip_local_port_range");
    assert_eq!((ports.status, ports.ceiling), (Status::Ok, None));
    let note = ports.note.as_deref().unwrap_or_default();
    assert!(
        note.contains("no bound for a server") && note.contains("28232"),
        "{note}"
    );
}

#[test]
fn the_table_and_the_json_say_the_same() {
    let report = report(CONTAINER_V2, need(1_000_000));
    let (text, json) = (report.to_text(false), report.to_json());
    assert_eq!(json["status"], "fail");
    assert_eq!(json["ceiling"], 69_184);
    assert!(
        text.contains("As things are: 69,184 connections (memory limit)."),
        "{text}"
    );
    for finding in json["findings"].as_array().expect("findings") {
        for key in [
            "name", "value", "needed", "status", "fix", "ceiling", "note",
        ] {
            assert!(finding.get(key).is_some(), "{key} in {finding}");
        }
        let name = finding["name"].as_str().expect("a name");
        assert!(text.contains(name), "{name} in {text}");
    }
    assert!(!text.contains('\u{1b}') && report.to_text(true).contains('\u{1b}'));
}

#[test]
fn this_machine_can_be_examined() {
    let snapshot = machine::look();
    let findings = examine(&snapshot, &need(10));
    if cfg!(target_os = "linux") {
        assert!(findings.len() > 12, "{findings:?}");
        assert!(snapshot.cores() >= Some(1));
        let names: Vec<_> = findings.iter().map(|finding| finding.name).collect();
        for name in [
            "nofile (hard)",
            "memory available",
            "clock",
            "net.core.somaxconn",
        ] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
    }
    for finding in &findings {
        assert!(!finding.value.is_empty(), "{finding:?}");
        assert!(
            finding.status == Status::Ok || finding.fix.is_some(),
            "{finding:?}"
        );
    }
}
