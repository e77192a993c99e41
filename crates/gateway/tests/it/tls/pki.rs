//! Certificates for tests, gateways that use them, and clients that trust them.

use crate::harness::{Gateway, RawConn};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// A folder with one certificate file and its key; both can be replaced.
#[derive(Debug)]
pub struct Pki {
    folder: TempDir,
}

impl Pki {
    /// With a certificate for `localhost`.
    pub fn new() -> Pki {
        let pki = Pki {
            folder: tempfile::tempdir().expect("a folder"),
        };
        pki.renew("tls", "localhost");
        pki
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a new certificate for `name` to `FILE.pem`, its key to `FILE.key`.
    pub fn renew(&self, file: &str, name: &str) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        self.write(&format!("{file}.key"), &made.signing_key.serialize_pem());
        self.write(&format!("{file}.pem"), &made.cert.pem());
        made.cert.der().clone()
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("write a file");
    }

    /// A `[tls]` section that uses `tls.pem`, with more lines.
    pub fn section(&self, more: &str) -> String {
        format!(
            "[tls]\nlisten = [\"127.0.0.1:0\"]\ncert = [{:?}]\nkey = [{:?}]\n{more}\n",
            self.path("tls.pem"),
            self.path("tls.key"),
        )
    }

    /// Starts a gateway with that section, `[tls]` lines in `more`, and `rest` behind it.
    pub fn gateway(&self, more: &str, rest: &str) -> Secure {
        Secure::new(Gateway::start(&format!("{}{rest}", self.section(more))))
    }

    /// What `tls.pem` holds now.
    pub fn current(&self) -> CertificateDer<'static> {
        use rustls::pki_types::pem::PemObject;
        CertificateDer::from_pem_file(self.path("tls.pem")).expect("a certificate")
    }

    /// A client that trusts these certificates and keeps tickets.
    pub fn client_for(&self, trusted: &[CertificateDer<'static>]) -> Client {
        client(trusted, rustls::ALL_VERSIONS)
    }

    pub fn client(&self) -> Client {
        self.client_for(&[self.current()])
    }

    /// One that speaks this version only.
    pub fn client_of(&self, version: &'static SupportedProtocolVersion) -> Client {
        client(&[self.current()], &[version])
    }
}

fn client(
    trusted: &[CertificateDer<'static>],
    versions: &[&'static SupportedProtocolVersion],
) -> Client {
    let mut roots = RootCertStore::empty();
    for certificate in trusted {
        roots.add(certificate.clone()).expect("a trust anchor");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client {
        config: Arc::new(config),
    }
}

/// A gateway with a TLS address.
#[derive(Debug)]
pub struct Secure {
    pub gateway: Gateway,
    pub addr: SocketAddr,
}

impl Secure {
    pub fn new(gateway: Gateway) -> Secure {
        Secure {
            addr: Secure::addr_of(&gateway),
            gateway,
        }
    }

    pub fn addr_of(gateway: &Gateway) -> SocketAddr {
        let addr = gateway.log().iter().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            (line["message"] == "listening").then_some(())?;
            line["tls"].as_str()?.split(',').next()?.parse().ok()
        });
        addr.expect("a TLS address in the log")
    }

    /// Handshakes so far: `full`, `resumed` or `failed`.
    pub fn handshakes(&self, result: &str) -> f64 {
        self.gateway.metric(&format!(
            "sockeye_tls_handshakes_total{{result=\"{result}\"}}"
        ))
    }

    /// What went wrong for this reason.
    pub fn errors(&self, reason: &str) -> f64 {
        self.gateway
            .metric(&format!("sockeye_tls_errors_total{{reason=\"{reason}\"}}"))
    }

    /// Waits until `reason` was counted so often.
    pub fn counts(&self, reason: &str, times: f64) -> Result<f64, f64> {
        let name = format!("sockeye_tls_errors_total{{reason=\"{reason}\"}}");
        self.gateway.metric_settles(&name, |count| count == times)
    }
}

#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
}

impl Client {
    /// The same with these application protocols offered.
    pub fn offering(&self, protocols: &[&[u8]]) -> Client {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Client {
            config: Arc::new(config),
        }
    }

    /// The same with the certificate in `FILE.pem`.
    pub fn identified(&self, pki: &Pki, file: &str) -> Client {
        use rustls::pki_types::pem::PemObject;
        let cert = CertificateDer::from_pem_file(pki.path(&format!("{file}.pem")));
        let key = PrivateKeyDer::from_pem_file(pki.path(&format!("{file}.key")));
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let chain = vec![cert.expect("a certificate")];
        let own = CertifiedKey::from_der(chain, key.expect("a key"), &provider);
        let mut config = ClientConfig::clone(&self.config);
        let own = SingleCertAndKey::from(own.expect("they belong together"));
        config.client_auth_cert_resolver = Arc::new(own);
        Client {
            config: Arc::new(config),
        }
    }

    /// For clients of another kind.
    pub fn config(&self) -> ClientConfig {
        ClientConfig::clone(&self.config)
    }

    pub fn connect(&self, addr: SocketAddr) -> RawConn {
        self.try_connect(addr, "localhost")
            .expect("a TLS handshake")
    }

    pub fn try_connect(&self, addr: SocketAddr, name: &str) -> std::io::Result<RawConn> {
        RawConn::try_secure(addr, self.begin(name), b"")
    }

    /// The client's side of a handshake, before anything is sent.
    pub fn begin(&self, name: &str) -> ClientConnection {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        ClientConnection::new(Arc::clone(&self.config), name).expect("a client")
    }

    /// One request on a connection of its own.
    pub fn exchange(
        &self,
        addr: SocketAddr,
        request: impl AsRef<[u8]>,
    ) -> crate::harness::Response {
        let mut conn = self.connect(addr);
        conn.send(request);
        conn.response()
    }
}

/// The certificate that the gateway showed.
pub fn shown(conn: &mut RawConn) -> CertificateDer<'static> {
    let chain = conn.tls().peer_certificates().expect("certificates");
    chain[0].clone().into_owned()
}
