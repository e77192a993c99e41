//! How the hubs of a history are set up.

use crate::plan::Plan;
use hub::config::Config;
use hub::heartbeat::Stretch;
use rules::{Action, EventRule, NamespaceRules, Rules};
use std::time::Duration;

/// Heartbeats are frequent. Other times are long: a hub that stands still must not cost a client its connection.
pub(crate) fn config(plan: &Plan, seed: u64) -> Config {
    let long = Duration::from_secs(1_000_000);
    let mut config = Config {
        ping_interval: Duration::from_secs(2),
        ping_timeout: Duration::from_secs(60),
        stretch: Stretch::new(4, 2),
        connect_timeout: long,
        upgrade_timeout: long,
        ..Config::default()
    };
    config.auth.enabled = plan.tokens;
    config.auth.timeout = long;
    config.limits.keep_alive_timeout = long;
    config.limits.message_timeout = long;
    if seed % 2 == 1 {
        // Every bound that only makes others wait is reached all the time.
        config.limits.deliveries_per_turn = 4;
        config.limits.mailbox_messages_max = 3;
        config.limits.poll_packets_max = 2;
    }
    if seed % 4 == 3 {
        config.limits.acks_outstanding_max = 6;
    }
    config
}

/// Clients join rooms; `say-0` goes to `room-0`, and so on.
pub(crate) fn rules(plan: &Plan) -> Rules {
    let rule = |action| EventRule {
        history: plan.kept && matches!(action, Action::Rooms { .. }),
        ..EventRule::new(action)
    };
    let say = |room| {
        let action = Action::Rooms {
            room: Some(format!("room-{room}")),
            echo: false,
        };
        (format!("say-{room}"), rule(action))
    };
    // The handler sends these; the rules say that they are kept.
    let both = |(room, other)| {
        let action = Action::Rooms {
            room: None,
            echo: false,
        };
        (format!("tell-{room}-{other}"), rule(action))
    };
    let rooms = 0..plan.rooms;
    let pairs = rooms
        .clone()
        .flat_map(|room| rooms.clone().map(move |other| (room, other)));
    let main = NamespaceRules {
        client_joins: true,
        events: (0..plan.rooms).map(say).chain(pairs.map(both)).collect(),
        ..NamespaceRules::new(rule(Action::Drop))
    };
    Rules {
        namespaces: [("/".to_owned(), main)].into(),
    }
}
