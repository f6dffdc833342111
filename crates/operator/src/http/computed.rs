//! What takes a while to make: on a thread apart, one at a time, and for all who ask meanwhile.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{sync::Mutex, task::spawn_blocking, time::Instant};

/// So old may an answer be.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(1);

/// The last answer of one kind, made when asked for.
#[derive(Debug, Default)]
pub(super) struct Computed(Arc<Mutex<Option<(Instant, Bytes)>>>);

impl Computed {
    /// The last one if it is not too old, else what `make` gives.
    pub(super) async fn kept_or(
        &self,
        make: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Result<Bytes, String> {
        let mut last = Arc::clone(&self.0).lock_owned().await;
        if let Some((made_at, bytes)) = &*last
            && made_at.elapsed() < KEPT_FOR
        {
            return Ok(bytes.clone());
        }
        // The lock goes along: who hangs up does not make room for another one beside it.
        let answer = spawn_blocking(move || {
            let bytes = Bytes::from(make()?);
            *last = Some((Instant::now(), bytes.clone()));
            Ok(bytes)
        });
        answer.await.map_err(|error| error.to_string())?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_asks_within_a_second_gets_the_same_answer() {
        let (computed, made) = (Computed::default(), Arc::new(AtomicUsize::new(0)));
        let ask = || {
            let made = Arc::clone(&made);
            computed.kept_or(move || Ok(vec![made.fetch_add(1, Ordering::SeqCst) as u8]))
        };
        for second in 0..3 {
            let answers = join_all((0..300).map(|_| ask())).await;
            assert!(answers.iter().all(|a| a.as_deref() == Ok(&[second][..])));
            tokio::time::advance(KEPT_FOR).await;
        }
        assert_eq!(made.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn who_hangs_up_makes_no_room_for_another_one() {
        let computed = Arc::new(Computed::default());
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let (begin, has_begun) = tokio::sync::oneshot::channel();
        let first = tokio::spawn({
            let computed = Arc::clone(&computed);
            async move {
                let make = move || {
                    let _ = begin.send(());
                    wait.recv().map_err(|error| error.to_string())?;
                    Ok(b"first".to_vec())
                };
                computed.kept_or(make).await
            }
        });
        has_begun.await.unwrap();
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        assert!(computed.0.try_lock().is_err(), "it is still being made");
        go_on.send(()).unwrap();
        let second = computed.kept_or(|| Ok(b"second".to_vec())).await;
        assert_eq!(second.unwrap(), &b"first"[..]);
    }

    #[tokio::test]
    async fn what_failed_is_tried_again() {
        let computed = Computed::default();
        let failed = computed.kept_or(|| Err("no".to_owned())).await;
        assert_eq!(failed, Err("no".to_owned()));
        let made = computed.kept_or(|| Ok(b"yes".to_vec())).await;
        assert_eq!(made.unwrap(), &b"yes"[..]);
    }
}
