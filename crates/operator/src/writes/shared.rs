//! What all writes share: the connections, the right to write, the limits.

use std::sync::atomic::AtomicBool;

use super::room::Room;
use crate::{lease::Leadership, share::permit::Semaphore, transport::Transport};

/// Bytes of large templates, and of the objects made of them, that are on their way at a time.
const LARGE: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) transport: Transport,
    pub(super) leadership: Leadership,
    pub(super) in_flight: Semaphore,
    pub(super) room: Room,
    pub(super) closed: AtomicBool,
}

impl Shared {
    pub(super) fn new(transport: Transport, leadership: Leadership, max_in_flight: usize) -> Self {
        let max_in_flight = max_in_flight.clamp(1, 10_000);
        Self {
            transport,
            leadership,
            in_flight: Semaphore::new(max_in_flight),
            room: Room::of(LARGE),
            closed: AtomicBool::new(false),
        }
    }
}
