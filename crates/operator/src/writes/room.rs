//! Room for what is large: templates, and objects made of them, on their way.

use std::time::Duration;

use super::error::SendError;
use crate::fence::NotSent;
use crate::share::permit::{Permit, Semaphore};

/// A plan that waits for longer is too old by then.
const PATIENCE: Duration = Duration::from_secs(10);
/// The part of the room that is left to who comes next: one in so many. What it has to hold is one large
/// object and its template, which the API server limits to a megabyte and a half.
const SPARE: usize = 4;

/// So many bytes at a time; something larger by itself.
#[derive(Debug)]
pub(super) struct Room(Semaphore);

impl Room {
    pub(super) fn of(bytes: usize) -> Self {
        Self(Semaphore::sparing(bytes, bytes / SPARE))
    }

    /// Waits for room, and holds it as long as the permit lives.
    pub(super) async fn take(&self, namespace: &str, bytes: usize) -> Result<Permit, SendError> {
        match tokio::time::timeout(PATIENCE, self.0.acquire(namespace, bytes)).await {
            Ok(Some(permit)) => Ok(permit),
            Ok(None) => Err(NotSent::ShuttingDown.into()),
            Err(_) => Err(NotSent::Expired.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn what_is_large_waits_for_room_but_not_for_ever() {
        let room = Room::of(MIB);
        let first = room.take("a", 600 << 10).await.unwrap();
        assert!(room.take("a", 100 << 10).await.is_ok());
        let refused = room.take("a", 600 << 10).await.unwrap_err();
        assert!(matches!(refused, SendError::NotSent(NotSent::Expired)));
        drop(first);
        assert!(room.take("a", usize::MAX).await.is_ok(), "by itself");
    }

    #[tokio::test(start_paused = true)]
    async fn large_ones_of_a_slow_namespace_hold_up_nobody_elses() {
        let room = Arc::new(Room::of(16 * MIB));
        // Its webhook is slow: each is held for long, and as many as there are places want one.
        for n in 0..31 {
            let slow = room.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(640 * n)).await;
                loop {
                    if let Ok(_held) = slow.take("slow", 3 * MIB).await {
                        tokio::time::sleep(Duration::from_secs(40)).await;
                    }
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
        for n in 0..40 {
            tokio::time::sleep(Duration::from_millis(770)).await;
            let before = tokio::time::Instant::now();
            for bytes in [2 << 10, 3 * MIB] {
                assert!(room.take("quiet", bytes).await.is_ok(), "{n}: {bytes}");
            }
            assert!(before.elapsed().is_zero(), "{n}: {:?}", before.elapsed());
        }
    }
}
