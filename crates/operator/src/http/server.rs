//! The thread that answers others. Whoever asks, and however much, the thread that plans does not
//! notice, but for the locks of what is asked about.

use std::{io, net::TcpListener, thread::JoinHandle};

use axum::Router;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connections::{self, Limits};

/// One for `/metrics`, one for a debug page.
const COMPUTING: usize = 2;

/// The running thread.
#[derive(Debug)]
pub struct Server(JoinHandle<()>);

/// Serves each router on its listener until `stop`.
///
/// # Errors
/// When the thread or its runtime cannot be created.
pub fn start(
    sites: Vec<(TcpListener, Router)>,
    limits: Limits,
    stop: CancellationToken,
) -> io::Result<Server> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(COMPUTING)
        .thread_name("http-compute")
        .build()?;
    let thread = std::thread::Builder::new().name("http".to_owned());
    let thread = thread.spawn(move || {
        if let Err(error) = runtime.block_on(serve_all(sites, limits, stop)) {
            tracing::error!(%error, "nothing is served any more");
        }
        // Nobody waits for what is still computed.
        runtime.shutdown_background();
    })?;
    Ok(Server(thread))
}

impl Server {
    /// Waits for the last answers, after `stop`: about a second at most.
    pub async fn ended(self) {
        let _ = tokio::task::spawn_blocking(move || self.0.join()).await;
    }
}

async fn serve_all(
    sites: Vec<(TcpListener, Router)>,
    limits: Limits,
    stop: CancellationToken,
) -> io::Result<()> {
    let mut serving = JoinSet::new();
    for (listener, router) in sites {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        serving.spawn(connections::serve(listener, router, limits, stop.clone()));
    }
    // One that ends before takes the others with it: the process must not look well.
    while let Some(ended) = serving.join_next().await {
        ended?;
        if !stop.is_cancelled() {
            return Err(io::Error::other("a listener is served no longer"));
        }
    }
    Ok(())
}
