//! Who somebody is. Tokens (JWT) of clients are checked here, away from the shards, and become what `hub::claims` names; their keys come
//! from the configuration, from files and from a URL. Programs, workers and operators show API keys ([`keys`]).
#![forbid(unsafe_code)]

mod claims;
mod files;
pub mod issue;
mod key;
mod key_set;
pub mod keys;
mod rejection;
mod remote;
mod settings;
mod stats;
mod token;

pub use hub::bounds::TOKEN_BYTES_MAX;
pub use jsonwebtoken::Algorithm;
pub use rejection::Rejection;
pub use settings::{SECRET_BYTES_MIN, Secret, Settings, SetupError, algorithm};
pub use stats::Figures;

use files::Files;
use hub::claims::{Claims, Refused};
use key_set::KeySet;
use remote::Remote;
use stats::Stats;
use std::sync::{Arc, Once};
use std::time::Duration;
use token::Token;
use tokio::task::JoinHandle;

/// Results of a check, as [`Figures`] names them.
pub const RESULTS: [&str; 12] = Rejection::NAMES;

/// Checks tokens. One for the process; every call may run at the same time as others.
#[derive(Debug)]
pub struct Verifier {
    settings: Settings,
    files: Arc<Files>,
    remote: Option<Arc<Remote>>,
    stats: Arc<Stats>,
    tasks: Vec<JoinHandle<()>>,
}

impl Verifier {
    /// Reads the keys. Key files are watched and the key set of a URL is fetched by tasks of the runtime this is called
    /// from; a URL that does not answer yet is no error.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(settings: Settings) -> Result<Arc<Self>, SetupError> {
        Self::with_looks_every(settings, remote::LOOK_EVERY)
    }

    fn with_looks_every(settings: Settings, every: Duration) -> Result<Arc<Self>, SetupError> {
        install_provider();
        if !settings.has_keys() {
            let message = "a key is needed: set auth.secret, auth.secret_file, \
                           auth.public_key_file, auth.jwks_file or auth.jwks_url";
            return Err(SetupError::new("auth.required", message));
        }
        let stats = Arc::new(Stats::default());
        let files = Arc::new(Files::open(&settings)?);
        let remote = settings.jwks_url.as_deref();
        let remote = remote.map(|url| Remote::new(url, &settings, every, Arc::clone(&stats)));
        let remote = remote.transpose()?.map(Arc::new);
        if remote.is_some() && settings.audience.is_empty() {
            tracing::warn!(
                "auth.audience is empty: tokens that this provider makes for other services are accepted too"
            );
        }
        let mut tasks = Vec::new();
        if !settings.files().is_empty() {
            tasks.push(tokio::spawn(Arc::clone(&files).watch()));
        }
        if let Some(remote) = &remote {
            tasks.push(tokio::spawn(Arc::clone(remote).run()));
        }
        Ok(Arc::new(Self {
            settings,
            files,
            remote,
            stats,
            tasks,
        }))
    }

    /// What the token grants at this time (seconds since 1970), or what a client may know of why it grants nothing.
    pub async fn verify(&self, token: &str, now_s: u64) -> Result<Claims, Refused> {
        self.explain(token, now_s).await.map_err(|rejection| {
            tracing::debug!(%rejection, "token refused");
            rejection.refused()
        })
    }

    /// The same for operators: why exactly.
    pub async fn explain(&self, token: &str, now_s: u64) -> Result<Claims, Rejection> {
        let result = self.check(token, now_s).await;
        self.stats.count(&result);
        result
    }

    async fn check(&self, token: &str, now_s: u64) -> Result<Claims, Rejection> {
        let token = Token::read(token)?;
        self.authenticate(&token).await?;
        claims::read(&token.claims()?, &self.settings, now_s)
    }

    async fn authenticate(&self, token: &Token<'_>) -> Result<(), Rejection> {
        let first = self.with_keys(|sets| key_set::authenticate(sets, token));
        let (Some(remote), true) = (&self.remote, first.is_err()) else {
            return first;
        };
        // Only a key that is not there can be had by fetching: it may have been published a moment ago.
        let is_missing = || match &token.kid {
            Some(kid) => !self.with_keys(|sets| key_set::knows(sets, kid)),
            None => remote.keys().is_none(),
        };
        if !is_missing() {
            return first;
        }
        remote.refreshed().await;
        let second = self.with_keys(|sets| key_set::authenticate(sets, token));
        match second {
            Err(_) if is_missing() && !remote.is_current() => Err(Rejection::Unavailable),
            other => other,
        }
    }

    fn with_keys<R>(&self, use_them: impl FnOnce(&[&KeySet]) -> R) -> R {
        let files = self.files.keys();
        match self.remote.as_ref().and_then(|remote| remote.keys()) {
            Some(remote) => use_them(&[&files, &remote]),
            None => use_them(&[&files]),
        }
    }

    fn key_count(&self) -> usize {
        self.with_keys(|sets| sets.iter().map(|set| set.keys.len()).sum())
    }

    /// SIGHUP: reads the key files again and fetches the key set. Blocks for as long as files take.
    pub fn reload(&self) {
        if !self.settings.files().is_empty() {
            self.files.reload();
        }
        if let Some(remote) = &self.remote {
            remote.refresh_now();
        }
    }

    /// What has been counted so far.
    pub fn figures(&self) -> Figures {
        self.stats.figures(self.key_count())
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Whether these settings can be used, as far as that can be said without asking anyone: what `config check` wants to know.
pub fn check(settings: &Settings) -> Result<(), SetupError> {
    install_provider();
    if let Some(url) = &settings.jwks_url {
        remote::check_url(url)?;
    }
    files::read(settings).map(|_| ())
}

/// Both libraries pick their cryptography at run time, and panic when asked to do so without one.
fn install_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that somebody was faster with the same one.
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    });
}

#[cfg(test)]
mod tests;
