//! `[history]` and what namespaces say of theirs, for the control plane.

use super::Resolver;
use crate::config::keys::{
    AboveQuota, Adapter, HistoryReaders, HistoryStore, HistorySync, RedisMode, RoomHistory,
};
use crate::config::layer::Path;
use crate::config::rules::{histories, names_below};
use control::history::{Keep, Place, Plan, Quota, Redis, Settings, Sync, TlsFiles};
use nodes::redis::settings::{self, Mode};
use rules::Rules;

/// A batch has as much.
const WAITING_MIN: usize = 1 << 20;

impl Resolver<'_> {
    /// `None`: nothing is stored.
    pub(super) fn history(&mut self, rules: &Rules) -> Option<Settings> {
        let stored = histories(self.layer);
        self.history_readers();
        let (name, _) = stored.first()?;
        let place = Path::new(&["namespaces", name, "history", "stored"]);
        let keys = &self.settings.history;
        if keys.waiting_max.get() < WAITING_MIN {
            self.problem(&keys.waiting_max, "must be \"1MiB\" or more");
        }
        for (name, keys) in &stored {
            self.history_of(name, keys, rules);
            self.history_quota(keys);
        }
        let Some(store) = *keys.store else {
            let message = "there is no store: set history.store = \"disk\", \"postgres\", \"redis\" or \"memory\"";
            self.problem_at(&place, message);
            return None;
        };
        let place = self.history_place(store)?;
        let plan = stored.iter().flat_map(|(name, keys)| {
            let keep = Keep {
                events: keys.events.get::<u64>(),
                bytes: keys.bytes.get() as u64,
                age_ms: keys.age.as_millis() as u64,
            };
            let rooms = keys.rooms.iter();
            rooms
                .map(move |room| (name.clone(), room.clone(), keep))
                .collect::<Vec<_>>()
        });
        let quotas = stored.iter().filter_map(|(name, keys)| {
            let quota = quota(keys);
            let is_one = quota.bytes.is_some() || quota.rooms.is_some();
            is_one.then(|| (name.clone(), quota))
        });
        Some(Settings {
            place,
            quotas: quotas.collect(),
            plan: Plan::new(plan),
            waiting_bytes_max: keys.waiting_max.get(),
        })
    }

    fn history_of(&mut self, name: &str, keys: &RoomHistory, rules: &Rules) {
        let namespace = rules.namespaces.get(name);
        let kept = namespace.is_some_and(|rules| {
            let mut all = rules.events.values().chain([&rules.default_event]);
            rules.chat || all.any(|rule| rule.history)
        });
        if !kept {
            let message = format!(
                "no event of the namespace is kept: set namespaces.{name:?}.default.history = true, or that of single events"
            );
            self.problem(&keys.stored, message);
        }
        if keys.rooms.is_empty() {
            self.problem(
                &keys.rooms,
                "at least one room is needed; \"*\" stands for all",
            );
        }
        if keys.age.is_zero() {
            self.problem(&keys.age, "must be longer than zero");
        }
    }

    fn history_quota(&mut self, keys: &RoomHistory) {
        let is_redis = *self.settings.history.store == Some(HistoryStore::Redis);
        let refuses = *keys.above_quota == AboveQuota::Refuse;
        let uncounted = "the redis store does not count what a namespace has: use \"postgres\" or \"disk\", or bound each room by `events`";
        if is_redis && keys.quota_bytes.is_some() {
            self.problem(&keys.quota_bytes, uncounted);
        }
        if is_redis && keys.quota_rooms.is_some() {
            self.problem(&keys.quota_rooms, uncounted);
        }
        if refuses && keys.quota_rooms.is_some() {
            let message =
                "rooms can only make way: leave out above_quota = \"refuse\", or quota_rooms";
            self.problem(&keys.quota_rooms, message);
        }
        if refuses && keys.quota_bytes.is_none() {
            self.problem(&keys.above_quota, "there is no quota: set quota_bytes");
        }
    }

    /// Clients that may read where nothing is stored.
    fn history_readers(&mut self) {
        for name in names_below(self.layer, &["namespaces"]) {
            let keys = RoomHistory::of(self.layer, name);
            if *keys.readers != HistoryReaders::Nobody && !*keys.stored {
                let message = "there is nothing to read: set `stored = true` beside it";
                self.problem(&keys.readers, message);
            }
        }
    }

    fn history_place(&mut self, store: HistoryStore) -> Option<Place> {
        let keys = &self.settings.history;
        let is_alone = *self.settings.cluster.adapter == Adapter::Memory;
        let missing = control::history::missing(store_name(store));
        if let Some(message) = missing {
            self.problem(&keys.store, message);
            return None;
        }
        if !is_alone && matches!(store, HistoryStore::Memory | HistoryStore::Disk) {
            let message = "each node would have only what was said by its own clients and programs: several nodes need \"redis\" or \"postgres\"";
            self.problem(&keys.store, message);
        }
        let scheme = match store {
            HistoryStore::Memory => {
                return Some(Place::Memory {
                    bytes_max: keys.memory_max.get() as u64,
                });
            }
            HistoryStore::Disk => {
                return Some(Place::Disk {
                    folder: self.machine.folder.join(&*keys.folder),
                    sync: match *keys.sync {
                        HistorySync::Always => Sync::Always,
                        HistorySync::Second => Sync::Second,
                        HistorySync::Os => Sync::Os,
                    },
                });
            }
            HistoryStore::Redis => return self.history_redis().map(Place::Redis),
            HistoryStore::Postgres => &["postgres://", "postgresql://"][..],
        };
        let url = (*keys.url).clone();
        let fits = |url: &str| scheme.iter().any(|scheme| url.starts_with(scheme));
        let Some(url) = url.filter(|url| fits(url.reveal())) else {
            let message = format!(
                "the store needs an address that begins with {:?}",
                scheme[0]
            );
            self.problem(&keys.url, message);
            return None;
        };
        Some(Place::Postgres { url })
    }

    fn history_redis(&mut self) -> Option<Redis> {
        let (keys, address) = (&self.settings.redis_history, &self.settings.history.url);
        let Some(urls) = (**address).clone() else {
            self.problem(address, "the store needs an address: redis://HOST:PORT");
            return None;
        };
        let all = Redis::urls(&urls);
        if let Err(why) = settings::check_with_database(&all) {
            self.problem(address, why.to_string());
            return None;
        }
        if *keys.mode == RedisMode::Cluster && settings::check(&all).is_err() {
            let message = "a Redis Cluster has no numbered databases: leave the number out";
            self.problem(address, message);
            return None;
        }
        if keys.tls_cert.is_some() != keys.tls_key.is_some() {
            self.problem(&keys.tls_cert, "and history.redis.tls_key need each other");
        }
        for key in [&keys.tls_ca, &keys.tls_cert, &keys.tls_key] {
            self.readable(key);
        }
        let file = |name: &Option<String>| name.as_ref().map(|name| self.machine.folder.join(name));
        let (mode, usual) = match *keys.mode {
            RedisMode::Single => (Mode::Single, 0),
            RedisMode::Sentinel => (Mode::Sentinel(keys.master.clone()), 1),
            RedisMode::Cluster => (Mode::Cluster, 1),
        };
        let replicas = keys.replicas.map_or(usual, |replicas| replicas.get());
        Some(Redis {
            urls,
            mode,
            replicas,
            tls: TlsFiles {
                authorities: file(&keys.tls_ca),
                certificate: file(&keys.tls_cert),
                key: file(&keys.tls_key),
            },
        })
    }
}

fn quota(keys: &RoomHistory) -> Quota {
    Quota {
        bytes: keys.quota_bytes.map(|bytes| bytes.get() as u64),
        rooms: keys.quota_rooms.map(|rooms| rooms.get::<u64>()),
        refuses: *keys.above_quota == AboveQuota::Refuse,
    }
}

fn store_name(store: HistoryStore) -> &'static str {
    match store {
        HistoryStore::Memory => "memory",
        HistoryStore::Disk => "disk",
        HistoryStore::Redis => "redis",
        HistoryStore::Postgres => "postgres",
    }
}
