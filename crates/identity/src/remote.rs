//! The key set of an identity provider, fetched by HTTP. One task fetches: at start, at intervals, and at once when a token
//! names a key that is not there, a few times in a row and then only so often. The keys fetched last stay while fetching fails.

use super::key_set::KeySet;
use super::settings::{Settings, SetupError};
use super::stats::Stats;
use arc_swap::ArcSwapOption;
use jsonwebtoken::Algorithm;
use process::causes;
use reqwest::{Client, StatusCode, Url, redirect};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const BODY_BYTES_MAX: usize = 1 << 20;
/// Fetches that tokens cause in a row, whatever they name; anybody can name anything.
const LOOKS: u32 = 3;
/// Then one after each such time.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(10);
/// After a failure the next attempt comes after this, then twice that, up to the most.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Remote {
    url: Url,
    client: Client,
    algorithms: Vec<Algorithm>,
    refresh: Duration,
    looks: Mutex<Looks>,
    keys: ArcSwapOption<KeySet>,
    progress: watch::Sender<Progress>,
    wanted: Notify,
    stats: Arc<Stats>,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Fetches ended, well or not.
    ended: u64,
    last_ok: bool,
    fetching: bool,
}

/// Fetches that tokens may still cause.
#[derive(Debug)]
struct Looks {
    every: Duration,
    left: u32,
    /// Since then `left` has not grown.
    since: Instant,
}

impl Looks {
    fn new(every: Duration, now: Instant) -> Self {
        let (left, since) = (LOOKS, now);
        Looks { every, left, since }
    }

    /// Takes one, if there is one.
    fn take(&mut self, now: Instant) -> bool {
        while self.left < LOOKS && now.saturating_duration_since(self.since) >= self.every {
            self.since += self.every;
            self.left += 1;
        }
        if self.left == LOOKS {
            self.since = now;
        }
        let taken = self.left.checked_sub(1);
        self.left = taken.unwrap_or(0);
        taken.is_some()
    }
}

impl Remote {
    pub(crate) fn new(
        url: &str,
        settings: &Settings,
        looks_every: Duration,
        stats: Arc<Stats>,
    ) -> Result<Self, SetupError> {
        let (url, loopback) = check_url(url)?;
        let mut client = Client::builder()
            .timeout(FETCH_TIMEOUT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("sockeye/", env!("CARGO_PKG_VERSION")));
        if loopback {
            client = client.no_proxy();
        } else {
            client = client.https_only(true);
        }
        let client = client.build().map_err(|error| {
            SetupError::new(KEY, format!("cannot prepare TLS: {}", causes(&error)))
        })?;
        let progress = Progress {
            ended: 0,
            last_ok: false,
            // A question before the end of the first fetch waits for it.
            fetching: true,
        };
        Ok(Self {
            url,
            client,
            algorithms: settings.algorithms.clone(),
            refresh: settings.jwks_refresh,
            looks: Mutex::new(Looks::new(looks_every, Instant::now())),
            keys: ArcSwapOption::empty(),
            progress: watch::Sender::new(progress),
            wanted: Notify::new(),
            stats,
        })
    }

    pub(crate) fn keys(&self) -> Option<Arc<KeySet>> {
        self.keys.load_full()
    }

    /// Whether the last fetch went well: a key that is not in the set does not exist then.
    pub(crate) fn is_current(&self) -> bool {
        self.progress.borrow().last_ok
    }

    /// Asks for a fetch, as far as one is left, and waits for its end.
    pub(crate) async fn refreshed(&self) {
        let mut progress = self.progress.subscribe();
        let now = *progress.borrow_and_update();
        if !now.fetching {
            let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
            if !looks.take(Instant::now()) {
                return;
            }
            // Others that ask before the task wakes wait for the same one.
            self.progress
                .send_modify(|progress| progress.fetching = true);
            self.wanted.notify_one();
        }
        // An error means that the task ended with the runtime: there is nothing to wait for.
        let _ = progress.wait_for(|later| later.ended > now.ended).await;
    }

    /// SIGHUP: the next fetch is now.
    pub(crate) fn refresh_now(&self) {
        self.wanted.notify_one();
    }

    /// Fetches until the task is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut failures = 0;
        loop {
            match self.attempt().await {
                true => failures = 0,
                false => failures += 1,
            }
            let pause = match failures {
                0 => self.refresh,
                _ => (RETRY_FIRST * (1 << (failures - 1).min(10))).min(RETRY_MOST),
            };
            // Until the time is over, or a fetch is wanted.
            let _ = tokio::time::timeout(pause, self.wanted.notified()).await;
        }
    }

    async fn attempt(&self) -> bool {
        self.progress
            .send_modify(|progress| progress.fetching = true);
        let fetched = self.fetch().await;
        let went_well = fetched.is_ok();
        match fetched {
            Ok(set) => self.take(set),
            Err(error) => {
                self.stats.fetches_failed.fetch_add(1, Ordering::Relaxed);
                let stale = self.keys.load().is_some();
                tracing::warn!(url = %self.url, error, stale_keys_stay = stale, "cannot fetch token keys");
            }
        }
        self.progress.send_modify(|progress| {
            progress.ended += 1;
            progress.last_ok = went_well;
            progress.fetching = false;
        });
        went_well
    }

    fn take(&self, set: KeySet) {
        self.stats.fetches_ok.fetch_add(1, Ordering::Relaxed);
        self.stats.fetched();
        let names =
            |set: &KeySet| -> Vec<_> { set.keys.iter().map(|key| key.kid.clone()).collect() };
        let old = self.keys.load_full();
        let changed = old.as_ref().is_none_or(|old| names(old) != names(&set));
        if changed {
            tracing::info!(url = %self.url, keys = set.keys.len(), "token keys fetched");
        }
        if old.is_none_or(|old| old.skipped != set.skipped) {
            for why in &set.skipped {
                tracing::warn!("auth.jwks_url: cannot use {why}");
            }
        }
        self.keys.store(Some(Arc::new(set)));
    }

    async fn fetch(&self) -> Result<KeySet, String> {
        let request = self.client.get(self.url.clone());
        let mut response = request.send().await.map_err(|error| causes(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("the answer is {}, not 200", response.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| causes(&error))? {
            if body.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(format!("the answer is longer than {BODY_BYTES_MAX} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        KeySet::from_jwks(&body, &self.algorithms, false)
    }
}

const KEY: &str = "auth.jwks_url";

/// The address, and whether it is of this machine. Keys that come over an open network are worth nothing.
pub(crate) fn check_url(text: &str) -> Result<(Url, bool), SetupError> {
    let refuse = |why: &str| SetupError::new(KEY, format!("cannot use {text:?}: {why}"));
    let url = Url::parse(text).map_err(|error| refuse(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        let why = "cannot use an address with user and password: it would stand in logs";
        return Err(SetupError::new(KEY, why));
    }
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<IpAddr>();
    let loopback = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok((url, loopback)),
        "http" if loopback => Ok((url, true)),
        "http" => Err(refuse("https is needed, except to this machine")),
        _ => Err(refuse("an https address is needed")),
    }
}
