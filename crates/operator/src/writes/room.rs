//! Room for what is large: objects that are unpacked or on their way.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::SendError;
use crate::fence::NotSent;

/// A plan that waits for longer is too old by then.
const PATIENCE: Duration = Duration::from_secs(10);

/// So many bytes at a time; something larger by itself.
#[derive(Debug)]
pub(super) struct Room {
    kilobytes: u32,
    free: Arc<Semaphore>,
}

impl Room {
    pub(super) fn of(bytes: usize) -> Self {
        let kilobytes = (bytes >> 10) as u32;
        Self {
            kilobytes,
            free: Arc::new(Semaphore::new(kilobytes as usize)),
        }
    }

    /// Waits for room, and holds it as long as the permit lives.
    pub(super) async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, SendError> {
        let wanted = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        let wanted = wanted.saturating_add(1).min(self.kilobytes);
        let taken = self.free.clone().acquire_many_owned(wanted);
        match tokio::time::timeout(PATIENCE, taken).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(NotSent::ShuttingDown.into()),
            Err(_) => Err(NotSent::Expired.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_large_waits_for_room_but_not_for_ever() {
        let room = Room::of(1 << 20);
        let first = room.take(600 << 10).await.unwrap();
        assert!(room.take(300 << 10).await.is_ok());
        let refused = room.take(600 << 10).await.unwrap_err();
        assert!(matches!(refused, SendError::NotSent(NotSent::Expired)));
        drop(first);
        assert!(room.take(usize::MAX).await.is_ok(), "by itself");
    }
}
