//! Keys that lie here: the shared secret and the key files. Files are read again when they change,
//! and a file that cannot be used leaves the keys as they were.

use super::key::Key;
use super::key_set::KeySet;
use super::settings::{Settings, SetupError};
use arc_swap::ArcSwap;
use jsonwebtoken::Algorithm;
use process::files;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How often changed files are looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// No key file is this large.
const FILE_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Files {
    settings: Settings,
    keys: ArcSwap<KeySet>,
    seen: Mutex<Vec<Stamp>>,
}

/// What tells one state of a file from another.
type Stamp = Option<(SystemTime, u64)>;

impl Files {
    pub(crate) fn open(settings: &Settings) -> Result<Self, SetupError> {
        let seen = stamps(settings);
        let keys = read(settings)?;
        say_skipped(&keys);
        Ok(Self {
            settings: settings.clone(),
            keys: ArcSwap::from_pointee(keys),
            seen: Mutex::new(seen),
        })
    }

    pub(crate) fn keys(&self) -> Arc<KeySet> {
        self.keys.load_full()
    }

    /// Reads all files again; the old keys stay when that fails.
    pub(crate) fn reload(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = stamps(&self.settings);
        match read(&self.settings) {
            Ok(keys) => {
                say_skipped(&keys);
                tracing::info!(keys = keys.keys.len(), "token keys read");
                self.keys.store(Arc::new(keys));
            }
            Err(error) => {
                tracing::error!(key = error.key, error = %error.message, "cannot read token keys: the old ones stay");
            }
        }
    }

    fn reload_if_changed(&self) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *seen != stamps(&self.settings);
        drop(seen);
        if changed {
            self.reload();
        }
    }

    /// Looks for changes until the task is dropped.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(LOOK_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let files = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || files.reload_if_changed());
            if looked.await.is_err() {
                return;
            }
        }
    }
}

fn say_skipped(keys: &KeySet) {
    for why in &keys.skipped {
        tracing::warn!("auth.jwks_file: cannot use {why}");
    }
}

fn stamps(settings: &Settings) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    settings
        .files()
        .into_iter()
        .map(|(_, path)| stamp(path))
        .collect()
}

/// All keys that lie here; the error names the setting to look at.
pub(crate) fn read(settings: &Settings) -> Result<KeySet, SetupError> {
    let allowed = &settings.algorithms;
    let mut set = KeySet::default();
    if let Some(secret) = &settings.secret {
        let key = Key::from_secret(secret.reveal().as_bytes(), None, None, allowed);
        set.keys
            .push(key.map_err(|why| SetupError::new("auth.secret", why))?);
    }
    for (key, path) in settings.files() {
        let read = text(path).and_then(|text| match key {
            "auth.secret_file" => {
                let secret = text.trim_end_matches(['\r', '\n']);
                let key = Key::from_secret(secret.as_bytes(), None, None, allowed)?;
                Ok(KeySet {
                    keys: vec![key],
                    skipped: Vec::new(),
                })
            }
            "auth.public_key_file" => pem(&text, allowed),
            _ => KeySet::from_jwks(text.as_bytes(), allowed, true),
        });
        let read = read
            .map_err(|why| SetupError::new(key, format!("cannot use {}: {why}", path.display())))?;
        set.keys.extend(read.keys);
        set.skipped.extend(read.skipped);
    }
    Ok(set)
}

fn text(path: &Path) -> Result<String, String> {
    files::text(path, FILE_BYTES_MAX).map_err(|error| error.to_string())
}

/// Each block is a key: the next one can be there before the first is withdrawn.
fn pem(text: &str, allowed: &[Algorithm]) -> Result<KeySet, String> {
    let mut set = KeySet::default();
    for block in text.split("-----BEGIN ").skip(1) {
        let block = format!("-----BEGIN {block}");
        set.keys.push(Key::from_pem(&block, allowed)?);
    }
    match set.keys.is_empty() {
        true => Err("it holds no PEM block (-----BEGIN PUBLIC KEY-----)".to_owned()),
        false => Ok(set),
    }
}
