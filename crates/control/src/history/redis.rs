//! The way to a store in Redis, as configured.

use super::place::{Redis, TlsFiles};
use ::history::{Fault, Plan};
use nodes::engine::Trouble;
use nodes::redis::settings::{Settings, is_secure};
use nodes::redis::tls;
use nodes::store;
use process::files;
use rustls::ClientConfig;
use std::path::PathBuf;
use std::sync::Arc;

/// Connects.
///
/// # Errors
/// Redis cannot be found now: why, and what to do.
pub async fn open(place: &Redis, plan: Plan) -> Result<::history::Redis, Fault> {
    let settings = settings(place).map_err(|trouble| store::fault(&trouble))?;
    store::open(settings, plan, place.replicas).await
}

fn settings(place: &Redis) -> Result<Settings, Trouble> {
    let urls = Redis::urls(&place.urls);
    let tls = match is_secure(&urls) {
        true => Some(certificates(&place.tls)?),
        false => None,
    };
    Settings::with_database(&urls, place.mode.clone(), tls)
}

fn certificates(files: &TlsFiles) -> Result<Arc<ClientConfig>, Trouble> {
    let read = |path: &Option<PathBuf>| {
        let bytes = path.as_ref().map(|path| {
            files::bytes(path, files::BYTES_MAX).map_err(|error| {
                Trouble::lasting(format!("cannot read {}: {error}", path.display()))
            })
        });
        bytes.transpose()
    };
    let authorities = read(&files.authorities)?;
    let identity = read(&files.certificate)?.zip(read(&files.key)?);
    tls::config(tls::Files {
        authorities: authorities.as_deref(),
        identity: identity.as_ref().map(|(own, key)| (&own[..], &key[..])),
    })
}
