//! The only way to change anything.
//!
//! [`Writes`] limits, times out, asks [`Leadership`] before the bytes leave, and tells "was not
//! applied" from "may have been applied". What it limits, namespaces [share](crate::share).

mod error;
mod room;
mod shared;
mod turn;

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use serde::de::DeserializeOwned;

pub use self::error::SendError;
use self::shared::Shared;
pub use self::turn::{REQUEST_TIMEOUT, Turn};
use crate::{
    clock::Clock,
    lease::{BootTime, Leadership},
    protobuf::{self, METADATA},
    request::Call,
    transport::Transport,
};

/// The way of every write, and of single reads; clones share its limits.
#[derive(Clone, Debug)]
pub struct Writes(Arc<Shared>);

impl Writes {
    /// At most `max_in_flight` (≥ 1) requests at a time.
    pub fn new(transport: Transport, leadership: Leadership, max_in_flight: usize) -> Self {
        Self(Arc::new(Shared::new(transport, leadership, max_in_flight)))
    }

    /// Waits for a place among the requests that are in flight.
    ///
    /// # Errors
    /// [`NotSent::ShuttingDown`](crate::fence::NotSent)
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
