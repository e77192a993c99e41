//! `[tls]`: addresses, and files that are tried at once, so that what is wrong with them is said with the rest.

use super::Resolver;
use crate::config::edges;
use crate::config::keys::{TlsVersion, UnknownName};
use crate::config::layer::Path;
use crate::config::typed::Field;
use crate::tls::{Door, Files, Pair, load};
use std::net::SocketAddr;

/// TLS, if some address speaks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub listen: Vec<SocketAddr>,
    pub files: Files,
}

impl Resolver<'_> {
    /// `plain`: addresses that are taken.
    pub(super) fn tls(&mut self, plain: &[SocketAddr]) -> Option<Tls> {
        let tls = &self.settings.tls;
        let certs = &tls.cert;
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
        }
        let refuse_unknown = *tls.unknown_name == UnknownName::Refuse;
        let files = Files {
            refuse_unknown,
            ..self.files(Door::Clients, certs, &tls.key)
        };
        self.try_out(&files);
        Some(Tls { listen, files })
    }

    /// Certificates of the workers' listener, if it has some.
    pub(super) fn workers_tls(&mut self) -> Option<Files> {
        let keys = &self.settings.workers;
        if keys.cert.is_empty() {
            if let Some(ca) = &*keys.client_ca {
                let message = format!(
                    "cannot ask workers for certificates by {ca:?} without TLS: set workers.cert and workers.key"
                );
                self.problem(&keys.client_ca, message);
            }
            if !keys.key.is_empty() {
                self.problem(&keys.key, "needs its certificate: set workers.cert");
            }
            return None;
        }
        if *keys.listen == "off" {
            let message = "no address uses it: set workers.listen, such as \"0.0.0.0:9091\"";
            self.problem(&keys.cert, message);
            return None;
        }
        if *keys.plaintext {
            let message =
                "workers attach by TLS, because workers.cert is set: remove one of the two";
            self.problem(&keys.plaintext, message);
        }
        let peers = (*keys.client_ca).as_ref();
        let files = Files {
            peers: peers.map(|path| self.machine.folder.join(path)),
            ..self.files(Door::Workers, &keys.cert, &keys.key)
        };
        self.try_out(&files);
        Some(files)
    }

    fn files(
        &mut self,
        door: Door,
        certs: &Field<Vec<String>>,
        keys: &Field<Vec<String>>,
    ) -> Files {
        if !certs.is_empty() && certs.len() != keys.len() {
            let message = format!(
                "each certificate needs its key: {} names {}, {} {}",
                certs.path,
                certs.len(),
                keys.path,
                keys.len()
            );
            self.problem(if keys.is_empty() { certs } else { keys }, message);
        }
        let (folder, tls) = (&self.machine.folder, &self.settings.tls);
        let pairs = certs.iter().zip(keys.iter()).map(|(cert, key)| Pair {
            cert: folder.join(cert),
            key: folder.join(key),
        });
        Files {
            door,
            pairs: pairs.collect(),
            only_tls13: *tls.min_version == TlsVersion::V13,
            refuse_unknown: false,
            peers: None,
            check_interval: Some(*tls.check_interval).filter(|interval| !interval.is_zero()),
        }
    }

    fn try_out(&mut self, files: &Files) {
        for problem in load(files).err().unwrap_or_default() {
            self.problem_at(&Path::fixed(problem.key), problem.message);
        }
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
