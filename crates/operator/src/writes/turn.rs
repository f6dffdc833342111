//! A place among the requests in flight: what is sent in it, and sent again.

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use kube::core::Status;

use super::error::SendError;
use super::shared::Shared;
use crate::fence::{Fence, NotSent, RequestBody};
use crate::lease::{BootTime, Leadership};
use crate::request::Call;
use crate::share::permit::Permit;
use crate::transport::{causes, status_of};

/// How long a single read or write may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a request that certainly was not applied is sent again.
const RETRIES: u32 = 3;
/// A server that asks for a longer pause is answered by the work queue, not by waiting here.
const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(10);

/// A place among the requests in flight, for one at a time, or for two questions.
///
/// Who has to ask before it writes does both in one turn: between them it waits for nobody.
#[derive(Debug)]
pub struct Turn<'w> {
    writes: &'w Shared,
    /// Held over the pauses of a request too: while the server says 429 we send less.
    place: Permit,
}

/// How one attempt ended.
enum Attempt {
    Done(Bytes),
    /// Certainly not applied; worth another try after the pause, if the server named one.
    Again(SendError, Option<Duration>),
    Failed(SendError),
}

impl<'w> Turn<'w> {
    pub(super) async fn wait(writes: &'w Shared, namespace: &str) -> Result<Self, SendError> {
        let place = writes.in_flight.acquire(namespace, 1).await;
        Ok(Self {
            writes,
            place: place.ok_or(NotSent::ShuttingDown)?,
        })
    }

    /// Waits for room for something large, which its place among the requests in flight does not bound.
    ///
    /// # Errors
    /// [`SendError::NotSent`] when there is none for ten seconds.
    pub async fn room(&self, bytes: usize) -> Result<Permit, SendError> {
        self.writes.room.take(self.place.namespace(), bytes).await
    }

    /// Sends a write, if this process leads when the bytes are about to leave and `not_after`, the
    /// end of the plan it belongs to, has not passed.
    ///
    /// It is sent again, at most three times, only when it certainly was not applied: 429, or no
    /// connection. Returns the body of the reply.
    ///
    /// # Errors
    /// [`SendError`]
    pub async fn send(&self, call: Call, not_after: Option<BootTime>) -> Result<Bytes, SendError> {
        let leadership = self.writes.leadership.clone();
        let fence = || Some(Arc::new(Fence::new(leadership.clone(), not_after)));
        self.attempts(call, fence).await
    }

    /// Reads one object; leadership is not needed.
    ///
    /// # Errors
    /// [`SendError`]
    pub async fn read(&self, call: Call) -> Result<Bytes, SendError> {
        self.attempts(call, || None).await
    }

    async fn attempts(
        &self,
        call: Call,
        fence: impl Fn() -> Option<Arc<Fence>>,
    ) -> Result<Bytes, SendError> {
        let (parts, body) = call
            .into_request()
            .map_err(|message| not_found(&message))?
            .into_parts();
        let body = Bytes::from(body);
        let mut attempt = 0;
        loop {
            let fence = fence();
            self.may_be_sent(fence.as_deref())?;
            let fenced = RequestBody::fenced(body.clone(), fence.clone());
            let request = Request::from_parts(parts.clone(), fenced);
            let unanswered = fence
                .as_deref()
                .map(|fence| Unanswered::new(fence, &self.writes.leadership));
            let ended = self.once(request, fence.as_deref()).await;
            let unknown = matches!(ended, Attempt::Failed(SendError::Unknown(_)));
            if let Some(unanswered) = unanswered.filter(|_| !unknown) {
                unanswered.answered();
            }
            let (error, pause) = match ended {
                Attempt::Done(reply) => return Ok(reply),
                Attempt::Failed(error) => return Err(error),
                Attempt::Again(error, pause) => (error, pause),
            };
            attempt += 1;
            let backoff = Duration::from_millis(100 << attempt).mul_f64(0.5 + fastrand::f64());
            let pause = pause.unwrap_or_default().max(backoff);
            if attempt > RETRIES || pause > LONGEST_RETRY_PAUSE {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    fn may_be_sent(&self, fence: Option<&Fence>) -> Result<(), NotSent> {
        if self.writes.closed.load(Ordering::Acquire) {
            return Err(NotSent::ShuttingDown);
        }
        fence.map_or(Ok(()), Fence::check)
    }

    async fn once(&self, request: Request<RequestBody>, fence: Option<&Fence>) -> Attempt {
        let exchange = self.writes.transport.exchange(request);
        // Without a fence (reads) nothing can have been applied.
        let sent = || fence.is_none_or(Fence::sent);
        let (parts, reply) = match tokio::time::timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                if let Some(refused) = find::<NotSent>(&*error) {
                    return Attempt::Failed(refused.clone().into());
                }
                let connected = find::<hyper_util::client::legacy::Error>(&*error)
                    .is_none_or(|error| !error.is_connect());
                let error = causes(&*error);
                return if connected && sent() {
                    Attempt::Failed(SendError::Unknown(error))
                } else {
                    Attempt::Again(NotSent::Unreachable(error).into(), None)
                };
            }
            Err(_) => {
                let error = format!("no reply within {REQUEST_TIMEOUT:?}");
                return Attempt::Failed(if sent() {
                    SendError::Unknown(error)
                } else {
                    NotSent::Unreachable(error).into()
                });
            }
        };
        if parts.status.is_success() {
            return Attempt::Done(reply);
        }
        let status = status_of(parts.status, &reply);
        if parts.status == StatusCode::TOO_MANY_REQUESTS {
            let pause = retry_after(&parts.headers, &status);
            return Attempt::Again(SendError::Refused(Box::new(status)), pause);
        }
        Attempt::Failed(
            if parts.status.is_client_error() || is_of_admission(&status) {
                SendError::Refused(Box::new(status))
            } else {
                SendError::Unknown(format!("{} ({})", status.message, status.code))
            },
        )
    }
}

/// A write whose reply has not come. If it never comes, since nobody waits for it any longer or the reply
/// says nothing, leadership is told: the write may still be applied.
struct Unanswered<'w> {
    fence: Option<&'w Fence>,
    leadership: &'w Leadership,
}

impl<'w> Unanswered<'w> {
    fn new(fence: &'w Fence, leadership: &'w Leadership) -> Self {
        Self {
            fence: Some(fence),
            leadership,
        }
    }

    fn answered(mut self) {
        self.fence = None;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if self.fence.is_some_and(Fence::sent) {
            self.leadership.unanswered();
        }
    }
}

/// Whether an admission webhook did not answer: then nothing was stored. The words are those of the API server's
/// webhook dispatchers (k8s.io/apiserver, `ErrCallingWebhook`). Any other server error leaves open what became of a write.
fn is_of_admission(status: &Status) -> bool {
    let says = "Internal error occurred: failed calling webhook ";
    status.message.starts_with(says)
}

/// What the API server would say of an object that cannot be.
fn not_found(message: &str) -> SendError {
    let mut status = Status::failure(message, "NotFound");
    status.code = StatusCode::NOT_FOUND.as_u16();
    SendError::Refused(Box::new(status))
}

fn retry_after(headers: &http::HeaderMap, status: &Status) -> Option<Duration> {
    let header = headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.trim().parse().ok());
    let details = status
        .details
        .as_ref()
        .map(|details| u64::from(details.retry_after_seconds))
        .filter(|seconds| *seconds > 0);
    header.or(details).map(Duration::from_secs)
}

/// The first cause of type `E`.
fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
