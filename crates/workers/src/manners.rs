//! How the gateway treats clients: workers compare their own settings with it.

use backend::proto::{Cors, Manners};
use hub::config::{self, Config};
use hub::heartbeat::Step;
use std::time::Duration;

pub fn manners(config: &Config) -> Manners {
    let transports = &config.transports;
    let offered = [
        ("polling", transports.polling),
        ("webtransport", transports.webtransport),
        ("websocket", transports.websocket),
    ];
    let offered = offered.into_iter().filter(|(_, is_offered)| *is_offered);
    Manners {
        ping_interval_ms: millis(config.ping_interval),
        ping_timeout_ms: millis(config.ping_timeout),
        connect_timeout_ms: millis(config.connect_timeout),
        max_payload: config.max_payload as u64,
        path: config.socketio_path.clone(),
        transports: offered.map(|(name, _)| name.to_owned()).collect(),
        upgrade_timeout_ms: millis(config.upgrade_timeout),
        cors: Some(cors(config)),
        ping_interval_longest_ms: millis(config.ping_interval(Step::LAST)),
        // Each backend has its own.
        namespaces: None,
    }
}

fn cors(config: &Config) -> Cors {
    Cors {
        origins: match &config.cors {
            config::Cors::Off => Vec::new(),
            config::Cors::Any => vec!["*".to_owned()],
            config::Cors::Origins(origins) => origins.clone(),
        },
        headers: config.cors_headers.clone(),
        max_age_s: u32::try_from(config.cors_max_age.as_secs()).unwrap_or(u32::MAX),
    }
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
