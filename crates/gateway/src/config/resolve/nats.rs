//! `[nats]`, for the control plane: servers, the subjects of events, subjects with commands.

use super::Resolver;
use super::bridges::{ReadKeys, WriteKeys};
use crate::config::keys::{NATS_INS, NatsAck, NatsIn};
use crate::config::rules::{bus_user, names_below};
use control::bridge::Key;
use control::nats::{In, MISSING, Mode, Out, Settings, check};
use rules::Rules;
use rules::bridge::Bus;
use std::path::PathBuf;
use std::time::Duration;

/// Nothing is acknowledged sooner on a busy machine.
const TIME_MIN: Duration = Duration::from_millis(100);
/// Streams know repeats for twice as long, by default.
const TIME_MAX: Duration = Duration::from_secs(60);

impl Resolver<'_> {
    /// `None`: there is no bridge.
    pub(super) fn nats(&mut self, rules: &Rules) -> Option<Settings> {
        let urls = &self.settings.nats.urls;
        if urls.is_empty() {
            self.nats_without_servers();
            return None;
        }
        if !self.machine.has_nats {
            self.problem(urls, MISSING);
            return None;
        }
        let before = self.problems.len();
        let out = self.nats_out();
        let names = names_below(self.layer, &NATS_INS).into_iter();
        let inlets: Vec<In> = names.map(|name| self.nats_in(name, rules)).collect();
        let settings = Settings {
            urls: urls.to_vec(),
            out,
            inlets,
            ..self.nats_ways()
        };
        if settings.out.is_none() && settings.inlets.is_empty() {
            let message =
                "nothing uses the servers: set nats.out.subject, or add a table [nats.in.NAME]";
            self.problem(urls, message);
        }
        if self.problems.len() == before
            && let Err(why) = check(&settings)
        {
            self.problem(urls, why);
        }
        Some(settings)
    }

    /// Credentials and TLS.
    fn nats_ways(&mut self) -> Settings {
        let keys = &self.settings.nats;
        let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
        if keys.user.is_some() != keys.password_file.is_some() {
            let message = "nats.user and nats.password_file belong together: set both, or none";
            self.problem(&keys.user, message);
        }
        if keys.credentials_file.is_some() && keys.user.is_some() {
            let message = "nats.credentials_file and nats.user exclude each other";
            self.problem(&keys.credentials_file, message);
        }
        if keys.cert_file.is_some() != keys.key_file.is_some() {
            let message = "nats.cert_file and nats.key_file belong together: set both, or none";
            self.problem(&keys.cert_file, message);
        }
        Settings {
            credentials_file: path(&keys.credentials_file),
            user: (*keys.user).clone(),
            password_file: path(&keys.password_file),
            tls: *keys.tls,
            ca_file: path(&keys.ca_file),
            own_cert: path(&keys.cert_file).zip(path(&keys.key_file)),
            ..Settings::default()
        }
    }

    /// What needs them is a mistake then.
    fn nats_without_servers(&mut self) {
        let message = "there are no servers: set nats.urls = [\"nats://HOST:PORT\"]";
        let subject = &self.settings.nats_out.subject;
        if subject.is_some() {
            self.problem(subject, message);
        }
        for name in names_below(self.layer, &NATS_INS) {
            let keys = NatsIn::of(self.layer, name);
            self.problem(&keys.subject, message);
        }
        if let Some(place) = bus_user(self.layer, Bus::Nats) {
            self.problem_at(&place, message);
        }
    }

    fn nats_out(&mut self) -> Option<Out> {
        let keys = &self.settings.nats_out;
        let user = bus_user(self.layer, Bus::Nats);
        let Some(subject) = (*keys.subject).clone() else {
            if let Some(place) = user {
                self.problem_at(&place, "there is no subject for it: set nats.out.subject");
            }
            return None;
        };
        if user.is_none() {
            let message = "nothing is published to it: set `action = \"nats\"` or `nats = true` in a rule of an event, or `nats_lifecycle` in a namespace";
            self.problem(&keys.subject, message);
        }
        if *keys.key == Key::Claim {
            self.problem(&keys.key, "must be \"user\", \"room\" or \"socket\"");
        }
        if *keys.ack == NatsAck::Nats && *keys.mode == Mode::Core {
            let message = "nobody acknowledges a message of core NATS: set nats.out.mode = \"jetstream\", or ack = \"gateway\"";
            self.problem(&keys.ack, message);
        }
        let writes = WriteKeys {
            key: &keys.key,
            room: &keys.room,
            operator: &keys.operator,
            waits: *keys.ack == NatsAck::Nats,
            waiting_max: &keys.waiting_max,
            record_max: &keys.record_max,
            time: &keys.time,
            times: (TIME_MIN, TIME_MAX, "\"100ms\" to \"1m\""),
        };
        Some(Out {
            subject,
            mode: *keys.mode,
            writes: self.bus_writes("nats", &writes),
        })
    }

    fn nats_in(&mut self, name: &str, rules: &Rules) -> In {
        let keys = NatsIn::of(self.layer, name);
        if keys.subject.is_none() {
            self.problem(&keys.subject, "name the subject that is read");
        }
        let reads = ReadKeys {
            group: &keys.group,
            namespaces: &keys.namespaces,
            operators: &keys.operators,
            dead_letters: &keys.dead_letters,
            value_max: &keys.value_max,
        };
        In {
            subject: (*keys.subject).clone().unwrap_or_default(),
            stream: (*keys.stream).clone(),
            pending_max: keys.pending_max.get(),
            reads: self.bus_reads(&reads, rules),
        }
    }
}
