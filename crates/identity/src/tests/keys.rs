//! Every source of keys with every algorithm.

use super::super::rejection::Rejection;
use super::*;
use std::process::Command;

#[tokio::test]
async fn a_shared_secret_checks_hs256() {
    let verifier = verifier(with_secret());
    let granted = verifier.verify(&signed(&claims()), NOW).await;
    assert_eq!(granted.map(|claims| claims.uid), Ok("ada".to_owned()));
    let other = EncodingKey::from_secret(b"another secret of at least 32 bytes");
    let header = Header::new(Algorithm::HS256);
    let forged = jsonwebtoken::encode(&header, &claims(), &other).expect("token");
    assert_eq!(denied(&verifier, &forged).await, Some(Denied::Invalid));
}

#[tokio::test]
async fn every_public_key_algorithm_from_a_key_set() {
    for algorithm in [
        Algorithm::RS256,
        Algorithm::ES256,
        Algorithm::EdDSA,
        Algorithm::ES384,
        Algorithm::PS256,
    ] {
        let pair = Pair::new(algorithm);
        let (settings, _folder) = with_jwks(&[pair.jwk(Some("k1"))]);
        let settings = Settings {
            algorithms: vec![algorithm],
            ..settings
        };
        let verifier = verifier(settings);
        for kid in [Some("k1"), None] {
            let token = pair.token(kid, &claims());
            let granted = verifier.explain(&token, NOW).await;
            assert_eq!(
                granted.map(|c| c.uid),
                Ok("ada".to_owned()),
                "{algorithm:?}"
            );
        }
        let mut torn = pair.token(Some("k1"), &claims());
        // The last letter holds unused bits, so an earlier one is changed.
        let at = torn.len() - 10;
        let other = if torn.as_bytes()[at] == b'A' {
            "B"
        } else {
            "A"
        };
        torn.replace_range(at..=at, other);
        assert_eq!(
            verifier.explain(&torn, NOW).await,
            Err(Rejection::Signature)
        );
    }
}

/// openssl makes keys and signatures here: not one line of it is shared with what checks them.
#[tokio::test]
#[ignore = "needs OpenSSL: cargo xtask test foreign"]
async fn public_keys_in_pem_as_openssl_writes_them() {
    for (algorithm, make) in [
        ("RS256", &["RSA", "-pkeyopt", "rsa_keygen_bits:2048"][..]),
        ("EdDSA", &["ED25519"][..]),
    ] {
        let folder = tempfile::tempdir().expect("folder");
        let openssl = |args: &[&str]| {
            let run = Command::new("openssl")
                .args(args)
                .current_dir(folder.path())
                .output();
            let run = run.expect("openssl");
            assert!(
                run.status.success(),
                "{args:?}: {}",
                String::from_utf8_lossy(&run.stderr)
            );
        };
        openssl(&[&["genpkey", "-out", "private.pem", "-algorithm"], make].concat());
        openssl(&[
            "pkey",
            "-in",
            "private.pem",
            "-pubout",
            "-out",
            "public.pem",
        ]);
        let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let message = format!("{}.{}", part(&json!({ "alg": algorithm })), part(&claims()));
        std::fs::write(folder.path().join("message"), &message).expect("write");
        let digest: &[&str] = if algorithm == "RS256" {
            &["-digest", "sha256"]
        } else {
            &[]
        };
        let sign = [
            "pkeyutl",
            "-sign",
            "-rawin",
            "-inkey",
            "private.pem",
            "-in",
            "message",
            "-out",
            "signature",
        ];
        openssl(&[&sign[..], digest].concat());
        let signature = std::fs::read(folder.path().join("signature")).expect("signature");
        let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
        let verifier = verifier(Settings {
            public_key_file: Some(folder.path().join("public.pem")),
            ..Settings::default()
        });
        let granted = verifier.explain(&token, NOW).await;
        assert_eq!(granted.map(|c| c.uid), Ok("ada".to_owned()), "{algorithm}");
        let private = super::super::check(&Settings {
            public_key_file: Some(folder.path().join("private.pem")),
            ..Settings::default()
        });
        let message = private.expect_err("a private key").to_string();
        assert!(message.contains("openssl pkey"), "{message}");
    }
}

#[tokio::test]
async fn a_changed_key_file_is_read_again_and_a_broken_one_is_not_taken() {
    let (old, new) = (Pair::new(Algorithm::ES256), Pair::new(Algorithm::ES256));
    let (settings, folder) = with_jwks(&[old.jwk(Some("old"))]);
    let path = folder.path().join("jwks.json");
    let verifier = verifier(settings);
    let (old_token, new_token) = (
        old.token(Some("old"), &claims()),
        new.token(Some("new"), &claims()),
    );
    assert!(verifier.verify(&old_token, NOW).await.is_ok());
    assert_eq!(denied(&verifier, &new_token).await, Some(Denied::Invalid));

    std::fs::write(&path, set(&[new.jwk(Some("new"))])).expect("write");
    verifier.reload();
    assert!(verifier.verify(&new_token, NOW).await.is_ok());
    assert_eq!(denied(&verifier, &old_token).await, Some(Denied::Invalid));

    std::fs::write(&path, "{").expect("write");
    verifier.reload();
    assert!(verifier.verify(&new_token, NOW).await.is_ok());
}

#[tokio::test]
async fn a_key_name_that_is_not_known_may_belong_to_a_key_without_name() {
    let pair = Pair::new(Algorithm::ES256);
    let (settings, _folder) = with_jwks(&[pair.jwk(None)]);
    let verifier = verifier(settings);
    assert!(
        verifier
            .verify(&pair.token(Some("2026-11"), &claims()), NOW)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_token_without_key_name_is_tried_with_few_keys_only() {
    let pairs: Vec<_> = (0..5).map(|_| Pair::new(Algorithm::EdDSA)).collect();
    let keys = |count: usize| -> Vec<Value> {
        let pairs = pairs.iter().take(count).enumerate();
        pairs
            .map(|(index, pair)| pair.jwk(Some(&format!("k{index}"))))
            .collect()
    };
    for (count, accepted) in [(4, true), (5, false)] {
        let (settings, _folder) = with_jwks(&keys(count));
        let verifier = verifier(settings);
        let nameless = verifier
            .explain(&pairs[3].token(None, &claims()), NOW)
            .await;
        assert_eq!(nameless.is_ok(), accepted, "{count} keys: {nameless:?}");
        let named = pairs[3].token(Some("k3"), &claims());
        assert!(verifier.verify(&named, NOW).await.is_ok());
    }
}

#[test]
fn what_cannot_be_used_is_refused_at_start_with_its_setting() {
    let folder = tempfile::tempdir().expect("folder");
    let file = |text: &str| {
        let path = folder.path().join(format!("{}.txt", text.len()));
        std::fs::write(&path, text).expect("write");
        Some(path)
    };
    let short = Settings {
        secret: Some(Secret::new("short")),
        ..Settings::default()
    };
    let short_file = Settings {
        secret_file: file("short\n"),
        ..Settings::default()
    };
    let absent = Settings {
        jwks_file: Some("/no/such/file".into()),
        ..Settings::default()
    };
    let certificate = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----";
    let certificate = Settings {
        public_key_file: file(certificate),
        ..Settings::default()
    };
    let empty = Settings {
        jwks_file: file("{\"keys\": []}"),
        ..Settings::default()
    };
    let insecure = Settings {
        jwks_url: Some("http://id.example.org/keys".into()),
        ..Settings::default()
    };
    let no_hmac = Settings {
        algorithms: vec![Algorithm::RS256],
        ..with_secret()
    };
    for (settings, key, words) in [
        (
            short,
            "auth.secret",
            "32 bytes or more is needed, this one has 5",
        ),
        (short_file, "auth.secret_file", "this one has 5"),
        (absent, "auth.jwks_file", "/no/such/file"),
        (certificate, "auth.public_key_file", "openssl x509"),
        (empty, "auth.jwks_file", "no key that can be used"),
        (insecure, "auth.jwks_url", "https is needed"),
        (no_hmac, "auth.secret", "auth.algorithms allows none"),
    ] {
        let error = super::super::check(&settings).expect_err(key);
        assert_eq!(error.key, key, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn members_of_a_key_set_that_cannot_be_used_are_left_out_and_named() {
    use super::super::key_set::KeySet;
    let good = Pair::new(Algorithm::ES256);
    let mut private = Pair::new(Algorithm::ES256).jwk(Some("private"));
    private["d"] = "AAAA".into();
    let mut encryption = Pair::new(Algorithm::ES256).jwk(Some("encryption"));
    encryption["use"] = "enc".into();
    let mut small = Pair::new(Algorithm::RS256).jwk(Some("small"));
    small["n"] = URL_SAFE_NO_PAD.encode([7; 128]).into();
    let secret = json!({ "kty": "oct", "kid": "secret", "k": URL_SAFE_NO_PAD.encode(SECRET) });
    let keys = [
        json!({ "kty": "EC", "crv": "secp256k1", "kid": "curve", "x": "AA", "y": "AA" }),
        json!({ "kty": "new", "kid": "type" }),
        json!(7),
        private,
        encryption,
        small,
        secret,
        good.jwk(Some("good")),
    ];
    let allowed = Settings::default().algorithms;
    let read = KeySet::from_jwks(set(&keys).as_bytes(), &allowed, false).expect("one is good");
    let kids: Vec<_> = read.keys.iter().map(|key| key.kid.as_deref()).collect();
    assert_eq!(kids, [Some("good")]);
    assert_eq!(read.skipped.len(), 7, "{:?}", read.skipped);
    // A file of our own may hold secrets; a published set may not.
    let read = KeySet::from_jwks(set(&keys).as_bytes(), &allowed, true).expect("two are good");
    assert_eq!(read.keys.len(), 2);
}

#[test]
fn a_secret_is_in_no_debug_text() {
    let shown = format!("{:?}", with_secret());
    assert!(!shown.contains(SECRET) && shown.contains("***"), "{shown}");
}
