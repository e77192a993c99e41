//! A connection that must get on: one whose peer neither sends nor takes anything for a while ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

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
}

impl<S> Stall<S> {
    pub(crate) fn new(stream: S, idle_max: Duration, ours: Ours) -> Self {
        Self {
            stream,
            idle_max,
            due: Box::pin(sleep(idle_max)),
            ours,
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
        let done = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.judge(cx, done)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
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
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.judge(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
