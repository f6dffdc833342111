//! What a process consists of: tasks that run until it stops. One that ends before then ends the process,
//! so that another replica takes over. A process that goes on without one would lead, and do nothing.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;
use std::future;

use tokio::task::{Id, JoinError, JoinSet};

use crate::lease::Leadership;

/// The parts of a process, each a local task.
#[derive(Debug)]
pub struct Parts {
    /// One that panics, or fails, ends it at once: nothing more is sent.
    leadership: Leadership,
    /// Each with the reason why it has ended, if it says one.
    running: JoinSet<Option<String>>,
    names: HashMap<Id, Cow<'static, str>>,
}

/// A part that has ended before the process was to stop.
#[derive(Debug, thiserror::Error)]
#[error("{part} has ended{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
pub struct Ended {
    part: Cow<'static, str>,
    why: Option<String>,
}

impl Ended {
    /// What is no task has ended.
    pub fn because(part: &'static str, why: impl Display) -> Self {
        Self {
            part: part.into(),
            why: Some(why.to_string()),
        }
    }
}

impl Parts {
    /// None yet, of a process whose leadership this is.
    pub fn of(leadership: &Leadership) -> Self {
        Self {
            leadership: leadership.clone(),
            running: JoinSet::new(),
            names: HashMap::new(),
        }
    }

    /// Starts one; to be called where [`tokio::task::spawn_local`] may be.
    pub fn start(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        part: impl Future<Output = ()> + 'static,
    ) {
        let part = async {
            part.await;
            None
        };
        self.insert(name.into(), part);
    }

    /// Starts one that may say why it has ended.
    pub fn start_fallible<E: Display>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        part: impl Future<Output = Result<(), E>> + 'static,
    ) {
        let part = async { part.await.err().map(|error| error.to_string()) };
        self.insert(name.into(), part);
    }

    fn insert(
        &mut self,
        name: Cow<'static, str>,
        part: impl Future<Output = Option<String>> + 'static,
    ) {
        let leadership = self.leadership.clone();
        let part = async move {
            let _panics = EndOnPanic(leadership.clone());
            let why = part.await;
            if why.is_some() {
                leadership.end();
            }
            why
        };
        let id = self.running.spawn_local(part).id();
        self.names.insert(id, name);
    }

    /// Waits until a part has ended. For ever while there is none.
    pub async fn one_ended(&mut self) -> Ended {
        let Some(ended) = self.running.join_next_with_id().await else {
            return future::pending().await;
        };
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        Ended {
            part: self.names.remove(&id).unwrap_or_default(),
            why: ended.map_or_else(said, |(_, why)| why),
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

/// Others may run before anybody is told of the panic, on what it has left half changed.
struct EndOnPanic(Leadership);

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

/// What a panic said.
fn said(error: JoinError) -> Option<String> {
    let panic: Box<dyn Any + Send> = error.try_into_panic().ok()?;
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "it did not say why".to_owned());
    Some(format!("it panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use tokio::task::LocalSet;

    use crate::clock::Clock;

    use super::*;

    async fn first(parts: impl FnOnce(&mut Parts)) -> String {
        let run = async {
            let leadership = Leadership::always(Clock::system());
            let mut all = Parts::of(&leadership);
            all.start("one that runs", future::pending());
            parts(&mut all);
            let ended = all.one_ended().await.to_string();
            assert_eq!(leadership.is_leader(), !ended.contains(": "), "{ended}");
            ended
        };
        LocalSet::new().run_until(run).await
    }

    #[tokio::test]
    async fn a_part_that_ends_or_panics_is_named() {
        let ended = first(|parts| parts.start("the watch of pods", future::ready(())));
        assert_eq!(ended.await, "the watch of pods has ended");
        let fails = future::ready(Err("no such history"));
        let ended = first(|parts| parts.start_fallible("the watch of pods", fails));
        assert_eq!(ended.await, "the watch of pods has ended: no such history");
        let panics = async { panic!("no row {}", 7) };
        let ended = first(|parts| parts.start("the watch of pods", panics));
        let expected = "the watch of pods has ended: it panicked: no row 7";
        assert_eq!(ended.await, expected);
    }
}
