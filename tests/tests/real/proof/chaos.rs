//! What goes wrong around those who work: nodes, pods, connections, the API server, and the operator itself.

mod broadcast_job;
mod daemon_sets;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use carillon_testbed::{Component, FaultProxy, Operator, Options, Signal};
use carillon_tests::api::Api;
use carillon_tests::lab::{self, Bench, leads};
use fastrand::Rng;
use http::Method;
use serde_json::{Value, json};

/// How long all may take once nothing fails any more.
const HEAL: Duration = Duration::from_mins(10);
const EVERY: Duration = Duration::from_millis(100);
/// How long a node stays away: longer than kwok takes to renew a lease. It queues a node that is
/// back sooner a second time, and then stops to renew any.
const AWAY: Duration = Duration::from_secs(12);
/// Kubelets that stop at a time.
const KUBELETS: usize = 5;
/// Key of the taint of a node, and part of what keeps a pod.
const OURS: &str = "chaos.example.com";

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// SIGKILL to the operator that leads; another process starts in its place.
    KillLeader,
    /// SIGKILL to the one that does not.
    KillFollower,
    /// The leader is stopped until the other has worked, and continued.
    PauseLeader,
    /// SIGKILL to the API server, which is started again.
    KillApiServer,
    /// All connections of operators break.
    BreakConnections,
    /// Kubelets stop, until all is mended.
    StopKubelets,
    /// A kubelet reports that it is not ready, until all is mended.
    NotReady,
    /// A node is deleted, and comes back later as another of the same name.
    ReplaceNode,
    /// A node is deleted for good.
    RemoveNode,
    /// A node joins.
    AddNode,
    /// A node has a taint of this effect, until all is mended.
    Taint(&'static str),
    /// A node is cordoned, until all is mended.
    Cordon,
    /// A user deletes a pod that runs.
    DeletePod,
    /// A kubelet evicts a pod.
    FailPod,
    /// A finalizer of others keeps a pod, until all is mended.
    HoldPod,
    /// A user takes a pod out of its controller's selector.
    ReleasePod,
}

/// Something that is to be mended.
#[derive(Debug)]
enum Harm {
    Stopped(String),
    NotReady(String),
    /// A node that is to come back, and since when it is away.
    Away(Instant, Value),
    Tainted(String),
    Cordoned(String),
    /// A pod on a node.
    Held {
        pod: String,
        node: String,
    },
}

impl Harm {
    /// The node that it was done to.
    fn node(&self) -> &str {
        match self {
            Self::Away(_, node) => name(node).unwrap_or_default(),
            Self::Stopped(node)
            | Self::NotReady(node)
            | Self::Tainted(node)
            | Self::Cordoned(node)
            | Self::Held { node, .. } => node,
        }
    }
}

/// Who works, and how that is seen.
#[derive(Clone, Copy)]
struct Subject {
    /// What a failure shows.
    look: fn(&Chaos<'_>) -> Value,
    /// Waits until an operator has worked from now on.
    works: fn(&mut Chaos<'_>),
    /// What the operator is told besides.
    args: &'static [&'static str],
    /// Both operators lead at once, without a lease.
    both_lead: bool,
    /// Operators talk to the API server through a proxy.
    through_proxy: bool,
}

struct Chaos<'a> {
    bench: &'a Bench<'a>,
    subject: Subject,
    api: Api,
    rng: Rng,
    proxy: Option<FaultProxy>,
    replicas: Vec<Operator>,
    /// Processes started so far.
    started: usize,
    harms: Vec<Harm>,
}

impl<'a> Chaos<'a> {
    fn start(bench: &'a Bench<'a>, seed: u64, subject: Subject) -> Self {
        let proxy = || FaultProxy::start(bench.cluster, "operators").unwrap();
        let mut chaos = Self {
            bench,
            subject,
            api: Api::of(bench.cluster),
            rng: Rng::with_seed(seed),
            proxy: subject.through_proxy.then(proxy),
            replicas: Vec::new(),
            started: 0,
            harms: Vec::new(),
        };
        for _ in 0..2 {
            let replica = chaos.replica();
            replica.wait_ready().unwrap();
            chaos.replicas.push(replica);
        }
        chaos
    }

    /// A process more. While the API server is away it waits for it.
    fn replica(&mut self) -> Operator {
        self.started += 1;
        let mut options = Options::new(&format!("operator-{}", self.started));
        let election: &[&str] = if self.subject.both_lead {
            &["--leader-elect=false"]
        } else {
            &[
                "--lease-namespace=default",
                "--lease-duration=6s",
                "--lease-renew-deadline=5s",
                "--lease-retry-period=500ms",
            ]
        };
        for arg in election.iter().chain(self.subject.args) {
            options = options.arg(arg);
        }
        if let Some(proxy) = &self.proxy {
            options = options.kubeconfig(proxy.kubeconfig());
        }
        Operator::launch(self.bench.cluster, &options).unwrap()
    }

    /// Puts a new process in the place of each that has ended. kube-scheduler ends when a pod is not where it had seen it
    /// last, as when the API server was killed.
    fn replace_dead(&mut self) {
        if !self.bench.cluster.is_alive(Component::Scheduler) {
            let started = self.bench.cluster.restart(Component::Scheduler);
            started.unwrap();
        }
        for index in 0..self.replicas.len() {
            if !self.replicas[index].process.is_alive() {
                self.replicas[index] = self.replica();
            }
        }
    }

    /// The replica that leads, once there is one; one of them where both do.
    fn leader(&mut self) -> usize {
        if self.subject.both_lead {
            self.replace_dead();
            return self.rng.usize(..self.replicas.len());
        }
        let mut leader = None;
        self.patiently("somebody leads", |chaos| {
            leader = chaos.replicas.iter().position(leads);
            leader.is_some()
        });
        leader.unwrap()
    }

    fn inflict(&mut self, fault: Fault) {
        match fault {
            Fault::KillLeader => {
                let leader = self.leader();
                self.kill(leader);
            }
            Fault::KillFollower => {
                let follower = 1 - self.leader();
                self.kill(follower);
            }
            Fault::PauseLeader => self.pause_leader(),
            Fault::KillApiServer => {
                self.bench.cluster.kill_apiserver().unwrap();
                self.bench.cluster.start_apiserver().unwrap();
            }
            Fault::BreakConnections => {
                let proxy = self.proxy.as_ref();
                proxy.expect("operators have a proxy").break_connections();
            }
            Fault::AddNode => {
                let labels = [("bench", self.bench.name)];
                let added = self.bench.cluster.add_nodes(1, &labels, &[]);
                added.unwrap();
            }
            Fault::StopKubelets => self.stop_kubelets(),
            Fault::ReplaceNode | Fault::RemoveNode => self.remove_node(fault == Fault::ReplaceNode),
            Fault::NotReady | Fault::Taint(_) | Fault::Cordon => self.harm_node(fault),
            Fault::DeletePod | Fault::FailPod | Fault::HoldPod | Fault::ReleasePod => {
                self.harm_pod(fault);
            }
        }
    }

    fn kill(&mut self, index: usize) {
        self.replicas[index].process.kill().unwrap();
        self.replicas[index] = self.replica();
    }

    fn pause_leader(&mut self) {
        // One that cannot renew in time ends by itself: there may be no process to stop.
        let mut paused = self.leader();
        while self.replicas[paused].process.signal(Signal::STOP).is_err() {
            self.replace_dead();
            paused = self.leader();
        }
        let other = 1 - paused;
        let elected = !self.subject.both_lead;
        if elected {
            self.patiently("the other leads", |chaos| leads(&chaos.replicas[other]));
        }
        (self.subject.works)(self);
        let process = &self.replicas[paused].process;
        process.signal(Signal::CONT).unwrap();
        if elected {
            let exit = process.wait_exit(lab::LIMIT).unwrap();
            assert!(exit.is_some(), "a leader that has lost its lease exits");
            self.replicas[paused] = self.replica();
        }
    }

    /// Waits for `condition`, with a process in the place of each that has ended.
    fn patiently(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            let late = start.elapsed() >= HEAL;
            assert!(
                !late,
                "{what}: not after {HEAL:?}: {:#}",
                (self.subject.look)(self)
            );
            self.replace_dead();
            std::thread::sleep(EVERY);
        }
    }

    fn stop_kubelets(&mut self) {
        let mut nodes: Vec<String> = (0..KUBELETS).filter_map(|_| self.node_with_pod()).collect();
        nodes.sort();
        nodes.dedup();
        let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
        if !names.is_empty() {
            self.bench.cluster.stop_kubelets(&names).unwrap();
        }
        self.harms.extend(nodes.into_iter().map(Harm::Stopped));
    }

    fn harm_node(&mut self, fault: Fault) {
        let Some(node) = self.node_with_pod() else {
            return;
        };
        let cluster = self.bench.cluster;
        self.harms.push(match fault {
            Fault::NotReady => {
                cluster.set_node_ready(&node, false).unwrap();
                Harm::NotReady(node)
            }
            Fault::Taint(effect) => {
                let taint = format!("{OURS}=yes:{effect}");
                cluster
                    .kubectl_ok(["taint", "node", &node, &taint])
                    .unwrap();
                Harm::Tainted(node)
            }
            _ => {
                cluster.kubectl_ok(["cordon", &node]).unwrap();
                Harm::Cordoned(node)
            }
        });
    }

    /// A node with pods goes, and may be to come back under the same name.
    fn remove_node(&mut self, comes_back: bool) {
        let Some(name) = self.node_with_pod() else {
            return;
        };
        let path = format!("/api/v1/nodes/{name}");
        let mut node = self.api.get(&path).unwrap();
        self.patiently("the node is gone", |chaos| {
            // Without an answer it may be so all the same.
            let _ = chaos.api.send(Method::DELETE, &path, &Value::Null);
            chaos.api.find(&path).is_none()
        });
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            node["metadata"].as_object_mut().unwrap().remove(field);
        }
        node["spec"] = json!({});
        if comes_back {
            self.harms.push(Harm::Away(Instant::now(), node));
        }
    }

    /// Creates the nodes again that were away for long enough.
    fn return_nodes(&mut self) {
        let long =
            |harm: &mut Harm| matches!(harm, Harm::Away(since, _) if since.elapsed() >= AWAY);
        let due: Vec<Harm> = self.harms.extract_if(.., long).collect();
        for harm in due {
            let Harm::Away(_, node) = &harm else { continue };
            let path = format!("/api/v1/nodes/{}", harm.node());
            self.patiently("the node is back", |chaos| {
                let _ = chaos.api.send(Method::POST, "/api/v1/nodes", node);
                chaos.api.find(&path).is_some()
            });
        }
    }

    fn harm_pod(&mut self, fault: Fault) {
        let Some(pod) = self.running_pod() else {
            return;
        };
        let name = name(&pod).unwrap();
        let path = format!("/api/v1/namespaces/{}/pods/{name}", self.bench.name);
        let uid = &pod["metadata"]["uid"];
        // It may have ended and gone since: no answer is waited for.
        let _ = match fault {
            Fault::DeletePod => self.api.send(Method::DELETE, &path, &Value::Null),
            Fault::FailPod => {
                let evicted = json!({"metadata": {"uid": uid},
                    "status": {"phase": "Failed", "reason": "Evicted"}});
                let status = format!("{path}/status");
                self.api.send(Method::PATCH, &status, &evicted)
            }
            Fault::HoldPod => {
                let held =
                    json!({"metadata": {"uid": uid, "finalizers": [format!("{OURS}/held")]}});
                let node = pod["spec"]["nodeName"].as_str().unwrap().to_owned();
                let pod = path.clone();
                self.harms.push(Harm::Held { pod, node });
                let held = self.api.send(Method::PATCH, &path, &held);
                let _ = self.api.send(Method::DELETE, &path, &Value::Null);
                held
            }
            _ => {
                let labels = json!({"metadata": {"uid": uid, "labels": {"app": null}}});
                self.api.send(Method::PATCH, &path, &labels)
            }
        };
    }

    /// A pod that runs, on a node that nothing was done to yet.
    fn running_pod(&mut self) -> Option<Value> {
        let pods = format!(
            "/api/v1/namespaces/{}/pods?fieldSelector=status.phase=Running",
            self.bench.name
        );
        let mut running = self.api.list(&pods);
        // A pod outlives its node for a while.
        let nodes = self.api.list("/api/v1/nodes");
        let there: BTreeSet<&str> = nodes.iter().filter_map(name).collect();
        running.retain(|pod| {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            there.contains(node) && !self.harms.iter().any(|harm| harm.node() == node)
        });
        let picked = self.rng.usize(..running.len().max(1));
        running.into_iter().nth(picked)
    }

    /// For the report of what did not come to its end.
    fn pods_that_do_not_run(&self) -> Vec<Value> {
        let pods = format!("/api/v1/namespaces/{}/pods", self.bench.name);
        let mut pods = self.api.list(&pods);
        pods.retain(|pod| pod["status"]["phase"] != "Running");
        for pod in &mut pods {
            let metadata = pod["metadata"].as_object_mut();
            metadata
                .expect("a pod has metadata")
                .remove("managedFields");
        }
        pods
    }

    fn node_with_pod(&mut self) -> Option<String> {
        let pod = self.running_pod()?;
        Some(pod["spec"]["nodeName"].as_str()?.to_owned())
    }

    /// Removes pods that have ended, whose removal an API server had begun when it was killed. A kubelet would ask for
    /// it again; kwok does not.
    fn bury(&self) {
        let pods = format!("/api/v1/namespaces/{}/pods", self.bench.name);
        for pod in self.api.list(&pods) {
            let metadata = &pod["metadata"];
            if metadata["deletionGracePeriodSeconds"] == 0 && metadata["finalizers"].is_null() {
                let path = format!("{pods}/{}", name(&pod).unwrap());
                let now =
                    json!({"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}});
                // It may be gone by now.
                let _ = self.api.send(Method::DELETE, &path, &now);
            }
        }
    }

    /// Mends all that was done to nodes and pods, and waits until every node takes pods.
    fn heal(&mut self) {
        self.patiently("all nodes are back", |chaos| {
            chaos.return_nodes();
            let mut harms = chaos.harms.iter();
            !harms.any(|harm| matches!(harm, Harm::Away(..)))
        });
        self.bury();
        let harms = std::mem::take(&mut self.harms);
        let cluster = self.bench.cluster;
        let stopped: Vec<&str> = harms
            .iter()
            .filter(|harm| matches!(harm, Harm::Stopped(_)))
            .map(Harm::node)
            .collect();
        if !stopped.is_empty() {
            cluster.start_kubelets(&stopped).unwrap();
        }
        for harm in &harms {
            match harm {
                Harm::Stopped(_) | Harm::Away(..) => {}
                Harm::NotReady(node) => cluster.set_node_ready(node, true).unwrap(),
                Harm::Tainted(node) => {
                    let taint = format!("{OURS}-");
                    drop(cluster.kubectl_ok(["taint", "node", node, &taint]).unwrap());
                }
                Harm::Cordoned(node) => drop(cluster.kubectl_ok(["uncordon", node]).unwrap()),
                Harm::Held { pod, .. } => self.patiently("the pod is let go", |chaos| {
                    let free = json!({"metadata": {"finalizers": []}});
                    let _ = chaos.api.send(Method::PATCH, pod, &free);
                    let pod = chaos.api.find(pod).unwrap_or_default();
                    pod["metadata"]["finalizers"].is_null()
                }),
            }
        }
        self.patiently("every node takes pods", |chaos| {
            let nodes = chaos.api.list("/api/v1/nodes");
            nodes.iter().all(|node| node["spec"]["taints"].is_null())
        });
    }
}

fn name(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()
}
