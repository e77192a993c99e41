//! TLS to Redis: whom we trust, and how we name ourselves.

use crate::engine::Trouble;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use std::fmt::Display;
use std::sync::Arc;

/// Certificates in PEM.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'a> {
    /// To trust instead of those of the machine.
    pub authorities: Option<&'a [u8]>,
    /// Our own certificate and its key, for a server that asks for one.
    pub identity: Option<(&'a [u8], &'a [u8])>,
}

/// Sets TLS up.
///
/// # Errors
/// Which of the files cannot be used, and why.
pub fn config(files: Files<'_>) -> Result<Arc<ClientConfig>, Trouble> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse("set up TLS", &error))?;
    let builder = match files.authorities {
        Some(pem) => builder.with_root_certificates(roots(pem)?),
        None => builder
            .with_platform_verifier()
            .map_err(|error| refuse("use the certificates that this machine trusts", &error))?,
    };
    let config = match files.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| refuse("read the key of our certificate", &error))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, key)
                .map_err(|error| refuse("use our certificate", &error))?
        }
    };
    Ok(Arc::new(config))
}

fn refuse(what: &str, error: &dyn Display) -> Trouble {
    Trouble::new(format!("cannot {what} for Redis: {error}"))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Trouble> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| refuse("read a certificate", &error))?;
    if read.is_empty() {
        let why = "\"-----BEGIN CERTIFICATE-----\" is missing";
        return Err(refuse("find a certificate in the file", &why));
    }
    Ok(read)
}

fn roots(pem: &[u8]) -> Result<RootCertStore, Trouble> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots
            .add(certificate)
            .map_err(|error| refuse("trust a certificate", &error))?;
    }
    Ok(roots)
}
