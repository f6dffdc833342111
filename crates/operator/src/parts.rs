//! What a process consists of: tasks that run until it stops. One that ends before then ends the process,
//! so that another replica takes over. A process that goes on without one would lead, and do nothing.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::future;

use tokio::task::{Id, JoinError, JoinSet};

/// The parts of a process, each a local task.
#[derive(Debug, Default)]
pub struct Parts {
    running: JoinSet<()>,
    names: HashMap<Id, Cow<'static, str>>,
}

/// A part that has ended before the process was to stop.
#[derive(Debug, thiserror::Error)]
#[error("{part} has ended{}", .panic.as_ref().map(|panic| format!(": it panicked: {panic}")).unwrap_or_default())]
pub struct Ended {
    part: Cow<'static, str>,
    panic: Option<String>,
}

impl Parts {
    /// Starts one; to be called where [`tokio::task::spawn_local`] may be.
    pub fn start(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        part: impl Future<Output = ()> + 'static,
    ) {
        let id = self.running.spawn_local(part).id();
        self.names.insert(id, name.into());
    }

    /// Waits until a part has ended. For ever while there is none.
    pub async fn one_ended(&mut self) -> Ended {
        let Some(ended) = self.running.join_next_with_id().await else {
            return future::pending().await;
        };
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
        Ended {
            part: self.names.remove(&id).unwrap_or_default(),
            panic: ended.err().and_then(said),
        }
    }

    /// Waits until all have ended.
    pub async fn all_ended(&mut self) {
        while self.running.join_next().await.is_some() {}
    }

    /// Ends all, wherever they are, and waits until nothing of them is left.
    pub async fn abandon(&mut self) {
        self.running.shutdown().await;
    }
}

/// What a panic said.
fn said(error: JoinError) -> Option<String> {
    let panic: Box<dyn Any + Send> = error.try_into_panic().ok()?;
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Some(text.unwrap_or_else(|| "it did not say why".to_owned()))
}

#[cfg(test)]
mod tests {
    use tokio::task::LocalSet;

    use super::*;

    async fn first(parts: impl FnOnce(&mut Parts)) -> String {
        let run = async {
            let mut all = Parts::default();
            all.start("one that runs", future::pending());
            parts(&mut all);
            all.one_ended().await.to_string()
        };
        LocalSet::new().run_until(run).await
    }

    #[tokio::test]
    async fn a_part_that_ends_or_panics_is_named() {
        let ended = first(|parts| parts.start("the watch of pods", future::ready(())));
        assert_eq!(ended.await, "the watch of pods has ended");
        let panics = async { panic!("no row {}", 7) };
        let ended = first(|parts| parts.start("the watch of pods", panics));
        let expected = "the watch of pods has ended: it panicked: no row 7";
        assert_eq!(ended.await, expected);
    }
}
