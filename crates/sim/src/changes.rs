//! Tells of new revisions. tokio's `watch` wakes its waiters in a random order; here it is the order
//! in which they came, so that a run can be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The revision, and who waits for the next one.
#[derive(Debug, Default)]
pub(crate) struct Revisions {
    now: AtomicU64,
    /// How often the server was started anew.
    starts: AtomicU64,
    waiting: Notify,
}

impl Revisions {
    /// There is a new revision.
    pub(crate) fn set(&self, revision: u64) {
        self.now.store(revision, Ordering::Release);
        self.waiting.notify_waiters();
    }

    /// The server was started anew: whoever waits has to look.
    pub(crate) fn start_anew(&self, revision: u64) {
        self.starts.fetch_add(1, Ordering::AcqRel);
        self.set(revision);
    }

    fn get(&self) -> (u64, u64) {
        let starts = self.starts.load(Ordering::Acquire);
        (self.now.load(Ordering::Acquire), starts)
    }
}

/// Waits for revisions after the one it has seen.
#[derive(Clone, Debug)]
pub struct Changes {
    revisions: Arc<Revisions>,
    /// The revision, and how often the server was started anew by then.
    seen: (u64, u64),
}

impl Changes {
    pub(crate) fn of(revisions: &Arc<Revisions>) -> Self {
        Self {
            seen: revisions.get(),
            revisions: revisions.clone(),
        }
    }

    /// Sees the revision of now, and says which it is.
    pub fn see(&mut self) -> u64 {
        self.seen = self.revisions.get();
        self.seen.0
    }

    /// Whether there is a revision that was not seen.
    pub fn has_changed(&self) -> bool {
        self.revisions.get() != self.seen
    }

    /// Waits until there is one, and sees it.
    pub async fn changed(&mut self) {
        let revisions = self.revisions.clone();
        loop {
            let mut waiting = std::pin::pin!(revisions.waiting.notified());
            waiting.as_mut().enable();
            if self.has_changed() {
                self.see();
                return;
            }
            waiting.await;
        }
    }
}
