//! A cluster with a running operator, and what tests ask of it.

use std::sync::OnceLock;
use std::time::Duration;

use carillon_testbed::carillon::apply_crds;
use carillon_testbed::{Audit, AuditEvent, Cluster, Config, Operator, Options, wait};
use serde_json::{Value, json};

/// How long anything may take here. Nothing waits this long unless it is broken.
pub const LIMIT: Duration = Duration::from_mins(2);
const EVERY: Duration = Duration::from_millis(100);

/// A cluster with an operator that all tests of behaviour use side by side; each brings nodes of
/// its own, so that none disturbs another.
pub struct Lab {
    /// The cluster.
    pub cluster: Cluster,
    /// Its operator.
    pub operator: Operator,
}

/// The lab of this test binary.
pub fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(|| {
        let cluster = cluster("lab", 0);
        let operator = Operator::start(&cluster, &Options::new("operator")).expect("an operator");
        Lab { cluster, operator }
    })
}

/// A cluster with our CRDs and this many nodes.
pub fn cluster(name: &str, nodes: usize) -> Cluster {
    let cluster = Cluster::start(Config::new(name).with_nodes(nodes)).expect("a cluster");
    apply_crds(&cluster).expect("our CRDs");
    cluster
}

/// The same, of which every request and its answer is recorded: its history can be judged.
pub fn judged_cluster(name: &str, nodes: usize) -> Cluster {
    judged(Config::new(name).with_nodes(nodes))
}

/// The same of any other form.
pub fn judged(mut config: Config) -> Cluster {
    config.audit = Audit::Responses;
    let cluster = Cluster::start(config).expect("a cluster");
    apply_crds(&cluster).expect("our CRDs");
    cluster
}

/// One test's part of a cluster: a namespace and nodes labelled with its name.
pub struct Bench<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Name of namespace and label value.
    pub name: &'static str,
    /// The nodes, in order.
    pub nodes: Vec<String>,
    /// Labels that only these nodes have; none if they are all there are.
    pub node_selector: Value,
}

/// All nodes of a cluster of one's own, and a namespace in it.
pub fn bench<'a>(cluster: &'a Cluster, name: &'static str) -> Bench<'a> {
    cluster
        .kubectl_ok(["label", "nodes", "--all", &format!("bench={name}")])
        .expect("labels");
    cluster
        .kubectl_ok(["create", "namespace", name])
        .expect("a namespace");
    let nodes = cluster
        .kubectl_ok(["get", "nodes", "-o", "name"])
        .expect("nodes");
    let nodes = nodes
        .lines()
        .map(|line| line.trim_start_matches("node/").to_owned())
        .collect();
    Bench {
        cluster,
        name,
        nodes,
        node_selector: json!({"bench": name}),
    }
}

impl Lab {
    /// A namespace `name` with `nodes` nodes of its own.
    pub fn bench(&'static self, name: &'static str, nodes: usize) -> Bench<'static> {
        let nodes = self
            .cluster
            .add_nodes(nodes, &[("bench", name)], &[])
            .expect("nodes");
        self.cluster
            .kubectl_ok(["create", "namespace", name])
            .expect("a namespace");
        Bench {
            cluster: &self.cluster,
            name,
            nodes,
            node_selector: json!({"bench": name}),
        }
    }
}

impl Bench<'_> {
    /// A BroadcastJob for these nodes; `fates` (see the test bed) says what becomes of its pods.
    pub fn job(&self, job: &str, fates: &Value, more: &Value) -> Value {
        let mut object = json!({
            "apiVersion": "carillon.dev/v1alpha1",
            "kind": "BroadcastJob",
            "metadata": {"name": job, "namespace": self.name},
            "spec": {"template": {
                "metadata": {"annotations": {"testbed.carillon.dev/fates": fates.to_string()}},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": self.node_selector,
                    "containers": [{"name": "main", "image": "busybox:1.37"}],
                },
            }},
        });
        merge(&mut object["spec"], more);
        object
    }

    /// Applies an object.
    #[track_caller]
    pub fn apply(&self, object: &Value) {
        let applied = self
            .cluster
            .kubectl_stdin(["apply", "-f", "-"], &object.to_string());
        applied.expect("kubectl apply");
    }

    /// Runs kubectl in the namespace.
    #[track_caller]
    pub fn kubectl(&self, args: &[&str]) -> String {
        let namespace = ["-n", self.name];
        self.cluster
            .kubectl_ok(namespace.iter().chain(args))
            .expect("kubectl")
    }

    /// Names of the pods that were created for a job, from the API server's own record.
    #[track_caller]
    pub fn creations(&self, job: &str) -> Vec<String> {
        self.requests()
            .into_iter()
            .filter(|e| e.resource == "pods" && e.subresource.is_empty() && e.verb == "create")
            .filter(|e| e.is_stored_write() && e.name.starts_with(job))
            .map(|event| event.name)
            .collect()
    }

    /// What the API server was asked in the namespace, from its audit log.
    #[track_caller]
    pub fn requests(&self) -> Vec<AuditEvent> {
        let events = self.cluster.audit_events().expect("an audit log");
        events
            .into_iter()
            .filter(|event| event.namespace == self.name)
            .collect()
    }

    /// Merges a JSON patch into a job's spec or metadata.
    #[track_caller]
    pub fn patch(&self, job: &str, patch: &Value) {
        self.kubectl(&[
            "patch",
            "cbj",
            job,
            "--type=merge",
            "-p",
            &patch.to_string(),
        ]);
    }

    /// A job as it is stored now.
    #[track_caller]
    pub fn get(&self, job: &str) -> Value {
        let text = self.kubectl(&["get", "cbj", job, "-o", "json"]);
        serde_json::from_str(&text).expect("JSON")
    }

    /// Pods of a job.
    #[track_caller]
    pub fn pods(&self, job: &str) -> Vec<Value> {
        self.list("pods", job)
    }

    /// All per-node results of a job, in the order they were reserved.
    #[track_caller]
    pub fn results(&self, job: &str) -> Vec<Value> {
        let mut slices = self.list("noderesultslices", job);
        let index = |slice: &Value| -> u32 {
            let index = slice["metadata"]["labels"]["carillon.dev/slice-index"].as_str();
            index
                .and_then(|index| index.parse().ok())
                .expect("an index")
        };
        slices.sort_by_key(index);
        let results = |slice: Value| slice["results"].as_array().cloned().unwrap_or_default();
        slices.into_iter().flat_map(results).collect()
    }

    /// (attempt, state, reason) of each attempt on a node.
    #[track_caller]
    pub fn attempts(&self, job: &str, node: &str) -> Vec<(i64, String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.results(job)
            .iter()
            .filter(|result| result["nodeName"] == node)
            .map(|r| {
                (
                    r["attempt"].as_i64().unwrap_or(0),
                    text(&r["state"]),
                    text(&r["reason"]),
                )
            })
            .collect()
    }

    #[track_caller]
    fn list(&self, kind: &str, job: &str) -> Vec<Value> {
        let selector = format!("carillon.dev/broadcastjob-name={job}");
        let text = self.kubectl(&["get", kind, "-l", &selector, "-o", "json"]);
        let list: Value = serde_json::from_str(&text).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until `condition` of the job is True and gives the job.
    #[track_caller]
    pub fn wait(&self, job: &str, condition: &str) -> Value {
        self.until(&format!("{job} is {condition}"), || {
            let object = self.get(job);
            is(&object, condition).then_some(object)
        })
    }

    /// Waits until `probe` gives something.
    #[track_caller]
    pub fn until<T>(&self, what: &str, probe: impl FnMut() -> Option<T>) -> T {
        self.until_within(LIMIT, what, probe)
    }

    /// The same of what may take longer.
    #[track_caller]
    pub fn until_within<T>(
        &self,
        limit: Duration,
        what: &str,
        mut probe: impl FnMut() -> Option<T>,
    ) -> T {
        let found = wait::until(
            what,
            limit,
            EVERY,
            || Ok(probe()),
            || self.kubectl(&["get", "cbj,nrs,pods", "-o", "wide"]),
        );
        match found {
            Ok(found) => found,
            Err(error) => panic!("{error:#}"),
        }
    }

    /// Waits until the pod of a job on a node is in `phase`, and gives its name.
    #[track_caller]
    pub fn wait_pod(&self, job: &str, node: &str, phase: &str) -> String {
        self.until(&format!("a pod of {job} on {node} is {phase}"), || {
            self.pods(job)
                .iter()
                .find(|pod| pod["spec"]["nodeName"] == node && pod["status"]["phase"] == phase)
                .and_then(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned()))
        })
    }
}

/// Whether an operator leads.
pub fn leads(operator: &Operator) -> bool {
    operator
        .metric("leader_election_master_status{name=\"carillon\"}")
        .is_ok_and(|value| value > 0.0)
}

/// Whether a condition of an object is True.
pub fn is(object: &Value, condition: &str) -> bool {
    condition_of(object, condition).is_some_and(|condition| condition["status"] == "True")
}

/// A condition of an object.
pub fn condition_of<'a>(object: &'a Value, condition: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|c| c["type"] == condition)
}

/// Merges objects key by key; other values replace.
pub fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
