//! The key set of an identity provider, fetched by HTTP. One task fetches: at start, at intervals,
//! and when a token names a key that is not there, but never more often than the floor allows. What
//! was fetched last stays while fetching fails.

use super::key_set::KeySet;
use super::settings::{Settings, SetupError};
use super::stats::Stats;
use arc_swap::ArcSwapOption;
use jsonwebtoken::Algorithm;
use reqwest::{Client, StatusCode, Url, redirect};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const BODY_BYTES_MAX: usize = 1 << 20;
/// Between two fetches, whatever tokens name.
pub(crate) const FETCH_FLOOR: Duration = Duration::from_secs(30);
/// After a failure the next attempt comes after this, then twice that, up to the floor.
const RETRY_FIRST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Remote {
    url: Url,
    client: Client,
    algorithms: Vec<Algorithm>,
    refresh: Duration,
    floor: Duration,
    keys: ArcSwapOption<KeySet>,
    progress: watch::Sender<Progress>,
    wanted: Notify,
    stats: Arc<Stats>,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Fetches ended, well or not.
    ended: u64,
    last_end: Option<Instant>,
    last_ok: bool,
    fetching: bool,
}

impl Remote {
    pub(crate) fn new(
        url: &str,
        settings: &Settings,
        floor: Duration,
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
            last_end: None,
            last_ok: false,
            // Who asks before the first fetch has ended waits for it.
            fetching: true,
        };
        Ok(Self {
            url,
            client,
            algorithms: settings.algorithms.clone(),
            refresh: settings.jwks_refresh,
            floor,
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

    /// Asks for a fetch, as far as the floor allows one, and waits for its end.
    pub(crate) async fn refreshed(&self) {
        let mut progress = self.progress.subscribe();
        let now = *progress.borrow_and_update();
        let rested = now.last_end.is_none_or(|end| end.elapsed() >= self.floor);
        if !now.fetching {
            if !rested {
                return;
            }
            self.wanted.notify_one();
        }
        // An error means that the task ended with the runtime: there is nothing to wait for.
        let _ = progress.wait_for(|later| later.ended > now.ended).await;
    }

    /// SIGHUP: the next fetch is now, floor or not.
    pub(crate) fn refresh_now(&self) {
        self.progress
            .send_modify(|progress| progress.last_end = None);
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
                0 => self.refresh.max(self.floor),
                _ => (RETRY_FIRST * (1 << (failures - 1).min(10))).min(self.floor),
            };
            self.rest(pause).await;
        }
    }

    /// Until the time is over, or a fetch is wanted that the floor allows.
    async fn rest(&self, pause: Duration) {
        let over = tokio::time::sleep(pause);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return,
                () = self.wanted.notified() => {
                    let last_end = self.progress.borrow().last_end;
                    if last_end.is_none_or(|end| end.elapsed() >= self.floor) {
                        return;
                    }
                }
            }
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
            progress.last_end = Some(Instant::now());
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

/// An error with what lies below it: "error sending request" alone helps nobody.
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(below) = cause {
        text.push_str(": ");
        text.push_str(&below.to_string());
        cause = below.source();
    }
    text
}
