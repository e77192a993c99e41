//! What a genuine token must say, and what comes of it.

use super::super::rejection::Rejection;
use super::*;
use hub::claims::{Claims, Grants};

async fn explain(settings: Settings, claims: Value) -> Result<Claims, Rejection> {
    verifier(settings).explain(&signed(&claims), NOW).await
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

#[tokio::test]
async fn times_are_checked_with_leeway() {
    let cases = [
        (json!({ "exp": NOW + 1 }), Ok(Some(NOW + 11))),
        (json!({ "exp": NOW - 9 }), Ok(Some(NOW + 1))),
        (
            json!({ "exp": NOW - 10 }),
            Err(Rejection::Expired { by_s: 10 }),
        ),
        (json!({ "exp": (NOW - 9) as f64 + 0.5 }), Ok(Some(NOW + 1))),
        (json!({ "exp": -5 }), Err(Rejection::Expired { by_s: NOW })),
        (json!({ "exp": 0 }), Err(Rejection::Expired { by_s: NOW })),
        (json!({ "exp": u64::MAX }), Ok(Some(u64::MAX))),
        (json!({ "exp": 1e300 }), Ok(Some(u64::MAX))),
        (
            json!({ "exp": NOW + 1, "nbf": NOW + 10 }),
            Ok(Some(NOW + 11)),
        ),
        (
            json!({ "exp": NOW + 1, "nbf": NOW + 11 }),
            Err(Rejection::NotYetValid),
        ),
        (
            json!({ "exp": NOW + 1, "iat": NOW + 11 }),
            Err(Rejection::NotYetValid),
        ),
        (
            json!({ "exp": NOW + 1, "iat": NOW - 5_000 }),
            Ok(Some(NOW + 11)),
        ),
    ];
    for (mut claims, wanted) in cases {
        claims["sub"] = "ada".into();
        let got = explain(with_secret(), claims.clone()).await;
        assert_eq!(got.map(|granted| granted.expires_s), wanted, "{claims}");
    }
    for name in ["exp", "nbf", "iat"] {
        let refused = explain(with_secret(), with(name, json!("1800000100"))).await;
        let wanted = Rejection::claim(name, "is no time in seconds");
        assert_eq!(refused, Err(wanted));
    }
}

#[tokio::test]
async fn a_token_without_end_needs_permission() {
    let endless = json!({ "sub": "ada" });
    let refused = explain(with_secret(), endless.clone()).await;
    assert!(matches!(refused, Err(Rejection::Claim { name, .. }) if name == "exp"));
    let settings = Settings {
        require_expiry: false,
        ..with_secret()
    };
    let granted = explain(settings, endless).await;
    assert_eq!(granted.map(|claims| claims.expires_s), Ok(None));
}

#[tokio::test]
async fn issuer_and_audience_are_asked_for_when_configured() {
    let settings = || Settings {
        issuer: vec!["https://id".to_owned(), "https://id2".to_owned()],
        audience: vec!["chat".to_owned()],
        ..with_secret()
    };
    for (issuer, audience, wanted) in [
        (json!("https://id"), json!("chat"), Ok("ada".to_owned())),
        (
            json!("https://id2"),
            json!(["mail", "chat"]),
            Ok("ada".to_owned()),
        ),
        (json!("https://id/"), json!("chat"), Err(Rejection::Issuer)),
        (Value::Null, json!("chat"), Err(Rejection::Issuer)),
        (
            json!("https://id"),
            json!(["mail"]),
            Err(Rejection::Audience),
        ),
        (json!("https://id"), json!([]), Err(Rejection::Audience)),
        (json!("https://id"), Value::Null, Err(Rejection::Audience)),
        (
            json!("https://id"),
            json!([["chat"]]),
            Err(Rejection::Audience),
        ),
    ] {
        let mut claims = with("iss", issuer);
        claims["aud"] = audience;
        let got = explain(settings(), claims.clone()).await;
        assert_eq!(got.map(|granted| granted.uid), wanted, "{claims}");
    }
    let foreign = with("aud", json!("another service"));
    assert!(explain(with_secret(), foreign).await.is_ok());
}

#[tokio::test]
async fn the_user_is_a_string_or_a_number_from_the_claim_that_is_configured() {
    for (value, uid) in [
        (json!("ada"), Some("ada")),
        (json!(17), Some("17")),
        (json!(-17), Some("-17")),
        (json!("x".repeat(256)), Some(&*"x".repeat(256))),
        (json!("x".repeat(257)), None),
        (json!(""), None),
        (json!("a\nb"), None),
        (json!(1.5), None),
        (json!(true), None),
        (json!(["ada"]), None),
        (Value::Null, None),
    ] {
        let got = explain(with_secret(), with("sub", value.clone())).await;
        assert_eq!(got.ok().map(|claims| claims.uid).as_deref(), uid, "{value}");
    }
    let nested = Settings {
        uid_claim: "/user/id".to_owned(),
        ..with_secret()
    };
    let granted = explain(nested, with("user", json!({ "id": 5 }))).await;
    assert_eq!(granted.map(|claims| claims.uid), Ok("5".to_owned()));
    let url = Settings {
        uid_claim: "https://example.org/uid".to_owned(),
        ..with_secret()
    };
    let granted = explain(url, with("https://example.org/uid", json!("eve"))).await;
    assert_eq!(granted.map(|claims| claims.uid), Ok("eve".to_owned()));
}

#[tokio::test]
async fn rooms_are_a_list_within_bounds() {
    let settings = || Settings {
        rooms_max: 3,
        room_name_bytes_max: 5,
        ..with_secret()
    };
    for (value, rooms) in [
        (json!(["a", "b"]), Some(2)),
        (json!([]), Some(0)),
        (Value::Null, Some(0)),
        (json!(["a", "b", "c", "d"]), None),
        (json!(["abcdef"]), None),
        (json!([""]), None),
        (json!(["a", 1]), None),
        (json!("a"), None),
    ] {
        let got = explain(settings(), with("rooms", value.clone())).await;
        assert_eq!(got.ok().map(|claims| claims.rooms.len()), rooms, "{value}");
    }
}

#[tokio::test]
async fn permissions_name_rooms_exactly_and_foreign_words_grant_nothing() {
    let grants = |join: &[&str], publish: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Some(Grants {
            join: owned(join),
            publish: owned(publish),
        })
    };
    for (value, wanted) in [
        (Value::Null, None),
        (json!([]), grants(&[], &[])),
        (json!(["join:a", "publish:a:b"]), grants(&["a"], &["a:b"])),
        (json!(["join:*", "publish:x*"]), grants(&["*"], &["x*"])),
        (
            json!(["read:mail", "join", "join:", "Join:a", "*"]),
            grants(&[], &[]),
        ),
        (json!("openid join:a  publish:b"), grants(&["a"], &["b"])),
    ] {
        let got = explain(with_secret(), with("permissions", value.clone())).await;
        assert_eq!(got.map(|claims| claims.grants), Ok(wanted), "{value}");
    }
    for value in [
        json!(7),
        json!({ "join": "a" }),
        json!(["join:a", 7]),
        json!(vec!["join:a"; 1_025]),
    ] {
        let refused = explain(with_secret(), with("permissions", value)).await;
        assert!(
            matches!(refused, Err(Rejection::Claim { .. } | Rejection::TooLong)),
            "{refused:?}"
        );
    }
}
