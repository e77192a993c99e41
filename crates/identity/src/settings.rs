//! What verification is told at start, and what can be wrong with it.

use jsonwebtoken::Algorithm;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// RFC 7518 §3.2: a key of the size of the hash output or larger.
pub const SECRET_BYTES_MIN: usize = 32;

/// A text that no log and no `Debug` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Shared secret (HMAC).
    pub secret: Option<Secret>,
    pub secret_file: Option<PathBuf>,
    /// PEM; several blocks are several keys.
    pub public_key_file: Option<PathBuf>,
    pub jwks_file: Option<PathBuf>,
    pub jwks_url: Option<String>,
    /// The key set is fetched anew after this.
    pub jwks_refresh: Duration,
    /// Only these are ever used; which of them, the key decides.
    pub algorithms: Vec<Algorithm>,
    /// Accepted values of `iss`; empty = not checked.
    pub issuer: Vec<String>,
    /// `aud` must hold one of these; empty = not checked.
    pub audience: Vec<String>,
    /// Difference allowed between clocks.
    pub leeway: Duration,
    /// Refuse tokens without `exp`.
    pub require_expiry: bool,
    /// Names of claims, or JSON pointers into them (`/realm_access/roles`).
    pub uid_claim: String,
    pub rooms_claim: String,
    pub permissions_claim: String,
    /// For handlers; `None`: no other claim is read.
    pub label_claim: Option<String>,
    /// Rooms that one token may name.
    pub rooms_max: usize,
    pub room_name_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            secret: None,
            secret_file: None,
            public_key_file: None,
            jwks_file: None,
            jwks_url: None,
            jwks_refresh: Duration::from_secs(600),
            algorithms: vec![
                Algorithm::HS256,
                Algorithm::RS256,
                Algorithm::ES256,
                Algorithm::EdDSA,
            ],
            issuer: Vec::new(),
            audience: Vec::new(),
            leeway: Duration::from_secs(10),
            require_expiry: true,
            uid_claim: "sub".to_owned(),
            rooms_claim: "rooms".to_owned(),
            permissions_claim: "permissions".to_owned(),
            label_claim: None,
            rooms_max: 64,
            room_name_bytes_max: 256,
        }
    }
}

impl Settings {
    /// Whether any key is configured: without one no token can be checked.
    pub fn has_keys(&self) -> bool {
        self.secret.is_some() || self.jwks_url.is_some() || !self.files().is_empty()
    }

    /// Key files, each with the key of the configuration that names it.
    pub(crate) fn files(&self) -> Vec<(&'static str, &PathBuf)> {
        let files = [
            ("auth.secret_file", &self.secret_file),
            ("auth.public_key_file", &self.public_key_file),
            ("auth.jwks_file", &self.jwks_file),
        ];
        files
            .into_iter()
            .filter_map(|(key, file)| Some((key, file.as_ref()?)))
            .collect()
    }
}

/// The algorithm of this name (RFC 7518 §3.1, RFC 8037 §3.1), if it is known and safe.
pub fn algorithm(name: &str) -> Option<Algorithm> {
    Algorithm::from_str(name).ok()
}

/// Something that keeps verification from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupError {
    /// Key of the configuration to look at.
    pub key: &'static str,
    pub message: String,
}

impl SetupError {
    pub(crate) fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self {
            key,
            message: message.into(),
        }
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for SetupError {}
