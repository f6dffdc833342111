//! A gate in the way of bytes, that somebody opens.

use std::sync::Arc;

use tokio::sync::watch;

/// Holds what comes until it is opened, then lets all pass; clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open: watch::Sender<bool>,
    reached: watch::Sender<usize>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            open: watch::Sender::new(false),
            reached: watch::Sender::new(0),
        }))
    }

    /// Lets everything pass from now on.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// How many have come to the gate, also those that have passed.
    pub fn count(&self) -> usize {
        *self.0.reached.borrow()
    }

    /// Waits until something has come to the gate.
    pub async fn reached(&self) {
        let mut reached = self.0.reached.subscribe();
        // The sender lives as long as `self`.
        let _ = reached.wait_for(|count| *count > 0).await;
    }

    /// Waits until the gate is open.
    pub async fn pass(&self) {
        self.0.reached.send_modify(|count| *count += 1);
        let mut open = self.0.open.subscribe();
        let _ = open.wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
