//! Logins of the console: a browser that showed an API key once has a cookie and a token instead of it. Both are needed for each request.
//! Browsers send cookies to every port of a host, and with requests that other pages make (OWASP, cross-site request forgery): a cookie alone is
//! worth nothing. The token is told once, to the page that logs in.

use crate::api::problem::{Kind, Problem};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, rand};
use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::keys::{Caller, Keyring, Shown};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The beginning of all paths of the console.
pub(super) const CONSOLE: &str = "/console";
/// The header that has the token.
pub(crate) const TOKEN_HEADER: &str = "x-sockeye-csrf";
/// A login ends then, whatever its browser does.
pub const LOGIN_MAX: Duration = Duration::from_secs(8 * 3_600);
/// Logins at once with one key. One more takes the place of its oldest.
const LOGINS_PER_KEY_MAX: usize = 16;
const RANDOM_BYTES: usize = 32;

#[derive(Debug)]
struct Login {
    /// Hashes: who reads the memory of the process learns nothing that opens it.
    cookie: Hash,
    token: Hash,
    key: Shown,
    began: Instant,
}

type Hash = [u8; 32];

/// The logins of this process, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    logins: Mutex<Vec<Login>>,
    /// Several processes on one host have cookies of several names.
    name: OnceLock<String>,
}

/// The worth of a request's cookie and token.
#[derive(Debug)]
pub(crate) enum Pass {
    Good(Caller),
    /// There is a login, and the request may come from another page.
    Forged,
    /// No cookie, or one whose login has ended.
    None,
}

impl Logins {
    /// A new login with a key that is known: the header of its cookie, and its token.
    pub(crate) fn begin(&self, key: Shown, now: Instant) -> Option<(String, String)> {
        let (cookie, token) = (random()?, random()?);
        let header = format!(
            "{}={cookie}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}",
            self.name(),
            LOGIN_MAX.as_secs()
        );
        let mut logins = self.logins();
        logins.retain(|login| now.saturating_duration_since(login.began) < LOGIN_MAX);
        let of_key = logins.iter().filter(|login| login.key == key).count();
        if of_key >= LOGINS_PER_KEY_MAX
            && let Some(oldest) = logins.iter().position(|login| login.key == key)
        {
            logins.remove(oldest);
        }
        logins.push(Login {
            cookie: hashed(&cookie)?,
            token: hashed(&token)?,
            key,
            began: now,
        });
        Some((header, token))
    }

    /// Looks at the cookies and the token of a request.
    pub(crate) fn pass(&self, keys: &Keyring, headers: &HeaderMap, now: Instant) -> Pass {
        let name = self.name();
        let shown: Vec<Hash> = cookies(headers, name).filter_map(hashed).collect();
        let logins = self.logins();
        let known = logins.iter().find(|login| shown.contains(&login.cookie));
        let Some(login) = known else {
            return Pass::None;
        };
        let lasts = now.saturating_duration_since(login.began) < LOGIN_MAX;
        let Some(caller) = keys.of(login.key).filter(|_| lasts) else {
            return Pass::None;
        };
        let token = headers
            .get(TOKEN_HEADER)
            .and_then(|value| value.to_str().ok());
        let token = token.and_then(hashed).unwrap_or_default();
        let has_token = verify_slices_are_equal(&token, &login.token).is_ok();
        match has_token && !is_foreign(headers) {
            true => Pass::Good(caller.at_the_console()),
            false => Pass::Forged,
        }
    }

    /// Ends the login of a request, and says how its browser forgets the cookie.
    pub(crate) fn end(&self, headers: &HeaderMap) -> String {
        let name = self.name();
        let shown: Vec<Hash> = cookies(headers, name).filter_map(hashed).collect();
        self.logins().retain(|login| !shown.contains(&login.cookie));
        format!("{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
    }

    fn name(&self) -> &str {
        self.name.get_or_init(|| {
            let random = random().unwrap_or_default();
            let own = random.chars().filter(char::is_ascii_alphanumeric);
            format!("sockeye_console_{}", own.take(8).collect::<String>())
        })
    }

    fn logins(&self) -> MutexGuard<'_, Vec<Login>> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another page made the request, as far as its browser says: `Sec-Fetch-Site` comes over https and from localhost, `Origin` with all that
/// changes something.
pub(super) fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let origin = text("origin").and_then(|origin| origin.split_once("://"));
    let host = text("host");
    site || text("origin").is_some() && origin.map(|(_, host)| host) != host
}

/// A request that its browser's user may not have wanted.
pub(super) fn forged() -> Problem {
    let detail = "the header X-Sockeye-CSRF is missing or not that of this login, or another page made the request";
    Problem::new(Kind::Forbidden, detail)
}

/// All cookies of a name: others may have set one for a longer path.
fn cookies<'a>(headers: &'a HeaderMap, wanted: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(header::COOKIE).into_iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    pairs.filter_map(move |pair| {
        let (name, value) = pair.split_once('=')?;
        (name.trim() == wanted).then(|| value.trim())
    })
}

fn hashed(text: &str) -> Option<Hash> {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    hash.as_ref().try_into().ok()
}

fn random() -> Option<String> {
    let mut bytes = [0; RANDOM_BYTES];
    rand::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use identity::keys::{ApiKeys, generate};

    fn with(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    fn cookie(header: &str) -> &str {
        header.split(';').next().expect("a pair")
    }

    #[test]
    fn a_cookie_and_its_token_are_as_good_as_their_key_and_for_the_console_only() {
        let (key, entry) = generate("ops", &["read".to_owned()]).expect("a key");
        let keys = Keyring::new(ApiKeys::parse(&[entry]).expect("an entry"));
        let (logins, now) = (Logins::default(), Instant::now());
        let (header, token) = logins.begin(Shown::of(&key), now).expect("random bytes");
        assert!(header.contains("HttpOnly") && header.contains("SameSite=Strict"));
        let cookie = cookie(&header);
        let pass = |more: &[(&'static str, &str)], now| {
            let pairs = [&[("cookie", cookie), ("host", "a:1")], more].concat();
            match logins.pass(&keys, &with(&pairs), now) {
                Pass::Good(caller) => caller.name().to_owned(),
                Pass::Forged => "forged".to_owned(),
                Pass::None => "none".to_owned(),
            }
        };
        let own = (TOKEN_HEADER, &*token);
        assert_eq!(pass(&[own], now), "ops");
        assert_eq!(pass(&[own, ("origin", "http://a:1")], now), "ops");
        assert_eq!(pass(&[own, ("sec-fetch-site", "same-origin")], now), "ops");
        for forged in [
            &[][..],
            &[(TOKEN_HEADER, "x")],
            &[own, ("sec-fetch-site", "cross-site")],
            &[own, ("sec-fetch-site", "same-site")],
            &[own, ("origin", "http://a:2")],
            &[own, ("origin", "null")],
        ] {
            assert_eq!(pass(forged, now), "forged", "{forged:?}");
        }
        assert_eq!(pass(&[own], now + LOGIN_MAX), "none");
        // A cookie of the same name that another page set does not hide it.
        let name = cookie.split('=').next().expect("a name");
        let set = format!("{name}=x");
        let pairs = [("cookie", &*set), ("cookie", cookie), own];
        assert!(matches!(
            logins.pass(&keys, &with(&pairs), now),
            Pass::Good(_)
        ));
        // A key that is taken away ends its logins.
        keys.set(ApiKeys::default());
        assert_eq!(pass(&[own], now), "none");
    }

    #[test]
    fn a_login_ends_when_it_is_told_to_and_a_key_pushes_out_its_own_only() {
        let made = [generate("ops", &[]), generate("other", &[])].map(|made| made.expect("a key"));
        let entries = made.clone().map(|(_, entry)| entry);
        let keys = Keyring::new(ApiKeys::parse(&entries).expect("entries"));
        let (logins, now) = (Logins::default(), Instant::now());
        let is_good = |(header, token): &(String, String)| {
            let pairs = [("cookie", cookie(header)), (TOKEN_HEADER, &**token)];
            matches!(logins.pass(&keys, &with(&pairs), now), Pass::Good(_))
        };
        let begin = |at: usize| {
            logins
                .begin(Shown::of(&made[at].0), now)
                .expect("random bytes")
        };
        let (first, second, other) = (begin(0), begin(0), begin(1));
        assert!(is_good(&first) && is_good(&second) && is_good(&other));
        logins.end(&with(&[("cookie", cookie(&second.0))]));
        assert!(is_good(&first) && !is_good(&second));
        for _ in 0..LOGINS_PER_KEY_MAX {
            begin(0);
        }
        assert!(!is_good(&first) && is_good(&other));
    }
}
