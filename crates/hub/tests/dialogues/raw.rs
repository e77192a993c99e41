//! Frames that are not parsed: their clients know none of the gateway's words, so bounds bite without a word, and codes tell the worst.

use crate::identity::{claims, config, frame, received, websocket};
use crate::rig::{self, Rig};
use hub::config::{AuthStyle, Config, Rate, Rates};
use hub::metrics::{Limit, Scope};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn with_raw(config: Config) -> Rig {
    let plain_raw = Some(rig::lab_raw());
    let config = Config {
        plain_raw,
        ..config
    };
    Rig::lab(config, 1)
}

/// A client that is there, and has heard nothing.
fn client(rig: &mut Rig) -> usize {
    let name = websocket(rig, "/raw", "");
    assert_eq!(received(rig, name), [""; 0]);
    name
}

fn limit(rig: &mut Rig, limit: Limit) -> u64 {
    rig.finish_turn();
    rig.cells.limits[limit as usize].load(Ordering::Relaxed)
}

#[test]
fn frames_over_a_rate_go_nowhere_and_a_flood_ends() {
    let session = Some(Rate::new(10, Duration::from_secs(60)));
    let mut config = Config {
        rates: Rates {
            session,
            ..Rates::default()
        },
        ..Config::default()
    };
    config.limits.flood_rejections_max = 20;
    let mut rig = with_raw(config);
    let (ann, bob) = (client(&mut rig), client(&mut rig));
    rig.send(ann, &frame("x").repeat(15));
    assert_eq!(received(&mut rig, bob), ["x"; 10]);
    assert_eq!(received(&mut rig, ann), [""; 0]);
    assert_eq!(limit(&mut rig, Limit::Rate), 5);
    let rated = &rig.cells.rated[Scope::Session as usize];
    assert_eq!(rated.load(Ordering::Relaxed), 5);
    rig.send(ann, &frame("x").repeat(20));
    let told = received(&mut rig, ann);
    assert_eq!(told, ["close 1008 Rate limit exceeded"]);
    assert_eq!(received(&mut rig, bob), [""; 0]);
}

#[test]
fn frames_wait_for_the_token_and_strangers_hear_the_code_alone() {
    let mut rig = with_raw(config(AuthStyle::Strict, true));
    let stranger = websocket(&mut rig, "/raw", "");
    rig.send(stranger, &frame("let me in"));
    assert_eq!(received(&mut rig, stranger), ["close 4501 unauthorized"]);
    let ann = websocket(&mut rig, "/raw?token=a", "");
    assert_eq!(rig.answer(Ok(claims("ann"))), "a");
    let bob = websocket(&mut rig, "/raw?token=b", "");
    rig.send(bob, &frame("early"));
    assert_eq!(received(&mut rig, ann), [""; 0]);
    assert_eq!(rig.answer(Ok(claims("bob"))), "b");
    assert_eq!(received(&mut rig, ann), ["early"]);
    assert_eq!(received(&mut rig, bob), [""; 0]);
    // The word that warns of a token's end is not for it, either.
    let ends = rig.now.wall_ms / 1_000 + 90;
    let cat = websocket(&mut rig, "/raw?token=c", "");
    let expires_s = Some(ends);
    let claims = hub::claims::Claims {
        expires_s,
        ..claims("cat")
    };
    rig.answer(Ok(claims));
    for _ in 0..4 {
        rig.pass(Duration::from_secs(20));
        // A client that talks is not pinged.
        rig.send(cat, &frame("here"));
        assert_eq!(received(&mut rig, cat), [""; 0]);
    }
    rig.pass(Duration::from_secs(20));
    let told = received(&mut rig, cat);
    assert_eq!(told, ["close 4004 token expired"], "{:?}", rig.log);
}

#[test]
fn a_frame_has_the_bound_of_a_plain_message() {
    let mut rig = with_raw(Config {
        plain_max_payload: 1_000,
        ..Config::default()
    });
    let (ann, bob) = (client(&mut rig), client(&mut rig));
    let whole = "x".repeat(1_000);
    rig.send(ann, &frame(&whole));
    assert_eq!(received(&mut rig, bob), [whole.as_str()]);
    rig.send(ann, &frame(&"x".repeat(1_001)));
    let told = received(&mut rig, ann);
    assert!(
        told.len() == 1 && told[0].starts_with("close 1009"),
        "{told:?}"
    );
    assert_eq!(received(&mut rig, bob), [""; 0]);
    assert_eq!(limit(&mut rig, Limit::Payload), 1);
}

#[test]
fn text_that_is_none_ends_its_sender_and_reaches_nobody() {
    let mut rig = with_raw(Config::default());
    let (ann, bob) = (client(&mut rig), client(&mut rig));
    rig.send(ann, &rig::masked(b"\xff\xfe"));
    let told = received(&mut rig, ann);
    assert!(
        told.len() == 1 && told[0].starts_with("close 1007"),
        "{told:?}"
    );
    assert_eq!(received(&mut rig, bob), [""; 0]);
}

#[test]
fn a_silent_client_is_pinged_and_one_that_does_not_answer_is_gone() {
    let mut rig = with_raw(Config::default());
    let (ann, bob) = (client(&mut rig), client(&mut rig));
    rig.pass(Duration::from_secs(31));
    // Control frames, with nothing in them.
    assert_eq!(received(&mut rig, ann).concat(), "");
    rig.send(bob, &frame("still here"));
    assert!(received(&mut rig, ann).contains(&"still here".to_owned()));
    rig.pass(Duration::from_secs(40));
    assert!(rig.conn(ann).is_none(), "{:?}", rig.log);
}
