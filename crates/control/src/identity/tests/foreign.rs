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
    assert_eq!(expired, Err(hub::identity::Denied::Expired));
}
