//! `Sockeye-Signature: t=SECONDS,v1=HEX[,v1=HEX]`: HMAC-SHA256 of `SECONDS.BODY`, with each secret.

use arc_swap::ArcSwap;
use aws_lc_rs::hmac;
use identity::Secret;
use std::fmt::Write;
use std::sync::Arc;

/// Signs with the secrets as they are now. Clones are the same signer.
#[derive(Clone, Debug)]
pub(crate) struct Signer(Arc<ArcSwap<Vec<hmac::Key>>>);

fn keys(secrets: &[Secret]) -> Vec<hmac::Key> {
    let key = |secret: &Secret| hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes());
    secrets.iter().map(key).collect()
}

impl Signer {
    pub(super) fn new(secrets: &[Secret]) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(keys(secrets))))
    }

    /// Other secrets from the next request on.
    pub(crate) fn set(&self, secrets: &[Secret]) {
        self.0.store(Arc::new(keys(secrets)));
    }

    /// `None`: there are no secrets.
    pub(super) fn sign(&self, seconds: u64, body: &[u8]) -> Option<String> {
        let keys = self.0.load();
        if keys.is_empty() {
            return None;
        }
        let mut signature = format!("t={seconds}");
        for key in keys.iter() {
            let mut sum = hmac::Context::with_key(key);
            sum.update(format!("{seconds}.").as_bytes());
            sum.update(body);
            signature.push_str(",v1=");
            for byte in sum.sign().as_ref() {
                // A string takes what it is given.
                let _ = write!(signature, "{byte:02x}");
            }
        }
        Some(signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums are OpenSSL's: `printf '1700000000.{"events":[]}' | openssl dgst -sha256 -hmac old`.
    #[test]
    fn a_request_is_signed_with_each_secret() {
        let secret = |text: &str| Secret::new(text.to_owned());
        let signer = Signer::new(&[secret("new"), secret("old")]);
        let signature = signer.sign(1_700_000_000, br#"{"events":[]}"#);
        let expected = "t=1700000000,\
            v1=680d0d4756df69667cbe6bfe03874dd8c4e44a9a46cb0119beeb6eb38d5f4ca8,\
            v1=d7708490965ff0300220cad554f2585e69bdc07ed435894d10b42966852aba99";
        assert_eq!(signature.as_deref(), Some(expected));
        signer.set(&[]);
        assert_eq!(signer.sign(1, b""), None);
    }
}
