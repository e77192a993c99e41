//! `sockeye config check|show|reference`: what a configuration means, for people and for scripts.

use super::docs;
use super::layer::{Layer, Path, Setting, Source};
use super::layers::merge;
use super::{Cluster, Loaded, Request, inspect};
use crate::cli::{ConfigCommand, Page};
use control::inside::{Reload, Setting as Shown, Settings};
use nodes::engine::Server;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs one `config` command.
pub fn run(command: &ConfigCommand) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match command {
        ConfigCommand::Check { request, online } => check(&mut out, request, *online),
        ConfigCommand::Show { request, json } => show(&mut out, request, *json),
        ConfigCommand::Reference { page } => {
            let text = match page {
                Page::Keys => docs::markdown(),
                Page::Toml => docs::toml(),
            };
            out.write_all(text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(out: &mut impl Write, request: &Request, online: bool) -> io::Result<ExitCode> {
    match super::load(request) {
        Ok(loaded) => {
            let from = loaded
                .file
                .as_deref()
                .unwrap_or("built-in defaults, no file");
            for doubt in &loaded.doubts {
                writeln!(out, "warning: {doubt}")?;
            }
            writeln!(out, "configuration is valid ({from})")?;
            match &loaded.resolved.cluster {
                Some(cluster) if online => check_engine(out, cluster),
                _ => Ok(ExitCode::SUCCESS),
            }
        }
        Err(problems) => {
            writeln!(out, "{problems}")?;
            Ok(ExitCode::from(1))
        }
    }
}

fn check_engine(out: &mut impl Write, cluster: &Cluster) -> io::Result<ExitCode> {
    match crate::cluster::look(cluster) {
        Ok(server) => {
            let Server {
                name,
                version,
                mode,
                ..
            } = server;
            writeln!(out, "cluster.urls answer: {name} {version}, {mode}")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problem) => {
            writeln!(out, "cluster.urls: {problem:#}")?;
            Ok(ExitCode::from(1))
        }
    }
}

/// Shows what is set even while something is wrong: that is when one looks.
fn show(out: &mut impl Write, request: &Request, json: bool) -> io::Result<ExitCode> {
    let layer = match inspect(request) {
        Ok(inputs) => merge(&inputs).0,
        Err(problems) => {
            writeln!(io::stderr(), "{problems}")?;
            return Ok(ExitCode::from(1));
        }
    };
    let text = if json {
        as_json(&layer)
    } else {
        as_toml(&layer)
    };
    out.write_all(text.as_bytes())?;
    match super::load(request) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(problems) => {
            writeln!(io::stderr(), "{problems}")?;
            Ok(ExitCode::from(1))
        }
    }
}

/// TOML that can be used as a file again; sources stand in the comments.
fn as_toml(layer: &Layer) -> String {
    let mut rows: Vec<(&Path, &Setting)> = layer.settings.iter().collect();
    // Bare keys must come before the first table header, and a table's keys together.
    rows.sort_by(|(a, _), (b, _)| {
        let table = |path: &Path| path.0.split_last().map(|(_, parents)| parents.to_vec());
        table(a).cmp(&table(b))
    });
    let mut text = String::new();
    let mut table = String::new();
    for (path, setting) in rows {
        let Some((leaf, parents)) = path.0.split_last() else {
            continue;
        };
        let parents = Path::new(parents).to_string();
        if parents != table {
            text.push_str(&format!("\n[{parents}]\n"));
            table = parents;
        }
        let line = format!("{} = {}", Path::new(&[leaf]), setting.value.to_toml());
        text.push_str(&format!("{line:<44} # {}\n", setting.source));
    }
    text
}

/// The configuration of a running process, for operators who look at it.
#[derive(Debug)]
pub struct InForce {
    request: Request,
    loaded: Mutex<Loaded>,
}

impl InForce {
    pub fn new(request: &Request, loaded: &Loaded) -> Self {
        Self {
            request: request.clone(),
            loaded: Mutex::new(loaded.clone()),
        }
    }

    /// A reload changed it.
    pub fn set(&self, loaded: &Loaded) {
        *self.loaded() = loaded.clone();
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Settings for InForce {
    fn shown(&self) -> Vec<Shown> {
        let loaded = self.loaded();
        let rows = loaded.settings.settings.iter();
        let shown = rows.map(|(path, setting)| Shown {
            key: path.to_string(),
            value: setting.value.to_json(),
            number: setting.value.number(),
            source: setting.source.to_string(),
        });
        shown.collect()
    }

    fn reload(&self) -> Reload {
        match super::load(&self.request) {
            Ok(later) => {
                let changes = self.loaded().changes(&later);
                Reload {
                    live: changes.live,
                    restart: changes.restart,
                    problems: Vec::new(),
                }
            }
            Err(problems) => Reload {
                problems: problems.0.iter().map(ToString::to_string).collect(),
                ..Reload::default()
            },
        }
    }
}

fn as_json(layer: &Layer) -> String {
    let rows = layer.settings.iter().map(|(path, setting)| {
        let (kind, place) = match &setting.source {
            Source::Default => ("default", None),
            Source::Profile(name) => ("profile", Some((*name).to_owned())),
            Source::File { .. } | Source::WholeFile(_) => {
                ("file", Some(setting.source.to_string()))
            }
            Source::Env(name) => ("environment", Some(name.clone())),
            Source::Flag(name) => ("flag", Some((*name).to_owned())),
        };
        let row = serde_json::json!({
            "value": setting.value.to_json(), "source": kind, "place": place,
        });
        (path.to_string(), row)
    });
    let object: serde_json::Map<_, _> = rows.collect();
    format!("{:#}\n", serde_json::Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::KEYS;
    use crate::config::layers::{Flag, Inputs};

    fn layer() -> Layer {
        let text = "[namespaces.\"/a.b\".events.\"x y\"]\nrate = \"5/s\"".to_owned();
        let inputs = Inputs {
            file: Some(("s.toml".to_owned(), text)),
            flags: vec![Flag {
                name: "--shards",
                key: "server.shards",
                text: "3".to_owned(),
            }],
            ..Inputs::default()
        };
        merge(&inputs).0
    }

    /// A key of another name would have no figure, and nobody would say so.
    #[test]
    fn limits_that_have_a_figure_are_settings() {
        for key in control::inside::bounded_keys() {
            assert!(KEYS.iter().any(|known| known.path == key), "{key}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        let shown = as_toml(&layer());
        let file = Some(("again.toml".to_owned(), shown));
        let (again, problems) = merge(&Inputs {
            file,
            ..Inputs::default()
        });
        assert_eq!(problems, []);
        let values = |layer: &Layer| {
            let rows = layer.settings.iter();
            rows.map(|(path, setting)| (path.clone(), setting.value.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(values(&again), values(&layer()));
    }

    #[test]
    fn every_value_has_its_source() {
        let shown = as_toml(&layer());
        let line = |key: &str| {
            let found = shown
                .lines()
                .find(|line| line.starts_with(&format!("{key} = ")));
            found
                .unwrap_or_else(|| panic!("{key} in {shown}"))
                .to_owned()
        };
        assert!(line("shards").ends_with("# flag --shards"));
        // The chat profile has a rate of its own.
        let mut rates = shown
            .lines()
            .filter(|line| line.starts_with("rate = \"5/s\""));
        assert!(rates.all(|line| line.ends_with("# s.toml:2:1")), "{shown}");
        assert!(line("rate").ends_with("# default"));
        assert!(line("ping_timeout").ends_with("# profile chat"));
        assert!(line("path").contains("# default"));
    }

    #[test]
    fn json_has_value_source_and_place() {
        let json: serde_json::Value = serde_json::from_str(&as_json(&layer())).expect("JSON");
        let row = &json["server.shards"];
        assert_eq!(row["value"], 3);
        assert_eq!(row["source"], "flag");
        assert_eq!(row["place"], "--shards");
        assert_eq!(json["server.listen"]["place"], serde_json::Value::Null);
    }

    #[test]
    fn secrets_are_shown_by_no_form() {
        let text = "[auth]\nsecret = \"hunter2\"".to_owned();
        let inputs = Inputs {
            file: Some(("s.toml".to_owned(), text)),
            ..Inputs::default()
        };
        let (layer, problems) = merge(&inputs);
        assert_eq!(problems, []);
        for shown in [as_toml(&layer), as_json(&layer), format!("{layer:?}")] {
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(shown.contains("***"), "{shown}");
        }
        let number = Inputs {
            file: Some(("s.toml".to_owned(), "[auth]\nsecret = 12345".to_owned())),
            ..Inputs::default()
        };
        let (_, problems) = merge(&number);
        let told = format!("{problems:?}");
        assert!(
            told.contains("auth.secret") && !told.contains("12345"),
            "{told}"
        );
    }
}
