//! Backends as the process before this one knew them: they are read before anything is served, for then that process can still go on.

use super::Backends;
use super::driver::CLOCK_MS;
use backend::proto::Gone;
use backend::{Backend, Name, Settings, Up};
use std::collections::{HashMap, HashSet};
use wire::base64url::Id20;

/// The reason that workers hear for sockets that stayed with the process before, which sends them away.
const SENT_AWAY: &str = "server shutting down";

impl Backends {
    /// Takes in what the process before knew of a backend. `asked`: questions that clients who came have not answered, by namespace.
    ///
    /// # Errors
    /// There is none of that name, or its record contradicts itself.
    pub fn restore(
        &mut self,
        name: &str,
        record: &[u8],
        shards: u16,
        asked: &[(String, u64)],
    ) -> Result<(), String> {
        let open = self.kitchens.get_mut(name);
        let open = open.ok_or_else(|| {
            format!("the process before has a backend {name}, and this configuration has none")
        })?;
        let settings = Settings {
            shards,
            ..open.settings.clone()
        };
        let mut backend = match &open.endpoint {
            None => Backend::new(settings),
            Some((calling, _)) => Backend::calling(settings, calling.clone()),
        };
        let own = asked
            .iter()
            .filter(|(namespace, _)| open.settings.scope.has(namespace));
        let asked: HashSet<u64> = own.map(|(_, query)| *query).collect();
        let arrived = backend.arrive(CLOCK_MS, record, &asked);
        arrived.map_err(|why| format!("the record of backend {name} has {why}"))?;
        open.restored = Some(backend);
        Ok(())
    }

    /// All sessions are here. Workers hear of the ends of all other sockets: `rooms` are those of some.
    pub fn settle(
        &mut self,
        is_here: impl Fn(&[u8]) -> bool,
        mut rooms: HashMap<String, Vec<String>>,
    ) {
        for open in self.kitchens.values_mut() {
            let Some(backend) = &mut open.restored else {
                continue;
            };
            let came = |name: &Name| {
                let id = Id20::decode(name.as_str().as_bytes());
                id.is_some_and(|id| is_here(&id.0))
            };
            let missing: Vec<Name> = backend.living().filter(|name| !came(name)).collect();
            for name in missing {
                let gone = Gone {
                    socket: name.as_str().to_owned(),
                    reason: SENT_AWAY.to_owned(),
                    rooms: rooms.remove(name.as_str()).unwrap_or_default(),
                };
                backend.up(CLOCK_MS, Up::Gone(gone));
            }
        }
    }
}
