//! Whether all that was read is in the caches.
//!
//! What a watch has read at once comes to the caches piece by piece, through tasks that take turns. A
//! Job that came with another watch is there after a few turns, long before the last of many pods that
//! were read with it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

/// How long the rest is waited for on a thread that never has nothing to do.
const LONGEST: Duration = Duration::from_millis(20);

thread_local! {
    static REST: RefCell<Option<Arc<Notify>>> = const { RefCell::new(None) };
    static AWAITED: Cell<usize> = const { Cell::new(0) };
}

/// Somebody waits for as long as this lives.
struct Awaiting(());

impl Awaiting {
    fn begin() -> Self {
        AWAITED.set(AWAITED.get() + 1);
        Self(())
    }
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        AWAITED.set(AWAITED.get() - 1);
    }
}

/// Waits until nothing is left to do on this thread but to wait for sockets and timers: what was read
/// is in the caches then. At once where nobody tells of that.
pub(crate) async fn all_is_taken_in() {
    let Some(rest) = REST.with_borrow(Clone::clone) else {
        return;
    };
    let _awaiting = Awaiting::begin();
    // A timer that runs out is no error: what is planned too early is planned again.
    let _ = tokio::time::timeout(LONGEST, rest.notified()).await;
}

/// To be called when nothing is left to do. Whether somebody waited for that, and now has.
pub(super) fn tell() -> bool {
    let rest = REST.with_borrow_mut(|rest| Arc::clone(rest.get_or_insert_default()));
    rest.notify_waiters();
    AWAITED.get() > 0
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tokio::sync::mpsc;
    use tokio::task::{spawn_local, yield_now};

    use super::*;
    use crate::transport::runtime;

    #[test]
    fn what_came_in_many_pieces_is_there_before_anything_is_planned() {
        runtime().unwrap().block_on(async {
            // The runtime tells from the first time on that it waits for something.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let (send, mut pieces) = mpsc::channel(1);
            spawn_local(async move {
                for piece in 0..100 {
                    send.send(piece).await.unwrap();
                }
            });
            let taken_in = Rc::new(Cell::new(0));
            let count = Rc::clone(&taken_in);
            spawn_local(async move {
                while pieces.recv().await.is_some() {
                    count.set(count.get() + 1);
                }
            });
            all_is_taken_in().await;
            assert_eq!(taken_in.get(), 100);
        });
    }

    #[test]
    fn a_thread_that_always_has_something_to_do_keeps_nobody_waiting() {
        runtime().unwrap().block_on(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            spawn_local(async {
                loop {
                    yield_now().await;
                }
            });
            all_is_taken_in().await;
        });
    }

    #[tokio::test]
    async fn where_nobody_tells_nobody_waits() {
        let mut wait = std::pin::pin!(all_is_taken_in());
        assert!(futures::poll!(&mut wait).is_ready());
    }
}
