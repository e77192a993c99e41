//! Owns the advice which transport to take, from the direction of traffic, its rate, the latency
//! that is needed and what stands between. Every verdict has its reasons.

use super::range::{AtLeast0, Positive};
use super::sheet::number;
use clap::{Args, ValueEnum};
use serde::Serialize;

/// Headers of one poll, request and answer, unless told otherwise.
pub const POLL_HEADER_BYTES: u64 = 679;
/// Faster polling than this is a stream made of requests.
const SANE_POLL_S: f64 = 5.0;
/// More POSTs than this from one client deserve a connection.
const POSTS_PER_MINUTE_MAX: f64 = 12.0;
/// A round trip of HTTP over a mobile network with its connection already open.
const POST_LATENCY_MS: f64 = 200.0;

#[derive(Clone, Debug, Args)]
pub struct Needs {
    /// Where messages flow: down (server to client), up, or both.
    #[arg(long, value_enum)]
    direction: Direction,
    /// Messages a minute towards one client.
    #[arg(long, default_value = "1", value_name = "N")]
    down_per_minute: AtLeast0,
    /// Messages a minute from one client.
    #[arg(long, default_value = "1", value_name = "N")]
    up_per_minute: AtLeast0,
    /// How late a message may be.
    #[arg(long, default_value = "1000", value_name = "MS")]
    latency_ms: Positive,
    /// What stands between client and server.
    #[arg(long, value_enum, default_value = "none")]
    proxies: Proxies,
    /// Payloads are binary.
    #[arg(long)]
    binary: bool,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Direction {
    Down,
    Up,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Proxies {
    /// Nothing that changes HTTP.
    None,
    /// Some refuse `Upgrade`: offices, old gateways, antivirus.
    NoUpgrade,
    /// Some hold answers back until they are whole.
    Buffering,
    /// Both kinds, or nobody knows.
    Unknown,
}

/// In the order of simplicity: plain requests by a timer, events with POST for what clients say, and so on.
const TRANSPORTS: [&str; 4] = [POLLING, SSE, WEB_SOCKET, SOCKET_IO];
const POLLING: &str = "polling by a timer";
const SSE: &str = "Server-Sent Events";
const WEB_SOCKET: &str = "WebSocket";
const SOCKET_IO: &str = "Socket.IO (WebSocket, long-polling as fallback)";

/// Best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Take,
    Possible,
    /// It fits, and a part of it is another server's.
    Elsewhere,
    Unfit,
}

use Verdict::{Elsewhere, Possible, Take, Unfit};

#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    transport: &'static str,
    verdict: Verdict,
    reasons: Vec<String>,
}

/// If it holds, the transport is at best what the verdict says, for this reason.
struct Rule(&'static str, bool, Verdict, String);

/// All transports, the one to take first.
pub fn advise(needs: &Needs) -> Vec<Advice> {
    let rules = needs.rules();
    let mut all = TRANSPORTS.map(|transport| {
        let hold = rules.iter().filter(|rule| rule.0 == transport && rule.1);
        Advice {
            transport,
            verdict: hold.clone().map(|rule| rule.2).max().unwrap_or(Take),
            reasons: hold.map(|rule| rule.3.clone()).collect(),
        }
    });
    // Stable: the simplest that fits is taken.
    all.sort_by_key(|advice| advice.verdict);
    for (at, advice) in all.iter_mut().enumerate() {
        match advice.verdict {
            Take | Possible if at == 0 => advice.verdict = Take,
            Take => advice.verdict = Possible,
            _ => {}
        }
    }
    all.into()
}

/// One rule a line: `transport, condition => verdict, "reason";`.
macro_rules! rules {
    ($($transport:ident, $holds:expr => $verdict:ident, $reason:literal;)*) => {
        vec![$(Rule($transport, $holds, $verdict, format!($reason))),*]
    };
}

impl Needs {
    fn rules(&self) -> Vec<Rule> {
        let listens = self.direction != Direction::Up;
        let talks = self.direction != Direction::Down;
        let both = listens && talks;
        let refused = matches!(self.proxies, Proxies::NoUpgrade | Proxies::Unknown);
        let held = matches!(self.proxies, Proxies::Buffering | Proxies::Unknown);
        // On average a message waits half the interval, at worst all of it.
        let interval_s = *self.latency_ms / 1_000.0;
        let news = *self.down_per_minute * interval_s / 60.0;
        let rare = interval_s >= SANE_POLL_S;
        let asks = listens && rare;
        let many_posts = talks && *self.up_per_minute > POSTS_PER_MINUTE_MAX;
        let late_posts = talks && !many_posts && *self.latency_ms < POST_LATENCY_MS;
        let posts = !many_posts && !late_posts;
        let [often, each] = [SANE_POLL_S, interval_s].map(number);
        let [up, ms] = [*self.up_per_minute, *self.latency_ms].map(number);
        let requests = number((86_400.0 / interval_s).round());
        let empty = number(((1.0 - news) * 100.0).round());
        rules! {
            POLLING, listens => Take, "news at most {each} s old means {requests} requests a day from each client, {POLL_HEADER_BYTES} B of headers each";
            POLLING, listens && !rare => Unfit, "asking more often than every {often} s costs more than holding a connection";
            POLLING, asks && news >= 1.0 => Take, "nearly every answer has news, so little is asked in vain";
            POLLING, asks && news < 1.0 => Possible, "{empty} % of the answers are empty";
            POLLING, many_posts => Unfit, "{up} messages a minute from each client would each be a request with {POLL_HEADER_BYTES} B of headers";
            POLLING, late_posts => Unfit, "{ms} ms leaves no time for a request by message";
            POLLING, true => Take, "every proxy, cache and server knows it; no connection is held";

            SSE, !listens => Unfit, "it only carries messages towards clients; a plain POST is enough";
            SSE, posts && both => Elsewhere, "Sockeye's streams only listen: clients send to another server, by POST";
            SSE, many_posts => Unfit, "{up} messages a minute from each client would each be a request with {POLL_HEADER_BYTES} B of headers";
            SSE, late_posts => Unfit, "{ms} ms leaves no time for a request by message";
            SSE, self.binary => Take, "it is text: binary grows by a third as base64";
            SSE, held => Unfit, "a proxy that waits for whole answers delivers nothing of a stream";
            SSE, true => Possible, "plain HTTP: no Upgrade that a proxy could refuse";
            SSE, true => Take, "browsers reconnect by themselves and resume with Last-Event-ID";
            SSE, true => Take, "a browser opens six HTTP/1.1 connections to a host, and Sockeye speaks no HTTP/2: a proxy in front that does lifts this";

            WEB_SOCKET, both => Take, "both directions on one connection, 2 to 14 B around a message";
            WEB_SOCKET, !both => Possible, "one direction needs no WebSocket";
            WEB_SOCKET, self.binary => Take, "binary as it is";
            WEB_SOCKET, refused => Unfit, "a proxy that refuses Upgrade leaves its users out: TLS helps often";
            WEB_SOCKET, held => Take, "after the Upgrade there is no answer left that a proxy could hold";
            WEB_SOCKET, true => Take, "reconnecting and resuming is the client's work";

            SOCKET_IO, refused && (both || held) => Take, "where Upgrade is refused it stays on long-polling";
            SOCKET_IO, refused && !both && !held => Possible, "where Upgrade is refused it stays on long-polling";
            SOCKET_IO, !refused => Possible, "nothing here refuses Upgrade: the fallback would not be used";
            SOCKET_IO, held => Take, "a long poll is a whole answer, which a proxy hands on at once";
            SOCKET_IO, true => Take, "acknowledgements, rooms and reconnecting come with the client";
        }
    }
}

/// For people: the choice, then each transport with its reasons.
pub fn text(all: &[Advice]) -> String {
    let taken = all.first().filter(|first| first.verdict == Take);
    let mut out = match taken {
        Some(first) => format!("take {}\n", first.transport),
        None => "nothing fits: relax the latency or look at the proxies\n".to_owned(),
    };
    for advice in all {
        let transport = advice.transport;
        let mark = match advice.verdict {
            Take => "take",
            Possible => "possible",
            Elsewhere => "fits, but Sockeye serves a part of it",
            Unfit => "unfit",
        };
        out.push_str(&format!("\n{transport} ({mark})\n"));
        for reason in &advice.reasons {
            out.push_str(&format!("  · {reason}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parsed, rows};
    use super::*;

    fn advice(needs: &str) -> Vec<Advice> {
        match parsed(&format!("advise {needs}")).unwrap().other {
            Some(super::super::Other::Advise(needs)) => advise(&needs),
            other => panic!("{other:?}"),
        }
    }

    /// Lines of `what is needed | what is to be taken`.
    const CHOICES: &str = "
        --direction down --down-per-minute 30 | Server
        --direction down --down-per-minute 30 --proxies no-upgrade | Server
        --direction down --down-per-minute 30 --proxies buffering | WebSocket
        --direction both --proxies no-upgrade | Socket.IO
        --direction both --latency-ms 150 | WebSocket
        --direction both --latency-ms 150 --proxies unknown | Socket.IO
        --direction down --down-per-minute 1 --latency-ms 60000 | polling
        --direction down --down-per-minute 0.5 --latency-ms 60000 | polling
        --direction up | polling
        --direction up --up-per-minute 600 | WebSocket
        --direction up --up-per-minute 600 --binary | WebSocket";

    #[test]
    fn each_need_has_its_transport() {
        for (needs, wanted) in rows(CHOICES) {
            let all = advice(needs);
            assert!(all[0].transport.starts_with(wanted), "{needs}: {all:?}");
            let taken = all.iter().filter(|advice| advice.verdict == Take).count();
            assert_eq!((all.len(), taken, all[0].verdict), (4, 1, Take), "{all:?}");
            assert!(all.iter().all(|advice| !advice.reasons.is_empty()));
        }
    }

    #[test]
    fn reasons_say_why() {
        const REASONS: &str = "
            --direction down | 86,400 requests a day from each client, 679 B
            --direction both | Server-Sent Events (fits, but Sockeye serves a part of it)
            --direction both | · Sockeye's streams only listen";
        for (needs, reason) in rows(REASONS) {
            let text = text(&advice(needs));
            assert!(text.contains(reason), "{needs}: {text}");
        }
    }
}
