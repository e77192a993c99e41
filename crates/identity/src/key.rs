//! One key to check signatures with. It knows the algorithms it may be used with: what a token's
//! header asks for is compared with that and decides nothing (RFC 8725 §3.1).

use super::settings::SECRET_BYTES_MIN;
use aws_lc_rs::signature::RsaPublicKeyComponents;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde_json::Value;

/// Smaller moduli are refused when a signature is checked; better to hear of it at start.
const RSA_BYTES_MIN: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// Name in a key set; keys from elsewhere have none.
    pub(crate) kid: Option<String>,
    pub(crate) algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// What a key is good for, before the configuration has its say.
const HMAC: &[Algorithm] = &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];
const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

impl Key {
    /// `fit` is narrowed to what is allowed; nothing left is an error.
    fn new(
        key: DecodingKey,
        kid: Option<String>,
        fit: &[Algorithm],
        allowed: &[Algorithm],
    ) -> Result<Self, String> {
        let usable = fit.iter().copied().filter(|alg| allowed.contains(alg));
        let algorithms: Vec<_> = usable.collect();
        if algorithms.is_empty() {
            return Err(format!(
                "it is for {fit:?}, of which auth.algorithms allows none"
            ));
        }
        Ok(Self {
            kid,
            algorithms,
            key,
        })
    }

    pub(crate) fn from_secret(
        secret: &[u8],
        kid: Option<String>,
        fit: Option<Algorithm>,
        allowed: &[Algorithm],
    ) -> Result<Self, String> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(format!(
                "a secret of {SECRET_BYTES_MIN} bytes or more is needed, this one has {}; \
                 make one with: openssl rand -base64 48",
                secret.len()
            ));
        }
        let key = DecodingKey::from_secret(secret);
        match fit {
            Some(alg) if HMAC.contains(&alg) => Self::new(key, kid, &[alg], allowed),
            Some(alg) => Err(format!("a shared secret is not for {alg:?}")),
            None => Self::new(key, kid, HMAC, allowed),
        }
    }

    /// One block of a PEM file.
    pub(crate) fn from_pem(pem: &str, allowed: &[Algorithm]) -> Result<Self, String> {
        let label = pem.split("-----").nth(1).unwrap_or_default();
        match label.strip_prefix("BEGIN ").unwrap_or_default() {
            "PUBLIC KEY" | "RSA PUBLIC KEY" => {}
            private if private.ends_with("PRIVATE KEY") => {
                return Err(
                    "it holds a private key, and only the public one belongs here: \
                            openssl pkey -in FILE -pubout"
                        .to_owned(),
                );
            }
            "CERTIFICATE" => {
                return Err("it holds a certificate, and a public key is needed: \
                            openssl x509 -in FILE -noout -pubkey"
                    .to_owned());
            }
            other => return Err(format!("it holds {other:?} instead of a PUBLIC KEY")),
        }
        let bytes = pem.as_bytes();
        if let Ok(key) = DecodingKey::from_rsa_pem(bytes) {
            return Self::from_rsa(key, None, RSA, allowed);
        }
        if let Ok(key) = DecodingKey::from_ec_pem(bytes) {
            let fit = match key.try_get_as_bytes().map(<[u8]>::len) {
                // An uncompressed point (SEC 1 §2.3.3): a byte and two coordinates.
                Ok(65) => Algorithm::ES256,
                Ok(97) => Algorithm::ES384,
                _ => return Err("its curve is neither P-256 nor P-384".to_owned()),
            };
            return Self::new(key, None, &[fit], allowed);
        }
        match DecodingKey::from_ed_pem(bytes) {
            Ok(key) => Self::new(key, None, &[Algorithm::EdDSA], allowed),
            Err(_) => Err("it is no RSA, EC or Ed25519 public key".to_owned()),
        }
    }

    fn from_rsa(
        key: DecodingKey,
        kid: Option<String>,
        fit: &[Algorithm],
        allowed: &[Algorithm],
    ) -> Result<Self, String> {
        let modulus = match key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, .. } => n.len(),
            DecodingKeyKind::SecretOrDer(der) => {
                let read = aws_lc_rs::rsa::PublicKey::from_der(der);
                let read = read.map_err(|_| "its RSA key cannot be read".to_owned())?;
                RsaPublicKeyComponents::<Vec<u8>>::from(&read).n.len()
            }
        };
        if modulus < RSA_BYTES_MIN {
            return Err(format!(
                "RSA keys of 2048 bits or more are needed, this one has {}",
                modulus * 8
            ));
        }
        Self::new(key, kid, fit, allowed)
    }

    /// One member of a JWK set (RFC 7517 §4). `secrets`: whether it may hold symmetric keys.
    pub(crate) fn from_jwk(
        jwk: &Value,
        allowed: &[Algorithm],
        secrets: bool,
    ) -> Result<Self, String> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        if text("use").is_some_and(|usage| usage != "sig") {
            return Err("it is not for signatures (use)".to_owned());
        }
        let operations = jwk.get("key_ops").and_then(Value::as_array);
        if operations.is_some_and(|operations| !operations.iter().any(|name| name == "verify")) {
            return Err("it is not for verifying (key_ops)".to_owned());
        }
        if jwk.get("d").is_some() {
            return Err("it holds a private key: publish the public part only".to_owned());
        }
        let kid = text("kid").map(str::to_owned);
        let alg = match text("alg") {
            None => None,
            Some(name) => Some(
                super::settings::algorithm(name)
                    .ok_or_else(|| format!("its algorithm {name:?} is not known"))?,
            ),
        };
        match text("kty").unwrap_or_default() {
            "RSA" => {
                let (modulus, exponent) = (unsigned(jwk, "n")?, unsigned(jwk, "e")?);
                let key = DecodingKey::from_rsa_raw_components(&modulus, &exponent);
                Self::from_rsa(key, kid, &declared(alg, RSA)?, allowed)
            }
            "EC" => {
                let (alg, point) = elliptic(jwk, alg)?;
                Self::new(DecodingKey::from_ec_der(&point), kid, &[alg], allowed)
            }
            "OKP" => {
                let x = bytes(jwk, "x")?;
                if text("crv") != Some("Ed25519") || x.len() != 32 {
                    return Err("its curve is not Ed25519".to_owned());
                }
                let fit = declared(alg, &[Algorithm::EdDSA])?;
                Self::new(DecodingKey::from_ed_der(&x), kid, &fit, allowed)
            }
            "oct" if secrets => Self::from_secret(&bytes(jwk, "k")?, kid, alg, allowed),
            "oct" => Err("a secret does not belong into a published key set".to_owned()),
            other => Err(format!("its type {other:?} is not known")),
        }
    }

    /// Whether `signature` (base64url) is this key's over `message`.
    pub(crate) fn verifies(&self, alg: Algorithm, message: &str, signature: &str) -> bool {
        debug_assert!(self.algorithms.contains(&alg));
        let checked = jsonwebtoken::crypto::verify(signature, message.as_bytes(), &self.key, alg);
        checked.unwrap_or(false)
    }
}

/// `alg` of the JWK when it has one, else all that its type is good for.
fn declared(alg: Option<Algorithm>, fit: &[Algorithm]) -> Result<Vec<Algorithm>, String> {
    match alg {
        None => Ok(fit.to_vec()),
        Some(alg) if fit.contains(&alg) => Ok(vec![alg]),
        Some(alg) => Err(format!("its type is not for {alg:?}")),
    }
}

/// The algorithm of an EC key and its public point, uncompressed.
fn elliptic(jwk: &Value, alg: Option<Algorithm>) -> Result<(Algorithm, Vec<u8>), String> {
    let (fit, len): (_, usize) = match jwk.get("crv").and_then(Value::as_str) {
        Some("P-256") => (Algorithm::ES256, 32),
        Some("P-384") => (Algorithm::ES384, 48),
        _ => return Err("its curve is neither P-256 nor P-384".to_owned()),
    };
    if alg.is_some_and(|alg| alg != fit) {
        return Err(format!("its curve is for {fit:?} only"));
    }
    let mut point = vec![4];
    for name in ["x", "y"] {
        let coordinate = unsigned(jwk, name)?;
        let missing = len.checked_sub(coordinate.len());
        let missing = missing.ok_or_else(|| format!("{name:?} is too long for its curve"))?;
        point.extend(std::iter::repeat_n(0, missing));
        point.extend(coordinate);
    }
    Ok((fit, point))
}

/// A big-endian number without leading zeros, which some libraries write all the same.
fn unsigned(jwk: &Value, name: &str) -> Result<Vec<u8>, String> {
    let bytes = bytes(jwk, name)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Ok(bytes.get(zeros..).unwrap_or_default().to_vec())
}

fn bytes(jwk: &Value, name: &str) -> Result<Vec<u8>, String> {
    let text = jwk.get(name).and_then(Value::as_str).unwrap_or_default();
    match URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')) {
        Ok(bytes) if !bytes.is_empty() => Ok(bytes),
        _ => Err(format!("{name:?} is missing or not base64url")),
    }
}
