//! Rows about upgrades.

use super::row::{Group, Metric, counter, gauge};
use super::{Samples, View};
use process::upgrades::Tally;

fn tally(view: &View<'_>) -> Tally {
    view.node.readiness.upgrades().tally()
}

fn one(view: &View<'_>, read: fn(Tally) -> u64) -> Samples {
    Samples::One(Some(read(tally(view)) as f64))
}

pub(super) const GROUP: Group = Group {
    title: "Upgrades",
    intro: "Processes that take over from one another ([operations.md](operations.md#upgrades-without-a-cut)). A successor goes on counting.",
    metrics: UPGRADE,
};

const UPGRADE: &[Metric] = &[
    gauge(
        "sockeye_upgrade_under_way",
        "1 while another process is started or takes over.",
        |v| {
            let under_way = v.node.readiness.upgrades().are_under_way();
            Samples::One(Some(f64::from(u8::from(under_way))))
        },
    ),
    counter(
        "sockeye_upgrades_total",
        "Upgrades: `done`, `refused` before anything was done, or `failed`: given up, and the process went on.",
        |v| {
            let tally = tally(v);
            let counts = [
                ("done", tally.done),
                ("failed", tally.failed),
                ("refused", tally.refused),
            ];
            let counts = counts.map(|(name, count)| (name.to_owned(), count as f64));
            Samples::Labelled(counts.into())
        },
    )
    .by("outcome"),
    counter(
        "sockeye_upgrade_sessions_total",
        "Sessions that went over.",
        |v| one(v, |tally| tally.sessions),
    ),
    counter(
        "sockeye_upgrade_connections_total",
        "Connections that went over, with sessions or before they had one.",
        |v| one(v, |tally| tally.connections),
    ),
    gauge(
        "sockeye_upgrade_pause_seconds",
        "How long nobody was read in the last upgrade that was done; 0 before the first.",
        |v| Samples::One(Some(tally(v).pause.unwrap_or_default().as_secs_f64())),
    ),
];
