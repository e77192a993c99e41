//! Tokens made to be believed by mistake.

use super::super::rejection::Rejection;
use super::super::{TOKEN_BYTES_MAX, key::Key};
use super::*;

#[tokio::test]
async fn a_token_that_asks_for_no_algorithm_is_refused() {
    let verifier = verifier(with_secret());
    for none in ["none", "None", "NONE", "nOnE"] {
        let token = signed_with_header(&json!({ "alg": none }), &claims());
        let (unsigned, _) = token.rsplit_once('.').expect("three parts");
        for token in [token.clone(), format!("{unsigned}.")] {
            let refused = verifier.explain(&token, NOW).await;
            assert_eq!(refused, Err(Rejection::Algorithm(none.to_owned())));
        }
    }
    let token = signed_with_header(&json!({ "typ": "JWT" }), &claims());
    let refused = verifier.explain(&token, NOW).await;
    assert!(
        matches!(refused, Err(Rejection::Malformed(_))),
        "{refused:?}"
    );
}

/// The public key is public: who can make the server take it for a shared secret can sign anything.
#[tokio::test]
async fn a_public_key_is_never_a_shared_secret() {
    let pair = Pair::new(Algorithm::RS256);
    let jwk = pair.jwk(Some("k"));
    let (settings, _folder) = with_jwks(std::slice::from_ref(&jwk));
    let verifier = verifier(settings);
    let modulus = URL_SAFE_NO_PAD
        .decode(jwk["n"].as_str().expect("n"))
        .expect("base64");
    let text = jwk["n"].as_str().expect("n").as_bytes();
    for secret in [&modulus[..], text, jwk.to_string().as_bytes()] {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some("k".to_owned());
        let key = EncodingKey::from_secret(secret);
        let token = jsonwebtoken::encode(&header, &claims(), &key).expect("token");
        let refused = verifier.explain(&token, NOW).await;
        assert_eq!(refused, Err(Rejection::Algorithm("HS256".to_owned())));
    }
}

#[tokio::test]
async fn a_key_is_not_used_with_another_algorithm_of_its_family() {
    let pair = Pair::new(Algorithm::RS256);
    let (settings, _folder) = with_jwks(&[pair.jwk(Some("k"))]);
    let settings = Settings {
        algorithms: vec![Algorithm::RS256, Algorithm::RS512, Algorithm::PS256],
        ..settings
    };
    let verifier = verifier(settings);
    let other = Pair {
        algorithm: Algorithm::RS512,
        pem: pair.pem.clone(),
    };
    let refused = verifier
        .explain(&other.token(Some("k"), &claims()), NOW)
        .await;
    assert_eq!(refused, Err(Rejection::Algorithm("RS512".to_owned())));
}

#[tokio::test]
async fn critical_extensions_are_refused() {
    let verifier = verifier(with_secret());
    for crit in [
        json!(["exp"]),
        json!(["b64"]),
        json!([]),
        json!("x"),
        Value::Null,
    ] {
        let header = json!({ "alg": "HS256", "crit": crit, "b64": false });
        let refused = verifier
            .explain(&signed_with_header(&header, &claims()), NOW)
            .await;
        assert!(
            matches!(refused, Err(Rejection::Malformed(_))),
            "{refused:?}"
        );
    }
    // Other members of the header mean nothing, above all no key: RFC 8725 §3.10.
    let header = json!({ "alg": "HS256", "jku": "https://evil.example/keys", "x": { "y": [1] } });
    assert!(
        verifier
            .verify(&signed_with_header(&header, &claims()), NOW)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_key_that_a_token_brings_along_is_not_taken() {
    let verifier = verifier(with_secret());
    let own = Pair::new(Algorithm::ES256);
    let mut header = Header::new(Algorithm::ES256);
    header.jwk = serde_json::from_value(own.jwk(None)).ok();
    assert!(header.jwk.is_some());
    let token = jsonwebtoken::encode(&header, &claims(), &own.private()).expect("token");
    let refused = verifier.explain(&token, NOW).await;
    assert_eq!(refused, Err(Rejection::Algorithm("ES256".to_owned())));
}

#[tokio::test]
async fn what_is_no_token_is_refused_unread() {
    let verifier = verifier(with_secret());
    let good = signed(&claims());
    let huge = format!("{good}{}", "A".repeat(TOKEN_BYTES_MAX));
    assert_eq!(verifier.explain(&huge, NOW).await, Err(Rejection::TooLong));
    let (message, signature) = good.rsplit_once('.').expect("three parts");
    let (header, payload) = message.split_once('.').expect("three parts");
    let deep = URL_SAFE_NO_PAD.encode("[".repeat(4_000));
    for bad in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        "a.b.c".to_owned(),
        format!("{good}."),
        format!(".{good}"),
        format!("{good} "),
        format!("{good}="),
        format!("{header}.{payload}"),
        format!("{header}.{payload}."),
        format!("{header}..{signature}"),
        format!("{deep}.{payload}.{signature}"),
        format!("{header}.{header}.{payload}.{signature}.{signature}"),
        format!("{header}.{payload}.\u{0}"),
        "ключ.ключ.ключ".to_owned(),
    ] {
        let refused = verifier.explain(&bad, NOW).await;
        assert!(
            matches!(refused, Err(Rejection::Malformed(_) | Rejection::Signature)),
            "{bad:?}: {refused:?}"
        );
    }
    let list = signed(&json!(["sub"]));
    assert!(matches!(
        verifier.explain(&list, NOW).await,
        Err(Rejection::Malformed(_))
    ));
}

#[tokio::test]
async fn an_overlong_key_name_is_refused() {
    let verifier = verifier(with_secret());
    for kid in [json!("k".repeat(257)), json!(7), json!(["k"])] {
        let token = signed_with_header(&json!({ "alg": "HS256", "kid": kid }), &claims());
        let refused = verifier.explain(&token, NOW).await;
        assert!(
            matches!(refused, Err(Rejection::Malformed(_))),
            "{refused:?}"
        );
    }
}

/// CVE-2022-21449: a signature of two zeros that some implementations held for good.
#[tokio::test]
async fn a_signature_of_zeros_is_wrong() {
    let pair = Pair::new(Algorithm::ES256);
    let (settings, _folder) = with_jwks(&[pair.jwk(Some("k"))]);
    let verifier = verifier(settings);
    let token = pair.token(Some("k"), &claims());
    let (message, _) = token.rsplit_once('.').expect("three parts");
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode([0; 64]));
    assert_eq!(
        verifier.explain(&token, NOW).await,
        Err(Rejection::Signature)
    );
}

#[test]
fn coordinates_of_any_length_make_no_panic() {
    let allowed = Settings::default().algorithms;
    for len in [0, 1, 31, 32, 33, 48, 500] {
        let coordinate = URL_SAFE_NO_PAD.encode(vec![9; len]);
        for (kty, crv) in [
            ("EC", "P-256"),
            ("EC", "P-384"),
            ("OKP", "Ed25519"),
            ("RSA", ""),
        ] {
            let jwk = json!({
                "kty": kty, "crv": crv, "x": coordinate, "y": coordinate, "n": coordinate, "e": coordinate,
            });
            if let Ok(key) = Key::from_jwk(&jwk, &allowed, false) {
                for algorithm in key.algorithms.clone() {
                    assert!(!key.verifies(algorithm, "a.b", "AAAA"));
                }
            }
        }
    }
}
