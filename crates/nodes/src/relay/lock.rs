//! TLS between nodes, without certificates: a node rolls a key when it starts, and shows it in its greeting under the code of the
//! cluster's secret. So nobody between two nodes can read what they relay, or answer for one of them.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::Ed25519KeyPair;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{Ticketer, cipher_suite, default_provider, kx_group, sign};
use rustls::crypto::verify_tls13_signature_with_raw_key;
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme,
};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Bytes of a public key of Ed25519 with its frame (RFC 8410 §4).
pub(super) const KEY: usize = 44;

/// A node's public key (RFC 7250 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PublicKey(pub(super) [u8; KEY]);

/// The key of this process, and how its shards take relayed connections over.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    pub(super) public: PublicKey,
    pub(super) config: Arc<ServerConfig>,
}

/// Both ends are ours: of all that is secure, what costs a handshake least.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    }
}

impl Lock {
    /// A new key.
    pub(super) fn roll() -> io::Result<Self> {
        let no_key = |_| io::Error::other("cannot roll a key: the system has no random numbers");
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(no_key)?;
        let pair = PrivatePkcs8KeyDer::from(pair.as_ref().to_vec());
        let key = sign::any_eddsa_type(&pair).map_err(io::Error::other)?;
        let public = key.public_key();
        let public = public.as_ref().and_then(|key| key.as_ref().try_into().ok());
        let public = PublicKey(public.ok_or_else(|| io::Error::other("a key of another size"))?);
        let certified = CertifiedKey::new(vec![public.0.to_vec().into()], key);
        let resolver = AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        // A node that was here before needs no signature: it takes up where it was (RFC 8446 §2.2).
        config.ticketer = Ticketer::new().map_err(io::Error::other)?;
        config.send_tls13_tickets = 1;
        let config = Arc::new(config);
        Ok(Self { public, config })
    }
}

/// How connections to other nodes are encrypted: by node, for the key that it showed last. Tickets stay with the key that they were got
/// under.
#[derive(Debug, Default)]
pub(super) struct Keyring(Mutex<HashMap<u16, (PublicKey, Arc<ClientConfig>)>>);

impl Keyring {
    /// Encrypts a connection to the node that has just shown this key.
    pub(super) async fn encrypt(
        &self,
        node: u16,
        key: PublicKey,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let config = self.config(node, key)?;
        let name = ServerName::from(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED));
        TlsConnector::from(config).connect(name, stream).await
    }

    fn config(&self, node: u16, key: PublicKey) -> io::Result<Arc<ClientConfig>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, config)) = known.get(&node)
            && *known == key
        {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(key.config()?);
        known.insert(node, (key, Arc::clone(&config)));
        Ok(config)
    }
}

impl PublicKey {
    fn config(self) -> io::Result<ClientConfig> {
        let provider = Arc::new(provider());
        let pinned = Pinned(self, Arc::clone(&provider));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(1);
        config.enable_sni = false;
        Ok(config)
    }
}

/// Believes in one key, whatever its holder's name is.
#[derive(Debug)]
struct Pinned(PublicKey, Arc<CryptoProvider>);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match key.as_ref() == self.0.0 {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let algorithms = &self.1.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::HandshakeKind;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    /// One end encrypts for `expected`, the other one has `lock`. What was heard, and whether an earlier meeting went on.
    async fn meet(ring: &Keyring, lock: &Lock, expected: PublicKey) -> io::Result<(Vec<u8>, bool)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let acceptor = TlsAcceptor::from(Arc::clone(&lock.config));
        let served = tokio::spawn(async move {
            let (stream, _) = listener.accept().await?;
            let mut stream = acceptor.accept(stream).await?;
            stream.write_all(b"hello").await?;
            stream.shutdown().await
        });
        let stream = TcpStream::connect(address).await?;
        let mut heard = Vec::new();
        let mut stream = ring.encrypt(7, expected, stream).await?;
        stream.read_to_end(&mut heard).await?;
        let kind = stream.get_ref().1.handshake_kind();
        served.await.map_err(io::Error::other)??;
        Ok((heard, kind == Some(HandshakeKind::Resumed)))
    }

    #[tokio::test]
    async fn only_the_node_with_the_key_is_spoken_to() {
        let (lock, other) = (Lock::roll().expect("a key"), Lock::roll().expect("a key"));
        assert_ne!(lock.public, other.public);
        let (ring, hello) = (Keyring::default(), b"hello".to_vec());
        let met = meet(&ring, &lock, lock.public).await.expect("met");
        assert_eq!(met, (hello.clone(), false));
        let again = meet(&ring, &lock, lock.public).await.expect("met");
        assert_eq!(again, (hello.clone(), true));
        let error = meet(&ring, &lock, other.public)
            .await
            .expect_err("another key");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        // The node has begun a new life: what was got from the one before is of no use.
        let met = meet(&ring, &other, other.public).await.expect("met");
        assert_eq!(met, (hello, false));
    }
}
