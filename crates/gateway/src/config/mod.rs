//! Configuration: one table of keys, read in layers, checked as a whole.
//!
//! [`raw`] and [`layers`] hold what was typed and where; [`resolve`] and [`rules`] what it means.
//! Nothing else in the binary looks at files or variables of the environment.

mod backends;
mod bounds;
mod chronicle;
mod docs;
mod doubts;
mod edges;
#[cfg(test)]
mod kafka_tests;
pub mod key;
pub mod keys;
mod layer;
mod layers;
#[cfg(test)]
mod limits_page;
#[cfg(test)]
mod nats_tests;
pub mod problem;
mod raw;
mod resolve;
mod rules;
pub mod show;
mod typed;
mod units;
mod value;
mod variables;

pub use edges::Listen;
pub use keys::{Adapter, LogFormat, RedisMode};
pub use layers::Flag;
pub use problem::Problems;
pub use resolve::{Auth, Cluster, Compat, Log, RelayListen, Resolved, Server};
pub use units::parse_duration;

use layer::{Layer, Source};
use layers::{Inputs, merge};
use problem::Problem;
use process::files;
use resolve::{Machine, resolve};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Used when no file is named and this one lies in the working directory.
const DEFAULT_FILE: &str = "sockeye.toml";

/// Where to look: what the command line says about configuration.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub file: Option<PathBuf>,
    pub flags: Vec<Flag>,
    /// A process that runs with the same configuration hands over to this one.
    pub takes_over: bool,
}

#[derive(Clone, Debug)]
pub struct Loaded {
    pub resolved: Resolved,
    pub file: Option<String>,
    /// Settings that are allowed and look like a mistake.
    pub doubts: Vec<String>,
    settings: Layer,
}

/// Reads everything and makes sense of it, or reports all that is wrong.
pub fn load(request: &Request) -> Result<Loaded, Problems> {
    let inputs = inspect(request)?;
    let (settings, mut problems) = merge(&inputs);
    let mut doubts = variables::misnamed(&inputs.env);
    doubts.extend(rules::doubts(&settings));
    doubts.extend(doubts::find(&settings));
    let file = inputs.file.map(|(name, _)| name);
    let folder = file.as_deref().and_then(|name| Path::new(name).parent());
    let machine = Machine {
        hostname: hostname(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        folder: folder.unwrap_or(Path::new("")).to_owned(),
        has_s3: control::bodies::HAS_S3,
        has_kafka: control::kafka::HAS_KAFKA,
        has_nats: control::nats::HAS_NATS,
        has_webtransport: control::webtransport::HAS_WEBTRANSPORT,
    };
    match resolve(&settings, &machine) {
        Ok(resolved) if problems.is_empty() => Ok(Loaded {
            resolved,
            file,
            doubts,
            settings,
        }),
        Ok(_) => Err(Problems(problems)),
        Err(more) => {
            problems.extend(more);
            Err(Problems(problems))
        }
    }
}

/// Reads file, environment and flags without judging them.
fn inspect(request: &Request) -> Result<Inputs, Problems> {
    let named = request.file.clone();
    let path = named.or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|path| path.exists()));
    let file = match path {
        None => None,
        Some(path) => {
            let name = path.display().to_string();
            match files::text(&path, files::CONFIGURATION_BYTES_MAX) {
                Ok(text) => Some((name, text)),
                Err(error) => {
                    let next = match error.kind() {
                        ErrorKind::NotFound => "; `sockeye init` writes one",
                        _ => "",
                    };
                    let message = format!("cannot read the configuration file: {error}{next}");
                    return Err(Problems(vec![Problem::new(
                        &Source::WholeFile(name),
                        message,
                    )]));
                }
            }
        }
    };
    let (env, problems) = variables::texts(std::env::vars_os());
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    Ok(Inputs {
        file,
        env,
        flags: request.flags.clone(),
    })
}

/// What changed between two loads: keys that apply now, keys that wait for a restart.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub live: Vec<String>,
    pub restart: Vec<String>,
}

impl Loaded {
    /// Whether somebody set this key, which holds no name of the operator's choice.
    pub fn is_set(&self, key: &str) -> bool {
        debug_assert!(raw::find(&layer::Path::fixed(key).0).is_some(), "{key}");
        !matches!(
            self.settings.source(&layer::Path::fixed(key)),
            Source::Default | Source::Profile(_)
        )
    }

    /// Compares with a later load of the same request.
    pub fn changes(&self, later: &Loaded) -> Changes {
        let mut changes = Changes::default();
        let (old, new) = (&self.settings.settings, &later.settings.settings);
        let paths: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
        for path in paths {
            let value = |layer: &std::collections::BTreeMap<layer::Path, layer::Setting>| {
                layer.get(path).map(|setting| setting.value.clone())
            };
            if value(old) == value(new) {
                continue;
            }
            match self.takes(later, path) {
                true => changes.live.push(path.to_string()),
                false => changes.restart.push(path.to_string()),
            }
        }
        changes
    }

    /// Whether a reload applies this key. Keys of a backend: if it is the same kind of backend in both loads.
    fn takes(&self, later: &Loaded, path: &layer::Path) -> bool {
        let is_live = raw::find(&path.0).is_some_and(|key| key.reload == key::Reload::Live);
        let [section, backend, _] = path.0.as_slice() else {
            return is_live;
        };
        let is_called = |loaded: &Loaded| {
            let backends = loaded.resolved.backends.as_ref()?;
            Some(backends.kitchens.get(backend)?.webhook.is_some())
        };
        let same = is_called(self) == is_called(later) && is_called(self).is_some();
        is_live && (section != "backends" || same)
    }

    /// A later load's live keys are what runs now; the others stay what this process was started with.
    pub fn adopt_live(&mut self, later: &Loaded) {
        let old = self.settings.settings.keys();
        let new = later.settings.settings.keys();
        let paths: Vec<layer::Path> = old.chain(new).cloned().collect();
        for path in paths {
            if !self.takes(later, &path) {
                continue;
            }
            match later.settings.settings.get(&path) {
                Some(setting) => self.settings.settings.insert(path, setting.clone()),
                None => self.settings.settings.remove(&path),
            };
        }
    }
}

#[cfg(unix)]
pub fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(not(unix))]
pub fn hostname() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_text(folder: &tempfile::TempDir, text: &str) -> Result<Loaded, Problems> {
        let path = folder.path().join("s.toml");
        std::fs::write(&path, text).expect("write");
        load(&Request {
            file: Some(path),
            flags: Vec::new(),
            takes_over: false,
        })
    }

    #[test]
    fn a_file_that_is_named_must_exist() {
        let request = Request {
            file: Some(PathBuf::from("/no/such.toml")),
            flags: Vec::new(),
            takes_over: false,
        };
        let problems = load(&request).expect_err("no file").to_string();
        assert!(
            problems.starts_with("/no/such.toml: cannot read"),
            "{problems}"
        );
    }

    #[test]
    fn problems_of_reading_and_of_meaning_come_together() {
        let folder = tempfile::tempdir().expect("folder");
        let text = "[server]\nshard = 1\nadmin = \"x\"\n";
        let problems = load_text(&folder, text).expect_err("two problems");
        assert_eq!(problems.0.len(), 2, "{problems}");
        assert!(
            problems
                .to_string()
                .ends_with("2 problems in the configuration"),
            "{problems}"
        );
    }

    #[test]
    fn a_reload_knows_what_waits_for_a_restart() {
        let folder = tempfile::tempdir().expect("folder");
        let old = load_text(&folder, "[log]\nlevel = \"info\"").expect("valid");
        let text = "[log]\nlevel = \"debug\"\n[server]\nshards = 9\n[namespaces.\"/x\"]\n";
        let new = load_text(&folder, text).expect("valid");
        let changes = old.changes(&new);
        assert_eq!(changes.live, ["log.level"]);
        assert!(
            changes.restart.contains(&"server.shards".to_owned()),
            "{changes:?}"
        );
        assert!(
            changes
                .restart
                .iter()
                .any(|key| key.starts_with("namespaces.\"/x\""))
        );
        assert_eq!(old.changes(&old), Changes::default());
    }

    /// Later loads are compared with the applied settings; those that wait for a restart are named until then.
    #[test]
    fn a_second_reload_is_compared_with_what_runs() {
        let folder = tempfile::tempdir().expect("folder");
        let first = load_text(&folder, "log.level = \"info\"\nserver.shards = 1").expect("valid");
        let second = load_text(&folder, "log.level = \"debug\"\nserver.shards = 2");
        let second = second.expect("valid");
        let mut runs = first.clone();
        runs.adopt_live(&second);
        assert_eq!(runs.changes(&second).live, [""; 0]);
        assert_eq!(runs.changes(&second).restart, ["server.shards"]);
        assert_eq!(runs.changes(&first).live, ["log.level"]);
        assert_eq!(runs.changes(&first).restart, [""; 0]);
    }
}
