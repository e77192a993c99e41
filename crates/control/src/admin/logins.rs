//! Logins of the console: a browser that showed an API key once has a cookie instead of it. A cookie is as good as its key, for so long as
//! the key is on the ring, but in the hands of other pages it does nothing: what changes something needs a token that only the console's
//! own page can read (OWASP, cross-site request forgery).

use super::keys::{Caller, Keyring, Shown};
use crate::api::problem::{Kind, Problem};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, rand};
use axum::http::{HeaderMap, Method, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The beginning of all paths of the console.
pub(super) const CONSOLE: &str = "/console";
/// The cookie's name.
const COOKIE: &str = "sockeye_console";
/// The header that has the token.
pub(crate) const TOKEN_HEADER: &str = "x-sockeye-csrf";
/// A login ends then, whatever its browser does.
pub const LOGIN_MAX: Duration = Duration::from_secs(8 * 3_600);
/// Logins at once. One more takes the place of the oldest.
const LOGINS_MAX: usize = 256;
const RANDOM_BYTES: usize = 32;

#[derive(Debug)]
struct Login {
    /// Hash of the cookie: who reads the memory of the process learns no cookie.
    cookie: [u8; 32],
    token: String,
    key: Shown,
    began: Instant,
}

/// The logins of this process, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Logins(Mutex<Vec<Login>>);

/// What a cookie is good for in a request.
#[derive(Debug)]
pub(crate) enum Pass {
    /// The caller, and the token of its login.
    Good(Caller, String),
    /// The request may come from another page.
    Forged,
    /// No cookie, or one whose login has ended.
    None,
}

impl Logins {
    /// A new login with a key that is known: the value of its cookie's header, and its token.
    pub(crate) fn begin(&self, key: Shown, now: Instant) -> Option<(String, String)> {
        let (cookie, token) = (random()?, random()?);
        let mut logins = self.logins();
        logins.retain(|login| now.saturating_duration_since(login.began) < LOGIN_MAX);
        if logins.len() >= LOGINS_MAX {
            logins.remove(0);
        }
        logins.push(Login {
            cookie: hashed(&cookie)?,
            token: token.clone(),
            key,
            began: now,
        });
        let seconds = LOGIN_MAX.as_secs();
        let header =
            format!("{COOKIE}={cookie}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}");
        Some((header, token))
    }

    /// Looks at the cookie of a request.
    pub(crate) fn pass(
        &self,
        keys: &Keyring,
        method: &Method,
        headers: &HeaderMap,
        now: Instant,
    ) -> Pass {
        let Some(cookie) = cookie(headers).and_then(hashed) else {
            return Pass::None;
        };
        let logins = self.logins();
        let known = logins.iter().find(|login| login.cookie == cookie);
        let Some(login) = known else {
            return Pass::None;
        };
        let lasts = now.saturating_duration_since(login.began) < LOGIN_MAX;
        let Some(caller) = keys.of(login.key).filter(|_| lasts) else {
            return Pass::None;
        };
        match is_own(method, headers, &login.token) {
            true => Pass::Good(caller.at_the_console(), login.token.clone()),
            false => Pass::Forged,
        }
    }

    /// Ends the login of a request.
    pub(crate) fn end(&self, headers: &HeaderMap) {
        let cookie = cookie(headers).and_then(hashed);
        self.logins().retain(|login| Some(login.cookie) != cookie);
    }

    fn logins(&self) -> MutexGuard<'_, Vec<Login>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that its browser's user may not have wanted.
pub(super) fn forged() -> Problem {
    let detail = "the header X-Sockeye-CSRF is missing or not that of this login, or another page made the request";
    Problem::new(Kind::Forbidden, detail)
}

/// The header that takes a cookie back.
pub(crate) fn no_cookie() -> String {
    format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
}

/// The console's page made the request: browsers say when another page did, and only the console can read the token.
fn is_own(method: &Method, headers: &HeaderMap, token: &str) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text("sec-fetch-site").unwrap_or("same-origin");
    let from_here = matches!(site, "same-origin" | "none");
    let shown = text(TOKEN_HEADER).unwrap_or_default();
    let has_token = verify_slices_are_equal(shown.as_bytes(), token.as_bytes()).is_ok();
    from_here && (has_token || matches!(*method, Method::GET | Method::HEAD))
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter();
    let mut pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    pairs.find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        (name.trim() == COOKIE).then(|| value.trim())
    })
}

fn hashed(cookie: &str) -> Option<[u8; 32]> {
    let hash = digest::digest(&digest::SHA256, cookie.as_bytes());
    hash.as_ref().try_into().ok()
}

fn random() -> Option<String> {
    let mut bytes = [0; RANDOM_BYTES];
    rand::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::keys::{ApiKeys, generate};
    use super::*;
    use axum::http::HeaderValue;

    fn with(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = header::HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).expect("a value"))
        });
        pairs.collect()
    }

    #[test]
    fn a_cookie_is_as_good_as_its_key_and_for_the_console_only() {
        let (key, entry) = generate("ops", &["read".to_owned()]).expect("a key");
        let keys = Keyring::new(ApiKeys::parse(&[entry]).expect("an entry"));
        let shown = Shown::of(&key);
        let (logins, now) = (Logins::default(), Instant::now());
        let (header, token) = logins.begin(shown, now).expect("random bytes");
        assert!(header.contains("HttpOnly") && header.contains("SameSite=Strict"));
        let cookie = header.split(';').next().expect("a pair");
        let pass = |method: Method, more: &[(&'static str, &str)], now| {
            let pairs = [&[("cookie", cookie)], more].concat();
            match logins.pass(&keys, &method, &with(&pairs), now) {
                Pass::Good(caller, _) => caller.name().to_owned(),
                Pass::Forged => "forged".to_owned(),
                Pass::None => "none".to_owned(),
            }
        };
        assert_eq!(pass(Method::GET, &[], now), "ops");
        assert_eq!(pass(Method::POST, &[], now), "forged");
        assert_eq!(pass(Method::POST, &[(TOKEN_HEADER, "x")], now), "forged");
        assert_eq!(pass(Method::POST, &[(TOKEN_HEADER, &token)], now), "ops");
        let elsewhere = [(TOKEN_HEADER, &*token), ("sec-fetch-site", "cross-site")];
        assert_eq!(pass(Method::POST, &elsewhere, now), "forged");
        assert_eq!(
            pass(Method::GET, &[("sec-fetch-site", "same-site")], now),
            "forged"
        );
        assert_eq!(pass(Method::GET, &[], now + LOGIN_MAX), "none");
        // A key that is taken away ends its logins.
        keys.set(ApiKeys::default());
        assert_eq!(pass(Method::GET, &[], now), "none");
    }

    #[test]
    fn a_login_ends_when_it_is_told_to_and_the_oldest_makes_way() {
        let (key, entry) = generate("ops", &[]).expect("a key");
        let keys = Keyring::new(ApiKeys::parse(&[entry]).expect("an entry"));
        let (logins, now) = (Logins::default(), Instant::now());
        let is_good = |header: &str| {
            let cookie = header.split(';').next().expect("a pair");
            let headers = with(&[("cookie", &format!("a=b; {cookie}"))]);
            matches!(
                logins.pass(&keys, &Method::GET, &headers, now),
                Pass::Good(..)
            )
        };
        let begin = || logins.begin(Shown::of(&key), now).expect("random bytes").0;
        let (first, second) = (begin(), begin());
        assert!(is_good(&first) && is_good(&second));
        logins.end(&with(&[(
            "cookie",
            second.split(';').next().expect("a pair"),
        )]));
        assert!(is_good(&first) && !is_good(&second));
        for _ in 0..LOGINS_MAX {
            begin();
        }
        assert!(!is_good(&first));
        assert!(!is_good("sockeye_console=; x"));
    }
}
