//! Tokens against a verifier, with keys made on the spot.

mod attacks;
mod claims;
mod foreign;
mod keys;
mod url;

use super::issue::{SigningKey, generate};
use super::{Algorithm, Secret, Settings, Verifier};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hub::claims::Denied;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

const NOW: u64 = 1_800_000_000;
const SECRET: &str = "a secret of exactly thirty-two b";

/// A private key and its public half as a JWK.
struct Pair {
    algorithm: Algorithm,
    pem: String,
}

impl Pair {
    fn new(algorithm: Algorithm) -> Self {
        // One RSA key for all tests: making it is slow.
        static RSA: LazyLock<String> =
            LazyLock::new(|| generate(Algorithm::RS256).expect("RSA key"));
        let pem = match algorithm {
            Algorithm::ES256 | Algorithm::ES384 | Algorithm::EdDSA => generate(algorithm),
            _ => Ok(RSA.clone()),
        };
        Self {
            algorithm,
            pem: pem.expect("a key"),
        }
    }

    fn private(&self) -> EncodingKey {
        super::install_provider();
        let pem = self.pem.as_bytes();
        let private = match self.algorithm {
            Algorithm::ES256 | Algorithm::ES384 => EncodingKey::from_ec_pem(pem),
            Algorithm::EdDSA => EncodingKey::from_ed_pem(pem),
            _ => EncodingKey::from_rsa_pem(pem),
        };
        private.expect("own key")
    }

    fn jwk(&self, kid: Option<&str>) -> Value {
        let signing = SigningKey::from_pem(&self.pem).expect("own key");
        let mut jwk = signing.jwks("").expect("JWK")["keys"][0].take();
        jwk["alg"] = format!("{:?}", self.algorithm).into();
        match kid {
            Some(kid) => jwk["kid"] = kid.into(),
            None => drop(jwk.as_object_mut().and_then(|jwk| jwk.remove("kid"))),
        }
        jwk
    }

    fn token(&self, kid: Option<&str>, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = kid.map(str::to_owned);
        jsonwebtoken::encode(&header, claims, &self.private()).expect("token")
    }
}

fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

fn claims() -> Value {
    json!({ "sub": "ada", "exp": NOW + 600 })
}

fn with_secret() -> Settings {
    Settings {
        secret: Some(Secret::new(SECRET)),
        ..Settings::default()
    }
}

/// A token of the shared secret.
fn signed(claims: &Value) -> String {
    super::install_provider();
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).expect("token")
}

/// The same with a header of our own making.
fn signed_with_header(header: &Value, claims: &Value) -> String {
    super::install_provider();
    let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
    let message = format!("{}.{}", part(header), part(claims));
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256);
    format!("{message}.{}", signature.expect("signature"))
}

fn verifier(settings: Settings) -> Arc<Verifier> {
    Verifier::new(settings).expect("usable settings")
}

/// Settings whose key set lies in a file, and the folder that keeps it.
fn with_jwks(keys: &[Value]) -> (Settings, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("jwks.json");
    std::fs::write(&path, set(keys)).expect("write");
    let settings = Settings {
        jwks_file: Some(path),
        ..Settings::default()
    };
    (settings, folder)
}

/// What the client is told of a token now.
async fn denied(verifier: &Verifier, token: &str) -> Option<Denied> {
    let verdict = verifier.verify(token, NOW).await;
    verdict.err().map(|refused| refused.denied)
}
