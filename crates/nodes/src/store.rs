//! The store of history in Redis, by the same connections as the cluster has: to one server, by Sentinels, to a cluster, with TLS.

use crate::engine::Trouble;
use crate::redis::settings::Settings;
use crate::redis::{self, Port};
use ::redis::{Cmd, Value};
use history::{Answer, Door, Fault, Kind, Plan, Redis};
use std::time::Duration;

/// A server that is silent for so long is given up: a large batch takes its time, and replicas have a second.
const PATIENCE: Duration = Duration::from_secs(4);

/// Connects. An event is stored when so many replicas have it.
///
/// # Errors
/// Redis cannot be found now: why, and what to do.
pub async fn open(mut settings: Settings, plan: Plan, replicas: u16) -> Result<Redis, Fault> {
    settings.patience = PATIENCE;
    let (writer, reader) = (door(settings.clone()).await?, door(settings).await?);
    Ok(Redis::new(writer, reader, plan, replicas))
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

/// What a failure of Redis means for history.
pub fn fault(trouble: &Trouble) -> Fault {
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
