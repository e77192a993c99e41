//! The file format (transcripts/README.md describes it): settings, then lines in the order in which they happen.

use std::path::Path;
use std::time::Duration;

/// Which rules the gateway serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Namespaces `/` and `/lab` that answer every event with its own arguments; see the README.
    Lab,
    /// The profile of that name.
    Chat,
}

/// Settings both worlds apply.
#[derive(Clone, Debug)]
pub struct Settings {
    pub profile: Profile,
    pub ping_interval: Duration,
    pub ping_timeout: Duration,
    pub plain_ping_interval: Duration,
    pub connect_timeout: Duration,
    pub upgrade_timeout: Duration,
    pub message_timeout: Duration,
    pub drain_window: Duration,
    pub max_payload: usize,
    pub plain_max_payload: usize,
    pub cors: bool,
    /// Clients of protocol 3 are served.
    pub eio3: bool,
    /// Data-plane threads of the gateway; a hub in memory is always one.
    pub shards: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            profile: Profile::Lab,
            ping_interval: Duration::from_secs(25),
            ping_timeout: Duration::from_secs(20),
            plain_ping_interval: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(45),
            upgrade_timeout: Duration::from_secs(10),
            message_timeout: Duration::from_secs(30),
            drain_window: Duration::from_secs(1),
            max_payload: 1_000_000,
            plain_max_payload: 65_536,
            cors: false,
            eio3: false,
            shards: 1,
        }
    }
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The client of this name does something. `headers` are indented lines below.
    Send {
        conn: String,
        what: String,
        headers: Vec<String>,
    },
    /// It receives something.
    Expect {
        conn: String,
        what: String,
        headers: Vec<String>,
    },
    /// Time passes.
    Pass(Duration),
    /// The server is told to stop.
    Drain,
}

#[derive(Clone, Debug)]
pub struct Line {
    pub number: usize,
    pub step: Step,
}

#[derive(Clone, Debug)]
pub struct Script {
    pub name: String,
    pub settings: Settings,
    pub lines: Vec<Line>,
}

impl Script {
    /// Reads a file; mistakes in it panic with file and line.
    pub fn read(path: &Path) -> Script {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut script = Script {
            name,
            settings: Settings::default(),
            lines: Vec::new(),
        };
        for (n, line) in text.lines().enumerate() {
            if let Err(problem) = script.line(n + 1, line) {
                panic!("{}:{}: {problem}: {line:?}", path.display(), n + 1);
            }
        }
        script
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.starts_with(' ') {
            return self.header(line.trim());
        }
        let step = match line.split_once(' ').unwrap_or((line, "")) {
            ("set", setting) => return self.setting(setting),
            ("=", time) => Step::Pass(duration(time)?),
            ("!", "drain") => Step::Drain,
            (conn, what) => {
                let what = what.to_owned();
                let headers = Vec::new();
                if let Some(conn) = conn.strip_suffix('>') {
                    Step::Send {
                        conn: conn.to_owned(),
                        what,
                        headers,
                    }
                } else if let Some(conn) = conn.strip_suffix('<') {
                    Step::Expect {
                        conn: conn.to_owned(),
                        what,
                        headers,
                    }
                } else {
                    return Err("cannot tell what this line says".to_owned());
                }
            }
        };
        self.lines.push(Line { number, step });
        Ok(())
    }

    fn header(&mut self, header: &str) -> Result<(), String> {
        match self.lines.last_mut().map(|line| &mut line.step) {
            Some(Step::Send { headers, .. } | Step::Expect { headers, .. }) => {
                headers.push(header.to_owned());
                Ok(())
            }
            _ => Err("an indented line belongs to a line of a client".to_owned()),
        }
    }

    fn setting(&mut self, setting: &str) -> Result<(), String> {
        let (key, value) = setting.split_once(' ').ok_or("set KEY VALUE")?;
        let settings = &mut self.settings;
        let number = || value.parse::<usize>().map_err(|error| error.to_string());
        match key {
            "profile" => {
                settings.profile = match value {
                    "lab" => Profile::Lab,
                    "chat" => Profile::Chat,
                    _ => return Err("profile is lab or chat".to_owned()),
                }
            }
            "ping_interval" => settings.ping_interval = duration(value)?,
            "ping_timeout" => settings.ping_timeout = duration(value)?,
            "plain_ping_interval" => settings.plain_ping_interval = duration(value)?,
            "connect_timeout" => settings.connect_timeout = duration(value)?,
            "upgrade_timeout" => settings.upgrade_timeout = duration(value)?,
            "message_timeout" => settings.message_timeout = duration(value)?,
            "drain_window" => settings.drain_window = duration(value)?,
            "max_payload" => settings.max_payload = number()?,
            "plain_max_payload" => settings.plain_max_payload = number()?,
            "shards" => settings.shards = number()? as u16,
            "cors" => settings.cors = value == "any",
            "eio3" => settings.eio3 = value == "on",
            _ => return Err(format!("no setting {key:?}")),
        }
        Ok(())
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let n: u64 = digits
        .parse()
        .map_err(|_| format!("no duration: {text:?}"))?;
    match unit {
        "ms" => Ok(Duration::from_millis(n)),
        "s" => Ok(Duration::from_secs(n)),
        _ => Err(format!("a duration ends with ms or s, not {unit:?}")),
    }
}

impl Line {
    pub fn is_expectation(&self) -> bool {
        matches!(self.step, Step::Expect { .. })
    }

    /// What it expects, to be falsified by a test of the player.
    pub fn expected_mut(&mut self) -> Option<&mut String> {
        match &mut self.step {
            Step::Expect { what, .. } => Some(what),
            _ => None,
        }
    }
}
