//! A token taken apart: compact JWS (RFC 7515 §7.1) with a JSON header. Nothing in here is trusted
//! until its signature has been checked.

use super::TOKEN_BYTES_MAX;
use super::key::Key;
use super::rejection::Rejection;
use super::settings;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde_json::Value;

/// Names of keys are short; the name ends up in messages.
const KID_BYTES_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Token<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) kid: Option<String>,
    /// Header and payload as they were signed.
    message: &'a str,
    payload: &'a str,
    signature: &'a str,
}

impl<'a> Token<'a> {
    pub(crate) fn read(text: &'a str) -> Result<Self, Rejection> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(Rejection::TooLong);
        }
        let (message, signature) = text.rsplit_once('.').ok_or(NOT_THREE_PARTS)?;
        let (header, payload) = message.split_once('.').ok_or(NOT_THREE_PARTS)?;
        if payload.contains('.') {
            return Err(NOT_THREE_PARTS);
        }
        let header = object(header, Rejection::Malformed("its header is no JSON object"))?;
        // RFC 7515 §4.1.11: extensions marked critical must be understood, and none is.
        if header.get("crit").is_some() {
            return Err(Rejection::Malformed(
                "its header has critical extensions (crit)",
            ));
        }
        let algorithm = match header.get("alg").and_then(Value::as_str) {
            None => return Err(Rejection::Malformed("its header names no algorithm (alg)")),
            Some(name) => settings::algorithm(name)
                .ok_or_else(|| Rejection::Algorithm(name.chars().take(32).collect()))?,
        };
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) if kid.len() <= KID_BYTES_MAX => Some(kid.clone()),
            Some(_) => {
                return Err(Rejection::Malformed(
                    "its key name (kid) is no short string",
                ));
            }
        };
        Ok(Self {
            algorithm,
            kid,
            message,
            payload,
            signature,
        })
    }

    pub(crate) fn is_signed_by(&self, key: &Key) -> bool {
        key.verifies(self.algorithm, self.message, self.signature)
    }

    /// What it says; to be asked only when the signature is good.
    pub(crate) fn claims(&self) -> Result<Value, Rejection> {
        object(
            self.payload,
            Rejection::Malformed("its payload is no JSON object"),
        )
    }
}

const NOT_THREE_PARTS: Rejection = Rejection::Malformed("it has not three parts");

fn object(part: &str, otherwise: Rejection) -> Result<Value, Rejection> {
    let decoded = URL_SAFE_NO_PAD.decode(part).ok();
    let json: Option<Value> = decoded.and_then(|json| serde_json::from_slice(&json).ok());
    json.filter(Value::is_object).ok_or(otherwise)
}
