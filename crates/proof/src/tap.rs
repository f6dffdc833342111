//! Listens to replies: a process may be killed right after one.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use carillon_sim::{Client, ResponseBody};
use http::{Method, Request, Response};
use tower::{BoxError, Service, ServiceExt};

use crate::connection::Connection;

/// A client whose replies are noticed.
#[derive(Clone, Debug)]
pub struct Tap {
    client: Client,
    connection: Arc<Connection>,
}

impl Tap {
    /// Listens to `client` for `connection`.
    pub fn new(client: Client, connection: Arc<Connection>) -> Self {
        Self { client, connection }
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
        let Self { client, connection } = self.clone();
        Box::pin(async move {
            let what: (Method, String) = (request.method().clone(), request.uri().to_string());
            let reply = client.oneshot(request).await;
            connection.replied(&what);
            reply
        })
    }
}
