//! Owns tokens that users present: signed here (HS256, RFC 7515), each for a user of its own.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::time::{SystemTime, UNIX_EPOCH};

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
/// Longer than any run.
const LIFETIME_S: u64 = 24 * 3_600;

/// A token for `subject`, good for a day to every server that knows `secret`.
pub fn token(subject: &str, secret: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let expires = since.map_or(0, |since| since.as_secs()) + LIFETIME_S;
    let claims = serde_json::json!({ "sub": subject, "exp": expires }).to_string();
    let signed = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(HEADER),
        URL_SAFE_NO_PAD.encode(claims)
    );
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
    let signature = aws_lc_rs::hmac::sign(&key, signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}
