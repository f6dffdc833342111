//! The last moment before the bytes of a request leave: may they, and did they?

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::{clock::BootTime, lease::leadership::Leadership};

/// A request body that can forbid its own sending and knows whether it was sent.
///
/// hyper asks for the body when a connection is ready, in the same step in which the request is
/// written out: the last moment before the bytes leave, after waiting for connections and
/// handshakes.
#[derive(Debug)]
pub struct RequestBody {
    bytes: Option<Bytes>,
    fence: Option<Arc<Fence>>,
}

/// Whether a request may leave, and whether it did.
#[derive(Debug)]
pub(crate) struct Fence {
    leadership: Leadership,
    not_after: Option<BootTime>,
    sent: AtomicBool,
}

impl Fence {
    pub(crate) fn new(leadership: Leadership, not_after: Option<BootTime>) -> Self {
        Self {
            leadership,
            not_after,
            sent: AtomicBool::new(false),
        }
    }

    /// Whether the request has left.
    pub(crate) fn sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }

    /// Whether the request may leave now.
    pub(crate) fn check(&self) -> Result<(), NotSent> {
        let now = self.leadership.clock().boot();
        if !self.leadership.is_leader_at(now) {
            return Err(NotSent::NotLeader);
        }
        if self.not_after.is_some_and(|deadline| now >= deadline) {
            return Err(NotSent::Expired);
        }
        Ok(())
    }
}

impl RequestBody {
    /// A body that leaves only if `fence` lets it.
    pub(crate) fn fenced(bytes: Bytes, fence: Option<Arc<Fence>>) -> Self {
        Self {
            fence,
            ..Self::from(bytes)
        }
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            fence: None,
        }
    }
}

impl From<Vec<u8>> for RequestBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = NotSent;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NotSent>>> {
        if let Some(fence) = self.fence.take() {
            if let Err(refused) = fence.check() {
                self.bytes = None;
                return Poll::Ready(Some(Err(refused)));
            }
            fence.sent.store(true, Ordering::Release);
        }
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// Why a request was certainly not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The lease is not ours, or its renewal is overdue.
    #[error("not the leader")]
    NotLeader,
    /// The plan the request belongs to is too old.
    #[error("the plan has expired")]
    Expired,
    /// [`Writes::drain`](crate::writes::Writes::drain) was called.
    #[error("shutting down")]
    ShuttingDown,
    /// No connection could be made.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
}
