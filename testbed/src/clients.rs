//! Clients of a server in this process, each served by a thread.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Result;

/// Serves whoever connects, until it is dropped. Clients that are served by then go on.
pub(crate) struct Clients {
    pub(crate) port: u16,
    closed: Arc<AtomicBool>,
}

impl Clients {
    /// What fails in `serve` is one connection; its client sees that for itself.
    pub(crate) fn serve<S: Send + Sync + 'static>(
        listener: TcpListener,
        server: Arc<S>,
        serve: fn(&S, TcpStream) -> Result<()>,
    ) -> Result<Self> {
        let port = listener.local_addr()?.port();
        let closed = Arc::new(AtomicBool::new(false));
        let is_closed = Arc::clone(&closed);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if is_closed.load(Ordering::Acquire) {
                    return;
                }
                let server = Arc::clone(&server);
                thread::spawn(move || serve(&server, client).ok());
            }
        });
        Ok(Self { port, closed })
    }

    /// Nobody is served any more who comes from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.close();
    }
}
