//! Certificates: PEM files in, what the shards' handshakes use out. Files are looked at again when asked (SIGHUP) and by
//! themselves; what cannot be used is refused, and the old ones stay.

mod names;
mod rotation;
mod x509;

pub use rotation::Rotation;

use names::ByName;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ProducesTickets};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the configuration says about TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Certificate chain and key of each; the first is for clients that name nobody we know.
    pub pairs: Vec<Pair>,
    /// Refuse TLS 1.2.
    pub only_tls13: bool,
    /// Refuse clients that ask for a name that no certificate has.
    pub refuse_unknown: bool,
}

impl Files {
    /// Whether both differ in nothing but names of files.
    fn has_rules_of(&self, other: &Self) -> bool {
        let rules = |files: &Self| (files.only_tls13, files.refuse_unknown);
        rules(self) == rules(other)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Something wrong with a file of `Files::pairs`.
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
        self.chains
            .iter()
            .map(chain)
            .eq(other.chains.iter().map(chain))
    }
}

/// Reads the files and makes them a configuration for handshakes, or says all that is wrong.
pub fn load(files: &Files) -> Result<Certificates, Vec<Problem>> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let (mut chains, mut facts, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for pair in &files.pairs {
        match read_pair(pair, &provider) {
            Ok(certified) => {
                facts.push(facts_of(&pair.cert, &certified));
                chains.push(Arc::new(certified));
            }
            Err(found) => problems.extend(found),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let named = facts.iter().map(|facts| facts.names.as_slice());
    let resolver = ByName::new(named.zip(&chains), files.refuse_unknown);
    match server_config(files, provider, resolver) {
        Ok(config) => Ok(Certificates {
            config: Arc::new(config),
            facts,
            chains,
        }),
        Err(error) => Err(vec![Problem {
            key: "tls.cert",
            message: format!("cannot set up TLS: {error}"),
        }]),
    }
}

fn server_config(
    files: &Files,
    provider: Arc<CryptoProvider>,
    resolver: ByName,
) -> Result<ServerConfig, rustls::Error> {
    let versions: &[_] = if files.only_tls13 {
        &[&rustls::version::TLS13]
    } else {
        &[&rustls::version::TLS13, &rustls::version::TLS12]
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
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

fn read_pair(pair: &Pair, provider: &CryptoProvider) -> Result<CertifiedKey, Vec<Problem>> {
    let (chain, key) = match (read_chain(&pair.cert), read_key(&pair.key)) {
        (Ok(chain), Ok(key)) => (chain, key),
        (chain, key) => return Err(chain.err().into_iter().chain(key.err()).collect()),
    };
    let certified = CertifiedKey::from_der(chain, key, provider);
    certified.map_err(|error| vec![unusable(pair, &error)])
}

/// Both files can be read, and do not go together or cannot be used.
fn unusable(pair: &Pair, error: &rustls::Error) -> Problem {
    match error {
        rustls::Error::InconsistentKeys(_) => problem(
            "tls.key",
            &pair.key,
            "use",
            &format!(
                "it is not the key of the first certificate in {}",
                pair.cert.display()
            ),
        ),
        rustls::Error::General(message) => problem("tls.key", &pair.key, "use", message),
        error => problem("tls.cert", &pair.cert, "use", error),
    }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let wrong = |error: &dyn std::fmt::Display| problem("tls.cert", path, "read", error);
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&cause(error)))?;
    let chain: Result<Vec<_>, _> = certificates.collect();
    let chain = chain.map_err(|error| wrong(&cause(error)))?;
    if chain.is_empty() {
        return Err(wrong(&"there is no certificate in it (PEM is needed)"));
    }
    Ok(chain)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Problem> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        let cause = match error {
            PemError::NoItemsFound => {
                "there is no private key in it (PEM without passphrase is needed)".to_owned()
            }
            error => cause(error),
        };
        problem("tls.key", path, "read", &cause)
    })
}

/// The error without the name of the file, which is said already.
fn cause(error: PemError) -> String {
    match error {
        PemError::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

fn problem(key: &'static str, path: &Path, verb: &str, cause: &dyn std::fmt::Display) -> Problem {
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
        .map(|path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        })
        .collect()
}

#[cfg(test)]
#[path = "tls/tests.rs"]
mod tests;
