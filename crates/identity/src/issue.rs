//! Making tokens and keys, for development: `sockeye token`. The serving code makes neither.

use super::settings::SECRET_BYTES_MIN;
use super::{Algorithm, install_provider};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Map, Value, json};

/// Random bytes of a secret.
const SECRET_RANDOM_BYTES: usize = 36;

/// A new secret that tokens may be signed with.
pub fn secret() -> Result<String, String> {
    let mut bytes = [0; SECRET_RANDOM_BYTES];
    rand::fill(&mut bytes).map_err(|_| "the system gives no random bytes")?;
    Ok(STANDARD.encode(bytes))
}

/// A key that signs.
#[derive(Debug)]
pub struct SigningKey {
    algorithm: Algorithm,
    key: EncodingKey,
}

impl SigningKey {
    pub fn from_secret(secret: &str) -> Result<Self, String> {
        if secret.len() < SECRET_BYTES_MIN {
            let len = secret.len();
            return Err(format!(
                "a secret of {SECRET_BYTES_MIN} bytes or more is needed, this one has {len}"
            ));
        }
        Ok(Self {
            algorithm: Algorithm::HS256,
            key: EncodingKey::from_secret(secret.as_bytes()),
        })
    }

    /// A private key in PKCS#8: RSA, P-256, P-384 or Ed25519.
    pub fn from_pem(pem: &str) -> Result<Self, String> {
        install_provider();
        if pem.contains("-----BEGIN EC PRIVATE KEY") {
            return Err("it is in an old format; convert it: \
                        openssl pkcs8 -topk8 -nocrypt -in FILE -out NEW"
                .to_owned());
        }
        if !pem.contains("PRIVATE KEY-----") {
            return Err("it holds no private key in PEM (-----BEGIN PRIVATE KEY-----)".to_owned());
        }
        let bytes = pem.as_bytes();
        // What reads RSA keys takes others for broken ones, so it comes last.
        if let Ok(key) = EncodingKey::from_ed_pem(bytes) {
            return Self::usable(key, &[Algorithm::EdDSA]);
        }
        if let Ok(key) = EncodingKey::from_ec_pem(bytes) {
            return Self::usable(key, &[Algorithm::ES256, Algorithm::ES384]);
        }
        match EncodingKey::from_rsa_pem(bytes) {
            Ok(key) => Self::usable(key, &[Algorithm::RS256]),
            Err(_) => Err("it is no RSA, EC or Ed25519 key".to_owned()),
        }
    }

    /// The first of the algorithms that the key turns out to be for.
    fn usable(key: EncodingKey, algorithms: &[Algorithm]) -> Result<Self, String> {
        let fits = |algorithm: &&Algorithm| Jwk::from_encoding_key(&key, **algorithm).is_ok();
        match algorithms.iter().find(fits) {
            Some(algorithm) => Ok(Self {
                algorithm: *algorithm,
                key,
            }),
            None => Err(format!("it cannot be read as a key for {algorithms:?}")),
        }
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub fn sign(&self, kid: Option<&str>, claims: &Map<String, Value>) -> Result<String, String> {
        install_provider();
        let mut header = Header::new(self.algorithm);
        header.kid = kid.map(str::to_owned);
        jsonwebtoken::encode(&header, claims, &self.key).map_err(|error| error.to_string())
    }

    /// The public half as a JWK set of one; shared secrets have none.
    pub fn jwks(&self, kid: &str) -> Result<Value, String> {
        if self.algorithm == Algorithm::HS256 {
            return Err("a shared secret has no public half".to_owned());
        }
        let jwk = Jwk::from_encoding_key(&self.key, self.algorithm);
        let jwk = jwk.map_err(|error| error.to_string())?;
        let mut jwk = serde_json::to_value(jwk).map_err(|error| error.to_string())?;
        jwk["kid"] = kid.into();
        jwk["use"] = "sig".into();
        Ok(json!({ "keys": [jwk] }))
    }
}

/// A new private key in PEM.
pub fn generate(algorithm: Algorithm) -> Result<String, String> {
    let failed = |_| "the system makes no key".to_owned();
    let der = match algorithm {
        Algorithm::ES256 => elliptic(&ECDSA_P256_SHA256_FIXED_SIGNING)?,
        Algorithm::ES384 => elliptic(&ECDSA_P384_SHA384_FIXED_SIGNING)?,
        Algorithm::EdDSA => {
            let pair = Ed25519KeyPair::generate().map_err(failed)?;
            pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec()
        }
        Algorithm::RS256 => {
            let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
            let der: Pkcs8V1Der<'_> = pair.as_der().map_err(failed)?;
            der.as_ref().to_vec()
        }
        other => {
            let known = "RS256, ES256, ES384 or EdDSA";
            return Err(format!("keys are made for {known}, not for {other:?}"));
        }
    };
    Ok(pem(&der))
}

fn elliptic(algorithm: &'static EcdsaSigningAlgorithm) -> Result<Vec<u8>, String> {
    let pair = EcdsaKeyPair::generate(algorithm).map_err(|_| "the system makes no key")?;
    let der = pair.to_pkcs8v1().map_err(|_| "the key cannot be written")?;
    Ok(der.as_ref().to_vec())
}

/// RFC 7468: lines of 64 letters.
fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN PRIVATE KEY-----\n");
    let base64 = STANDARD.encode(der);
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = more;
    }
    text.push_str("-----END PRIVATE KEY-----\n");
    text
}
