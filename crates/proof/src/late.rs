//! Creations that arrive when their attempt is over.
//!
//! A creation relies on what was true a second before it was sent (decision 0030). With all processes leading
//! at once another one may have stored the end of the attempt within that second, and the pod be gone. This
//! is what docs/proof.md says of late requests, and no more: the pod has to be stopped and let go.

use std::collections::{BTreeSet, HashMap};

use carillon_oracle::History;
use jiff::{SignedDuration, Timestamp};

/// A second, and the way to the API server.
const RELIES_ON: SignedDuration = SignedDuration::from_millis(1050);

/// Revisions at which a pod was created by a process of ours, for an attempt that had been over for no longer
/// than a creation may rely on what it knew.
pub fn creations(history: &History) -> BTreeSet<u64> {
    let mut over: HashMap<&str, Timestamp> = HashMap::new();
    let mut late = BTreeSet::new();
    for step in &history.steps {
        let Some(new) = step.new.as_deref() else {
            continue;
        };
        match &*step.key.resource {
            "noderesultslices.carillon.dev" => {
                let results = new["results"].as_array().into_iter().flatten();
                for result in results.filter(|result| result["state"] != "Started") {
                    let pod = result["pod"].as_str().unwrap_or_default();
                    over.entry(pod).or_insert(step.at);
                }
            }
            "pods" if step.old.is_none() => {
                let ours = step
                    .by
                    .as_deref()
                    .is_some_and(|by| by.agent.starts_with("carillon"));
                let since = over.get(&*step.key.name).filter(|_| ours);
                if since.is_some_and(|since| step.at.duration_since(*since) <= RELIES_ON) {
                    late.insert(step.rev);
                }
            }
            _ => {}
        }
    }
    late
}
