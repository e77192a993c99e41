//! How to reach the servers.

use async_nats::{ConnectOptions, Event, ServerAddr};
use bridge::{Failures, Fault, Kind};
use process::files;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A server that is there answers well within.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// A server that hangs is noticed after three of them.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// Messages of a subscription that nobody has looked at yet: at most so many times the server's `max_payload` in memory.
const SUBSCRIPTION_MESSAGES: usize = 256;

/// How the gateway proves who it is. Files are read at each connection: one that was replaced is used from then on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Not at all, unless a URL has a user and a password.
    #[default]
    None,
    /// By a file with a JWT and a seed, as `nsc` writes it.
    File(PathBuf),
    /// By a user's name and its password.
    Known {
        /// The name.
        user: String,
        /// The password.
        password: Password,
    },
    /// By a user's name, and a file with its password.
    Password {
        /// The name.
        user: String,
        /// The file.
        file: PathBuf,
    },
}

/// A password, which no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// The password as the server knows it.
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Encryption. A URL that begins with `tls://` demands it, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// No connection without it.
    pub required: bool,
    /// Authorities besides those of the system, PEM.
    pub ca_file: Option<PathBuf>,
    /// The gateway's own certificate and its key, PEM.
    pub own: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    fn files(&self) -> impl Iterator<Item = &Path> {
        let own = self.own.iter().flat_map(|(cert, key)| [cert, key]);
        self.ca_file.iter().chain(own).map(PathBuf::as_path)
    }
}

/// Servers, credentials, TLS.
#[derive(Clone, Debug)]
pub struct Settings {
    urls: Vec<ServerAddr>,
    credentials: Credentials,
    tls: Tls,
    failures: Arc<Failures>,
}

impl Settings {
    /// `urls`: `nats://host:port` or `tls://host:port`, all of one cluster.
    ///
    /// # Errors
    /// There is no URL, or one cannot be read.
    pub fn new(urls: &[String], credentials: Credentials, tls: Tls) -> Result<Self, Fault> {
        let wrong = |text| Fault::new(Kind::Settings, text);
        if urls.is_empty() {
            let text = "cannot use NATS: no server is named: give nats://HOST:PORT";
            return Err(wrong(text.to_owned()));
        }
        let read = |url: &String| {
            // It may have a password.
            let public = url.rsplit('@').next().unwrap_or_default();
            let address: Result<ServerAddr, _> = url.parse();
            let address = address.ok().filter(|address| {
                matches!(address.scheme(), "nats" | "tls") && !address.host().is_empty()
            });
            address.ok_or_else(|| {
                wrong(format!(
                    "cannot use the server {public:?}: nats://HOST:PORT or tls://HOST:PORT is needed"
                ))
            })
        };
        Ok(Self {
            urls: urls.iter().map(read).collect::<Result<_, _>>()?,
            credentials,
            tls,
            failures: Arc::default(),
        })
    }

    /// Whoever is made with these settings notes what fails here.
    #[must_use]
    pub fn noting(self, failures: &Arc<Failures>) -> Self {
        let failures = Arc::clone(failures);
        Self { failures, ..self }
    }

    pub(crate) fn failures(&self) -> &Arc<Failures> {
        &self.failures
    }

    /// Host and port of the first one.
    pub fn first(&self) -> Option<(String, u16)> {
        let first = self.urls.first()?;
        Some((first.host().to_owned(), first.port()))
    }

    pub(crate) fn urls(&self) -> Vec<ServerAddr> {
        self.urls.clone()
    }

    /// One connection, which is given up when its server goes: whoever uses it makes another one. So what waits in the client of a
    /// connection is never sent late by another one.
    pub(crate) async fn options(
        &self,
        told: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<ConnectOptions, String> {
        let told = Arc::new(told);
        let mut options = ConnectOptions::new()
            .name("sockeye")
            .connection_timeout(CONNECT_TIME)
            .ping_interval(PING_INTERVAL)
            .request_timeout(Some(CONNECT_TIME))
            .subscription_capacity(SUBSCRIPTION_MESSAGES)
            .max_reconnects(Some(self.urls.len()))
            .reconnect_delay_callback(|_| Duration::from_millis(100))
            .event_callback(move |event| {
                told(event);
                std::future::ready(())
            });
        match &self.credentials {
            Credentials::None => {}
            Credentials::Known { user, password } => {
                options = options.user_and_password(user.clone(), password.0.clone());
            }
            Credentials::File(file) => {
                let text = text("the credentials file", file)?;
                options = options.credentials(&text).map_err(|why| {
                    format!("cannot use the credentials file {}: {why}", file.display())
                })?;
            }
            Credentials::Password { user, file } => {
                let text = text("the password file", file)?;
                let password = text.trim_end_matches(['\r', '\n']).to_owned();
                options = options.user_and_password(user.clone(), password);
            }
        }
        // The client reads these again, to their ends, wherever that is.
        for file in self.tls.files() {
            let read = files::lasting(file, files::BYTES_MAX);
            read.map_err(|why| format!("cannot read {}: {why}", file.display()))?;
        }
        options = options.require_tls(self.tls.required);
        if let Some(file) = &self.tls.ca_file {
            options = options.add_root_certificates(file.clone());
        }
        if let Some((cert, key)) = &self.tls.own {
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        Ok(options)
    }
}

fn text(what: &str, file: &Path) -> Result<String, String> {
    let wrong = |why: &dyn Display| format!("cannot read {what} {}: {why}", file.display());
    // Each connection begins with it.
    let bytes = files::lasting(file, files::BYTES_MAX).map_err(|why| wrong(&why))?;
    String::from_utf8(bytes).map_err(|_| wrong(&"it is no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Result<Settings, Fault> {
        Settings::new(&[url.to_owned()], Credentials::None, Tls::default())
    }

    #[test]
    fn urls_name_a_server() {
        for url in [
            "nats://127.0.0.1:4222",
            "tls://nats.example:4222",
            "nats://h",
        ] {
            assert!(of(url).is_ok(), "{url}");
        }
        for url in ["", "http://h:1", "nats://", "nats://a b"] {
            let fault = of(url).expect_err(url);
            assert!(fault.to_string().contains("cannot use"), "{url}: {fault}");
        }
        let fault = of("http://ada:secret@h:1")
            .expect_err("no NATS")
            .to_string();
        assert!(!fault.contains("secret"), "{fault}");
        assert!(Settings::new(&[], Credentials::None, Tls::default()).is_err());
    }

    /// They are read at each connection, which a pipe waits for.
    #[test]
    fn a_password_that_can_be_read_once_was_taken() {
        let why = text("the password file", Path::new("/dev/zero")).expect_err("a device");
        let told = "cannot read the password file /dev/zero: it is no regular file";
        assert_eq!(why, told);
    }
}
