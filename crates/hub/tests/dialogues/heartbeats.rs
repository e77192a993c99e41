//! Intervals that grow with the number of sessions: each is told to its client, and holds for as long as the session lives.

use crate::identity::{claims, config, frame, received, websocket};
use crate::rig::Rig;
use hub::config::{AuthStyle, Config};
use hub::heartbeat::Stretch;
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";

/// Two sessions are pinged every two seconds. With each more, intervals grow, up to eight seconds.
fn stretched() -> Config {
    Config {
        ping_interval: Duration::from_secs(2),
        ping_timeout: Duration::from_secs(1),
        plain_ping_interval: Duration::from_secs(2),
        connect_timeout: Duration::from_secs(1_000_000),
        stretch: Stretch::new(4, 1),
        ..Config::default()
    }
}

fn number(open: &str, member: &str) -> u64 {
    let at = open.find(member).unwrap_or_else(|| panic!("{open}")) + member.len() + 2;
    let digits = open[at..].chars().take_while(char::is_ascii_digit);
    digits.collect::<String>().parse().expect("a number")
}

/// A client on a WebSocket, and the interval that it was told.
fn opened(rig: &mut Rig) -> (usize, u64) {
    let client = rig.open();
    let head = format!(
        "GET {SIO} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    );
    rig.send(client, head.as_bytes());
    let answer = rig.take(client);
    let open = String::from_utf8_lossy(&answer).into_owned();
    assert_eq!(number(&open, "\"pingTimeout"), 1_000, "{open}");
    (client, number(&open, "\"pingInterval"))
}

/// Lets an interval pass; the client answers, and nobody was pinged sooner or later than announced.
fn beats_on_time(rig: &mut Rig, client: usize, interval_ms: u64) {
    rig.pass(Duration::from_millis(interval_ms - 1));
    assert_eq!(
        received(rig, client),
        [""; 0],
        "sooner than {interval_ms} ms"
    );
    rig.pass(Duration::from_millis(1));
    assert_eq!(received(rig, client), ["2"], "not after {interval_ms} ms");
}

#[test]
fn a_newcomer_among_many_is_pinged_as_seldom_as_it_was_told() {
    let mut intervals = Vec::new();
    for others in 0..12 {
        let mut rig = Rig::lab(stretched(), 1);
        for _ in 0..others {
            opened(&mut rig);
        }
        let (client, interval_ms) = opened(&mut rig);
        intervals.push(interval_ms);
        beats_on_time(&mut rig, client, interval_ms);
        rig.send(client, &frame("3"));
        beats_on_time(&mut rig, client, interval_ms);
        // The client is given the timeout that it was told, and no more.
        rig.pass(Duration::from_millis(999));
        assert!(rig.conn(client).is_some() && !rig.wires.links[client].ended);
        rig.log.clear();
        rig.pass(Duration::from_millis(1));
        assert!(rig.wires.links[client].ended, "{:?}", rig.log);
    }
    assert_eq!(intervals[..2], [2_000, 2_000]);
    assert!(
        intervals.is_sorted() && intervals[2] > 2_000,
        "{intervals:?}"
    );
    assert_eq!(intervals[11], 8_000, "four times, and not more");
    let reaches = |(n, ms): (usize, &u64)| *ms >= 1_000 * (n as u64 + 1) || *ms == 8_000;
    assert!(intervals.iter().enumerate().all(reaches), "{intervals:?}");
}

/// Others come and go: intervals that were announced stay, and newcomers get what suits their time.
#[test]
fn an_announced_interval_holds_while_the_crowd_changes() {
    let mut rig = Rig::lab(stretched(), 1);
    let (first, short_ms) = opened(&mut rig);
    let crowd: Vec<usize> = (0..20).map(|_| opened(&mut rig).0).collect();
    let (last, long_ms) = opened(&mut rig);
    assert_eq!((short_ms, long_ms), (2_000, 8_000));
    for client in crowd {
        rig.break_off(client);
    }
    let (newcomer, now_ms) = opened(&mut rig);
    assert!((3_000..4_000).contains(&now_ms), "three sessions: {now_ms}");
    let mut pings = [0, 0, 0];
    for _ in 0..48_000 {
        rig.pass(Duration::from_millis(1));
        for (n, client) in [first, last, newcomer].into_iter().enumerate() {
            if rig.wires.links[client].out.is_empty() {
                continue;
            }
            assert_eq!(received(&mut rig, client), ["2"]);
            rig.send(client, &frame("3"));
            pings[n] += 1;
        }
    }
    assert_eq!(pings, [24, 6, 48_000 / now_ms]);
}

/// A crowd grew at once: its first members have short intervals. When all have turned over, the bound holds.
#[test]
fn heartbeats_stay_below_their_bound_when_sessions_have_turned_over() {
    let config = Config {
        stretch: Stretch::new(4, 2),
        ..stretched()
    };
    let mut rig = Rig::lab(config, 1);
    let mut crowd: Vec<usize> = (0..12).map(|_| opened(&mut rig).0).collect();
    let beats = |rig: &mut Rig, crowd: &mut Vec<usize>, turns_over: bool| {
        let mut beats = 0;
        for second in 0..60 {
            rig.pass(Duration::from_secs(1));
            for client in crowd.iter() {
                let pings = received(rig, *client).len();
                (0..pings).for_each(|_| rig.send(*client, &frame("3")));
                beats += pings;
            }
            if turns_over {
                rig.break_off(crowd[second % 12]);
                crowd[second % 12] = opened(rig).0;
            }
        }
        beats
    };
    assert!(
        beats(&mut rig, &mut crowd, false) > 2 * 60,
        "they came at once"
    );
    beats(&mut rig, &mut crowd, true);
    let later = beats(&mut rig, &mut crowd, false);
    assert!((60..=2 * 60).contains(&later), "{later} in 60 s");
}

#[test]
fn an_upgrade_keeps_the_interval_of_the_session() {
    let mut rig = Rig::lab(stretched(), 1);
    for _ in 0..20 {
        opened(&mut rig);
    }
    let poller = rig.open();
    let request = |line: &str, body: &str| {
        let length = body.len();
        format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    };
    rig.send(
        poller,
        &request("GET /socket.io/?EIO=4&transport=polling", ""),
    );
    let open = String::from_utf8(rig.take(poller)).expect("text");
    assert_eq!(number(&open, "\"pingInterval"), 8_000);
    let at = open.find("\"sid\":\"").expect("an open packet") + 7;
    let sid = open[at..at + 20].to_owned();
    rig.send(
        poller,
        &request(
            &format!("GET /socket.io/?EIO=4&transport=polling&sid={sid}"),
            "",
        ),
    );
    rig.pass(Duration::from_millis(7_999));
    assert_eq!(rig.take(poller), b"");
    rig.pass(Duration::from_millis(1));
    let ping = String::from_utf8(rig.take(poller)).expect("text");
    assert!(ping.ends_with("\r\n\r\n2"), "{ping}");
    // It upgrades with the ping unanswered: the next one is due an interval later.
    let socket = websocket(&mut rig, &format!("{SIO}&sid={sid}"), "");
    rig.send(socket, &frame("2probe"));
    rig.send(socket, &frame("5"));
    received(&mut rig, socket);
    beats_on_time(&mut rig, socket, 8_000);
    rig.send(socket, &frame("3"));
    beats_on_time(&mut rig, socket, 8_000);
}

#[test]
fn plain_clients_and_event_streams_are_asked_more_seldom_too() {
    let mut rig = Rig::lab(stretched(), 1);
    for _ in 0..20 {
        opened(&mut rig);
    }
    let plain = websocket(&mut rig, "/ws", "");
    let stream = rig.open();
    rig.send(stream, b"GET /sse HTTP/1.1\r\nHost: x\r\n\r\n");
    rig.take(plain);
    let head = String::from_utf8(rig.take(stream)).expect("text");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    for _ in 0..2 {
        rig.pass(Duration::from_millis(7_999));
        assert_eq!((rig.take(plain), rig.take(stream)), (vec![], vec![]));
        rig.pass(Duration::from_millis(1));
        assert_eq!(rig.take(plain), [0x89, 0], "an empty ping");
        assert!(rig.take(stream).ends_with(b":\n\n"));
        rig.send(plain, &[0x8a, 0x80, 0, 0, 0, 0]);
    }
}

/// What ends between two heartbeats is warned of in its second, however far they are apart.
#[test]
fn tokens_that_end_between_two_long_intervals_are_warned_of_in_time() {
    let mut config = Config {
        auth: config(AuthStyle::Strict, true).auth,
        ..stretched()
    };
    config.auth.warn_before = Duration::from_secs(1);
    let mut rig = Rig::lab(config, 1);
    let peers: Vec<usize> = (0..20).map(|_| opened(&mut rig).0).collect();
    let mut token = claims("ada");
    token.expires_s = Some(crate::rig::WALL_MS / 1_000 + 14);
    let client = crate::identity::joined(&mut rig, token);
    rig.take(client);
    let mut heard = Vec::new();
    for second in 1..=14 {
        rig.pass(Duration::from_secs(1));
        for text in received(&mut rig, client) {
            if text == "2" {
                rig.send(client, &frame("3"));
            } else {
                heard.push((second, text));
            }
        }
        for peer in &peers {
            if received(&mut rig, *peer).contains(&"2".to_owned()) {
                rig.send(*peer, &frame("3"));
            }
        }
    }
    assert!(
        heard[0].0 == 13,
        "warned a second before the end: {heard:?}"
    );
}
