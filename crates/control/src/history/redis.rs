//! The store in Redis, by the same connections as the cluster has: to one server, by Sentinels, to a cluster, with TLS.

use super::place::{Redis, TlsFiles};
use ::history::{Answer, Door, Fault, Kind, Plan};
use ::redis::{Cmd, Value};
use nodes::engine::Trouble;
use nodes::redis::settings::{Settings, is_secure};
use nodes::redis::{self, Port, tls};
use rustls::ClientConfig;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A server that is silent for so long is given up: a large batch takes its time, and replicas have a second.
const PATIENCE: Duration = Duration::from_secs(4);

/// Connects.
///
/// # Errors
/// Redis cannot be found now: why, and what to do.
pub async fn open(place: &Redis, plan: Plan) -> Result<::history::Redis, Fault> {
    let mut settings = settings(place).map_err(|trouble| fault(&trouble))?;
    settings.patience = PATIENCE;
    let (writer, reader) = (door(settings.clone()).await?, door(settings).await?);
    Ok(::history::Redis::new(writer, reader, plan, place.replicas))
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
            std::fs::read(path).map_err(|error| {
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

async fn door(settings: Settings) -> Result<Box<dyn Door>, Fault> {
    let connected = redis::connect(settings).await;
    let door = Connections(connected.map_err(|trouble| fault(&trouble))?);
    // Wrong rights are told at once.
    let mut ping = Cmd::new();
    ping.arg("PING");
    door.carry_out("sockeye:history:", vec![ping]).await?;
    Ok(Box::new(door))
}

#[derive(Debug)]
struct Connections(Port);

impl Door for Connections {
    fn carry_out<'a>(&'a self, key: &'a str, commands: Vec<Cmd>) -> Answer<'a, Vec<Value>> {
        Box::pin(async move {
            let done = self.0.carry_out_together(key.as_bytes(), commands).await;
            done.map_err(|trouble| fault(&trouble))
        })
    }
}

fn fault(trouble: &Trouble) -> Fault {
    let text = trouble.to_string();
    let says = |code: &str| text.contains(&format!(" refused: {code} "));
    match () {
        // Words of the script that appends.
        () if says("STALE") => Fault::late(),
        () if says("OOM") => Fault::new(Kind::Full, format!("the memory of Redis is full: {text}")),
        () => Fault::new(
            Kind::Away,
            format!("Redis cannot be used for history: {text}"),
        ),
    }
}
