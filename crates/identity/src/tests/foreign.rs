//! Tokens that other implementations made.

use super::*;

/// RFC 7515 appendix A.1: HS256, with a key of 64 bytes.
#[tokio::test]
async fn the_example_of_the_standard_with_hs256() {
    let key =
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
        eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
        dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let (settings, _folder) = with_jwks(&[json!({ "kty": "oct", "k": key })]);
    let settings = Settings {
        uid_claim: "iss".to_owned(),
        ..settings
    };
    let verifier = verifier(settings);
    let granted = verifier.explain(token, 1_300_819_000).await;
    assert_eq!(granted.map(|claims| claims.uid), Ok("joe".to_owned()));
}

/// The same, appendix A.3: ES256.
#[tokio::test]
async fn the_example_of_the_standard_with_es256() {
    let jwk = json!({
        "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    });
    let token = "eyJhbGciOiJFUzI1NiJ9.\
        eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
        DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    let (settings, _folder) = with_jwks(&[jwk]);
    let settings = Settings {
        uid_claim: "iss".to_owned(),
        ..settings
    };
    let verifier = verifier(settings);
    let granted = verifier.explain(token, 1_300_819_000).await;
    assert_eq!(granted.map(|claims| claims.uid), Ok("joe".to_owned()));
    let expired = verifier.verify(token, 1_300_819_390).await;
    assert_eq!(
        expired.map_err(|refused| refused.denied),
        Err(Denied::Expired)
    );
}

/// Tokens of jose, jsonwebtoken and PyJWT with the public keys that these libraries wrote down; made once, the private keys
/// are gone. Each is checked by its JWK and, where there is one, by its PEM file.
#[tokio::test]
async fn tokens_of_other_libraries() {
    let made: Vec<Value> = serde_json::from_str(include_str!("foreign.json")).expect("JSON");
    let folder = tempfile::tempdir().expect("folder");
    let mut makers = std::collections::BTreeSet::new();
    for (index, row) in made.iter().enumerate() {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let algorithm = super::super::algorithm(text("alg")).expect("known");
        makers.insert(text("maker").split(' ').next().unwrap_or_default());
        let (set_path, pem_path) = (
            folder.path().join(format!("{index}.json")),
            folder.path().join(format!("{index}.pem")),
        );
        std::fs::write(&set_path, set(std::slice::from_ref(&row["jwk"]))).expect("write");
        std::fs::write(&pem_path, text("pem")).expect("write");
        let settings = Settings {
            algorithms: vec![algorithm],
            audience: vec!["chat".to_owned()],
            ..Settings::default()
        };
        let mut sources = vec![Settings {
            jwks_file: Some(set_path),
            ..settings.clone()
        }];
        if row.get("pem").is_some() {
            sources.push(Settings {
                public_key_file: Some(pem_path),
                ..settings
            });
        }
        for settings in sources {
            let granted = verifier(settings).explain(text("token"), NOW).await;
            let granted =
                granted.unwrap_or_else(|why| panic!("{} {algorithm:?}: {why}", text("maker")));
            assert_eq!(
                (granted.uid.as_str(), &granted.rooms[..]),
                ("ada", &["a".to_owned()][..])
            );
            assert!(
                granted
                    .grants
                    .is_some_and(|grants| grants.may_join("a") && !grants.may_publish("a"))
            );
        }
    }
    assert_eq!(
        makers.into_iter().collect::<Vec<_>>(),
        ["PyJWT", "jose", "jsonwebtoken"]
    );
}
