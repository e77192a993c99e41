//! The number of others that listen beside us, as Redis counts it.

use super::name;
use crate::engine::{Engine, Kind};
use compat::plane::{Counted, Counters};

/// Redis has them from 7.0. A server that does not answer now is taken at its word later.
pub(super) async fn has_sharded_channels(engine: &Engine) -> bool {
    if engine
        .subscribers(Kind::Sharded, &[name("sockeye")])
        .await
        .is_ok()
    {
        return true;
    }
    let Ok(server) = engine.server().await else {
        return true;
    };
    tracing::warn!(
        name = server.name,
        version = server.version,
        "servers with the sharded adapter are not heard (compat.sharded): this Redis does not count subscribers of sharded channels; \
         version 7.0 or later does"
    );
    false
}

/// Subscribers, by dialect: all, and our own.
pub(super) async fn count_once(engine: &Engine, counters: &Counters) -> Option<Counted> {
    let sharded = async {
        match &counters.sharded {
            Some(channels) => counted(engine, Kind::Sharded, channels).await,
            None => Some([0; 2]),
        }
    };
    let classic = counted(engine, Kind::Classic, &counters.channels);
    let (classic, sharded) = tokio::join!(classic, sharded);
    let [requests, own, main, own_main] = classic?;
    Some(Counted([[requests, own], sharded?, [main, own_main]]))
}

async fn counted<const N: usize>(
    engine: &Engine,
    kind: Kind,
    channels: &[String; N],
) -> Option<[u64; N]> {
    let names = channels.each_ref().map(|channel| name(channel));
    engine.subscribers(kind, &names).await.ok()?.try_into().ok()
}
