//! A [`Share`] that is waited for.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::{Granted, Share};

/// A semaphore that namespaces share by the rules of [`Share`]; clones are the same one.
#[derive(Clone, Debug)]
pub struct Semaphore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Somebody has given something back after the end.
    given_back: Notify,
}

#[derive(Debug)]
struct State {
    share: Share<oneshot::Sender<Permit>>,
    closed: bool,
}

/// What a namespace holds, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    of: Semaphore,
    namespace: Arc<str>,
    amount: usize,
}

impl Semaphore {
    /// Of so much.
    pub fn new(size: usize) -> Self {
        Self::with(Share::of(size))
    }

    /// Of which so much is left to who comes next.
    pub fn sparing(size: usize, spare: usize) -> Self {
        Self::with(Share::sparing(size, spare))
    }

    fn with(share: Share<oneshot::Sender<Permit>>) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                share,
                closed: false,
            }),
            given_back: Notify::new(),
        }))
    }

    /// Waits for so much. `None` after [`Self::close`].
    pub async fn acquire(&self, namespace: &str, amount: usize) -> Option<Permit> {
        let (sender, granted) = oneshot::channel();
        {
            let mut state = self.lock();
            if state.closed {
                return None;
            }
            state.share.push(namespace, amount, sender);
            self.grant(state);
        }
        let mut waiting = Waiting {
            of: self,
            namespace,
            granted,
        };
        (&mut waiting.granted).await.ok()
    }

    /// Gives nothing more, and waits until all is given back.
    pub async fn close(&self) {
        {
            let mut state = self.lock();
            state.closed = true;
            state.share.clear();
        }
        while self.lock().share.in_use() > 0 {
            self.0.given_back.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is kept here stays whole: a panic of ours does not come between its changes.
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives to those whose turn it is, after the lock is released: one who has gone gives back at once.
    fn grant(&self, mut state: MutexGuard<'_, State>) {
        let granted: Vec<_> = std::iter::from_fn(|| state.share.pop()).collect();
        drop(state);
        for Granted {
            namespace,
            amount,
            who,
        } in granted
        {
            let of = self.clone();
            // What nobody takes is dropped, and so given back.
            drop(who.send(Permit {
                of,
                namespace,
                amount,
            }));
        }
    }
}

/// Who stops waiting is in nobody's way.
struct Waiting<'a> {
    of: &'a Semaphore,
    namespace: &'a str,
    granted: oneshot::Receiver<Permit>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.granted.is_terminated() {
            return;
        }
        self.granted.close();
        let mut state = self.of.lock();
        let share = &mut state.share;
        share.retain(self.namespace, |waits| !waits.is_closed());
        self.of.grant(state);
    }
}

impl Permit {
    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.of.lock();
        state
            .share
            .give_back(&self.namespace, mem::take(&mut self.amount));
        let closed = state.closed;
        self.of.grant(state);
        if closed {
            self.of.0.given_back.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_woken_when_something_is_given_back() {
        let semaphore = Semaphore::new(1);
        let held = semaphore.acquire("a", 1).await.unwrap();
        let waits = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire("b", 1).await.is_some() }
        });
        tokio::time::sleep(SHORT).await;
        assert!(!waits.is_finished());
        drop(held);
        assert!(waits.await.unwrap());
        assert_eq!(semaphore.lock().share.in_use(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_waiting_is_in_nobodys_way_and_keeps_nothing() {
        let semaphore = Semaphore::new(2);
        let held = semaphore.acquire("a", 1).await.unwrap();
        assert!(timeout(SHORT, semaphore.acquire("b", 2)).await.is_err());
        assert!(timeout(SHORT, semaphore.acquire("a", 1)).await.is_ok());
        // It was given something, and has gone before it looked.
        let mut waits = Box::pin(semaphore.acquire("c", 2));
        assert!(timeout(SHORT, &mut waits).await.is_err());
        drop(held);
        drop(waits);
        assert_eq!(semaphore.lock().share.in_use(), 0);
        assert!(timeout(SHORT, semaphore.acquire("d", 2)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_end_nobody_waits_and_what_is_held_is_waited_for() {
        let semaphore = Semaphore::new(1);
        let held = semaphore.acquire("a", 1).await.unwrap();
        let acquire = |namespace| {
            let semaphore = semaphore.clone();
            tokio::spawn(async move { semaphore.acquire(namespace, 1).await.is_some() })
        };
        let waits = acquire("b");
        tokio::time::sleep(SHORT).await;
        let ends = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.close().await }
        });
        assert!(!waits.await.unwrap());
        assert!(!acquire("c").await.unwrap());
        assert!(!ends.is_finished());
        drop(held);
        ends.await.unwrap();
    }
}
