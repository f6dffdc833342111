//! The only way to change anything.
//!
//! [`Writes`] limits, times out, asks [`Leadership`] before the bytes leave, and tells "was not
//! applied" from "may have been applied". What it limits, namespaces [share](crate::share).

mod room;
mod turn;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use kube::core::Status;
use serde::de::DeserializeOwned;

use self::room::Room;
pub use self::turn::Turn;
use crate::{
    clock::Clock,
    fence::NotSent,
    lease::{BootTime, Leadership},
    protobuf::{self, METADATA},
    request::Call,
    share::Semaphore,
    transport::Transport,
};

/// How long a single read or write may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of large templates, and of the objects made of them, that are on their way at a time.
const LARGE: usize = 16 << 20;
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
    /// The API server refused it (4xx, or 500 for a webhook that does not answer); not applied. `code` is always set;
    /// `reason` too when the code has one.
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
    room: Room,
    closed: AtomicBool,
}

impl Writes {
    /// At most `max_in_flight` (≥ 1) requests at a time.
    pub fn new(transport: Transport, leadership: Leadership, max_in_flight: usize) -> Self {
        let max_in_flight = max_in_flight.clamp(1, 10_000);
        Self(Arc::new(WritesShared {
            transport,
            leadership,
            in_flight: Semaphore::new(max_in_flight),
            room: Room::of(LARGE),
            closed: AtomicBool::new(false),
        }))
    }

    /// Waits for a place among the requests that are in flight.
    ///
    /// # Errors
    /// [`NotSent::ShuttingDown`]
    pub async fn turn(&self, namespace: &str) -> Result<Turn<'_>, SendError> {
        Turn::wait(&self.0, namespace).await
    }

    /// [`Turn::send`] when it is its turn.
    ///
    /// # Errors
    /// [`SendError`]
    pub async fn send(&self, call: Call, not_after: Option<BootTime>) -> Result<Bytes, SendError> {
        let turn = self.turn(call.namespace()).await?;
        turn.send(call, not_after).await
    }

    /// [`Turn::read`] when it is its turn.
    ///
    /// # Errors
    /// [`SendError`]
    pub async fn read(&self, call: Call) -> Result<Bytes, SendError> {
        let turn = self.turn(call.namespace()).await?;
        turn.read(call).await
    }

    /// Says until when they may be sent.
    pub(crate) fn leadership(&self) -> &Leadership {
        &self.0.leadership
    }

    /// The clock that leadership and the life of plans are measured by.
    pub fn clock(&self) -> &Clock {
        self.0.leadership.clock()
    }

    /// Sends nothing from now on and waits until what is in flight has ended, each within
    /// [`REQUEST_TIMEOUT`].
    pub async fn drain(&self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.in_flight.close().await;
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
