//! Certificates over time: the ones in use, and better ones when their files change.

use super::{Certificates, Files, load, stamp};
use anyhow::{Result, anyhow};
use rustls::ServerConfig;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

#[derive(Debug)]
pub struct Rotation {
    files: Files,
    current: Certificates,
    /// The files as they were when they were read last, with or without success.
    stamp: Vec<Option<(SystemTime, u64)>>,
    checked: Instant,
}

impl Rotation {
    pub fn start(files: &Files) -> Result<Self> {
        // Before reading: what is written meanwhile is noticed then.
        let stamp = stamp(files);
        let current = load(files).map_err(|problems| {
            let messages = problems.into_iter().map(|problem| problem.message);
            anyhow!(messages.collect::<Vec<_>>().join("; "))
        })?;
        tell(&current);
        Ok(Rotation {
            files: files.clone(),
            current,
            stamp,
            checked: Instant::now(),
        })
    }

    /// What handshakes use now.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.config)
    }

    /// When the certificate that expires first does so, in seconds since 1970.
    pub fn first_expiry(&self) -> Option<u64> {
        let times = self
            .current
            .facts
            .iter()
            .filter_map(|facts| facts.not_after);
        times.min().and_then(|time| u64::try_from(time).ok())
    }

    /// Looks whether files have changed, if it is time to; new certificates if so and they are good.
    pub fn look(&mut self) -> Option<Arc<ServerConfig>> {
        if self.checked.elapsed() < self.files.check_interval? {
            return None;
        }
        self.checked = Instant::now();
        if stamp(&self.files) == self.stamp {
            return None;
        }
        self.reload(true)
    }

    /// Takes another configuration and reads the files it names.
    pub fn apply(&mut self, files: &Files) -> Option<Arc<ServerConfig>> {
        let same_rules = self.files.has_rules_of(files);
        self.files = files.clone();
        self.reload(same_rules)
    }

    /// `None` if all would stay as it is, or has to.
    fn reload(&mut self, same_rules: bool) -> Option<Arc<ServerConfig>> {
        self.stamp = stamp(&self.files);
        match load(&self.files) {
            Ok(read) if same_rules && read.are_those_of(&self.current) => None,
            Ok(read) => {
                tell(&read);
                self.current = read;
                Some(self.config())
            }
            Err(problems) => {
                for problem in problems {
                    let message = problem.message;
                    tracing::error!(%message, "cannot use new certificates: the old ones stay");
                }
                None
            }
        }
    }
}

/// One line for each certificate in use, a warning for one that has expired.
fn tell(certificates: &Certificates) {
    for facts in &certificates.facts {
        let (file, names) = (facts.file.display(), facts.names.join(","));
        match facts.days_left {
            Some(days_left) if days_left < 0 => {
                tracing::warn!(%file, names, days_left, "certificate has expired: clients will refuse it");
            }
            days_left => tracing::info!(%file, names, days_left, "certificate"),
        }
    }
}
