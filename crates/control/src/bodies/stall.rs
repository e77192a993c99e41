//! A connection that must get on: one whose peer neither sends nor takes anything for a while ends. It rests when all transfers
//! together are too fast.

use super::pace::Pace;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Set while the peer waits for us: then it is not the one that stands still.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ours(Arc<AtomicBool>);

impl Ours {
    /// It is our turn until this is dropped.
    pub(crate) fn turn(&self) -> Turn {
        self.0.store(true, Ordering::Relaxed);
        Turn(self.clone())
    }

    fn is_now(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct Turn(Ours);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct Stall<S> {
    stream: S,
    idle_max: Duration,
    /// When it has stood still for too long.
    due: Pin<Box<Sleep>>,
    ours: Ours,
    pace: Arc<Pace>,
    /// It moves nothing until then.
    rest: Option<Pin<Box<Sleep>>>,
}

impl<S> Stall<S> {
    pub(crate) fn new(stream: S, idle_max: Duration, ours: Ours, pace: Arc<Pace>) -> Self {
        Self {
            stream,
            idle_max,
            due: Box::pin(sleep(idle_max)),
            ours,
            pace,
            rest: None,
        }
    }

    fn poll_rested(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(rest) = &mut self.rest {
            ready!(rest.as_mut().poll(cx));
            self.rest = None;
            // The peer could not get on meanwhile.
            self.due.as_mut().reset(Instant::now() + self.idle_max);
        }
        Poll::Ready(())
    }

    fn moved(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let now = Instant::now();
        let until = self.pace.charge(bytes, now);
        if until > now {
            self.rest = Some(Box::pin(sleep_until(until)));
        }
    }

    fn wrote(&mut self, done: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = done {
            self.moved(*bytes);
        }
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.due.as_mut().reset(Instant::now() + self.idle_max);
            return done;
        }
        while self.due.as_mut().poll(cx).is_ready() {
            if !self.ours.is_now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.due.as_mut().reset(Instant::now() + self.idle_max);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_rested(cx));
        let before = buf.filled().len();
        let done = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.moved(buf.filled().len() - before);
        self.judge(cx, done)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_rested(cx));
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(&done);
        self.judge(cx, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        if done.is_ready() {
            // Nothing was moved by that.
            return done;
        }
        self.judge(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_rested(cx));
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(&done);
        self.judge(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
