//! The only way to change anything.
//!
//! [`Writes`] limits, times out, asks [`Leadership`] before the bytes leave, and tells "was not
//! applied" from "may have been applied".

mod bucket;
mod room;

use std::{
    error::Error as StdError,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use kube::core::Status;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::bucket::Bucket;
use self::room::Room;
use crate::{
    args::ApiRate,
    clock::Clock,
    fence::{Fence, NotSent, RequestBody},
    lease::{BootTime, Leadership},
    protobuf::{self, METADATA},
    request::Call,
    transport::{Transport, causes, status_of},
};

/// How long a single read or write may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of templates that are unpacked at a time. As values they are up to fifty times as much.
const TEMPLATES: usize = 2 << 20;
/// Bytes of objects made of templates that are on their way at a time.
const BODIES: usize = 8 << 20;
/// How often a request that certainly was not applied is sent again.
const RETRIES: u32 = 3;
/// A server that asks for a longer pause is answered by the work queue, not by waiting here.
const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(10);
/// `Accept` of a create whose reply matters by its metadata only; the server then answers with
/// that, which saves it and us the whole pod.
///
/// Protobuf, too, saves both: the managed fields, most of it, are skipped unread.
pub const ACCEPT_METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// What became of a request that did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SendError {
    /// Certainly not applied; plan again later.
    #[error("not sent: {0}")]
    NotSent(#[from] NotSent),
    /// The API server refused it (4xx); not applied. `code` is always set; `reason` too when the
    /// code has one.
    #[error("refused: {} ({} {})", .0.message, .0.code, .0.reason)]
    Refused(Box<Status>),
    /// No complete reply, or a server error (5xx): it may have been applied, or still will be.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl SendError {
    /// The API server's refusal.
    pub fn refused(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            _ => None,
        }
    }
}

/// The way of every write, and of single reads; clones share its limits.
#[derive(Clone, Debug)]
pub struct Writes(Arc<WritesShared>);

#[derive(Debug)]
struct WritesShared {
    transport: Transport,
    leadership: Leadership,
    in_flight: Semaphore,
    max_in_flight: u32,
    rate: Option<Mutex<Bucket>>,
    templates: Room,
    bodies: Room,
    closed: AtomicBool,
}

impl Writes {
    /// At most `max_in_flight` (≥ 1) requests at a time, at most `rate` of them a second.
    pub fn new(
        transport: Transport,
        leadership: Leadership,
        max_in_flight: usize,
        rate: Option<ApiRate>,
    ) -> Self {
        let max_in_flight = max_in_flight.clamp(1, 10_000);
        Self(Arc::new(WritesShared {
            transport,
            leadership,
            in_flight: Semaphore::new(max_in_flight),
            max_in_flight: max_in_flight as u32,
            rate: rate.map(|rate| Mutex::new(Bucket::full(rate, tokio::time::Instant::now()))),
            templates: Room::of(TEMPLATES),
            bodies: Room::of(BODIES),
            closed: AtomicBool::new(false),
        }))
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
        let fence = || Some(Arc::new(Fence::new(self.0.leadership.clone(), not_after)));
        self.0.attempts(call, fence).await
    }

    /// Reads one object; leadership is not needed.
    ///
    /// # Errors
    /// [`SendError`]
    pub async fn read(&self, call: Call) -> Result<Bytes, SendError> {
        self.0.attempts(call, || None).await
    }

    /// Waits until a template of so many bytes may be unpacked.
    ///
    /// # Errors
    /// [`SendError::NotSent`] when there is no room for ten seconds.
    pub async fn room_for_template(&self, bytes: usize) -> Result<OwnedSemaphorePermit, SendError> {
        self.0.templates.take(bytes).await
    }

    /// Waits until an object of so many bytes may be made and sent.
    ///
    /// # Errors
    /// As of [`Self::room_for_template`].
    pub async fn room_for_body(&self, bytes: usize) -> Result<OwnedSemaphorePermit, SendError> {
        self.0.bodies.take(bytes).await
    }

    /// The clock that leadership and the life of plans are measured by.
    pub fn clock(&self) -> &Clock {
        self.0.leadership.clock()
    }

    /// Sends nothing from now on and waits until what is in flight has ended, each within
    /// [`REQUEST_TIMEOUT`].
    pub async fn drain(&self) {
        self.0.closed.store(true, Ordering::Release);
        // Only a closed semaphore fails, and then nothing is in flight either.
        let _ = self.0.in_flight.acquire_many(self.0.max_in_flight).await;
        self.0.in_flight.close();
    }
}

/// Decodes the metadata of the reply to a write. A reply that makes no sense says nothing about the
/// write.
///
/// # Errors
/// [`SendError::Unknown`]
pub fn decode<T: DeserializeOwned>(reply: &[u8]) -> Result<T, SendError> {
    protobuf::read_reply(reply, &METADATA)
        .map_err(|e| SendError::Unknown(format!("undecodable reply: {e}")))
}

/// How one attempt ended.
enum Attempt {
    Done(Bytes),
    /// Certainly not applied; worth another try after the pause, if the server named one.
    Again(SendError, Option<Duration>),
    Failed(SendError),
}

impl WritesShared {
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
        // Held over the pauses too: while the server says 429 we send less.
        let _permit = self
            .in_flight
            .acquire()
            .await
            .map_err(|_| NotSent::ShuttingDown)?;
        let mut attempt = 0;
        loop {
            if let Some(rate) = &self.rate {
                let pause = rate
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(tokio::time::Instant::now());
                tokio::time::sleep(pause).await;
            }
            if self.closed.load(Ordering::Acquire) {
                return Err(NotSent::ShuttingDown.into());
            }
            let fence = fence();
            if let Some(fence) = &fence {
                fence.check()?;
            }
            let fenced = RequestBody::fenced(body.clone(), fence.clone());
            let request = Request::from_parts(parts.clone(), fenced);
            let (error, pause) = match self.once(request, fence.as_deref()).await {
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

    async fn once(&self, request: Request<RequestBody>, fence: Option<&Fence>) -> Attempt {
        let exchange = self.transport.exchange(request);
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
        Attempt::Failed(if parts.status.is_client_error() {
            SendError::Refused(Box::new(status))
        } else {
            SendError::Unknown(format!("{} ({})", status.message, status.code))
        })
    }
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
