//! Where Redis is and how to get in.

use crate::engine::Trouble;
use redis::{ConnectionAddr, IntoConnectionInfo};
use rustls::ClientConfig;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What Redis consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    Single,
    /// The addresses are those of Sentinels, which know the master by this name.
    Sentinel(String),
    /// The addresses are those of some nodes.
    Cluster,
}

/// A user with its password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// Without one, the default user.
    pub user: Option<String>,
    pub password: Option<String>,
    /// The number of the database; channels belong to none.
    pub database: i64,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "…");
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("password", &password)
            .field("database", &self.database)
            .finish()
    }
}

/// A server's address; `host:port` in messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Addr {
    pub host: Arc<str>,
    pub port: u16,
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Everything that a connection needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    pub addrs: Vec<Addr>,
    pub mode: Mode,
    pub login: Login,
    /// At the Sentinels.
    pub sentinel_login: Login,
    pub tls: Option<Arc<ClientConfig>>,
    /// Bytes of commands that may wait for Redis; above it they are refused.
    pub queue_bytes: usize,
    /// Bytes of messages that may wait for their reader; above it they are dropped and told of.
    pub feed_bytes: usize,
    /// A server that does not answer a command for so long is given up.
    pub patience: Duration,
}

impl Settings {
    /// From addresses as `redis://user:password@host:port`, or `rediss://` for TLS, which then need `tls`. All of them have the same
    /// user and password.
    ///
    /// # Errors
    /// Which address cannot be used, and why.
    pub fn new(
        urls: &[String],
        mode: Mode,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self, Trouble> {
        let settings = Self::with_database(urls, mode, tls)?;
        match settings.login.database {
            0 => Ok(settings),
            _ => Err(no_database(urls)),
        }
    }

    /// The same for commands about keys: `redis://…/3` is database 3.
    ///
    /// # Errors
    /// Which address cannot be used, and why.
    pub fn with_database(
        urls: &[String],
        mode: Mode,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self, Trouble> {
        let (addrs, login) = read(urls, tls.is_some())?;
        Ok(Self {
            addrs,
            mode,
            login,
            sentinel_login: Login::default(),
            tls,
            queue_bytes: 32 << 20,
            feed_bytes: 64 << 20,
            patience: Duration::from_secs(1),
        })
    }
}

/// Whether these addresses can be used. Certificates are not looked at.
///
/// # Errors
/// Which address cannot be used, and why.
pub fn check(urls: &[String]) -> Result<(), Trouble> {
    match read(urls, is_secure(urls))?.1.database {
        0 => Ok(()),
        _ => Err(no_database(urls)),
    }
}

/// The same with the numbers of databases.
///
/// # Errors
/// Which address cannot be used, and why.
pub fn check_with_database(urls: &[String]) -> Result<(), Trouble> {
    read(urls, is_secure(urls)).map(drop)
}

/// Whether one of the addresses asks for TLS.
pub fn is_secure(urls: &[String]) -> bool {
    urls.iter().any(|url| url.starts_with("rediss://"))
}

fn no_database(urls: &[String]) -> Trouble {
    let url = urls.first().map(|url| hidden(url)).unwrap_or_default();
    Trouble::new(format!(
        "cannot use the address {url:?}: channels do not belong to databases; leave the number out"
    ))
}

fn read(urls: &[String], tls: bool) -> Result<(Vec<Addr>, Login), Trouble> {
    let mut places = Places::default();
    for url in urls {
        places.add(url, tls)?;
    }
    if places.addrs.is_empty() {
        return Err(Trouble::new("cannot find Redis: no address is given"));
    }
    Ok((places.addrs, places.login))
}

#[derive(Default)]
struct Places {
    addrs: Vec<Addr>,
    login: Login,
}

impl Places {
    fn add(&mut self, url: &str, tls: bool) -> Result<(), Trouble> {
        let refuse =
            |why: &str| Trouble::new(format!("cannot use the address {:?}: {why}", hidden(url)));
        let secure = url.strip_prefix("rediss://");
        let plain = secure.map_or_else(|| url.to_owned(), |rest| format!("redis://{rest}"));
        let info = plain.into_connection_info();
        let info = info.map_err(|_| refuse("redis://HOST:PORT is needed, or rediss:// for TLS"))?;
        let (host, port) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (host, *port),
            _ => return Err(refuse("only redis:// and rediss:// can be used")),
        };
        match (secure.is_some(), tls) {
            (false, true) => return Err(refuse("TLS is set up, so it must begin with rediss://")),
            (true, false) => return Err(refuse("TLS is not set up")),
            _ => {}
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').into();
        let login = Login {
            user: info.redis_settings().username().map(str::to_owned),
            password: info.redis_settings().password().map(str::to_owned),
            database: info.redis_settings().db(),
        };
        if !self.addrs.is_empty() && self.login != login {
            return Err(refuse(
                "user, password and database must be the same in all addresses",
            ));
        }
        self.addrs.push(Addr { host, port });
        self.login = login;
        Ok(())
    }
}

/// The address without its password, for messages.
fn hidden(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    match rest.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}://…@{place}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(urls: &[&str]) -> Result<Settings, String> {
        let urls: Vec<String> = urls.iter().map(|&url| url.to_owned()).collect();
        Settings::new(&urls, Mode::Single, None).map_err(|trouble| trouble.to_string())
    }

    #[test]
    fn addresses_are_read() {
        let settings = read(&["redis://me:p%40ss@10.0.0.1:7000", "redis://me:p%40ss@[::1]"]);
        let settings = settings.expect("two addresses");
        let shown: Vec<String> = settings.addrs.iter().map(Addr::to_string).collect();
        assert_eq!(shown, ["10.0.0.1:7000", "[::1]:6379"]);
        assert_eq!(settings.login.user.as_deref(), Some("me"));
        assert_eq!(settings.login.password.as_deref(), Some("p@ss"));
        assert!(!format!("{settings:?}").contains("p@ss"));
    }

    #[test]
    fn what_cannot_be_used_is_named_without_its_password() {
        for (urls, wanted) in [
            (&["http://a"][..], "cannot use the address \"http://a\""),
            (&["redis://:secret@a/3"], "channels do not belong"),
            (&["rediss://:secret@a"], "TLS is not set up"),
            (
                &["redis://:secret@a", "redis://b"],
                "must be the same in all addresses",
            ),
            (&[], "no address is given"),
        ] {
            let error = read(urls).expect_err("a mistake");
            assert!(
                error.contains(wanted) && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
