//! Small histories of a DaemonSet, told step by step, for tests of the invariants.

use serde_json::{Value, json};

use super::world::{ALWAYS, OURS, REVISIONS};
use crate::object::{NODES, PODS};
use crate::scene::Scene;

/// Uid of the DaemonSet of every scene.
const AGENT_UID: &str = "agent-uid";
/// Its name.
const AGENT: &str = "agent";

fn pod_name(node: &str, nth: i64) -> String {
    format!("agent-{node}-{nth}")
}

impl Scene {
    /// Three nodes, and the DaemonSet `agent` with these fields besides its template, of image 1.
    #[allow(clippy::needless_pass_by_value)] // reads better with json!
    pub(crate) fn agent(fields: Value) -> Self {
        let mut spec = json!({
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "c", "image": "agent:1"}]},
            },
        });
        for (key, value) in fields.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let set = json!({
            "apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet", "spec": spec, "status": {},
            "metadata": {"name": AGENT, "namespace": "ops", "uid": AGENT_UID, "generation": 1},
        });
        let nodes = Self::new().node("n1").node("n2").node("n3");
        nodes.step("kubectl", "create", (OURS, AGENT), Some(set), None)
    }

    /// A user changes the DaemonSet.
    pub(crate) fn edit_agent(self, change: impl FnOnce(&mut Value)) -> Self {
        self.edit("kubectl", (OURS, AGENT), |set| {
            change(set);
            let generation = set["metadata"]["generation"].as_i64().unwrap_or(0);
            set["metadata"]["generation"] = json!(generation + 1);
        })
    }

    /// A user gives the template another image.
    pub(crate) fn image(self, image: i64) -> Self {
        self.edit_agent(|set| {
            set["spec"]["template"]["spec"]["containers"][0]["image"] =
                json!(format!("agent:{image}"));
        })
    }

    /// We store the revision of an image, with a number; its hash is `h` and the image.
    pub(crate) fn revision(self, image: i64, number: i64) -> Self {
        self.revision_named(&format!("h{image}"), image, number)
    }

    /// The same with another hash.
    pub(crate) fn revision_named(self, hash: &str, image: i64, number: i64) -> Self {
        let mut template = self.object(OURS, AGENT)["spec"]["template"].clone();
        template["spec"]["containers"][0]["image"] = json!(format!("agent:{image}"));
        template["$patch"] = json!("replace");
        let mut revision = json!({"metadata": self.of_agent(hash, hash), "revision": number,
            "data": {"spec": {"template": template}}});
        revision["metadata"]["labels"]["app"] = json!("agent");
        self.step(
            "carillon",
            "create",
            (REVISIONS, hash),
            Some(revision),
            None,
        )
    }

    fn of_agent(&self, name: &str, hash: &str) -> Value {
        json!({
            "name": name, "namespace": "ops", "uid": format!("uid-{name}"),
            "creationTimestamp": self.now().to_string(),
            "labels": {"app": "agent", "controller-revision-hash": hash},
            "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet",
                "name": AGENT, "uid": AGENT_UID, "controller": true}],
        })
    }

    /// The n-th pod for a node, of the present template, as the operator creates it.
    pub(crate) fn agent_pod(&self, node: &str, nth: i64) -> Value {
        let set = self.object(OURS, AGENT);
        let mut spec = set["spec"]["template"]["spec"].clone();
        let image = spec["containers"][0]["image"].as_str().unwrap_or_default();
        let hash = image.replace("agent:", "h");
        spec["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}});
        let tolerations =
            ALWAYS.map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}));
        spec["tolerations"] = json!(tolerations);
        json!({"metadata": self.of_agent(&pod_name(node, nth), &hash), "spec": spec,
            "status": {"phase": "Pending"}})
    }

    pub(crate) fn make_agent_pod(self, pod: Value) -> Self {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        self.step("carillon", "create", (PODS, &name), Some(pod), None)
    }

    /// The n-th pod of a node is created.
    pub(crate) fn pod_of(self, node: &str, nth: i64) -> Self {
        let pod = self.agent_pod(node, nth);
        self.make_agent_pod(pod)
    }

    /// It runs there and is ready.
    pub(crate) fn runs_on(self, node: &str, nth: i64) -> Self {
        let now = self.now().to_string();
        self.edit("kubelet", (PODS, &pod_name(node, nth)), |pod| {
            pod["spec"]["nodeName"] = json!(node);
            pod["status"] = json!({"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": now}]});
        })
    }

    /// A pod with a hook runs on each of three nodes, for long.
    pub(crate) fn hooked(rolling: &Value) -> Self {
        let hook = json!({"preDelete": {"labelsHandler": {"hold": "yes"},
            "finalizersHandler": ["example.com/drain"]}});
        let strategy = json!({"rollingUpdate": rolling});
        let mut scene = Self::agents(json!({"lifecycle": hook, "updateStrategy": strategy}));
        for node in ["n1", "n2", "n3"] {
            scene = scene.edit("kubectl", (PODS, &pod_name(node, 1)), |pod| {
                pod["metadata"]["labels"]["hold"] = json!("yes");
            });
        }
        scene
    }

    /// Somebody tells it that it goes.
    pub(crate) fn told_on(self, agent: &str, node: &str, nth: i64) -> Self {
        let since = self.now().to_string();
        self.tell(
            agent,
            &pod_name(node, nth),
            (json!("PreparingDelete"), json!(since)),
        )
    }

    /// We tell it that it stays.
    pub(crate) fn kept_on(self, node: &str, nth: i64) -> Self {
        self.tell("carillon", &pod_name(node, nth), (Value::Null, Value::Null))
    }

    fn tell(self, agent: &str, pod: &str, (state, since): (Value, Value)) -> Self {
        self.edit(agent, (PODS, pod), |pod| {
            pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] = state;
            pod["metadata"]["annotations"]["lifecycle.apps.kruise.io/timestamp"] = since;
        })
    }

    /// Somebody takes the hook from it.
    pub(crate) fn let_go_of(self, node: &str, nth: i64) -> Self {
        self.edit("kubectl", (PODS, &pod_name(node, nth)), |pod| {
            pod["metadata"]["labels"]["hold"] = Value::Null;
        })
    }

    /// It fails.
    pub(crate) fn fails_on(self, node: &str, nth: i64) -> Self {
        self.edit("kubelet", (PODS, &pod_name(node, nth)), |pod| {
            pod["spec"]["nodeName"] = json!(node);
            pod["status"] = json!({"phase": "Failed"});
        })
    }

    /// Somebody deletes it, and it goes on for a while.
    pub(crate) fn stops_on(self, agent: &str, node: &str, nth: i64) -> Self {
        let name = pod_name(node, nth);
        let mut pod = self.object(PODS, &name);
        pod["metadata"]["deletionTimestamp"] = json!(self.now().to_string());
        let body = json!({"preconditions": {"uid": pod["metadata"]["uid"]}});
        self.step(agent, "delete", (PODS, &name), Some(pod), Some(body))
    }

    /// It is gone.
    pub(crate) fn gone_from(self, node: &str, nth: i64) -> Self {
        self.remove("kubelet", (PODS, &pod_name(node, nth)))
    }

    /// Somebody gives it another hash.
    pub(crate) fn relabel(self, agent: &str, node: &str, hash: &str) -> Self {
        let name = pod_name(node, 1);
        let mut pod = self.object(PODS, &name);
        pod["metadata"]["labels"]["controller-revision-hash"] = json!(hash);
        let body = json!({"metadata": {"uid": pod["metadata"]["uid"]}});
        self.step(agent, "patch", (PODS, &name), Some(pod), Some(body))
    }

    /// A node gets a taint.
    pub(crate) fn taint(self, node: &str, effect: &str) -> Self {
        self.edit("kubectl", (NODES, node), |node| {
            node["spec"]["taints"] = json!([{"key": "role", "effect": effect}]);
        })
    }

    /// A pod runs on each of three nodes, for long.
    pub(crate) fn agents(fields: Value) -> Self {
        let mut scene = Self::agent(fields).revision(1, 1);
        for node in ["n1", "n2", "n3"] {
            scene = scene.pod_of(node, 1).runs_on(node, 1);
        }
        scene.later(60)
    }
}
