//! Rows about servers of other kinds in the cluster.

use super::row::{Metric, counter};
use super::{Samples, View};
use compat::plane::Tally;
use compat::refused::Refused;

/// The dialects in the order of their numbers.
const DIALECTS: [&str; 4] = ["classic", "sharded", "streams", "python"];

fn by_dialect(view: &View<'_>, counts: impl Fn(&Tally) -> [u64; 4]) -> Samples {
    let counts = counts(&view.node.foreign.tally());
    let counts = DIALECTS.into_iter().zip(counts);
    Samples::Labelled(
        counts
            .map(|(name, count)| (name.to_owned(), count as f64))
            .collect(),
    )
}

fn one(count: u64) -> Samples {
    Samples::One(Some(count as f64))
}

pub(super) const FOREIGN: &[Metric] = &[
    counter(
        "sockeye_foreign_read_total",
        "Messages of Node and Python servers, and of emitters, that were read.",
        |v| by_dialect(v, |tally| tally.taken),
    )
    .by("dialect"),
    counter(
        "sockeye_foreign_written_total",
        "Messages written for these servers. Nothing is written to a namespace without one (`compat`).",
        |v| by_dialect(v, |tally| tally.written),
    )
    .by("dialect"),
    counter(
        "sockeye_foreign_refused_total",
        "Messages in their channels that were not read. `own`: of a Sockeye node, which is as it should be.",
        |v| {
            let tally = v.node.foreign.tally();
            let reasons = Refused::ALL.into_iter().zip(tally.refused);
            Samples::Labelled(
                reasons
                    .map(|(why, count)| (why.label().to_owned(), count as f64))
                    .collect(),
            )
        },
    )
    .by("reason"),
    counter(
        "sockeye_foreign_dropped_total",
        "Messages from or for these servers that were dropped because too many waited.",
        |v| one(v.node.foreign.dropped()),
    ),
    counter(
        "sockeye_foreign_letters_read_total",
        "Broadcasts and the like of this node that were read, to say them to these servers. None is while no such server is there, and none was heard.",
        |v| one(v.node.foreign.read()),
    ),
    counter(
        "sockeye_foreign_unpublished_total",
        "Messages for these servers that Redis did not take. They are not sent again: these servers could get them twice.",
        |v| one(v.node.foreign.unpublished()),
    ),
    counter(
        "sockeye_foreign_withheld_total",
        "Events and questions for servers that would have ended one of them: an event `error`, and questions to servers with the streams \
         adapter beside servers with the classic one.",
        |v| one(v.node.foreign.tally().withheld),
    ),
    counter(
        "sockeye_foreign_cut_lists_total",
        "Lists of sockets or rooms that were larger than `compat.list_bytes_max`. The server that asked gets none, and reports a timeout.",
        |v| one(v.node.foreign.tally().cut),
    ),
    counter(
        "sockeye_foreign_unasked_total",
        "Questions that were not put because 65,536 were open: `theirs`, whose server reports a timeout, and `ours`, whose result is not complete.",
        |v| {
            let whose = ["theirs", "ours"].map(str::to_owned).into_iter();
            let counts = v.node.foreign.tally().unasked;
            Samples::Labelled(whose.zip(counts.map(|count| count as f64)).collect())
        },
    )
    .by("of"),
    counter(
        "sockeye_foreign_stream_cuts_total",
        "Times that entries of the stream of servers with the streams adapter were cut off before this node had read them.",
        |v| one(v.node.foreign.missed()),
    ),
];
