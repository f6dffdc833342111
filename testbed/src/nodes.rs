//! Nodes: add them, make them NotReady.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::thread;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Component, Config};
use crate::kwok::NOT_READY;

/// kubectl sends 300 requests before it slows down to 50 a second.
const PER_KUBECTL: usize = 250;
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// A node's taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value; may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl Cluster {
    /// Adds `count` nodes with these labels and taints, numbered on from the highest that is present
    /// or was added here (`node-0000` when there is none), and waits until they are Ready.
    /// Each has its hostname, one of three zones, and the config's capacity.
    pub fn add_nodes(
        &self,
        count: usize,
        labels: &[(&str, &str)],
        taints: &[Taint],
    ) -> Result<Vec<String>> {
        let names = self.register_nodes(count, labels, taints)?;
        self.wait_nodes_ready(&names)?;
        Ok(names)
    }

    /// The same, and does not wait until they are Ready.
    pub fn register_nodes(
        &self,
        count: usize,
        labels: &[(&str, &str)],
        taints: &[Taint],
    ) -> Result<Vec<String>> {
        let first = self.number_nodes(count)?;
        let node = |index: usize| node(index, &self.config.allocatable, labels, taints);
        let nodes: Vec<Value> = (first..first + count).map(node).collect();
        self.create_all(&nodes)?;
        Ok((first..first + count).map(node_name).collect())
    }

    /// Creates many objects, unvalidated by kubectl, with several kubectls side by side.
    pub fn create_all(&self, objects: &[Value]) -> Result<()> {
        let create = |chunk: &[Value]| {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": chunk});
            self.kubectl_stdin(["create", "--validate=false", "-f", "-"], &list.to_string())
        };
        thread::scope(|scope| {
            let running: Vec<_> = objects
                .chunks(PER_KUBECTL)
                .map(|chunk| scope.spawn(move || create(chunk)))
                .collect();
            running.into_iter().try_for_each(|thread| {
                thread
                    .join()
                    .map_err(|_| anyhow!("creating objects panicked"))?
                    .map(drop)
            })
        })
    }

    /// Makes the node's kubelet report Ready=False, or True again, and waits until it has.
    pub fn set_node_ready(&self, node: &str, ready: bool) -> Result<()> {
        let annotation = format!("{NOT_READY}{}", if ready { "-" } else { "=true" });
        self.kubectl_ok(["annotate", "--overwrite", "node", node, &annotation])?;
        let status = if ready { "True" } else { "False" };
        self.kubectl_ok([
            "wait",
            &format!("--for=condition=Ready={status}"),
            "--timeout=60s",
            &format!("node/{node}"),
        ])?;
        Ok(())
    }

    /// The first of so many numbers that are not given again: a node that is gone may be on its way back.
    fn number_nodes(&self, count: usize) -> Result<usize> {
        let mut next = self
            .next_node
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let names = self.kubectl_ok(["get", "nodes", "--output=name"])?;
        let number = |line: &str| line.strip_prefix("node/node-")?.parse::<usize>().ok();
        let highest = names.lines().filter_map(number).max();
        let first = highest.map_or(0, |highest| highest + 1).max(*next);
        *next = first + count;
        Ok(first)
    }

    /// Waits until the kubelets of these nodes are at work (they hold the nodes' leases), and
    /// kube-controller-manager sees no reason to taint them.
    fn wait_nodes_ready(&self, names: &[String]) -> Result<()> {
        let Config {
            kwok,
            controller_manager,
            ..
        } = self.config;
        let mut needed = vec![Component::ApiServer];
        needed.extend(kwok.then_some(Component::Kwok));
        needed.extend(controller_manager.then_some(Component::ControllerManager));
        let list = |args: [&str; 3]| -> Result<BTreeSet<String>> {
            let lines = self.kubectl_ok(["get", "--chunk-size=0"].into_iter().chain(args))?;
            Ok(lines.lines().map(str::to_owned).collect())
        };
        let leases = ["leases", "--namespace=kube-node-lease", "--output=name"];
        let tainted = [
            "nodes",
            "--show-kind=false",
            "--output=go-template={{range .items}}{{$name := .metadata.name}}{{range .spec.taints}}\
             {{if eq .key \"node.kubernetes.io/not-ready\"}}{{$name}}\n{{end}}{{end}}{{end}}",
        ];
        self.wait_component("all nodes are ready", &needed, || {
            if kwok {
                let held = list(leases)?;
                let lease = |name: &String| format!("lease.coordination.k8s.io/{name}");
                if !names.iter().all(|name| held.contains(&lease(name))) {
                    return Ok(None);
                }
            }
            if controller_manager {
                let tainted = list(tainted)?;
                if names.iter().any(|name| tainted.contains(name)) {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
    }
}

fn node_name(index: usize) -> String {
    format!("node-{index:04}")
}

fn node(
    index: usize,
    allocatable: &BTreeMap<String, String>,
    labels: &[(&str, &str)],
    taints: &[Taint],
) -> Value {
    let name = node_name(index);
    let mut all = json!({
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": ZONES[index % ZONES.len()],
    });
    for (key, value) in labels {
        all[*key] = json!(value);
    }
    let taint = |t: &Taint| json!({"key": t.key, "value": t.value, "effect": t.effect});
    let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": reason});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": all,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": taints.iter().map(taint).collect::<Vec<_>>()},
        // A kubelet registers with its status, too.
        "status": {
            "capacity": allocatable,
            "allocatable": allocatable,
            "addresses": [
                {"type": "InternalIP",
                 "address": format!("10.{}.{}.{}", 128 + index / 65_536, index / 256 % 256, index % 256)},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [
                condition("Ready", "True", "KubeletReady"),
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("NetworkUnavailable", "False", "RouteCreated"),
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": "v1.36.3",
                "kubeProxyVersion": "",
                "containerRuntimeVersion": "kwok://0.8.0",
                "kernelVersion": "",
                "osImage": "kwok",
                "machineID": name,
                "systemUUID": name,
                "bootID": name,
            },
        },
    })
}
