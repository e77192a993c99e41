//! Questions of operators to other nodes, by the door for relayed connections: beside Redis, under the code of the cluster's secret, and
//! encrypted like what is relayed. One question and one answer, each behind its length, then the connection ends.

use super::greeting::Ask;
use super::{GREETING_TIMEOUT, Relays, Shared};
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// In place of a shard's number. A node that knows no questions has no such shard, and hangs up.
pub(super) const QUESTION: u16 = u16::MAX;
const QUESTION_BYTES_MAX: usize = 16 << 10;
/// Longer answers are not sent: the one who asks wants fewer items then.
pub const ANSWER_BYTES_MAX: usize = 2 << 20;
/// A node that has not answered by then is missing.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// Questions of all other nodes that are answered at once. More are not: who asks is told so.
const ANSWERS_MAX: usize = 4;

/// The answer to a question, in time.
type Answering = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;
type Answer = dyn Fn(Vec<u8>) -> Answering + Send + Sync;

/// Who answers questions, and how many are answered.
pub(super) struct Answerer {
    answer: OnceLock<Box<Answer>>,
    turns: Arc<Semaphore>,
}

impl Default for Answerer {
    fn default() -> Self {
        Self {
            answer: OnceLock::new(),
            turns: Arc::new(Semaphore::new(ANSWERS_MAX)),
        }
    }
}

impl fmt::Debug for Answerer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answerer").finish_non_exhaustive()
    }
}

impl Relays {
    /// From now on questions of other nodes are answered so.
    pub fn answer_with<F>(&self, answer: impl Fn(Vec<u8>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Vec<u8>> + Send + 'static,
    {
        let answer: Box<Answer> = Box::new(move |question| Box::pin(answer(question)));
        // There is one who answers.
        let _ = self.0.answerer.answer.set(answer);
    }

    /// Asks another node. The error says why there is no answer.
    pub async fn ask(&self, node: u16, question: &str) -> Result<Vec<u8>, String> {
        let Some(route) = self.0.roster.route(node) else {
            return Err(
                "it cannot be reached: it is silent, or has no cluster.relay_listen".into(),
            );
        };
        let ask = Ask {
            from: self.0.me,
            to: node,
            shard: QUESTION,
            client: Ipv4Addr::UNSPECIFIED.into(),
        };
        let asked = async {
            let mut owner = self.0.reach(&route, ask).await?;
            write(&mut owner, question.as_bytes()).await?;
            read(&mut owner, ANSWER_BYTES_MAX).await
        };
        match timeout(ANSWER_TIMEOUT, asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Err(
                "it hung up: it is busy, of another version, or has no operators' listener".into(),
            ),
            Ok(Err(error)) => Err(format!("it cannot be asked: {error}")),
            Err(_) => Err(format!(
                "it did not answer in {} s",
                ANSWER_TIMEOUT.as_secs()
            )),
        }
    }
}

impl Shared {
    /// Answers a node that has shown its code. Behind the door: it needs no place of a stranger.
    pub(super) fn answer(self: &Arc<Self>, stream: TcpStream) {
        let Ok(turn) = Arc::clone(&self.answerer.turns).try_acquire_owned() else {
            tracing::debug!("too many questions of other nodes: one is hung up on");
            return;
        };
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let _turn = turn;
            let answered = timeout(GREETING_TIMEOUT, shared.answer_one(stream)).await;
            if let Err(error) = answered.unwrap_or_else(|slow| Err(slow.into())) {
                tracing::debug!(%error, "cannot answer a question of another node");
            }
        });
    }

    async fn answer_one(&self, mut stream: TcpStream) -> io::Result<()> {
        match &self.lock {
            Some(lock) => {
                let acceptor = TlsAcceptor::from(Arc::clone(&lock.config));
                let mut stream = acceptor.accept(stream).await?;
                self.exchange(&mut stream).await
            }
            None => self.exchange(&mut stream).await,
        }
    }

    async fn exchange(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
        let question = read(stream, QUESTION_BYTES_MAX).await?;
        let Some(answer) = self.answerer.answer.get() else {
            return Err(io::Error::other("nobody answers questions here"));
        };
        let answer = answer(question).await;
        write(stream, &answer).await?;
        stream.shutdown().await
    }
}

async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    let too_long = |_| io::Error::other("a message is too long");
    let len = u32::try_from(bytes.len()).map_err(too_long)?;
    to.write_all(&[&len.to_be_bytes()[..], bytes].concat())
        .await?;
    to.flush().await
}

async fn read(from: &mut (impl AsyncRead + Unpin), bytes_max: usize) -> io::Result<Vec<u8>> {
    let len = from.read_u32().await? as usize;
    if len > bytes_max {
        let error = format!("a message of {len} bytes is longer than {bytes_max}");
        return Err(io::Error::other(error));
    }
    let mut bytes = Vec::new();
    // Memory grows with what comes, not with what is promised.
    from.take(len as u64).read_to_end(&mut bytes).await?;
    match bytes.len() == len {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    #[tokio::test]
    async fn a_message_that_is_too_long_or_cut_is_none() {
        let (mut here, mut there) = duplex(64);
        write(&mut here, b"hello").await.expect("room");
        assert_eq!(read(&mut there, 5).await.expect("whole"), b"hello");
        write(&mut here, b"hello!").await.expect("room");
        let error = read(&mut there, 5).await.expect_err("too long");
        assert!(error.to_string().contains("6 bytes"), "{error}");
        let (mut here, mut there) = duplex(64);
        here.write_all(&[0, 0, 0, 9, 1, 2]).await.expect("room");
        drop(here);
        let error = read(&mut there, 64).await.expect_err("cut");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
