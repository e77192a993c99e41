//! Owns what the generator needs to speak TLS: whom it trusts, and one session per socket. It keeps no tickets: users of a
//! scenario stand for people with browsers of their own, whose first handshake is a full one.

use crate::loss::Loss;
use anyhow::{Context, Result};
use mio::net::TcpStream;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

/// Whom to trust, the same for all sockets of a worker.
#[derive(Clone, Debug)]
pub struct Trust(Arc<ClientConfig>);

/// One TLS session on one socket.
#[derive(Debug)]
pub struct Session(ClientConnection);

impl Trust {
    /// `authorities`: certificates in PEM to trust instead of those of the machine.
    pub fn new(authorities: Option<&str>) -> Result<Trust> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?;
        let builder = match authorities {
            None => builder.with_platform_verifier()?,
            Some(pem) => builder.with_root_certificates(roots(pem)?),
        };
        let mut config = builder.with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Trust(Arc::new(config)))
    }

    /// A session with the server of this name, still to be shaken hands.
    pub fn session(&self, name: &str) -> Result<Session, Loss> {
        let refused = |error: String| Loss::Tls(error);
        let name =
            ServerName::try_from(name.to_owned()).map_err(|error| refused(error.to_string()))?;
        let session = ClientConnection::new(Arc::clone(&self.0), name);
        session
            .map(Session)
            .map_err(|error| refused(error.to_string()))
    }
}

fn roots(pem: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.context("cannot read a certificate: it is no PEM")?;
        roots
            .add(certificate)
            .context("cannot trust a certificate")?;
    }
    anyhow::ensure!(
        !roots.is_empty(),
        "there is no certificate in it: \"-----BEGIN CERTIFICATE-----\" is missing"
    );
    Ok(roots)
}

impl Session {
    /// Reads once, as a socket does: decrypted bytes, or `WouldBlock` when the socket is empty. What the
    /// handshake has to say goes out as well.
    pub fn read(&mut self, socket: &mut TcpStream, buf: &mut [u8]) -> Result<usize, Loss> {
        loop {
            match self.0.reader().read(buf) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(Loss::Io(error.kind())),
                Ok(count) => return Ok(count),
            }
            match self.0.read_tls(socket) {
                Ok(0) => return Ok(0),
                Ok(_) => {
                    let processed = self.0.process_new_packets();
                    // An alert that says why we do not go on is told the server, too.
                    self.send(socket)?;
                    processed.map_err(|error| Loss::Tls(error.to_string()))?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Loss::Io(error.kind())),
            }
        }
    }

    /// Takes as much of `bytes` as it has room for, and sends what the socket takes.
    pub fn write(&mut self, socket: &mut TcpStream, bytes: &[u8]) -> Result<usize, Loss> {
        let mut taken = 0;
        loop {
            let room = self.0.writer().write(&bytes[taken..]);
            let more = room.map_err(|error| Loss::Io(error.kind()))?;
            taken += more;
            let all_sent = self.send(socket)?;
            if taken == bytes.len() || more == 0 || !all_sent {
                return Ok(taken);
            }
        }
    }

    /// Sends what is encrypted already; `false`: the socket did not take all.
    pub fn send(&mut self, socket: &mut TcpStream) -> Result<bool, Loss> {
        while self.0.wants_write() {
            match self.0.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Loss::Io(error.kind())),
            }
        }
        Ok(true)
    }
}
