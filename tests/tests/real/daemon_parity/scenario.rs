//! A scenario: a DaemonSet, its nodes, and what happens to both.

use carillon_testbed::Fate;
use http::Method;
use serde_json::{Value, json};

use crate::parity::merge;
use crate::parity::stage::PodDeed;
use crate::parity::watched::Here;

/// What the namespace of a scenario has to show.
pub(crate) type Condition = fn(&Here) -> bool;

/// A DaemonSet `d` in a namespace of its own, on nodes of its own.
///
/// Texts in objects and paths: `$NS` is the namespace, `$NS-0` the first node, `$UID` the uid of the
/// DaemonSet, `$HASH-1` the hash of the first revision that was made.
#[derive(Clone)]
pub(crate) struct Scenario {
    /// Its name, with which that of its namespace begins.
    pub(crate) name: &'static str,
    /// What is changed of each of its nodes.
    pub(crate) nodes: Vec<Value>,
    /// The DaemonSet.
    pub(crate) set: Value,
    /// What is there before: plural path below the namespace, object.
    pub(crate) before: Vec<(&'static str, Value)>,
    /// What the creation of the DaemonSet comes to.
    pub(crate) created: Condition,
    /// What is done then.
    pub(crate) steps: Vec<Step>,
    /// Which of its nodes comes first is chance: nodes are counted, and not compared one by one.
    pub(crate) any_node: bool,
    /// How often something is tried is chance: events are compared, and not how many there are.
    pub(crate) any_count: bool,
}

/// Something is done, and comes to something.
#[derive(Clone)]
pub(crate) struct Step {
    /// What is done.
    pub(crate) deed: Deed,
    /// What it comes to, provided that nothing happens any more.
    pub(crate) until: Condition,
}

/// What a user, a node or a kubelet does.
#[derive(Clone)]
pub(crate) enum Deed {
    /// Fields of the DaemonSet are changed, by a merge patch.
    Set(Value),
    /// A field of the stored DaemonSet is replaced past the API server, which would refuse that.
    Store(&'static str, Value),
    /// The DaemonSet is deleted, with this propagation policy.
    Delete(&'static str),
    /// Something is done to pods.
    Pods(Whose, PodDeed),
    /// Fields of a node are changed, by a merge patch.
    Node(usize, Value),
    /// A node joins, with these changes to it.
    Join(usize, Value),
    /// A node is deleted.
    Leave(usize),
    /// The kubelet of a node stops.
    StopKubelet(usize),
    /// The kubelet of a node says that the node is not ready, or is again.
    NodeReady(usize, bool),
    /// A request, its path below the namespace.
    Request(Method, &'static str, Value),
    /// kubectl, in the namespace.
    Kubectl(&'static [&'static str]),
}

/// Which pods.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose {
    /// The oldest one on this node that nobody has deleted.
    On(usize),
    /// All of the namespace that nobody has deleted.
    All,
    /// All of the namespace that somebody has deleted.
    Leaving,
    /// The one with this name.
    Named(&'static str),
}

/// The spec of the DaemonSet is changed, by a merge patch.
pub(crate) fn spec(change: &Value) -> Deed {
    Deed::Set(json!({"spec": change}))
}

/// The template of the DaemonSet gets this image.
pub(crate) fn to(image: &str) -> Deed {
    spec(&template(
        json!({"containers": [{"name": "main", "image": image}]}),
    ))
}

/// DaemonSets.
pub(crate) const SETS: &str = "apis/apps/v1/daemonsets";
/// Pods.
pub(crate) const PODS: &str = "api/v1/pods";
/// ControllerRevisions.
pub(crate) const REVISIONS: &str = "apis/apps/v1/controllerrevisions";
/// Resource quotas.
pub(crate) const QUOTAS: &str = "api/v1/resourcequotas";
/// The label that the nodes of a scenario have.
pub(crate) const SCENARIO: &str = "scenario";

/// A change of a spec: fields of the spec of the pods.
pub(crate) fn template(change: impl Into<Value>) -> Value {
    json!({"template": {"spec": change.into()}})
}

/// A change of a spec: what becomes of the pods.
pub(crate) fn fate(fate: &Fate) -> Value {
    annotated(fate.annotations())
}

/// The template of the DaemonSet becomes one whose pods never start.
pub(crate) fn to_broken() -> Deed {
    spec(&fate(&Fate::never_starts("ImagePullBackOff")))
}

/// It becomes what it was before that.
pub(crate) fn to_whole() -> Deed {
    spec(&json!({"template": {"metadata": {"annotations": null}}}))
}

/// A change of a spec: so many nodes may be without an available pod.
pub(crate) fn unavailable(most: impl Into<Value>) -> Value {
    json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": most.into()}}})
}

/// A change of a spec: so many nodes may have a second pod.
pub(crate) fn surge(most: impl Into<Value>) -> Value {
    json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": most.into()}}})
}

/// A change of a spec: pods are replaced when they are deleted.
pub(crate) fn on_delete() -> Value {
    json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}})
}

/// A change of a spec: annotations of the pods.
pub(crate) fn annotated(annotations: impl Into<Value>) -> Value {
    json!({"template": {"metadata": {"annotations": annotations.into()}}})
}

/// A change of a node: its taints, which replace those it has.
pub(crate) fn taints(taints: &[(&str, &str)]) -> Value {
    let taints = taints.iter();
    let taints: Vec<Value> = taints
        .map(|(key, effect)| json!({"key": key, "value": "v", "effect": effect}))
        .collect();
    json!({"spec": {"taints": taints}})
}

/// A change of an object: its labels.
pub(crate) fn labels(labels: impl Into<Value>) -> Value {
    json!({"metadata": {"labels": labels.into()}})
}

/// A pod that nothing controls, on the first node.
pub(crate) fn orphan(name: &str, labels: impl Into<Value>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels.into()},
        "spec": {"nodeName": "$NS-0", "containers": [{"name": "main", "image": "busybox:1.36"}]},
    })
}

impl Scenario {
    /// A DaemonSet on so many nodes, with changes to its spec; later ones win.
    pub(crate) fn of(name: &'static str, nodes: usize, specs: &[Value]) -> Self {
        let mut set = json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "d"},
            "spec": {
                "selector": {"matchLabels": {"app": "d"}},
                "template": {
                    "metadata": {"labels": {"app": "d"}},
                    "spec": {
                        "nodeSelector": {SCENARIO: "$NS"},
                        "containers": [{"name": "main", "image": "busybox:1.36"}],
                    },
                },
            },
        });
        for spec in specs {
            merge(&mut set["spec"], spec);
        }
        Self {
            name,
            nodes: vec![json!({}); nodes],
            set,
            before: Vec::new(),
            created: Here::is_rolled_out,
            steps: Vec::new(),
            any_node: false,
            any_count: false,
        }
    }

    /// With changes to the DaemonSet besides its spec.
    pub(crate) fn set(mut self, change: &Value) -> Self {
        merge(&mut self.set, change);
        self
    }

    /// With changes to a node.
    pub(crate) fn node(mut self, node: usize, change: &Value) -> Self {
        merge(&mut self.nodes[node], change);
        self
    }

    /// One object more, before the DaemonSet.
    pub(crate) fn before(mut self, plural: &'static str, object: Value) -> Self {
        self.before.push((plural, object));
        self
    }

    /// The creation comes to something else than a pod on each node.
    pub(crate) fn created(mut self, condition: Condition) -> Self {
        self.created = condition;
        self
    }

    /// One deed more, after which each node has an available pod of the template.
    pub(crate) fn then(self, deed: Deed) -> Self {
        self.then_until(deed, Here::is_rolled_out)
    }

    /// One deed more.
    pub(crate) fn then_until(mut self, deed: Deed, until: Condition) -> Self {
        self.steps.push(Step { deed, until });
        self
    }

    /// One deed more, of which kube-controller-manager takes no notice until something else happens.
    pub(crate) fn then_noticed(self, deed: Deed, until: Condition) -> Self {
        self.then_until(deed, |_| true).then_something_else(until)
    }

    /// Something happens that changes nothing, and the DaemonSet is looked at.
    pub(crate) fn then_something_else(self, until: Condition) -> Self {
        let something = json!({"metadata": {"annotations": {"something": format!("else {}", self.steps.len())}}});
        self.then_until(Deed::Set(something), until)
    }

    /// Nodes are counted.
    pub(crate) fn any_node(mut self) -> Self {
        self.any_node = true;
        self
    }

    /// Events are not counted.
    pub(crate) fn any_count(mut self) -> Self {
        self.any_count = true;
        self
    }
}
