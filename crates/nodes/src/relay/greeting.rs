//! The first words on a connection between nodes. Each side shows by a code that it has the cluster's secret, made over a number
//! that the other one has just rolled: what was overheard is of no use again.

use super::lock::{KEY, PublicKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use aws_lc_rs::rand;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Name and version of the format.
const MAGIC: [u8; 4] = *b"SKR2";
const NONCE: usize = 16;
const CODE: usize = 32;
const ASK: usize = 22;
/// Instead of a key: this end does not encrypt.
const OPEN: [u8; KEY] = [0; KEY];

/// A node's request to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) from: u16,
    pub(super) to: u16,
    pub(super) shard: u16,
    pub(super) client: IpAddr,
}

impl Ask {
    fn write(self) -> [u8; ASK] {
        let client = match self.client {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let mut bytes = [0; ASK];
        for (at, number) in [self.from, self.to, self.shard].into_iter().enumerate() {
            bytes[2 * at..2 * at + 2].copy_from_slice(&number.to_be_bytes());
        }
        bytes[6..].copy_from_slice(&client.octets());
        bytes
    }

    fn read(bytes: &[u8; ASK]) -> Self {
        let number = |at: usize| u16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]]);
        let mut client = [0; 16];
        client.copy_from_slice(&bytes[6..]);
        Self {
            from: number(0),
            to: number(1),
            shard: number(2),
            client: IpAddr::V6(Ipv6Addr::from(client)).to_canonical(),
        }
    }
}

/// The cluster's secret, for codes of relayed connections only.
#[derive(Debug)]
pub(super) struct Secret(Key);

impl Secret {
    pub(super) fn new(secret: &str) -> Self {
        Self(Key::new(HMAC_SHA256, secret.as_bytes()))
    }

    fn code(&self, who: &str, nonces: [&[u8; NONCE]; 2], words: &[u8]) -> [u8; CODE] {
        let mut context = Context::with_key(&self.0);
        for part in [
            b"sockeye relay ",
            who.as_bytes(),
            nonces[0],
            nonces[1],
            words,
        ] {
            context.update(part);
        }
        let mut code = [0; CODE];
        code.copy_from_slice(context.sign().as_ref());
        code
    }

    /// Asks the node at the other end to take a connection over. With a key, what follows is encrypted for it.
    pub(super) async fn ask<S>(&self, stream: &mut S, ask: Ask) -> io::Result<Option<PublicKey>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut hello = [0; MAGIC.len() + NONCE];
        stream.read_exact(&mut hello).await?;
        let (magic, theirs) = hello.split_at(MAGIC.len());
        let theirs: &[u8; NONCE] = theirs.try_into().map_err(io::Error::other)?;
        if magic != MAGIC {
            return Err(io::Error::other("the other end is no node of this version"));
        }
        let (mine, words) = (nonce()?, ask.write());
        let code = self.code("ask", [theirs, &mine], &words);
        stream
            .write_all(&[&mine[..], &words, &code].concat())
            .await?;
        let (mut key, mut answer) = ([0; KEY], [0; CODE]);
        stream.read_exact(&mut key).await?;
        stream.read_exact(&mut answer).await?;
        same(&answer, &self.code("answer", [theirs, &mine], &key))?;
        Ok((key != OPEN).then_some(PublicKey(key)))
    }

    /// Hears what the node at the other end asks. With a key, the other end is to encrypt what follows.
    pub(super) async fn answer<S>(
        &self,
        stream: &mut S,
        me: u16,
        key: Option<PublicKey>,
    ) -> io::Result<Ask>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mine = nonce()?;
        stream.write_all(&[&MAGIC[..], &mine].concat()).await?;
        let (mut theirs, mut words, mut code) = ([0; NONCE], [0; ASK], [0; CODE]);
        stream.read_exact(&mut theirs).await?;
        stream.read_exact(&mut words).await?;
        stream.read_exact(&mut code).await?;
        same(&code, &self.code("ask", [&mine, &theirs], &words))?;
        let ask = Ask::read(&words);
        if ask.to != me {
            let error = format!("node {} looks for node {}: this is {me}", ask.from, ask.to);
            return Err(io::Error::other(error));
        }
        let key = key.map_or(OPEN, |key| key.0);
        let welcome = self.code("answer", [&mine, &theirs], &key);
        stream.write_all(&[&key[..], &welcome].concat()).await?;
        Ok(ask)
    }
}

fn nonce() -> io::Result<[u8; NONCE]> {
    let mut nonce = [0; NONCE];
    rand::fill(&mut nonce).map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(nonce)
}

fn same(code: &[u8; CODE], expected: &[u8; CODE]) -> io::Result<()> {
    let wrong = |_| io::Error::new(io::ErrorKind::PermissionDenied, "another cluster.secret");
    verify_slices_are_equal(code, expected).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    const ASKED: Ask = Ask {
        from: 3,
        to: 1023,
        shard: 7,
        client: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    };

    const SHOWN: PublicKey = PublicKey([7; KEY]);

    async fn meet(theirs: &str, me: u16) -> (io::Result<Option<PublicKey>>, io::Result<Ask>) {
        let (mut a, mut b) = duplex(1024);
        let (ours, theirs) = (Secret::new("a"), Secret::new(theirs));
        let asked = async move { ours.ask(&mut a, ASKED).await };
        let answered = async move { theirs.answer(&mut b, me, Some(SHOWN)).await };
        tokio::join!(asked, answered)
    }

    #[tokio::test]
    async fn nodes_with_one_secret_understand_each_other() {
        let (asked, answered) = meet("a", 1023).await;
        assert_eq!(asked.expect("welcome"), Some(SHOWN));
        assert_eq!(answered.expect("an ask"), ASKED);
    }

    #[tokio::test]
    async fn another_secret_or_another_node_is_refused_on_both_sides() {
        for (secret, me) in [("b", 1023), ("a", 1)] {
            let (asked, answered) = meet(secret, me).await;
            assert!(asked.is_err() && answered.is_err(), "{secret} {me}");
        }
    }

    /// A program between two nodes puts its own key into the greeting, to read what they relay.
    #[tokio::test]
    async fn the_key_of_a_third_one_is_refused() {
        let ((mut a, mut near), (mut far, mut b)) = (duplex(1024), duplex(1024));
        let secret = Secret::new("a");
        let between = async {
            let mut hello = [0; MAGIC.len() + NONCE];
            far.read_exact(&mut hello).await?;
            near.write_all(&hello).await?;
            let mut ask = [0; NONCE + ASK + CODE];
            near.read_exact(&mut ask).await?;
            far.write_all(&ask).await?;
            let mut welcome = [0; KEY + CODE];
            far.read_exact(&mut welcome).await?;
            welcome[..KEY].fill(9);
            near.write_all(&welcome).await
        };
        let (asked, answered, passed) = tokio::join!(
            secret.ask(&mut a, ASKED),
            secret.answer(&mut b, ASKED.to, Some(SHOWN)),
            between
        );
        passed.expect("passed on");
        answered.expect("an ask");
        let error = asked.expect_err("another key");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[tokio::test]
    async fn what_was_overheard_opens_nothing() {
        let (mut a, mut b) = duplex(1024);
        let secret = Secret::new("a");
        let mut hello = [0; MAGIC.len() + NONCE];
        let overheard = async {
            a.read_exact(&mut hello).await.expect("hello");
            let old = [[9; NONCE].as_slice(), &ASKED.write()].concat();
            let code = secret.code("ask", [&[1; NONCE], &[9; NONCE]], &ASKED.write());
            a.write_all(&[old.as_slice(), &code].concat()).await
        };
        let (sent, answered) = tokio::join!(overheard, secret.answer(&mut b, ASKED.to, None));
        sent.expect("sent");
        let error = answered.expect_err("an old code");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
