//! Listens to replies: a process may be killed right after one.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use carillon_sim::{Client, ResponseBody};
use http::{Method, Request, Response};
use tower::{BoxError, Service};

use crate::connection::Connection;
use crate::wire::Wire;

/// A client whose replies are noticed.
#[derive(Clone, Debug)]
pub struct Tap {
    client: Client,
    connection: Arc<Connection>,
    wire: Wire,
}

impl Tap {
    /// Listens to `client` for `connection`; requests leave by `wire`.
    pub fn new(client: Client, connection: Arc<Connection>, wire: Wire) -> Self {
        Self {
            client,
            connection,
            wire,
        }
    }
}

impl<B> Service<Request<B>> for Tap
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self {
            client,
            connection,
            wire,
        } = self.clone();
        Box::pin(async move {
            let what: (Method, String) = (request.method().clone(), request.uri().to_string());
            let reply = wire.send(client, request).await;
            connection.replied(&what);
            reply
        })
    }
}
