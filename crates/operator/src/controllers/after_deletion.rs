//! An object that is in no cache but still controls something: when it is really gone, what it
//! controlled is let go.

use std::future::Future;

use carillon_plan::ObjectKey;
use futures::{StreamExt, stream};

use super::core::{Core, Next};
use crate::gate::Kind;
use crate::writes::SendError;

impl Core {
    /// Asks for the object `key` of this kind (`None`: there is nothing to ask for), and lets go of
    /// what it held. `release` tells whether there was anything to let go of.
    pub(super) async fn after_deletion<T, F>(
        &self,
        kind: Option<Kind>,
        key: &ObjectKey,
        held: Vec<T>,
        release: impl Fn(T) -> F,
    ) -> Next
    where
        F: Future<Output = Result<bool, SendError>>,
    {
        if held.is_empty() {
            return Next::Forget;
        }
        let exists = match kind {
            Some(kind) => self.exists(kind, key).await,
            None => Ok(false),
        };
        match exists {
            Ok(false) => {}
            // Its cache is behind, and its event comes; or this version cannot read it.
            Ok(true) => return Next::Failed(None),
            Err(error) => {
                tracing::warn!(controller = self.name, %key, %error, "cannot tell whether it exists");
                return Next::Failed(None);
            }
        }
        let results: Vec<_> = stream::iter(held)
            .map(release)
            .buffer_unordered(self.parallel)
            .collect()
            .await;
        let mut released = 0;
        let mut left = 0;
        for result in results {
            match result {
                Ok(true) => released += 1,
                Ok(false) => left += 1,
                Err(error) => {
                    left += 1;
                    tracing::warn!(controller = self.name, %key, %error, "cannot let go of what it controlled");
                }
            }
        }
        tracing::info!(controller = self.name, %key, released, left, "it is gone; let go of what it controlled");
        // What was let go says so itself when it changes.
        if left == 0 {
            Next::Forget
        } else {
            Next::Failed(None)
        }
    }
}
