//! Rows about WebTransport.

use super::row::{Metric, counter, gauge};
use super::{Samples, View};
use crate::webtransport::{Figures, TURNED_AWAY};

/// Zeros where there is none.
fn figures(view: &View<'_>) -> Figures {
    let carrier = view.node.carrier.get();
    carrier.map(|carrier| carrier.figures()).unwrap_or_default()
}

fn one(view: &View<'_>, read: fn(Figures) -> u64) -> Samples {
    Samples::One(Some(read(figures(view)) as f64))
}

fn turned_away(view: &View<'_>) -> Samples {
    let rows = TURNED_AWAY.into_iter().zip(figures(view).turned_away);
    let rows = rows.map(|(name, count)| (name.to_owned(), count as f64));
    Samples::Labelled(rows.collect())
}

pub(super) const CARRIER: &[Metric] = &[
    gauge(
        "sockeye_webtransport_connections",
        "Streams of WebTransport that carry a session now, or are to.",
        |v| v.sum(|c| &c.webtransports),
    ),
    gauge(
        "sockeye_webtransport_opening",
        "QUIC connections now that have opened no session yet.",
        |v| one(v, |f| f.opening),
    ),
    counter(
        "sockeye_webtransport_opened_total",
        "Streams brought to a shard.",
        |v| one(v, |f| f.opened),
    ),
    counter(
        "sockeye_webtransport_turned_away_total",
        "Clients without a session: too many were opening one (`busy`), theirs took longer than `limits.handshake_timeout` (`slow`), was none, or elsewhere \
         (`wrong`), the process was full (`full`), or a shard refused the request (`refused`).",
        turned_away,
    )
    .by("reason"),
    counter(
        "sockeye_webtransport_second_streams_total",
        "Streams beside the one of their session, which were refused.",
        |v| one(v, |f| f.second_streams),
    ),
    counter(
        "sockeye_webtransport_stalled_total",
        "Sessions whose clients took nothing for as long as a heartbeat may last.",
        |v| one(v, |f| f.stalled),
    ),
    counter(
        "sockeye_webtransport_received_bytes_total",
        "Bytes of packets from clients by WebTransport.",
        |v| one(v, |f| f.received_bytes),
    ),
    counter(
        "sockeye_webtransport_sent_bytes_total",
        "Bytes of packets to them.",
        |v| one(v, |f| f.sent_bytes),
    ),
];
