//! How many pods there are that have not ended.

use std::sync::Arc;

use carillon_sim::Server;
use carillon_sim::actors::has_ended;
use jiff::Timestamp;
use serde_json::Value;

/// Counts them as the history goes on.
#[derive(Debug, Default)]
pub(crate) struct LivePods {
    seen: u64,
    pub(crate) now: usize,
    pub(crate) most: usize,
    /// When each pod was created, in seconds.
    pub(crate) created: Vec<i64>,
}

impl LivePods {
    /// Reads what has happened since the last time.
    pub(crate) fn look(&mut self, server: &Server, begin: Timestamp) {
        server.with_history(|history| {
            let first = history.steps.partition_point(|step| step.rev <= self.seen);
            for step in &history.steps[first..] {
                self.seen = step.rev;
                if &*step.key.resource != "pods" {
                    continue;
                }
                if step.old.is_none() {
                    self.created.push(step.at.duration_since(begin).as_secs());
                }
                let lives =
                    |pod: &Option<Arc<Value>>| pod.as_deref().is_some_and(|pod| !has_ended(pod));
                match (lives(&step.old), lives(&step.new)) {
                    (false, true) => self.now += 1,
                    (true, false) => self.now -= 1,
                    _ => {}
                }
                self.most = self.most.max(self.now);
            }
        });
    }

    /// Up to which revision the history has been read.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }
}
