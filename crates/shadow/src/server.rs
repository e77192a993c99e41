//! A server by its address.

use std::fmt;
use std::str::FromStr;

/// A server by plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `HOST:PORT`.
    pub address: String,
    /// The path of Socket.IO.
    pub path: String,
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not `http://HOST` or `http://HOST:PORT`; TLS ends before this program"
            )
        };
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
        let host = rest.trim_end_matches('/');
        let is_right = !host.is_empty() && !host.contains(['/', '?', '@', ' ']);
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        is_right
            .then(|| Self {
                address: if has_port {
                    host.to_owned()
                } else {
                    format!("{host}:80")
                },
                path: String::new(),
            })
            .ok_or_else(wrong)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.address)
    }
}
