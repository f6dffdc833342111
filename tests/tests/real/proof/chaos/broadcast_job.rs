//! One job on many nodes while everything fails: nodes, the API server, and the operator itself.

use std::time::{Duration, Instant};

use carillon_oracle::Assumptions;
use carillon_testbed::{Operator, Options, Signal};
use carillon_tests::api::Api;
use carillon_tests::lab::{self, Bench, is, leads};
use carillon_tests::proof;
use fastrand::Rng;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// How long a job may take once nothing fails any more.
const HEAL: Duration = Duration::from_mins(10);
const EVERY: Duration = Duration::from_millis(100);

/// How much goes wrong.
struct Form {
    name: &'static str,
    nodes: usize,
    parallelism: usize,
    /// Run times of pods, in tenths of a second.
    run_time: std::ops::RangeInclusive<u32>,
    /// Nodes whose pods run shorter or longer, or fail.
    special: usize,
    faults: &'static [(Fault, usize)],
    seed: u64,
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// SIGKILL to the operator that leads; another process starts in its place.
    KillLeader,
    /// SIGKILL to the one that does not.
    KillFollower,
    /// The leader is stopped until the other leads, and continued.
    PauseLeader,
    /// SIGKILL to the API server, which is started again.
    KillApiServer,
    /// Kubelets stop, and start again at the end.
    StopKubelets,
    /// A kubelet reports that it is not ready, until the end.
    NotReady,
    /// A node is deleted, and comes back later as another of the same name.
    ReplaceNode,
    /// A user deletes a pod that runs.
    DeletePod,
}

const SMALL: Form = Form {
    name: "chaos-small",
    nodes: 60,
    parallelism: 6,
    run_time: 10..=30,
    special: 20,
    faults: &[
        (Fault::KillLeader, 1),
        (Fault::KillFollower, 1),
        (Fault::PauseLeader, 1),
        (Fault::KillApiServer, 1),
        (Fault::StopKubelets, 1),
        (Fault::NotReady, 1),
        (Fault::ReplaceNode, 1),
        (Fault::DeletePod, 2),
    ],
    seed: 1,
};

const FULL: Form = Form {
    name: "chaos",
    nodes: 1000,
    parallelism: 100,
    run_time: 20..=100,
    special: 100,
    faults: &[
        (Fault::KillLeader, 8),
        (Fault::KillFollower, 2),
        (Fault::PauseLeader, 1),
        (Fault::KillApiServer, 2),
        (Fault::StopKubelets, 4),
        (Fault::NotReady, 15),
        (Fault::ReplaceNode, 15),
        (Fault::DeletePod, 15),
    ],
    seed: 2,
};

/// How long a node stays away: longer than kwok takes to renew a lease. It queues a node that is
/// back sooner a second time, and then stops to renew any.
const AWAY: Duration = Duration::from_secs(12);
/// Kubelets that stop at a time.
const KUBELETS: usize = 5;

struct Chaos<'a> {
    bench: &'a Bench<'a>,
    api: Api,
    rng: Rng,
    replicas: Vec<Operator>,
    /// Processes started so far.
    started: usize,
    stopped: Vec<String>,
    not_ready: Vec<String>,
    /// Nodes that are to come back, and since when they are away.
    away: Vec<(Instant, Value)>,
}

impl<'a> Chaos<'a> {
    fn start(bench: &'a Bench<'a>, seed: u64) -> Self {
        let mut chaos = Self {
            bench,
            api: Api::of(bench.cluster),
            rng: Rng::with_seed(seed),
            replicas: Vec::new(),
            started: 0,
            stopped: Vec::new(),
            not_ready: Vec::new(),
            away: Vec::new(),
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
        let options = Options::new(&format!("operator-{}", self.started))
            .arg("--lease-namespace=default")
            .arg("--lease-duration=6s")
            .arg("--lease-renew-deadline=5s")
            .arg("--lease-retry-period=500ms");
        Operator::launch(self.bench.cluster, &options).unwrap()
    }

    /// Puts a new process in the place of each that has ended.
    fn replace_dead(&mut self) {
        for index in 0..self.replicas.len() {
            if !self.replicas[index].process.is_alive() {
                self.replicas[index] = self.replica();
            }
        }
    }

    /// The replica that leads, once there is one.
    fn leader(&mut self) -> usize {
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
            Fault::StopKubelets => self.stop_kubelets(),
            Fault::NotReady => {
                if let Some(node) = self.node_with_pod() {
                    self.bench.cluster.set_node_ready(&node, false).unwrap();
                    self.not_ready.push(node);
                }
            }
            Fault::ReplaceNode => self.remove_node(),
            Fault::DeletePod => self.delete_pod(),
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
        self.patiently("the other leads", |chaos| leads(&chaos.replicas[other]));
        let before = self.done();
        self.patiently("the other works", |chaos| chaos.done() > before);
        let process = &self.replicas[paused].process;
        process.signal(Signal::CONT).unwrap();
        let exit = process.wait_exit(lab::LIMIT).unwrap();
        assert!(exit.is_some(), "a leader that has lost its lease exits");
        self.replicas[paused] = self.replica();
    }

    /// Waits for `condition`, with a process in the place of each that has ended.
    fn patiently(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            let late = start.elapsed() >= HEAL;
            assert!(!late, "{what}: not after {HEAL:?}: {:#}", self.job());
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
        self.stopped.extend(nodes);
    }

    /// A node of the job goes, to come back under the same name.
    fn remove_node(&mut self) {
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
        self.away.push((Instant::now(), node));
    }

    /// Creates the nodes again that were away for long enough.
    fn return_nodes(&mut self) {
        let due: Vec<_> = self
            .away
            .extract_if(.., |(since, _)| since.elapsed() >= AWAY)
            .collect();
        for (_, node) in due {
            let path = format!(
                "/api/v1/nodes/{}",
                node["metadata"]["name"].as_str().unwrap()
            );
            self.patiently("the node is back", |chaos| {
                let _ = chaos.api.send(Method::POST, "/api/v1/nodes", &node);
                chaos.api.find(&path).is_some()
            });
        }
    }

    fn delete_pod(&mut self) {
        if let Some(pod) = self.running_pod() {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let path = format!("/api/v1/namespaces/{}/pods/{name}", self.bench.name);
            // It may have ended and gone since.
            let _ = self.api.send(Method::DELETE, &path, &Value::Null);
        }
    }

    /// A pod of the job that runs, on a node that nothing was done to yet.
    fn running_pod(&mut self) -> Option<Value> {
        let pods = format!(
            "/api/v1/namespaces/{}/pods?fieldSelector=status.phase=Running",
            self.bench.name
        );
        let mut running = self.api.list(&pods);
        let away = self.away.iter().map(|(_, node)| &node["metadata"]["name"]);
        let away: Vec<&Value> = away.collect();
        running.retain(|pod| {
            let node = &pod["spec"]["nodeName"];
            let touched = self.stopped.iter().chain(&self.not_ready);
            // A pod outlives its node for a while.
            !touched.into_iter().any(|name| *node == *name.as_str()) && !away.contains(&node)
        });
        let picked = self.rng.usize(..running.len().max(1));
        running.into_iter().nth(picked)
    }

    fn node_with_pod(&mut self) -> Option<String> {
        let pod = self.running_pod()?;
        Some(pod["spec"]["nodeName"].as_str()?.to_owned())
    }

    fn job(&self) -> Value {
        let namespace = self.bench.name;
        let path = format!("/apis/carillon.dev/v1alpha1/namespaces/{namespace}/broadcastjobs/fix");
        // The API server may be on its way back.
        self.api.get(&path).unwrap_or_default()
    }

    fn done(&self) -> u64 {
        let status = &self.job()["status"];
        let count = |field: &str| status[field].as_u64().unwrap_or(0);
        count("succeeded") + count("failed")
    }

    /// Waits until `count` nodes are done.
    fn reach(&mut self, count: u64) {
        self.patiently(&format!("{count} nodes are done"), |chaos| {
            chaos.return_nodes();
            chaos.done() >= count
        });
    }

    fn heal(&mut self) {
        self.patiently("all nodes are back", |chaos| {
            chaos.return_nodes();
            chaos.away.is_empty()
        });
        let stopped: Vec<&str> = self.stopped.iter().map(String::as_str).collect();
        if !stopped.is_empty() {
            self.bench.cluster.start_kubelets(&stopped).unwrap();
        }
        self.stopped.clear();
        for node in self.not_ready.drain(..) {
            self.bench.cluster.set_node_ready(&node, true).unwrap();
        }
    }
}

/// Run times from 2 to 10 s and failures, decided by a seed. Only some nodes are named: the table
/// is part of every pod.
fn fates(form: &Form, rng: &mut Rng) -> Value {
    let seconds = |tenths: u32| format!("{}ms", tenths * 100);
    let (shortest, longest) = (*form.run_time.start(), *form.run_time.end());
    let mut fates = json!({"*": {"run-time": seconds(u32::midpoint(shortest, longest))}});
    for _ in 0..form.special {
        let node = format!("node-{:04}", rng.usize(..form.nodes));
        let mut fate = json!({"run-time": seconds(rng.u32(form.run_time.clone()))});
        if rng.u8(..4) == 0 {
            fate["exit-code"] = json!(1 + rng.u8(..100));
        }
        fates[node] = fate;
    }
    fates
}

/// The faults of a form in an order decided by a seed. Nodes go in the first half: the job has to
/// run still when they are back.
fn schedule(form: &Form, rng: &mut Rng) -> Vec<Fault> {
    let each = form.faults.iter();
    let all = each.flat_map(|(fault, times)| vec![*fault; *times]);
    let (nodes, mut faults): (Vec<_>, Vec<_>) = all.partition(|fault| *fault == Fault::ReplaceNode);
    rng.shuffle(&mut faults);
    for fault in nodes {
        faults.insert(rng.usize(..=faults.len() / 2), fault);
    }
    faults
}

fn endure(form: &Form) {
    let cluster = lab::judged_cluster(form.name, form.nodes);
    let bench = lab::bench(&cluster, form.name);
    let mut rng = Rng::with_seed(form.seed);
    let fates = fates(form, &mut rng);
    let faults = schedule(form, &mut rng);
    println!("seed {}", form.seed);
    let mut chaos = Chaos::start(&bench, form.seed);
    let start = Instant::now();
    let spec = json!({
        "parallelism": form.parallelism,
        "failurePolicy": {"type": "Continue"},
    });
    bench.apply(&bench.job("fix", &fates, &spec));
    for (index, fault) in faults.iter().enumerate() {
        // Spread over nine tenths of the run.
        let due = form.nodes * 9 * (index + 1) / 10 / (faults.len() + 1);
        chaos.reach(due as u64);
        println!(
            "{:>6.1?} {:>5} nodes done: {fault:?}",
            start.elapsed(),
            chaos.done()
        );
        chaos.inflict(*fault);
    }
    // The job must not complete without the nodes that are away or not ready for the moment.
    bench.patch("fix", &json!({"spec": {"paused": true}}));
    chaos.patiently("the job is paused", |chaos| is(&chaos.job(), "Paused"));
    assert!(!is(&chaos.job(), "Complete"), "the job ran while it failed");
    chaos.heal();
    chaos.patiently("every node takes pods", |chaos| {
        let nodes = chaos.api.list("/api/v1/nodes");
        nodes.iter().all(|node| node["spec"]["taints"].is_null())
    });
    bench.patch("fix", &json!({"spec": {"paused": false}}));
    let healed = Timestamp::now();
    println!(
        "{:>6.1?} {:>5} nodes done: nothing fails any more",
        start.elapsed(),
        chaos.done()
    );
    chaos.patiently("the job is complete", |chaos| is(&chaos.job(), "Complete"));
    let job = chaos.job();
    println!("{:>6.1?} complete: {}", start.elapsed(), job["status"]);
    assert_every_node_is_accounted_for(&chaos, &job);
    let assumptions = Assumptions {
        // Watches break, and a process that was stopped goes on with what it saw before.
        lag: SignedDuration::from_secs(30),
        late_requests: true,
        healed: Some((healed, SignedDuration::try_from(HEAL).unwrap())),
        over: true,
        ..Assumptions::default()
    };
    proof::assert_no_violation(&cluster, &assumptions);
}

/// Every node that there is has a result of its own, and the status counts them.
fn assert_every_node_is_accounted_for(chaos: &Chaos<'_>, job: &Value) {
    let results = chaos.bench.results("fix");
    let nodes = chaos.api.list("/api/v1/nodes");
    assert_eq!(nodes.len(), chaos.bench.nodes.len());
    for node in &nodes {
        let of = results
            .iter()
            .filter(|r| r["nodeUID"] == node["metadata"]["uid"]);
        let ended = of.filter(|r| r["state"] == "Succeeded" || r["state"] == "Failed");
        let name = &node["metadata"]["name"];
        assert_eq!(ended.count(), 1, "{name} has one outcome");
    }
    let count = |state: &str| json!(results.iter().filter(|r| r["state"] == state).count());
    for (field, state) in [("succeeded", "Succeeded"), ("failed", "Failed")] {
        assert_eq!(job["status"][field], count(state), "{field}");
    }
}

#[test]
fn a_job_survives_one_of_each_fault() {
    endure(&SMALL);
}

#[test]
#[ignore = "takes minutes; the proof runs it"]
fn a_job_on_a_thousand_nodes_survives_everything() {
    endure(&FULL);
}
