//! What is looked at: a DaemonSet's pods, and a BroadcastJob's results, on all nodes. They change as an operator and
//! kubelets would change them, but are written into etcd: on one machine the API server's own work for so many writes
//! would be measured.

use std::collections::BTreeSet;
use std::thread;

use anyhow::{Context, Result, anyhow};
use carillon_api::node_result_slice::MAX_RESULTS_PER_SLICE;
use carillon_testbed::{Cluster, Put};
use serde_json::{Value, json};

pub(super) const NAMESPACE: &str = "bench";
const NAME: &str = "agent";
/// How many pods of the job run at once.
const PARALLELISM: usize = 1000;
/// So many changes are written at once, side by side.
const AT_ONCE: usize = 320;
const WRITERS: usize = 16;
/// Nodes that have been changed are far apart: a prime that divides no number of nodes.
const STRIDE: usize = 7919;
const TIME: &str = "2026-01-01T00:00:00Z";

/// Something that changes on many nodes.
pub(super) trait Scene {
    /// Kind of the object.
    fn kind(&self) -> &'static str;
    /// Its page.
    fn address(&self) -> String;
    /// Changes what is on so many nodes, or on those that are left.
    fn change(&mut self, cluster: &Cluster, count: usize) -> Result<usize>;
    /// Writes the status of the object, as an operator does now and then.
    fn tell(&self, cluster: &Cluster) -> Result<()>;
    /// How many squares have each colour now.
    fn counts(&self) -> Value;
}

/// A node that exists.
#[derive(Clone, Debug)]
pub(super) struct Node {
    name: String,
    uid: String,
}

/// Registers nodes that nobody plays a kubelet for.
pub(super) fn nodes(cluster: &Cluster, count: usize) -> Result<Vec<Node>> {
    cluster.register_nodes(count, &[], &[])?;
    let names = "-o=jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{\"\\n\"}{end}";
    let listed = cluster.kubectl_ok(["get", "nodes", names])?;
    let node = |line: &str| {
        let (name, uid) = line.split_once(' ')?;
        Some(Node {
            name: name.to_owned(),
            uid: uid.to_owned(),
        })
    };
    Ok(listed.lines().filter_map(node).collect())
}

fn created(cluster: &Cluster, object: &Value) -> Result<Value> {
    let stored = cluster.kubectl_stdin(
        ["create", "-n", NAMESPACE, "-o", "json", "-f", "-"],
        &object.to_string(),
    )?;
    let mut stored: Value = serde_json::from_str(&stored)?;
    let meta = stored["metadata"].as_object_mut().context("no metadata")?;
    meta.remove("managedFields");
    // The API server knows it from etcd's revision.
    meta.remove("resourceVersion");
    Ok(stored)
}

fn put_all(cluster: &Cluster, puts: &[&Put]) -> Result<()> {
    thread::scope(|scope| {
        let share = puts.len().div_ceil(WRITERS).max(1);
        let writers: Vec<_> = puts
            .chunks(share)
            .map(|puts| scope.spawn(|| puts.iter().try_for_each(|put| cluster.put_stored(put))))
            .collect();
        writers.into_iter().try_for_each(|writer| {
            let written = writer.join();
            written.map_err(|_| anyhow!("writing panicked"))?
        })
    })
}

fn owner(object: &Value) -> Value {
    json!([{"apiVersion": object["apiVersion"], "kind": object["kind"], "name": NAME,
        "uid": object["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}])
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": NAME}},
        "spec": {
            // Nobody takes the taint from nodes whose kubelets never report.
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "agent", "image": "registry.example/agent:2.4"}],
        },
    })
}

fn uid(kind: u32, number: usize) -> String {
    format!("4e0c5d6a-0b1c-4d2e-{kind:04x}-{number:012x}")
}

/// A DaemonSet whose pods become ready and unready.
pub(super) struct Pods {
    set: Value,
    /// Of each node the pod that is not ready, and the one that is.
    puts: Vec<[Put; 2]>,
    ready: Vec<bool>,
    next: usize,
}

impl Pods {
    pub(super) fn create(cluster: &Cluster, nodes: &[Node]) -> Result<Self> {
        let set = created(
            cluster,
            &json!({
                "apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet", "metadata": {"name": NAME},
                "spec": {"selector": {"matchLabels": {"app": NAME}}, "template": template()},
            }),
        )?;
        let mut data = set["spec"]["template"].clone();
        data["$patch"] = "replace".into();
        let labels = json!({"app": NAME, "controller-revision-hash": "now"});
        created(
            cluster,
            &json!({
                "apiVersion": "apps/v1", "kind": "ControllerRevision",
                "metadata": {"name": "agent-now", "labels": labels, "ownerReferences": owner(&set)},
                "revision": 1, "data": {"spec": {"template": data}},
            }),
        )?;
        let put = |(number, node): (usize, &Node)| {
            [false, true].map(|ready| {
                let pod = pod(number, &node.name, ready, &owner(&set));
                Put::new(&format!("pods/{NAMESPACE}/{NAME}-{number:05}"), &pod)
            })
        };
        let puts: Vec<[Put; 2]> = nodes.iter().enumerate().map(put).collect();
        let unready: Vec<&Put> = puts.iter().map(|[unready, _]| unready).collect();
        put_all(cluster, &unready)?;
        let pods = Self {
            set,
            ready: vec![false; puts.len()],
            puts,
            next: 0,
        };
        pods.tell(cluster)?;
        Ok(pods)
    }
}

impl Scene for Pods {
    fn kind(&self) -> &'static str {
        "DaemonSet"
    }

    fn address(&self) -> String {
        format!("#/daemonsets.carillon.dev/{NAMESPACE}/{NAME}")
    }

    fn change(&mut self, cluster: &Cluster, count: usize) -> Result<usize> {
        let count = count.min(AT_ONCE);
        let mut puts = Vec::new();
        for _ in 0..count {
            let at = self.next * STRIDE % self.puts.len();
            self.next += 1;
            self.ready[at] = !self.ready[at];
            puts.push(&self.puts[at][usize::from(self.ready[at])]);
        }
        put_all(cluster, &puts)?;
        Ok(count)
    }

    fn tell(&self, cluster: &Cluster) -> Result<()> {
        let mut set = self.set.clone();
        let (all, ready) = (
            self.ready.len(),
            self.ready.iter().filter(|is| **is).count(),
        );
        set["status"] = json!({
            "observedGeneration": 1, "desiredNumberScheduled": all, "currentNumberScheduled": all,
            "updatedNumberScheduled": all, "numberReady": ready, "numberAvailable": ready,
            "numberMisscheduled": 0, "updateRevision": "now",
        });
        let key = format!("carillon.dev/daemonsets/{NAMESPACE}/{NAME}");
        cluster.put_stored(&Put::new(&key, &set))
    }

    fn counts(&self) -> Value {
        let ready = self.ready.iter().filter(|is| **is).count();
        json!({"done": ready, "active": self.ready.len() - ready, "failed": 0, "waiting": 0, "leftOut": 0})
    }
}

/// As a kubelet reports it.
fn pod(number: usize, node: &str, ready: bool, owner: &Value) -> Value {
    let condition = |kind: &str, is: bool| json!({"type": kind, "status": if is { "True" } else { "False" }, "lastProbeTime": null, "lastTransitionTime": TIME});
    let conditions = [
        ("PodReadyToStartContainers", true),
        ("Initialized", true),
        ("Ready", ready),
        ("ContainersReady", ready),
        ("PodScheduled", true),
    ];
    let mut spec = template()["spec"].take();
    spec["nodeName"] = node.into();
    spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}});
    let fixed = json!({
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default", "securityContext": {}, "schedulerName": "default-scheduler",
        "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
    });
    for (key, value) in fixed.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{NAME}-{number:05}"), "namespace": NAMESPACE, "uid": uid(0x8f3b, number),
            "creationTimestamp": TIME, "ownerReferences": owner,
            "labels": {"app": NAME, "controller-revision-hash": "now", "pod-template-generation": "1"},
        },
        "spec": spec,
        "status": {
            "phase": "Running", "qosClass": "BestEffort", "startTime": TIME,
            "conditions": conditions.map(|(kind, is)| condition(kind, is)),
            "hostIP": "10.128.0.1", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
            "containerStatuses": [{
                "name": "agent", "image": "registry.example/agent:2.4", "ready": ready, "started": true,
                "imageID": format!("registry.example/agent@sha256:{:064x}", 7), "restartCount": 0,
                "containerID": format!("containerd://{number:064x}"),
                "lastState": {}, "state": {"running": {"startedAt": TIME}},
            }],
        },
    })
}

/// A BroadcastJob that starts and ends on node after node. One node in ten fails.
pub(super) struct Results {
    job: Value,
    nodes: Vec<Node>,
    slices: Vec<Vec<Value>>,
    started: usize,
    ended: usize,
    failed: usize,
}

impl Results {
    pub(super) fn create(cluster: &Cluster, nodes: &[Node]) -> Result<Self> {
        let job = created(
            cluster,
            &json!({
                "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob", "metadata": {"name": NAME},
                "spec": {"parallelism": PARALLELISM, "failurePolicy": {"type": "Continue"}, "template": {
                    "spec": {
                        "restartPolicy": "Never", "tolerations": [{"operator": "Exists"}],
                        "containers": [{"name": "main", "image": "registry.example/fix:1.0"}],
                    },
                }},
            }),
        )?;
        let mut results = Self {
            job,
            nodes: nodes.to_vec(),
            slices: vec![Vec::new(); nodes.len().div_ceil(MAX_RESULTS_PER_SLICE)],
            started: 0,
            ended: 0,
            failed: 0,
        };
        let first = PARALLELISM.min(nodes.len() / 2);
        let touched: BTreeSet<usize> = (0..first).map(|_| results.start()).collect();
        results.put(cluster, touched)?;
        results.tell(cluster)?;
        Ok(results)
    }

    /// The number of the slice that has changed.
    fn start(&mut self) -> usize {
        let at = self.started;
        self.started += 1;
        let slice = at / MAX_RESULTS_PER_SLICE;
        let Node { name, uid: node } = &self.nodes[at];
        self.slices[slice].push(json!({
            "nodeName": name, "nodeUID": node, "attempt": 1, "state": "Started",
            "podName": format!("{NAME}-{name}-1"), "podUID": uid(0x8f3d, at), "startTime": TIME,
        }));
        slice
    }

    fn end(&mut self) -> usize {
        let at = self.ended;
        self.ended += 1;
        let slice = at / MAX_RESULTS_PER_SLICE;
        let result = &mut self.slices[slice][at % MAX_RESULTS_PER_SLICE];
        result["completionTime"] = TIME.into();
        if at.is_multiple_of(10) {
            self.failed += 1;
            let message = if at.is_multiple_of(70) {
                format!("panic in worker {at}")
            } else {
                "no space left on device".to_owned()
            };
            let failed = json!({"state": "Failed", "reason": "NonZeroExitCode", "exitCode": 3, "message": message});
            for (key, value) in failed.as_object().into_iter().flatten() {
                result[key] = value.clone();
            }
        } else {
            result["state"] = "Succeeded".into();
            result["exitCode"] = 0.into();
        }
        slice
    }

    fn put(&self, cluster: &Cluster, touched: BTreeSet<usize>) -> Result<()> {
        let uid_of_job = &self.job["metadata"]["uid"];
        let puts = touched.into_iter().map(|number| {
            let name = format!("{NAME}-{number:03}");
            let slice = json!({
                "apiVersion": "carillon.dev/v1alpha1", "kind": "NodeResultSlice",
                "metadata": {
                    "name": name, "namespace": NAMESPACE, "uid": uid(0x8f3e, number), "generation": 1,
                    "creationTimestamp": TIME, "ownerReferences": owner(&self.job),
                    "labels": {
                        "carillon.dev/broadcastjob-uid": uid_of_job, "carillon.dev/broadcastjob-name": NAME,
                        "carillon.dev/slice-index": number.to_string(),
                    },
                },
                "sealed": false, "results": self.slices[number],
            });
            Put::new(&format!("carillon.dev/noderesultslices/{NAMESPACE}/{name}"), &slice)
        });
        let puts: Vec<Put> = puts.collect();
        put_all(cluster, &puts.iter().collect::<Vec<_>>())
    }
}

impl Scene for Results {
    fn kind(&self) -> &'static str {
        "BroadcastJob"
    }

    fn address(&self) -> String {
        format!("#/broadcastjobs.carillon.dev/{NAMESPACE}/{NAME}")
    }

    fn change(&mut self, cluster: &Cluster, count: usize) -> Result<usize> {
        let mut touched = BTreeSet::new();
        let mut changed = 0;
        while changed < count {
            if self.started < self.nodes.len() && self.started - self.ended < PARALLELISM {
                touched.insert(self.start());
            } else if self.ended < self.started {
                touched.insert(self.end());
            } else {
                break;
            }
            changed += 1;
        }
        self.put(cluster, touched)?;
        Ok(changed)
    }

    fn tell(&self, cluster: &Cluster) -> Result<()> {
        let mut job = self.job.clone();
        job["status"] = json!({
            "observedGeneration": 1, "desired": self.nodes.len(), "active": self.started - self.ended,
            "succeeded": self.ended - self.failed, "failed": self.failed, "startTime": TIME,
            "conditions": [{"type": "Reconciling", "status": "True", "reason": "Running", "message": "",
                "observedGeneration": 1, "lastTransitionTime": TIME}],
        });
        let key = format!("carillon.dev/broadcastjobs/{NAMESPACE}/{NAME}");
        cluster.put_stored(&Put::new(&key, &job))
    }

    fn counts(&self) -> Value {
        json!({
            "done": self.ended - self.failed, "active": self.started - self.ended, "failed": self.failed,
            "waiting": self.nodes.len() - self.started, "leftOut": 0,
        })
    }
}
