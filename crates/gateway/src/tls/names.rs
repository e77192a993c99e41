//! Which certificate a client gets: the one that has the name it asks for (SNI, RFC 6066 §3).

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
pub struct ByName {
    /// For those who name nobody, and, unless they are refused, for those who name somebody else.
    default: Option<Arc<CertifiedKey>>,
    /// In lower case; `*.example.org` as it is in the certificate.
    names: HashMap<String, Arc<CertifiedKey>>,
    refuse_unknown: bool,
}

impl ByName {
    /// Certificates with their names; the first of those that have a name gets it.
    pub fn new<'a>(
        certificates: impl Iterator<Item = (&'a [String], &'a Arc<CertifiedKey>)>,
        refuse_unknown: bool,
    ) -> Self {
        let (mut default, mut names) = (None, HashMap::new());
        for (own, certified) in certificates {
            default.get_or_insert_with(|| Arc::clone(certified));
            for name in own {
                names
                    .entry(name.to_ascii_lowercase())
                    .or_insert_with(|| Arc::clone(certified));
            }
        }
        Self {
            default,
            names,
            refuse_unknown,
        }
    }

    fn find(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let Some(name) = name else {
            return self.default.clone();
        };
        let name = name.to_ascii_lowercase();
        let found = self.names.get(&name).or_else(|| {
            // A star stands for one label (RFC 9525 §6.3).
            let (_, parent) = name.split_once('.')?;
            self.names.get(&format!("*.{parent}"))
        });
        match found {
            Some(certified) => Some(Arc::clone(certified)),
            None if self.refuse_unknown => None,
            None => self.default.clone(),
        }
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.find(hello.server_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certified() -> Arc<CertifiedKey> {
        let made = rcgen::generate_simple_self_signed(["x".to_owned()]).expect("a certificate");
        let key = made.signing_key.serialize_der().try_into().expect("a key");
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let chain = vec![made.cert.der().clone()];
        Arc::new(CertifiedKey::from_der(chain, key, &provider).expect("they belong together"))
    }

    #[test]
    fn names_stars_and_strangers() {
        let keys = [certified(), certified()];
        let names = [
            vec!["chat.example.org".to_owned(), "*.Example.net".to_owned()],
            vec!["b.example.net".to_owned(), "chat.example.org".to_owned()],
        ];
        let found = |refuse, name: Option<&str>| {
            let named = names.iter().map(Vec::as_slice).zip(&keys);
            let certified = ByName::new(named, refuse).find(name)?;
            keys.iter().position(|key| Arc::ptr_eq(key, &certified))
        };
        for (name, wanted) in [
            ("chat.example.org", Some(0)),
            ("Chat.Example.ORG", Some(0)),
            ("b.example.net", Some(1)),
            ("a.example.net", Some(0)),
            ("a.b.example.net", None),
            ("example.net", None),
            ("elsewhere", None),
        ] {
            assert_eq!(found(true, Some(name)), wanted, "{name}");
            assert_eq!(found(false, Some(name)), wanted.or(Some(0)), "{name}");
        }
        assert_eq!(found(true, None), Some(0));
    }
}
