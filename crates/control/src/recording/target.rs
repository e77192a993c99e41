//! The gateway that a recording is played against.

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where it is, from its URL.
#[derive(Clone)]
pub struct Target {
    pub(super) host: String,
    address: String,
    pub(super) path: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for S {}

impl Target {
    /// Reads `http://host:port`, `https://host/path`.
    ///
    /// # Errors
    /// Why it cannot be used, for people.
    pub fn parse(url: &str) -> Result<Self, String> {
        let refused = |why: &str| format!("cannot use the URL {url}: {why}");
        let (is_tls, rest) = match url.split_once("://") {
            Some(("http" | "ws", rest)) => (false, rest),
            Some(("https" | "wss", rest)) => (true, rest),
            _ => return Err(refused("give http://HOST:PORT or https://HOST")),
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_odd = |text: &str| text.bytes().any(|byte| byte <= b' ' || byte == 127);
        if host.is_empty() || is_odd(rest) || rest.contains(['@', '?', '#']) {
            return Err(refused(
                "a host and, if it is another one, a path are needed",
            ));
        }
        let is_named = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let (name, address) = match (is_named, is_tls) {
            (true, _) => (
                host.rsplit_once(':').map_or(host, |(name, _)| name),
                host.to_owned(),
            ),
            (false, true) => (host, format!("{host}:443")),
            (false, false) => (host, format!("{host}:80")),
        };
        let path = match path.trim_matches('/') {
            "" => "/socket.io/".to_owned(),
            path => format!("/{path}/"),
        };
        let name = name.trim_matches(['[', ']']).to_owned();
        let tls = is_tls.then(|| connector(name).map_err(|why| refused(&why)));
        Ok(Self {
            host: host.to_owned(),
            address,
            path,
            tls: tls.transpose()?,
        })
    }

    pub(super) async fn connect(&self) -> Result<Box<dyn Wire>, String> {
        let connecting = async {
            let stream = TcpStream::connect(&self.address).await?;
            stream.set_nodelay(true)?;
            let stream: Box<dyn Wire> = match &self.tls {
                Some((tls, name)) => Box::new(tls.connect(name.clone(), stream).await?),
                None => Box::new(stream),
            };
            std::io::Result::Ok(stream)
        };
        let connected = timeout(CONNECT_TIMEOUT, connecting).await;
        let connected = connected.map_err(|_| "it did not answer within 10 s".to_owned());
        let connected = connected.and_then(|done| done.map_err(|error| error.to_string()));
        connected.map_err(|why| format!("cannot connect to {}: {why}", self.address))
    }
}

fn connector(name: String) -> Result<(TlsConnector, ServerName<'static>), String> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier())
        .map_err(|error| error.to_string())?;
    let config = Arc::new(config.with_no_client_auth());
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    Ok((config.into(), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_or_refused() {
        for (url, address, path) in [
            ("http://127.0.0.1:3000", "127.0.0.1:3000", "/socket.io/"),
            ("ws://[::1]:3000/", "[::1]:3000", "/socket.io/"),
            ("http://a.example/rt/io", "a.example:80", "/rt/io/"),
            ("https://a.example", "a.example:443", "/socket.io/"),
        ] {
            let target = Target::parse(url).expect(url);
            assert_eq!((&*target.address, &*target.path), (address, path));
        }
        for url in [
            "",
            "a.example",
            "ftp://a",
            "http://",
            "http://u:p@a",
            "http://a\r\nb",
            "http://a/?x",
        ] {
            assert!(Target::parse(url).is_err(), "{url:?}");
        }
    }
}
