//! The row of a DaemonSet's pod.

use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::daemon_set::DaemonPod;
use carillon_plan::node::Labels;
use carillon_plan::pod::Deletion;

use crate::slim::{Interner, SlimPod};
use crate::store::dependents::Dependent;

impl Dependent for DaemonPod {
    fn uid(&self) -> Uid {
        self.uid
    }

    fn rv(&self) -> u64 {
        self.rv
    }

    fn set_rv(&mut self, rv: u64) {
        self.rv = rv;
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn is_deleting(&self) -> bool {
        self.deletion.is_some()
    }
}

impl SlimPod {
    /// The row as of a DaemonSet's pod, which follows `before`. Labels hardly ever change, and are not looked up then.
    pub fn daemon_row(
        &self,
        before: Option<&DaemonPod>,
        strings: &mut Interner,
    ) -> Option<DaemonPod> {
        let meta = &self.metadata;
        let bound = self.node();
        let node = bound.or_else(|| self.wanted_node());
        let same_node = before.and_then(|before| before.node.clone());
        let same_node = same_node.filter(|before| Some(&**before) == node);
        let node: Option<Arc<str>> = same_node.or_else(|| node.map(|node| strings.share(node)));
        let labels = match before {
            Some(before) if self.has_labels(&before.labels) => before.labels.clone(),
            _ => strings.pod_labels(meta.labels.as_ref()),
        };
        let finalizers = meta.finalizers.iter().flatten();
        let told = meta.annotations.as_ref();
        let told = told.and_then(|all| all.lifecycle_timestamp.as_deref());
        Some(DaemonPod {
            uid: meta.uid()?,
            rv: meta.rv(),
            phase: self.phase(),
            deletion: self.deletion().map(Deletion::asked),
            node,
            bound: bound.is_some(),
            ready: self.ready(),
            created: meta.creation_timestamp.unwrap_or_default(),
            labels,
            told: told.and_then(|told| told.parse().ok()),
            finalizers: finalizers.map(|name| strings.share(name)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use carillon_plan::pod::PodPhase;
    use serde_json::{Value, json};

    use super::*;

    fn row(more: &Value) -> DaemonPod {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "ops", "resourceVersion": "7",
            "uid": "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00", "labels": {"app": "x"}}});
        for (key, value) in more.as_object().unwrap() {
            pod[key] = value.clone();
        }
        let pod: SlimPod = serde_json::from_value(pod).unwrap();
        pod.daemon_row(None, &mut Interner::default()).unwrap()
    }

    #[test]
    fn a_pod_is_for_the_node_that_it_is_bound_to_or_that_its_affinity_names_alone() {
        let affinity = |terms: Value| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
        };
        let named = |values: Value| json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": values}]}]);
        let mut bound = affinity(named(json!(["n1"])));
        bound["nodeName"] = json!("n2");
        for (spec, node, is_bound) in [
            (bound, Some("n2"), true),
            (affinity(named(json!(["n1"]))), Some("n1"), false),
            (affinity(named(json!(["n1", "n2"]))), None, false),
            (affinity(json!([{"matchExpressions": []}])), None, false),
            (json!({}), None, false),
        ] {
            let row = row(&json!({"spec": spec}));
            assert_eq!((row.node.as_deref(), row.bound), (node, is_bound), "{spec}");
        }
    }

    #[test]
    fn what_holds_a_pod_is_kept_and_since_when_it_was_told_that_it_goes() {
        let since = "2026-01-01T00:00:09Z";
        let metadata = json!({"uid": "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00",
            "annotations": {"lifecycle.apps.kruise.io/timestamp": since},
            "finalizers": ["example.com/drain"]});
        let row = row(&json!({"metadata": metadata}));
        assert_eq!(row.told, since.parse().ok());
        assert_eq!(row.finalizers, ["example.com/drain".into()].into());
    }

    #[test]
    fn a_pod_is_ready_since_its_condition_says_so() {
        let status = |ready: &str| {
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready,
                "lastTransitionTime": "2026-01-01T00:00:09Z"}]})
        };
        let row = |ready| row(&json!({"status": status(ready)}));
        let since = "2026-01-01T00:00:09Z".parse().unwrap();
        assert_eq!((row("True").ready, row("False").ready), (Some(since), None));
        assert_eq!(row("True").phase, PodPhase::Running);
    }
}
