//! What a namespace shows of the DaemonSet of a scenario.

use serde_json::Value;

use crate::parity::watched::Here;

/// The hash of the revision that a pod was made from, or that a revision has.
pub(crate) const HASH: &str = "controller-revision-hash";

impl Here {
    /// The DaemonSet as it is, if it is.
    pub(crate) fn set(&self) -> Option<&Value> {
        self.all("daemonsets").first()
    }

    /// A number of the DaemonSet's status; 0 where there is none.
    pub(crate) fn number(&self, field: &str) -> i64 {
        let set = self.set();
        set.and_then(|set| set["status"][field].as_i64())
            .unwrap_or(0)
    }

    /// Whether its status says of this very spec how many nodes should have a pod.
    pub(crate) fn is_observed(&self) -> bool {
        self.set()
            .is_some_and(|set| set["status"]["observedGeneration"] == set["metadata"]["generation"])
    }

    /// Whether so many nodes should have a pod, and each has one.
    pub(crate) fn has(&self, desired: i64) -> bool {
        self.is_observed()
            && ["desiredNumberScheduled", "currentNumberScheduled"]
                .iter()
                .all(|field| self.number(field) == desired)
    }

    /// Whether so many nodes have an available pod of the template, no others have one, and the status says so.
    pub(crate) fn is_at(&self, desired: i64) -> bool {
        let mut own = self.pods().iter().filter(|pod| is_owned(pod));
        let ready = own.clone().filter(|pod| is_ready(pod)).count();
        self.has(desired)
            && ["updatedNumberScheduled", "numberAvailable"]
                .iter()
                .all(|field| self.number(field) == desired)
            && ready == desired as usize
            && own.all(is_ready)
            && self.leaving() == 0
    }

    /// Whether each node that should has an available pod of the template.
    pub(crate) fn is_rolled_out(&self) -> bool {
        self.is_at(self.number("desiredNumberScheduled"))
    }

    /// Whether each pod that was made for the DaemonSet was told as an event. That comes later than what it
    /// tells of.
    pub(crate) fn has_told_of_pods(&self) -> bool {
        let told = |pod: &Value| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let message = format!("Created pod: {name}");
            self.seen("events").any(|seen| {
                seen.object["message"]
                    .as_str()
                    .is_some_and(|text| text.ends_with(&message))
            })
        };
        self.seen("pods")
            .filter(|seen| is_owned(&seen.object) && hash(&seen.object).is_some())
            .all(|seen| told(&seen.object))
    }

    /// Whether the DaemonSet is gone after it was there.
    pub(crate) fn is_set_gone(&self) -> bool {
        self.set().is_none() && self.seen("daemonsets").next().is_some()
    }

    /// The hashes of all revisions there were, in the order in which they were made.
    pub(crate) fn hashes(&self) -> Vec<String> {
        let mut hashes = Vec::new();
        for seen in self.seen("controllerrevisions") {
            if let Some(hash) = hash(&seen.object)
                && !hashes.iter().any(|known| known == hash)
            {
                hashes.push(hash.to_owned());
            }
        }
        hashes
    }

    /// How many pods are in this phase.
    pub(crate) fn phase(&self, phase: &str) -> usize {
        let pods = self.pods().iter();
        pods.filter(|pod| pod["status"]["phase"] == phase).count()
    }

    /// How many pods somebody has deleted that are still there.
    pub(crate) fn leaving(&self) -> usize {
        self.pods().iter().filter(|pod| is_deleting(pod)).count()
    }
}

/// Whether the DaemonSet `d` controls a pod.
fn is_owned(pod: &Value) -> bool {
    let owner = &pod["metadata"]["ownerReferences"][0];
    owner["kind"] == "DaemonSet" && owner["name"] == "d"
}

/// Whether somebody has deleted an object.
pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whether a pod is Ready.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    })
}

/// The hash of the revision that an object is of. A revision without one is known by its name.
pub(crate) fn hash(object: &Value) -> Option<&str> {
    let metadata = &object["metadata"];
    let is_revision = object["kind"] == "ControllerRevision";
    let name = || metadata["name"].as_str().filter(|_| is_revision);
    metadata["labels"][HASH].as_str().or_else(name)
}

/// The node that a pod is on, or for.
pub(crate) fn node_of(pod: &Value) -> Option<&str> {
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                 /nodeSelectorTerms/0/matchFields/0/values/0";
    let meant = || pod.pointer(terms)?.as_str();
    pod["spec"]["nodeName"].as_str().or_else(meant)
}
