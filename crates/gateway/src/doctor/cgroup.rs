//! Limits of the control groups that this process is in, version 1 and 2, from inside a container too: where the group's
//! files lie follows from /proc/self/cgroup and /proc/self/mountinfo (cgroups(7)), and the tightest limit on the way up to
//! the mount point holds.

use super::snapshot::{CONTAINER, GROUPS, MOUNTS, Snapshot};

/// A controller, and its files in version 2 and in version 1.
struct Controller {
    name: &'static str,
    v2: &'static [&'static str],
    v1: &'static [&'static str],
}

const CONTROLLERS: [Controller; 3] = [
    Controller {
        name: "memory",
        v2: &["memory.max", "memory.current", "memory.high"],
        v1: &["memory.limit_in_bytes", "memory.usage_in_bytes"],
    },
    Controller {
        name: "cpu",
        v2: &["cpu.max"],
        v1: &["cpu.cfs_quota_us", "cpu.cfs_period_us"],
    },
    Controller {
        name: "pids",
        v2: &["pids.max", "pids.current"],
        v1: &["pids.max", "pids.current"],
    },
];

/// Version 1 has no word for "unlimited" but the largest number of pages there is.
const UNLIMITED_V1: u64 = 1 << 60;

/// A line of /proc/self/mountinfo.
#[derive(Clone, Copy, Debug)]
struct Mount<'a> {
    /// The part of the hierarchy that is mounted.
    root: &'a str,
    point: &'a str,
    v2: bool,
    options: &'a str,
}

fn mounts(snapshot: &Snapshot) -> impl Iterator<Item = Mount<'_>> {
    let lines = snapshot.text(MOUNTS).unwrap_or_default();
    lines.lines().filter_map(|line| {
        // proc(5): id parent major:minor root point options [fields] - type source super-options
        let (mount, system) = line.split_once(" - ")?;
        let mount: Vec<&str> = mount.split(' ').collect();
        let system: Vec<&str> = system.split(' ').collect();
        let (kind, options) = (*system.first()?, *system.get(2)?);
        matches!(kind, "cgroup" | "cgroup2").then_some(Mount {
            root: mount.get(3)?,
            point: mount.get(4)?,
            v2: kind == "cgroup2",
            options,
        })
    })
}

/// This process' group in the hierarchy of a controller of version 1, or in that of version 2 (`None`).
fn group<'a>(snapshot: &'a Snapshot, controller: Option<&str>) -> Option<&'a str> {
    let lines = snapshot.text(GROUPS)?.lines();
    lines
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            Some((parts.next()?, parts.next()?, parts.next()?))
        })
        .find_map(|(number, controllers, path)| match controller {
            None => (number == "0" && controllers.is_empty()).then_some(path),
            Some(name) => controllers.split(',').any(|c| c == name).then_some(path),
        })
}

/// Folders from the group up to the mount point, and whether they are of version 2.
fn folders(snapshot: &Snapshot, controller: &str) -> Option<(Vec<String>, bool)> {
    let v1 = mounts(snapshot)
        .find(|mount| !mount.v2 && mount.options.split(',').any(|option| option == controller));
    let mount = v1.or_else(|| mounts(snapshot).find(|mount| mount.v2))?;
    let path = group(snapshot, (!mount.v2).then_some(controller))?;
    // Without a namespace of its own a container sees the host's path and only its own part mounted.
    let below = path.strip_prefix(mount.root.trim_end_matches('/'));
    let below = below.unwrap_or_default().trim_matches('/');
    let mut folder = mount.point.trim_end_matches('/').to_owned();
    let mut found = vec![folder.clone()];
    for name in below
        .split('/')
        .filter(|name| !name.is_empty() && *name != "..")
    {
        folder = format!("{folder}/{name}");
        found.push(folder.clone());
    }
    found.reverse();
    Some((found, mount.v2))
}

/// A process in a control-group namespace of its own is at the root of what it sees, and yet that root has limits.
fn has_own_namespace(snapshot: &Snapshot) -> bool {
    let mount = mounts(snapshot).find(|mount| mount.v2);
    // The root group of a machine has no memory.current.
    mount.is_some_and(|mount| {
        group(snapshot, None) == Some("/")
            && snapshot
                .text(&format!("{}/memory.current", mount.point))
                .is_some()
    })
}

/// Several things that containers have, each of which may be missing in one.
pub fn in_container(snapshot: &Snapshot) -> bool {
    snapshot.text(CONTAINER).is_some() || has_own_namespace(snapshot)
}

/// The file without which nothing is known of this process' limits.
pub fn missing(snapshot: &Snapshot) -> Option<&'static str> {
    [GROUPS, MOUNTS]
        .into_iter()
        .find(|path| snapshot.text(path).is_none())
}

/// The files that a snapshot must hold.
pub fn files(snapshot: &Snapshot) -> Vec<String> {
    let mut files = Vec::new();
    for controller in &CONTROLLERS {
        let Some((folders, v2)) = folders(snapshot, controller.name) else {
            continue;
        };
        let names = if v2 { controller.v2 } else { controller.v1 };
        for folder in folders {
            files.extend(names.iter().map(|name| format!("{folder}/{name}")));
        }
    }
    files
}

/// The smallest of a limit's values, from the group upwards.
fn tightest(
    snapshot: &Snapshot,
    controller: &str,
    limit: impl Fn(&str, bool) -> Option<f64>,
) -> Option<f64> {
    let (folders, v2) = folders(snapshot, controller)?;
    let limits = folders.iter().filter_map(|folder| limit(folder, v2));
    limits.min_by(f64::total_cmp)
}

/// Bytes that the group may use, kernel memory of its sockets included.
pub fn memory_limit(snapshot: &Snapshot) -> Option<u64> {
    let limit = tightest(snapshot, "memory", |folder, v2| {
        let name = if v2 {
            "memory.max"
        } else {
            "memory.limit_in_bytes"
        };
        let bytes = snapshot.number(&format!("{folder}/{name}"))?;
        (bytes < UNLIMITED_V1).then_some(bytes as f64)
    });
    limit.map(|bytes| bytes as u64)
}

/// Bytes that the group uses.
pub fn memory_used(snapshot: &Snapshot) -> Option<u64> {
    let (folders, v2) = folders(snapshot, "memory")?;
    let name = if v2 {
        "memory.current"
    } else {
        "memory.usage_in_bytes"
    };
    snapshot.number(&format!("{}/{name}", folders.first()?))
}

/// Cores' worth of time that the group may use.
pub fn cpu_limit(snapshot: &Snapshot) -> Option<f64> {
    tightest(snapshot, "cpu", |folder, v2| {
        if v2 {
            let max = snapshot.text(&format!("{folder}/cpu.max"))?;
            let (quota, period) = max.split_once(' ')?;
            Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
        } else {
            // -1 is no number of ours, and means unlimited.
            let quota = snapshot.number(&format!("{folder}/cpu.cfs_quota_us"))?;
            let period = snapshot.number(&format!("{folder}/cpu.cfs_period_us"))?;
            Some(quota as f64 / period.max(1) as f64)
        }
    })
}

/// Threads that the group may have.
pub fn pids_limit(snapshot: &Snapshot) -> Option<u64> {
    let limit = tightest(snapshot, "pids", |folder, _| {
        Some(snapshot.number(&format!("{folder}/pids.max"))? as f64)
    });
    limit.map(|pids| pids as u64)
}
