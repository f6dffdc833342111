//! Pages for a browser, on loopback.

mod assets;
mod guard;
mod routes;
mod stream;

use std::io::Result;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use tokio::net::TcpListener;

use self::guard::Guard;
pub use self::guard::Token;
use crate::actions::Act;
use crate::cluster::Cluster;
use crate::decisions::Ask;

/// Bytes of a request's body that are read.
const LARGEST_BODY: usize = 4 << 10;
/// How often watches that nobody looks at are ended.
const SWEEP: Duration = Duration::from_secs(20);

/// What a request is answered from.
pub struct State {
    cluster: Arc<Cluster>,
    act: Option<Box<dyn Act>>,
    ask: Box<dyn Ask>,
    pages: stream::Pages,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("acts", &self.act.is_some())
            .finish_non_exhaustive()
    }
}

/// A server that listens, and is not served yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    token: Token,
    port: u16,
}

impl Server {
    /// Listens on 127.0.0.1; port 0 is any.
    pub async fn bind(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        let token = Token::random()?;
        Ok(Self {
            listener,
            token,
            port,
        })
    }

    /// Where a browser finds it. Who knows it sees what the server sees.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token.as_str())
    }

    /// Serves until the process ends. Without `act` nothing can be changed from a page.
    pub async fn serve(
        self,
        cluster: Arc<Cluster>,
        act: Option<Box<dyn Act>>,
        ask: Box<dyn Ask>,
    ) -> Result<()> {
        let sweeper = cluster.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                sweeper.sweep();
            }
        });
        let state = Arc::new(State {
            cluster,
            act,
            ask,
            pages: stream::Pages::default(),
        });
        let guard = Arc::new(Guard {
            token: self.token,
            port: self.port,
        });
        let router = Router::new()
            .route("/{token}/", get(assets::index))
            .route("/{token}/{file}", get(assets::file))
            .route("/{token}/api/stream", get(stream::stream))
            .route("/{token}/api/node", get(routes::node))
            .route("/{token}/api/decisions", get(routes::decisions))
            .route("/{token}/api/act", post(routes::act))
            .layer(DefaultBodyLimit::max(LARGEST_BODY))
            .layer(from_fn_with_state(guard, guard::check))
            .with_state(state);
        axum::serve(self.listener, router).await
    }
}
