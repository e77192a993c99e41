//! `[tls]`: addresses, and files that are tried at once, so that what is wrong with them is said with the rest.

use super::Resolver;
use crate::config::edges;
use crate::config::keys::{TlsVersion, UnknownName};
use crate::config::raw::Path;
use crate::tls::{Files, Pair, load};
use std::net::SocketAddr;
use std::time::Duration;

/// TLS, if some address speaks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub listen: Vec<SocketAddr>,
    pub files: Files,
    /// None: only when asked.
    pub check_interval: Option<Duration>,
}

impl Resolver<'_> {
    /// `plain`: addresses that are taken.
    pub(super) fn tls(&mut self, plain: &[SocketAddr]) -> Option<Tls> {
        let tls = &self.settings.tls;
        let (certs, keys) = (&tls.cert, &tls.key);
        if tls.listen.is_empty() {
            if !certs.is_empty() {
                let message = "no address speaks TLS: set tls.listen, such as [\"0.0.0.0:3443\"]";
                self.problem(certs, message);
            }
            return None;
        }
        let listen = self.tls_listen(plain);
        if certs.is_empty() {
            let message = "needs a certificate: set tls.cert and tls.key";
            self.problem(&tls.listen, message);
        } else if certs.len() != keys.len() {
            let message = format!(
                "each certificate needs its key: tls.cert names {}, tls.key {}",
                certs.len(),
                keys.len()
            );
            self.problem(keys, message);
        }
        let folder = &self.machine.folder;
        let pairs = certs.iter().zip(keys.iter()).map(|(cert, key)| Pair {
            cert: folder.join(cert),
            key: folder.join(key),
        });
        let files = Files {
            pairs: pairs.collect(),
            only_tls13: *tls.min_version == TlsVersion::V13,
            refuse_unknown: *tls.unknown_name == UnknownName::Refuse,
        };
        for problem in load(&files).err().unwrap_or_default() {
            self.problem_at(&Path::fixed(problem.key), problem.message);
        }
        let interval = *tls.check_interval;
        Some(Tls {
            listen,
            files,
            check_interval: (!interval.is_zero()).then_some(interval),
        })
    }

    fn tls_listen(&mut self, plain: &[SocketAddr]) -> Vec<SocketAddr> {
        let key = &self.settings.tls.listen;
        let mut addrs = Vec::new();
        for text in key.iter() {
            match edges::address(text) {
                Some(addr) if addr.port() != 0 && addrs.contains(&addr) => {
                    self.problem(key, format!("cannot listen on {addr} twice"));
                }
                Some(addr) if addr.port() != 0 && plain.contains(&addr) => {
                    let message = format!("cannot listen on {addr} twice: server.listen has it");
                    self.problem(key, message);
                }
                Some(addr) => addrs.push(addr),
                None => self.problem(key, edges::needs_addr(text)),
            }
        }
        addrs
    }
}
