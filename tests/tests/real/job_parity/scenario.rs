//! A scenario: a Job, what becomes of its pods, and what users do meanwhile.

use carillon_testbed::Fate;
use http::Method;
use serde_json::{Value, json};

use crate::parity::merge;
use crate::parity::stage::PodDeed;
use crate::parity::watched::Here;

/// What the namespace of a scenario has to show.
pub(crate) type Condition = fn(&Here) -> bool;
/// Which pod, of those that exist, the oldest first.
pub(crate) type Pick = fn(&Value) -> bool;

/// A Job in two namespaces, one for each side.
#[derive(Clone)]
pub(crate) struct Scenario {
    /// Its name, with which those of its namespaces begin.
    pub(crate) name: &'static str,
    /// The Job.
    pub(crate) job: Value,
    /// What is there before: plural path below the namespace, object.
    pub(crate) before: Vec<(&'static str, Value)>,
    /// Fates by completion index (`None`: any), the first pod's first. The last one is also that
    /// of all further pods.
    pub(crate) fates: Vec<(Option<u32>, Vec<Fate>)>,
    /// What is done when.
    pub(crate) acts: Vec<(Condition, Deed)>,
    /// When it is at its end, provided that nothing happens any more.
    pub(crate) until: Condition,
}

/// What a user, or a kubelet that does more than ours, does.
#[derive(Clone)]
pub(crate) enum Deed {
    /// Fields of the Job are changed, by a merge patch.
    Patch(Value),
    /// The Job is deleted, with this propagation policy.
    Delete(&'static str),
    /// Something is done to the first pod of these.
    Pod(Pick, PodDeed),
    /// A request, its path below the namespace. The text `UID` in it is the Job's uid.
    Request(Method, &'static str, Value),
}

/// Jobs.
pub(crate) const JOBS: &str = "apis/batch/v1/jobs";
/// Pods.
pub(crate) const PODS: &str = "api/v1/pods";
/// Resource quotas.
pub(crate) const QUOTAS: &str = "api/v1/resourcequotas";

/// A pod runs this long and succeeds. Events are gathered for a second each: an end in the middle
/// of one falls into the same one on both sides.
pub(crate) fn ends() -> Fate {
    Fate::default().with("run-time", "1500ms")
}

/// A pod runs as long and fails.
pub(crate) fn fails(code: i32) -> Fate {
    ends().with("exit-code", code)
}

/// A pod succeeds after this time.
pub(crate) fn runs(time: &str) -> Fate {
    Fate::default().with("run-time", time)
}

/// The spec of a Job of which all pods have this fate.
pub(crate) fn all_pods(fate: &Fate) -> Value {
    json!({"template": {"metadata": {"annotations": fate.annotations()}}})
}

/// The template of a Job of which the pods take this long to end when they are deleted.
pub(crate) fn slow_to_stop(time: &str) -> Value {
    all_pods(&Fate::default().with("termination-time", time))
}

/// The spec of an Indexed Job.
pub(crate) fn indexed(completions: u32, parallelism: u32) -> Value {
    json!({"completionMode": "Indexed", "completions": completions, "parallelism": parallelism})
}

/// Something runs.
pub(crate) fn ready(here: &Here) -> bool {
    here.count("ready") > 0
}

impl Scenario {
    /// A Job `j` with changes to its spec; `[]` of specs, later ones win.
    pub(crate) fn of(name: &'static str, specs: &[Value]) -> Self {
        let mut job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {"template": {
                "metadata": {"annotations": ends().annotations()},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox:1.37"}],
                },
            }},
        });
        for spec in specs {
            merge(&mut job["spec"], spec);
        }
        Self {
            name,
            job,
            before: Vec::new(),
            fates: Vec::new(),
            acts: Vec::new(),
            until: Here::has_ended,
        }
    }

    /// With changes to the Job besides its spec.
    pub(crate) fn job(mut self, change: &Value) -> Self {
        merge(&mut self.job, change);
        self
    }

    /// One object more, before the Job.
    pub(crate) fn before(mut self, plural: &'static str, object: Value) -> Self {
        self.before.push((plural, object));
        self
    }

    /// The first pod has the first fate, and so on, whatever its index.
    pub(crate) fn fates(mut self, fates: &[Fate]) -> Self {
        self.fates.push((None, fates.to_vec()));
        self
    }

    /// The same for the pods of one completion index.
    pub(crate) fn index(mut self, index: u32, fates: &[Fate]) -> Self {
        self.fates.insert(0, (Some(index), fates.to_vec()));
        self
    }

    /// One deed more, after those before it.
    pub(crate) fn when(mut self, condition: Condition, deed: Deed) -> Self {
        self.acts.push((condition, deed));
        self
    }

    /// The spec of the Job is changed.
    pub(crate) fn patch(self, condition: Condition, spec: &Value) -> Self {
        self.when(condition, Deed::Patch(json!({"spec": spec})))
    }

    /// Something is done to a pod.
    pub(crate) fn pod(self, condition: Condition, pick: Pick, deed: PodDeed) -> Self {
        self.when(condition, Deed::Pod(pick, deed))
    }

    /// It has another end than that of the Job.
    pub(crate) fn until(mut self, condition: Condition) -> Self {
        self.until = condition;
        self
    }
}
