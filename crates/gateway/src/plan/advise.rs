//! Owns the advice which transport to take, from the direction of traffic, its rate, the latency
//! that is needed and what stands between. Every verdict has its reasons.

use super::polling::whole;
use super::sheet::number;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

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

fn polling(needs: &Needs) -> Advice {
    // On average a message waits half the interval, at worst all of it.
    let interval_s = needs.latency_ms / 1_000.0;
    let requests = SECONDS_PER_DAY / interval_s;
    let mut reasons = Vec::new();
    let mut verdict = Verdict::Take;
    if needs.listens() {
        reasons.push(format!(
            "news at most {} s old means {} requests a day from each client, {} B of headers each",
            number(interval_s),
            whole(requests.round() as u64),
            POLL_HEADER_BYTES
        ));
        if interval_s < SANE_POLL_S {
            verdict = Verdict::Unfit;
            reasons.push(format!(
                "asking more often than every {} s costs more than holding a connection",
                number(SANE_POLL_S)
            ));
        } else if needs.down_per_minute * interval_s / 60.0 >= 1.0 {
            reasons.push("nearly every answer has news, so little is asked in vain".to_owned());
        } else {
            verdict = Verdict::Possible;
            let empty = 1.0 - needs.down_per_minute * interval_s / 60.0;
            reasons.push(format!(
                "{} % of the answers are empty",
                number((empty * 100.0).round())
            ));
        }
    }
    if let Some(reason) = needs.too_much_for_posts() {
        verdict = Verdict::Unfit;
        reasons.push(reason);
    }
    reasons.push("every proxy, cache and server knows it; no connection is held".to_owned());
    advice(Transport::Polling, verdict, reasons)
}

fn sse(needs: &Needs) -> Advice {
    let mut reasons = Vec::new();
    let mut verdict = Verdict::Possible;
    if !needs.listens() {
        verdict = Verdict::Unfit;
        reasons.push("it only carries messages towards clients; a plain POST is enough".to_owned());
    }
    if let Some(reason) = needs.too_much_for_posts() {
        verdict = Verdict::Unfit;
        reasons.push(reason);
    } else if needs.talks() && needs.listens() {
        verdict = Verdict::Elsewhere;
        let why = "Sockeye's streams only listen: what clients say takes another server, by POST";
        reasons.push(why.to_owned());
    }
    if needs.binary {
        reasons.push("it is text: binary grows by a third as base64".to_owned());
    }
    if needs.may_buffer() {
        verdict = Verdict::Unfit;
        reasons
            .push("a proxy that waits for whole answers delivers nothing of a stream".to_owned());
    }
    reasons.push("plain HTTP: no Upgrade that a proxy could refuse".to_owned());
    reasons.push("browsers reconnect by themselves and resume with Last-Event-ID".to_owned());
    reasons.push("over HTTP/1.1 a browser opens six connections to a host: use HTTP/2".to_owned());
    advice(Transport::Sse, verdict, reasons)
}

fn web_socket(needs: &Needs) -> Advice {
    let mut reasons = Vec::new();
    let mut verdict = if needs.talks() && needs.listens() {
        reasons.push("both directions on one connection, 2 to 14 B around a message".to_owned());
        Verdict::Take
    } else {
        reasons.push("one direction needs no WebSocket".to_owned());
        Verdict::Possible
    };
    if needs.binary {
        reasons.push("binary as it is".to_owned());
    }
    if needs.may_refuse_upgrade() {
        verdict = Verdict::Unfit;
        reasons
            .push("a proxy that refuses Upgrade leaves its users out: TLS helps often".to_owned());
    }
    if needs.may_buffer() {
        reasons
            .push("after the Upgrade there is no answer left that a proxy could hold".to_owned());
    }
    reasons.push("reconnecting and resuming is the client's work".to_owned());
    advice(Transport::WebSocket, verdict, reasons)
}

fn with_fallback(needs: &Needs) -> Advice {
    let mut reasons = Vec::new();
    let mut verdict = Verdict::Possible;
    if needs.may_refuse_upgrade() {
        let both = needs.talks() && needs.listens();
        if both || needs.may_buffer() {
            verdict = Verdict::Take;
        }
        reasons.push("where Upgrade is refused it stays on long-polling".to_owned());
    } else {
        reasons.push("nothing here refuses Upgrade: the fallback would not be used".to_owned());
    }
    if needs.may_buffer() {
        reasons.push("a long poll is a whole answer, which a proxy hands on at once".to_owned());
    }
    reasons.push("acknowledgements, rooms and reconnecting come with the client".to_owned());
    advice(Transport::WebSocketWithFallback, verdict, reasons)
}

fn advice(transport: Transport, verdict: Verdict, reasons: Vec<String>) -> Advice {
    Advice {
        transport,
        verdict,
        reasons,
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

    #[test]
    fn a_ticker_takes_event_streams_and_a_chat_does_not() {
        assert_eq!(choice(&needs(Direction::Down)), Transport::Sse);
        let guarded = Needs {
            proxies: Proxies::NoUpgrade,
            ..needs(Direction::Down)
        };
        assert_eq!(choice(&guarded), Transport::Sse);
        let talking = Needs {
            proxies: Proxies::NoUpgrade,
            ..needs(Direction::Both)
        };
        assert_eq!(choice(&talking), Transport::WebSocketWithFallback);
        let all = advise(&talking).unwrap();
        let sse = all.iter().find(|a| a.transport == Transport::Sse).unwrap();
        assert_eq!(sse.verdict, Verdict::Elsewhere);
        assert!(sse.reasons[0].contains("only listen"), "{sse:?}");
    }

    #[test]
    fn a_chat_takes_web_socket() {
        let chat = Needs {
            latency_ms: 150.0,
            ..needs(Direction::Both)
        };
        assert_eq!(choice(&chat), Transport::WebSocket);
        let unknown = Needs {
            proxies: Proxies::Unknown,
            ..chat
        };
        assert_eq!(choice(&unknown), Transport::WebSocketWithFallback);
    }

    #[test]
    fn buffering_proxies_rule_sse_out() {
        let buffered = Needs {
            proxies: Proxies::Buffering,
            ..needs(Direction::Down)
        };
        assert_eq!(choice(&buffered), Transport::WebSocket);
    }

    #[test]
    fn news_by_the_minute_may_be_asked_for() {
        let report = Needs {
            down_per_minute: 1.0,
            latency_ms: 60_000.0,
            ..needs(Direction::Down)
        };
        assert_eq!(choice(&report), Transport::Polling);
        // Half of the answers would be empty, and still nothing is simpler.
        let rarer = Needs {
            down_per_minute: 0.5,
            ..report
        };
        assert_eq!(choice(&rarer), Transport::Polling);
    }

    #[test]
    fn telemetry_goes_up_by_requests_or_by_web_socket() {
        let rare = needs(Direction::Up);
        assert_eq!(choice(&rare), Transport::Polling);
        let fast = Needs {
            up_per_minute: 600.0,
            binary: true,
            ..rare
        };
        assert_eq!(choice(&fast), Transport::WebSocket);
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
