//! Certificates: PEM files in, what the shards' handshakes use out. Files are looked at again when asked (SIGHUP) and by
//! themselves; what cannot be used is refused, and the old ones stay.

mod names;
mod rotation;
mod x509;

pub use rotation::Rotation;

use names::ByName;
use process::files;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Which listener has the certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Clients,
    Workers,
}

impl Door {
    fn cert(self) -> &'static str {
        match self {
            Door::Clients => "tls.cert",
            Door::Workers => "workers.cert",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Door::Clients => "tls.key",
            Door::Workers => "workers.key",
        }
    }

    /// What is spoken behind it (RFC 7301).
    fn protocol(self) -> &'static [u8] {
        match self {
            Door::Clients => b"http/1.1",
            Door::Workers => b"h2",
        }
    }
}

/// What the configuration says about TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub door: Door,
    /// Certificate chain and key of each; the first is for clients that name nobody we know.
    pub pairs: Vec<Pair>,
    /// Refuse TLS 1.2.
    pub only_tls13: bool,
    /// Refuse clients that ask for a name that no certificate has.
    pub refuse_unknown: bool,
    /// Peers need a certificate by one of the authorities in this file.
    pub peers: Option<PathBuf>,
    /// How often the files are looked at. None: only when asked.
    pub check_interval: Option<Duration>,
}

impl Files {
    /// Whether both differ in nothing but names of files and in when these are read.
    fn has_rules_of(&self, other: &Self) -> bool {
        let rules = |files: &Self| {
            (
                files.only_tls13,
                files.refuse_unknown,
                files.peers.is_some(),
            )
        };
        rules(self) == rules(other)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// The key that names the authorities of peers.
const PEERS: &str = "workers.client_ca";

/// Something wrong with one of the `Files`.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// Key of the configuration that names the file.
    pub key: &'static str,
    pub message: String,
}

/// What the files said when they were read.
#[derive(Debug)]
pub struct Certificates {
    pub config: Arc<ServerConfig>,
    /// One line for each certificate.
    pub facts: Vec<Facts>,
    chains: Vec<Arc<CertifiedKey>>,
    /// By which certificates of peers are checked.
    authorities: Vec<CertificateDer<'static>>,
}

/// One certificate, for the log.
#[derive(Debug)]
pub struct Facts {
    pub file: PathBuf,
    pub names: Vec<String>,
    /// Whole days until it expires; negative when it has. `None` if the certificate does not say so in a way we read.
    pub days_left: Option<i64>,
    /// The same in seconds since 1970.
    pub not_after: Option<i64>,
}

impl Certificates {
    /// Whether both have the same certificates in the same order.
    pub fn are_those_of(&self, other: &Self) -> bool {
        let chain = |key: &Arc<CertifiedKey>| key.cert.clone();
        let chains = self.chains.iter().map(chain);
        chains.eq(other.chains.iter().map(chain)) && self.authorities == other.authorities
    }
}

/// Reads the files and makes them a configuration for handshakes, or says all that is wrong.
pub fn load(files: &Files) -> Result<Certificates, Vec<Problem>> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let (mut chains, mut facts, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for pair in &files.pairs {
        match read_pair(files.door, pair, &provider) {
            Ok(certified) => {
                facts.push(facts_of(&pair.cert, &certified));
                chains.push(Arc::new(certified));
            }
            Err(found) => problems.extend(found),
        }
    }
    let peers = match files.peers.as_deref().map(|path| peers(path, &provider)) {
        None => Some((Vec::new(), WebPkiClientVerifier::no_client_auth())),
        Some(Ok(peers)) => Some(peers),
        Some(Err(problem)) => {
            problems.push(problem);
            None
        }
    };
    let Some((authorities, verifier)) = peers.filter(|_| problems.is_empty()) else {
        return Err(problems);
    };
    let named = facts.iter().map(|facts| facts.names.as_slice());
    let resolver = ByName::new(named.zip(&chains), files.refuse_unknown);
    match server_config(files, provider, resolver, verifier) {
        Ok(config) => Ok(Certificates {
            config: Arc::new(config),
            facts,
            chains,
            authorities,
        }),
        Err(error) => Err(vec![Problem {
            key: files.door.cert(),
            message: format!("cannot set up TLS: {error}"),
        }]),
    }
}

type Peers = (Vec<CertificateDer<'static>>, Arc<dyn ClientCertVerifier>);

/// The peers that may connect.
fn peers(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Peers, Problem> {
    let unusable = |error: &dyn Display| problem(PEERS, path, "use", error);
    let authorities = read_chain(PEERS, path)?;
    let mut roots = RootCertStore::empty();
    for authority in &authorities {
        let added = roots.add(authority.clone());
        added.map_err(|error| unusable(&error))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
    let verifier = builder.build().map_err(|error| unusable(&error))?;
    Ok((authorities, verifier))
}

fn server_config(
    files: &Files,
    provider: Arc<CryptoProvider>,
    resolver: ByName,
    peers: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, rustls::Error> {
    let versions: &[_] = if files.only_tls13 {
        &[&rustls::version::TLS13]
    } else {
        &[&rustls::version::TLS13, &rustls::version::TLS12]
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(peers)
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![files.door.protocol().to_vec()];
    // What a ticket needs to be resumed is in the ticket: shards share its keys, not a table. New certificates come with new
    // keys, so that whoever comes back sees them.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = ticketer()?;
    // A replayed request would be served twice (RFC 8446 §8).
    config.max_early_data_size = 0;
    Ok(config)
}

/// Keys change every six hours; a ticket is good for twelve.
fn ticketer() -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
    aws_lc_rs::Ticketer::new()
}

fn read_pair(
    door: Door,
    pair: &Pair,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Vec<Problem>> {
    let read = (
        read_chain(door.cert(), &pair.cert),
        read_key(door.key(), &pair.key),
    );
    let (chain, key) = match read {
        (Ok(chain), Ok(key)) => (chain, key),
        (chain, key) => return Err(chain.err().into_iter().chain(key.err()).collect()),
    };
    let certified = CertifiedKey::from_der(chain, key, provider);
    certified.map_err(|error| vec![unusable(door, pair, &error)])
}

/// Both files can be read, and do not go together or cannot be used.
fn unusable(door: Door, pair: &Pair, error: &rustls::Error) -> Problem {
    match error {
        rustls::Error::InconsistentKeys(_) => problem(
            door.key(),
            &pair.key,
            "use",
            &format!(
                "it is not the key of the first certificate in {}",
                pair.cert.display()
            ),
        ),
        rustls::Error::General(message) => problem(door.key(), &pair.key, "use", message),
        error => problem(door.cert(), &pair.cert, "use", error),
    }
}

fn read_chain(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let wrong = |error: &dyn Display| problem(key, path, "read", error);
    let pem = files::bytes(path, files::BYTES_MAX).map_err(|error| wrong(&error))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| wrong(&error))?;
    if chain.is_empty() {
        return Err(wrong(&"there is no certificate in it (PEM is needed)"));
    }
    Ok(chain)
}

fn read_key(key: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, Problem> {
    let wrong = |error: &dyn Display| problem(key, path, "read", error);
    let pem = files::bytes(path, files::BYTES_MAX).map_err(|error| wrong(&error))?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        PemError::NoItemsFound => {
            wrong(&"there is no private key in it (PEM without passphrase is needed)")
        }
        error => wrong(&error),
    })
}

fn problem(key: &'static str, path: &Path, verb: &str, cause: &dyn Display) -> Problem {
    Problem {
        key,
        message: format!("cannot {verb} {}: {cause}", path.display()),
    }
}

fn facts_of(file: &Path, certified: &CertifiedKey) -> Facts {
    let read = certified.cert.first().and_then(|cert| x509::read(cert));
    let (names, not_after) = read.map_or((Vec::new(), None), |read| (read.names, read.not_after));
    Facts {
        file: file.to_owned(),
        names,
        not_after,
        days_left: not_after.map(|not_after| (not_after - unix_now()).div_euclid(86_400)),
    }
}

fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// When the files were last written, as far as the file system tells: changes when one of them does.
pub fn stamp(files: &Files) -> Vec<Option<(SystemTime, u64)>> {
    let paths = files.pairs.iter().flat_map(|pair| [&pair.cert, &pair.key]);
    paths
        .chain(&files.peers)
        .map(|path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        })
        .collect()
}

#[cfg(test)]
#[path = "tls/tests.rs"]
mod tests;
