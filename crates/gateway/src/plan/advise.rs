//! Owns the advice which transport to take, from the direction of traffic, its rate, the latency
//! that is needed and what stands between. Every verdict has its reasons.

use super::sheet::number;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use units::grouped;

/// Headers of one poll, request and answer, unless told otherwise.
pub const POLL_HEADER_BYTES: u64 = 679;
const SECONDS_PER_DAY: f64 = 86_400.0;
/// Faster polling than this is a stream made of requests.
const SANE_POLL_S: f64 = 5.0;
/// More POSTs than this from one client deserve a connection.
const POSTS_PER_MINUTE_MAX: f64 = 12.0;
/// A round trip of HTTP over a mobile network with its connection already open.
const POST_LATENCY_MS: f64 = 200.0;

#[derive(Clone, Debug, Args, Serialize)]
pub struct Needs {
    /// Where messages flow: down (server to client), up, or both.
    #[arg(long, value_enum)]
    pub direction: Direction,
    /// Messages a minute towards one client.
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    pub down_per_minute: f64,
    /// Messages a minute from one client.
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    pub up_per_minute: f64,
    /// How late a message may be.
    #[arg(long, default_value_t = 1_000.0, value_name = "MS")]
    pub latency_ms: f64,
    /// What stands between client and server.
    #[arg(long, value_enum, default_value = "none")]
    pub proxies: Proxies,
    /// Payloads are binary.
    #[arg(long)]
    pub binary: bool,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Down,
    Up,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Proxies {
    /// Nothing that changes HTTP.
    None,
    /// Some refuse `Upgrade`: offices, old gateways, antivirus.
    NoUpgrade,
    /// Some hold answers back until they are whole.
    Buffering,
    /// Both kinds, or nobody knows.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Plain requests by a timer.
    Polling,
    /// Server-Sent Events, with POST for what clients say.
    Sse,
    WebSocket,
    /// Socket.IO: WebSocket, with long-polling where it does not get through.
    WebSocketWithFallback,
}

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

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    pub transport: Transport,
    pub verdict: Verdict,
    pub reasons: Vec<String>,
}

/// All transports, the one to take first.
pub fn advise(needs: &Needs) -> Result<Vec<Advice>> {
    check(needs)?;
    let mut all = vec![
        polling(needs),
        sse(needs),
        web_socket(needs),
        with_fallback(needs),
    ];
    // Stable, and the list is in the order of simplicity: the simplest that fits is taken.
    all.sort_by_key(|advice| advice.verdict);
    if let Some(first) = all.first_mut().filter(|a| a.verdict <= Verdict::Possible) {
        first.verdict = Verdict::Take;
    }
    for other in all.iter_mut().skip(1) {
        other.verdict = other.verdict.max(Verdict::Possible);
    }
    Ok(all)
}

fn check(needs: &Needs) -> Result<()> {
    let figures = [
        ("--down-per-minute", needs.down_per_minute),
        ("--up-per-minute", needs.up_per_minute),
    ];
    for (flag, value) in figures {
        if !(value >= 0.0 && value.is_finite()) {
            bail!("cannot advise with {flag} {value}: it must be at least 0");
        }
    }
    if !(needs.latency_ms > 0.0 && needs.latency_ms.is_finite()) {
        let latency = needs.latency_ms;
        bail!("cannot advise with --latency-ms {latency}: it must be above 0");
    }
    Ok(())
}

impl Needs {
    fn listens(&self) -> bool {
        self.direction != Direction::Up
    }

    fn talks(&self) -> bool {
        self.direction != Direction::Down
    }

    fn both(&self) -> bool {
        self.listens() && self.talks()
    }

    fn may_refuse_upgrade(&self) -> bool {
        matches!(self.proxies, Proxies::NoUpgrade | Proxies::Unknown)
    }

    fn may_buffer(&self) -> bool {
        matches!(self.proxies, Proxies::Buffering | Proxies::Unknown)
    }

    /// Client messages that plain POSTs serve badly, and why.
    fn too_much_for_posts(&self) -> Option<String> {
        if !self.talks() {
            return None;
        }
        if self.up_per_minute > POSTS_PER_MINUTE_MAX {
            return Some(format!(
                "{} messages a minute from each client would each be a request with {} B of headers",
                number(self.up_per_minute),
                POLL_HEADER_BYTES
            ));
        }
        (self.latency_ms < POST_LATENCY_MS).then(|| {
            format!(
                "{} ms leaves no time for a request by message",
                number(self.latency_ms)
            )
        })
    }
}

/// A transport begins with a verdict; each reason that holds may make it worse: `if this holds => verdict, "reason";`.
macro_rules! judge {
    ($transport:expr, $begin:expr; $($holds:expr => $verdict:ident, $reason:expr;)*) => {{
        let mut advice = Advice { transport: $transport, verdict: $begin, reasons: Vec::new() };
        $(if $holds {
            advice.verdict = advice.verdict.max(Verdict::$verdict);
            advice.reasons.push($reason.into());
        })*
        advice
    }};
}

fn polling(needs: &Needs) -> Advice {
    // On average a message waits half the interval, at worst all of it.
    let interval_s = needs.latency_ms / 1_000.0;
    let requests = grouped((SECONDS_PER_DAY / interval_s).round() as u64);
    let (each, often) = (number(interval_s), number(SANE_POLL_S));
    let news = needs.down_per_minute * interval_s / 60.0;
    let empty = number(((1.0 - news) * 100.0).round());
    let asks = needs.listens() && interval_s >= SANE_POLL_S;
    let posts = needs.too_much_for_posts();
    judge! {
        Transport::Polling, Verdict::Take;
        needs.listens() => Take, format!(
            "news at most {each} s old means {requests} requests a day from each client, {POLL_HEADER_BYTES} B of headers each"
        );
        needs.listens() && !asks => Unfit, format!("asking more often than every {often} s costs more than holding a connection");
        asks && news >= 1.0 => Take, "nearly every answer has news, so little is asked in vain";
        asks && news < 1.0 => Possible, format!("{empty} % of the answers are empty");
        posts.is_some() => Unfit, posts.unwrap_or_default();
        true => Take, "every proxy, cache and server knows it; no connection is held";
    }
}

fn sse(needs: &Needs) -> Advice {
    let posts = needs.too_much_for_posts();
    judge! {
        Transport::Sse, Verdict::Possible;
        !needs.listens() => Unfit, "it only carries messages towards clients; a plain POST is enough";
        posts.is_none() && needs.both() => Elsewhere, "Sockeye's streams only listen: clients send to another server, by POST";
        posts.is_some() => Unfit, posts.unwrap_or_default();
        needs.binary => Take, "it is text: binary grows by a third as base64";
        needs.may_buffer() => Unfit, "a proxy that waits for whole answers delivers nothing of a stream";
        true => Take, "plain HTTP: no Upgrade that a proxy could refuse";
        true => Take, "browsers reconnect by themselves and resume with Last-Event-ID";
        true => Take, "over HTTP/1.1 a browser opens six connections to a host: use HTTP/2";
    }
}

fn web_socket(needs: &Needs) -> Advice {
    judge! {
        Transport::WebSocket, Verdict::Take;
        needs.both() => Take, "both directions on one connection, 2 to 14 B around a message";
        !needs.both() => Possible, "one direction needs no WebSocket";
        needs.binary => Take, "binary as it is";
        needs.may_refuse_upgrade() => Unfit, "a proxy that refuses Upgrade leaves its users out: TLS helps often";
        needs.may_buffer() => Take, "after the Upgrade there is no answer left that a proxy could hold";
        true => Take, "reconnecting and resuming is the client's work";
    }
}

fn with_fallback(needs: &Needs) -> Advice {
    let refused = needs.may_refuse_upgrade();
    let begin = match refused && (needs.both() || needs.may_buffer()) {
        true => Verdict::Take,
        false => Verdict::Possible,
    };
    judge! {
        Transport::WebSocketWithFallback, begin;
        refused => Take, "where Upgrade is refused it stays on long-polling";
        !refused => Take, "nothing here refuses Upgrade: the fallback would not be used";
        needs.may_buffer() => Take, "a long poll is a whole answer, which a proxy hands on at once";
        true => Take, "acknowledgements, rooms and reconnecting come with the client";
    }
}

impl Transport {
    pub fn name(self) -> &'static str {
        match self {
            Transport::Polling => "polling by a timer",
            Transport::Sse => "Server-Sent Events",
            Transport::WebSocket => "WebSocket",
            Transport::WebSocketWithFallback => "Socket.IO (WebSocket, long-polling as fallback)",
        }
    }
}

/// For people: the choice, then each transport with its reasons.
pub fn text(all: &[Advice]) -> String {
    let mut out = String::new();
    match all.first() {
        Some(first) if first.verdict == Verdict::Take => {
            out.push_str(&format!("take {}\n", first.transport.name()));
        }
        _ => out.push_str("nothing fits: relax the latency or look at the proxies\n"),
    }
    for one in all {
        let mark = match one.verdict {
            Verdict::Take => "take",
            Verdict::Possible => "possible",
            Verdict::Elsewhere => "fits, but Sockeye serves a part of it",
            Verdict::Unfit => "unfit",
        };
        out.push_str(&format!("\n{} ({mark})\n", one.transport.name()));
        for reason in &one.reasons {
            out.push_str(&format!("  · {reason}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(direction: Direction) -> Needs {
        Needs {
            direction,
            down_per_minute: 30.0,
            up_per_minute: 1.0,
            latency_ms: 1_000.0,
            proxies: Proxies::None,
            binary: false,
            json: false,
        }
    }

    fn choice(needs: &Needs) -> Transport {
        let all = advise(needs).unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(all[0].verdict, Verdict::Take, "{all:?}");
        let taken = all.iter().filter(|a| a.verdict == Verdict::Take).count();
        assert_eq!(taken, 1, "{all:?}");
        assert!(all.iter().all(|advice| !advice.reasons.is_empty()));
        all[0].transport
    }

    /// Direction, what is otherwise than in `needs`, and what is to be taken.
    #[test]
    fn each_need_has_its_transport() {
        use Direction::{Both, Down, Up};
        use Transport::{Polling, Sse, WebSocket, WebSocketWithFallback};
        type Change = fn(&mut Needs);
        let cases: [(Direction, Change, Transport); 11] = [
            (Down, |_| (), Sse),
            (Down, |needs| needs.proxies = Proxies::NoUpgrade, Sse),
            (Down, |needs| needs.proxies = Proxies::Buffering, WebSocket),
            (
                Both,
                |needs| needs.proxies = Proxies::NoUpgrade,
                WebSocketWithFallback,
            ),
            (Both, |needs| needs.latency_ms = 150.0, WebSocket),
            (
                Both,
                |needs| (needs.latency_ms, needs.proxies) = (150.0, Proxies::Unknown),
                WebSocketWithFallback,
            ),
            (
                Down,
                |needs| (needs.down_per_minute, needs.latency_ms) = (1.0, 60_000.0),
                Polling,
            ),
            // Half of the answers would be empty, and still nothing is simpler.
            (
                Down,
                |needs| (needs.down_per_minute, needs.latency_ms) = (0.5, 60_000.0),
                Polling,
            ),
            (Up, |_| (), Polling),
            (Up, |needs| needs.up_per_minute = 600.0, WebSocket),
            (
                Up,
                |needs| (needs.up_per_minute, needs.binary) = (600.0, true),
                WebSocket,
            ),
        ];
        for (direction, change, wanted) in cases {
            let mut needs = needs(direction);
            change(&mut needs);
            assert_eq!(choice(&needs), wanted, "{needs:?}");
        }
    }

    #[test]
    fn a_stream_that_only_listens_is_no_chat() {
        let all = advise(&needs(Direction::Both)).unwrap();
        let sse = all.iter().find(|a| a.transport == Transport::Sse).unwrap();
        assert_eq!(sse.verdict, Verdict::Elsewhere);
        assert!(sse.reasons[0].contains("only listen"), "{sse:?}");
    }

    #[test]
    fn reasons_carry_the_figures() {
        let all = advise(&needs(Direction::Down)).unwrap();
        let polling = all.iter().find(|a| a.transport == Transport::Polling);
        let reason = &polling.unwrap().reasons[0];
        assert!(reason.contains("86,400 requests a day"), "{reason}");
        assert!(reason.contains("679 B"), "{reason}");
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_flag() {
        let never = Needs {
            latency_ms: 0.0,
            ..needs(Direction::Down)
        };
        let error = advise(&never).unwrap_err().to_string();
        assert!(error.contains("--latency-ms 0"), "{error}");
    }
}
