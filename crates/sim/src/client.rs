//! A client: HTTP without a wire.

pub mod faults;
mod gate;

use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream;
use http::{Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;
use tokio::time::sleep;
use tower::{BoxError, Service};

pub use self::gate::Gate;

use self::faults::{Applied, Connect, Fate, Faults, Leg, NoFaults, Reply};
use crate::call::Call;
use crate::server::stream::Stream;
use crate::server::{Answer, Server};
use crate::status::Status;

/// The body of a response; of a watch, as it happens.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// A service that answers as the API server does; clones share the connection's faults.
///
/// Once a request has left, it is applied even if nobody waits for the reply any more.
#[derive(Clone)]
pub struct Client {
    server: Server,
    user: Arc<str>,
    agent: Arc<str>,
    faults: Arc<dyn Faults>,
}

impl Server {
    /// A client of this user; `agent` stands for a process of that user. No faults, no latency.
    pub fn client(&self, user: &str, agent: &str) -> Client {
        self.client_with(user, agent, Arc::new(NoFaults))
    }

    /// A client whose connection has `faults`.
    pub fn client_with(&self, user: &str, agent: &str, faults: Arc<dyn Faults>) -> Client {
        Client {
            server: self.clone(),
            user: user.into(),
            agent: agent.into(),
            faults,
        }
    }
}

impl Client {
    async fn exchange<B>(self, request: Request<B>) -> Result<Response<ResponseBody>, BoxError>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let mut call = Call::read(
            &self.user,
            &self.agent,
            &parts.method,
            &parts.uri,
            &parts.headers,
            &[],
        );
        match self.faults.on_connect(&call) {
            Connect::Open => {}
            Connect::After(time) => sleep(time).await,
            Connect::Held(gate) => gate.pass().await,
            Connect::Refused => {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
            }
        }
        // Here the bytes leave: the body may still forbid it.
        let body = body.collect().await.map_err(Into::into)?.to_bytes();
        call.with_body(&body);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // A task of its own: what has left cannot be called back.
        tokio::spawn(async move {
            let reply = self.travel(Arc::new(call)).await;
            // Whether somebody still waits is none of the server's business.
            let _ = sender.send(reply);
        });
        match receiver.await {
            Ok(reply) => reply,
            Err(_) => Err(reset()),
        }
    }

    /// There, and back.
    async fn travel(self, call: Arc<Call>) -> Result<Response<ResponseBody>, BoxError> {
        let fate = self.faults.on_request(&call);
        let Fate {
            hold,
            apply,
            hold_reply,
            reply,
            as_of,
        } = fate;
        if let Some(gate) = hold {
            gate.pass().await;
        }
        sleep(self.faults.latency(&call, Leg::Request)).await;
        let mut answer = None;
        for _ in 0..match apply {
            Applied::Not => 0,
            Applied::Once => 1,
            Applied::Twice => 2,
        } {
            answer = Some(self.server.answer(&call, as_of));
        }
        if let Some(gate) = hold_reply {
            gate.pass().await;
        }
        sleep(self.faults.latency(&call, Leg::Reply)).await;
        match (reply, answer) {
            (Reply::Answer, Some(answer)) => Ok(self.respond(&call, answer)),
            (Reply::Answer | Reply::Reset, _) => Err(reset()),
            (Reply::Never, _) => pending().await,
            (Reply::Status(status), _) => Ok(refusal(&status)),
            (Reply::Raw(code, body), _) => Ok(response(code, None, full(body))),
        }
    }

    fn respond(&self, call: &Call, answer: Result<Answer, Status>) -> Response<ResponseBody> {
        match answer {
            Err(status) => refusal(&status),
            Ok(Answer::Object(code, object)) => match call.partial.view(&object) {
                Ok(object) => response(code, None, full(object.to_string().into())),
                Err(status) => refusal(&status),
            },
            Ok(Answer::Watch(watch)) => {
                let stream = Stream::open(self.server.clone(), *watch, self.faults.clone());
                let frames = stream::unfold(stream, async |mut stream: Stream| {
                    stream.next().await.map(|frame| (frame, stream))
                });
                response(200, None, StreamBody::new(frames).boxed_unsync())
            }
        }
    }
}

impl<B> Service<Request<B>> for Client
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.clone().exchange(request))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("user", &self.user)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

fn reset() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionReset).into()
}

fn full(body: Bytes) -> ResponseBody {
    Full::new(body)
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn refusal(status: &Status) -> Response<ResponseBody> {
    let body: Value = status.body();
    response(
        status.code,
        status.retry_after,
        full(body.to_string().into()),
    )
}

fn response(code: u16, retry_after: Option<u32>, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
