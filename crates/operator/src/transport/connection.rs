//! A connection that tells the batch window what is asked and read on it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use hyper_util::client::legacy::connect::{Connected, Connection as Describes};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;

use super::batch_window::{BatchWindow, Connection};
use super::pace::Pace;

/// As much of a watch is taken at once; TLS by itself asks the kernel for 4 kB.
const AT_ONCE: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Batched {
    tcp: BufReader<TcpStream>,
    /// `None` where nothing is read late.
    connection: Option<Connection>,
}

impl Batched {
    /// A connection for watches of a pace, or for requests, whose replies are read as they are asked for.
    pub(super) fn new(tcp: TcpStream, window: &BatchWindow, pace: Option<Pace>) -> Self {
        Self {
            connection: window.add(&tcp, pace),
            // Who reads more than the buffer has room for reads past it.
            tcp: BufReader::with_capacity(pace.map_or(1, |_| AT_ONCE), tcp),
        }
    }

    fn has_asked(&self, written: &Poll<io::Result<usize>>) {
        if let Some(connection) = &self.connection {
            connection.has_asked(written.is_pending(), Instant::now());
        }
    }
}

impl AsyncRead for Batched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let is_new = this.tcp.buffer().is_empty();
        let before = out.filled().len();
        ready!(Pin::new(&mut this.tcp).poll_read(cx, out))?;
        if let Some(connection) = this.connection.as_ref().filter(|_| is_new) {
            let read = out.filled().len() - before + this.tcp.buffer().len();
            connection.has_read(read, Instant::now());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Batched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(cx, bytes);
        self.has_asked(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(cx, slices);
        self.has_asked(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}

impl Describes for Batched {
    fn connected(&self) -> Connected {
        self.tcp.get_ref().connected()
    }
}
