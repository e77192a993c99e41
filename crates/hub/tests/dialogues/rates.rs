//! Rates that many sessions share: what passes together, whoever sends it in whichever portions.

use crate::identity::{self, claims, frame, received, websocket};
use crate::rig::{Rig, chat_rules, handler};
use crate::traffic::joined;
use hub::config::{AuthStyle, Config, Rate, Rates};
use hub::metrics::{Limit, Scope};
use std::sync::atomic::Ordering;
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";
const ECHO: &str = "421[\"echo\"]";

fn per_minute(events: u32) -> Option<Rate> {
    Some(Rate::new(events, Duration::from_secs(60)))
}

/// A hub where nobody is put out for a flood.
fn rig(rates: Rates) -> Rig {
    let mut config = Config {
        rates,
        ..identity::config(AuthStyle::Strict, false)
    };
    config.limits.flood_rejections_max = u16::MAX;
    let mut rig = Rig::lab(config, 1);
    rig.checks = false;
    rig
}

/// How many of so many messages are answered.
fn answered(rig: &mut Rig, client: usize, messages: usize) -> usize {
    rig.send(client, &frame(ECHO).repeat(messages));
    let texts = received(rig, client);
    texts.iter().filter(|text| *text == "431[]").count()
}

#[test]
fn a_large_rate_holds_to_the_message_for_one_session() {
    for (user, address) in [
        (per_minute(5_000), None),
        (None, per_minute(5_000)),
        (per_minute(5_000), per_minute(6_000)),
    ] {
        let mut rig = rig(Rates {
            user,
            address,
            ..Rates::default()
        });
        let client = identity::joined(&mut rig, claims("ann"));
        // The first message of an address was to join.
        let expected = 5_000 - usize::from(user.is_none());
        let passed: usize = (0..100).map(|_| answered(&mut rig, client, 55)).sum();
        assert_eq!(passed, expected, "{user:?} {address:?}");
        rig.pass(Duration::from_millis(12 * 7));
        assert_eq!(answered(&mut rig, client, 20), 7);
    }
}

#[test]
fn a_flood_over_a_large_shared_rate_ends() {
    let mut config = Config {
        rates: Rates {
            address: per_minute(5_000),
            ..Rates::default()
        },
        ..Config::default()
    };
    config.limits.flood_rejections_max = 500;
    let mut rig = Rig::lab(config, 1);
    rig.checks = false;
    let client = joined(&mut rig);
    rig.send(client, &frame(ECHO).repeat(6_000));
    let texts = received(&mut rig, client);
    let close = "close 1008 Rate limit exceeded";
    assert_eq!(texts.last().map(String::as_str), Some(close));
    // Each rejection is an event and an answer.
    assert_eq!(texts.len(), 4_999 + 2 * (500 + 1) + 1);
}

/// Sessions that end before their first booking of a lot are counted all the same.
#[test]
fn short_sessions_are_counted_with_their_address() {
    let mut rig = rig(Rates {
        address: per_minute(1_280),
        ..Rates::default()
    });
    let mut passed = 0;
    for n in 0..800 {
        let client = websocket(&mut rig, SIO, "");
        rig.send(client, &frame("40"));
        let texts = received(&mut rig, client);
        let joined = texts.last().is_some_and(|text| text.starts_with("40{"));
        passed += usize::from(joined) + answered(&mut rig, client, 4);
        match n % 3 {
            0 => rig.end(client),
            1 => rig.break_off(client),
            _ => rig.send(client, &frame("41")),
        }
    }
    assert!((1_280..=1_281).contains(&passed), "{passed}");
}

/// Many at once may go over it by what each was granted, which is no more than it had paid for.
#[test]
fn a_crowd_of_live_sessions_goes_over_by_little() {
    let mut rig = rig(Rates {
        address: per_minute(4_096),
        ..Rates::default()
    });
    let clients: Vec<_> = (0..600).map(|_| joined(&mut rig)).collect();
    let mut passed = clients.len();
    for _ in 0..20 {
        for client in &clients {
            passed += answered(&mut rig, *client, 1);
        }
    }
    assert!((4_096..4_096 + 2_048).contains(&passed), "{passed}");
    // What they went over by is owed.
    for client in &clients {
        rig.break_off(*client);
    }
    rig.pass(Duration::from_secs(60 * (passed as u64 - 4_096) / 4_096));
    let late = joined(&mut rig);
    assert!(answered(&mut rig, late, 100) < 8);
}

/// Leaving and coming back, with another user's messages or nobody's in between, is no way around a user's rate.
#[test]
fn a_user_is_charged_for_what_it_sent_before_it_left() {
    let mut rig = rig(Rates {
        user: per_minute(4_096),
        ..Rates::default()
    });
    let client = identity::joined(&mut rig, claims("ann"));
    let mut passed = 0;
    for _ in 0..600 {
        passed += answered(&mut rig, client, 14);
        rig.send(client, &frame("41"));
        rig.send(client, &frame("40{\"token\":\"t\"}"));
        rig.answer(Ok(claims("ann")));
        rig.take(client);
    }
    assert!((4_096..4_096 + 16).contains(&passed), "{passed}");
}

/// The stock client waits for ever for the answer to a CONNECT that gets none.
#[test]
fn a_connect_over_a_rate_is_answered() {
    let mut rig = rig(Rates {
        address: per_minute(3),
        ..Rates::default()
    });
    let first = joined(&mut rig);
    assert_eq!(answered(&mut rig, first, 3), 2);
    let told = "{\"message\":\"Rate limit exceeded: 3 messages/60 seconds\"}";
    rig.send(first, &frame("40/lab,"));
    assert_eq!(received(&mut rig, first), [format!("44/lab,{told}")]);
    // What it sent without having waited ends neither this namespace nor the other.
    rig.send(first, &frame("42/lab,[\"x\"]"));
    rig.send(first, &frame("41/lab,"));
    assert_eq!(received(&mut rig, first), [""; 0]);
    let late = websocket(&mut rig, SIO, "");
    rig.take(late);
    rig.send(late, &frame("40"));
    rig.send(late, &frame("42[\"x\"]"));
    assert_eq!(received(&mut rig, late), [format!("44{told}")]);
    rig.pass(Duration::from_secs(20));
    let hits = rig.cells.limits[Limit::Rate as usize].load(Ordering::Relaxed);
    let rated = rig.cells.rated[Scope::Address as usize].load(Ordering::Relaxed);
    assert_eq!((hits, rated), (6, 6), "every refusal is a hit");
    rig.take(late);
    rig.send(late, &frame("40"));
    let texts = received(&mut rig, late);
    assert!(texts[0].starts_with("40{\"sid\":"), "{texts:?}");
    rig.pass(Duration::from_secs(20));
    assert_eq!(answered(&mut rig, first, 1), 1);
}

#[test]
fn a_flood_of_connects_ends_as_one_of_events_does() {
    for packet in ["40", "42[\"x\"]"] {
        let mut config = Config {
            rates: Rates {
                session: per_minute(1),
                ..Rates::default()
            },
            ..Config::default()
        };
        config.limits.flood_rejections_max = 50;
        let mut rig = Rig::lab(config, 1);
        let client = joined(&mut rig);
        rig.send(client, &frame("41"));
        rig.send(client, &frame("40"));
        rig.send(client, &frame(packet).repeat(60));
        let texts = received(&mut rig, client);
        let close = "close 1008 Rate limit exceeded";
        assert_eq!(texts.last().map(String::as_str), Some(close), "{packet}");
        let answers = if packet == "40" { 51 } else { 1 };
        assert_eq!(texts.len(), answers + 1, "{packet}: {texts:?}");
    }
}

/// Leaving a namespace and coming back gives nothing that waiting would not give.
#[test]
fn the_rate_of_an_event_outlives_the_socket() {
    let mut rig = rig(Rates::default());
    let client = joined(&mut rig);
    let mut passed = 0;
    for n in 0..20 {
        rig.send(client, &frame("421[\"few\"]"));
        rig.send(client, &frame("42[\"many\"]"));
        let texts = received(&mut rig, client);
        passed += texts.iter().filter(|text| *text == "431[]").count();
        rig.send(client, &frame("41"));
        if n % 2 == 0 {
            // Somebody else's numbers in between change nothing.
            rig.send(client, &frame("40/lab,"));
            rig.send(client, &frame("40"));
            rig.send(client, &frame("41/lab,"));
        } else {
            rig.send(client, &frame("40"));
        }
        rig.take(client);
    }
    assert_eq!(passed, 2);
    rig.pass(Duration::from_millis(500));
    rig.take(client);
    rig.send(client, &frame("421[\"few\"]"));
    assert_eq!(received(&mut rig, client), ["431[]"]);
    let other = joined(&mut rig);
    rig.send(other, &frame("421[\"few\"]"));
    assert_eq!(received(&mut rig, other), ["431[]"], "a session of its own");
}

#[test]
fn coming_back_does_not_bring_more_questions_about_tokens() {
    let mut rig = rig(Rates::default());
    let client = identity::joined(&mut rig, claims("ann"));
    let mut asked = 0;
    for _ in 0..10 {
        for _ in 0..8 {
            rig.send(client, &frame("42[\"token-refresh\",\"new\"]"));
        }
        asked += rig.asked.len();
        while !rig.asked.is_empty() {
            rig.answer(Ok(claims("ann")));
        }
        rig.send(client, &frame("41"));
        rig.send(client, &frame("40{\"token\":\"t\"}"));
        rig.answer(Ok(claims("ann")));
        rig.take(client);
    }
    // One for each namespace that it might be in.
    assert_eq!(asked, 32);
}

#[test]
fn coming_back_does_not_bring_history_without_end() {
    let mut rig = Rig::new(Config::default(), handler(&chat_rules()), 1);
    let client = joined(&mut rig);
    rig.send(
        client,
        &frame("42[\"chat-message\",{\"content\":\"hello\"}]"),
    );
    rig.take(client);
    let mut replays = 0;
    for _ in 0..100 {
        rig.send(client, &frame("41"));
        rig.send(client, &frame("40"));
        let texts = received(&mut rig, client);
        replays += texts
            .iter()
            .filter(|text| text.contains("\"history\""))
            .count();
    }
    assert_eq!(replays, 20);
}
