//! A cluster of real nodes with the chart on it.

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use anyhow::{Context, Result};
use carillon_nodes::{Network, Nodes, config, machine};
use carillon_testbed::carillon::{NAMESPACE, RELEASE, build_image, install_chart};
use carillon_testbed::{Audit, Cluster, answer, wait};
use carillon_tests::lab::Bench;
use serde_json::{Value, json};

/// How long anything may take here. Nothing waits this long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_mins(4);
const EVERY: Duration = Duration::from_millis(250);
/// As many as there are replicas, and one more.
const NODES: u8 = 3;
/// How long a node may be silent: short for tests that wait for it, long for machines that are slow.
const NODE_GRACE: &str = "--node-monitor-grace-period=20s";
/// A directory of each node that outlives reboots, in which pods write down what they do.
const LEDGER: &str = "/var/lib/kubelet/ledger";

/// The lab of this test binary. Tests that leave nodes and operator alone share it, the others have it alone.
static LAB: RwLock<Option<Lab>> = RwLock::new(None);

/// Three nodes, and Carillon as its chart installs it.
pub(crate) struct Lab {
    // The nodes go before the cluster.
    nodes: Mutex<Nodes>,
    pub(crate) cluster: Cluster,
}

/// The lab, held by whoever uses it.
pub(crate) struct Held<Guard>(Guard);

impl<Guard: Deref<Target = Option<Lab>>> Deref for Held<Guard> {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        self.0.as_ref().expect("a lab")
    }
}

/// Others use it, too.
pub(crate) fn shared() -> Held<RwLockReadGuard<'static, Option<Lab>>> {
    Held(RwLockWriteGuard::downgrade(take()))
}

/// Nobody else uses it for so long.
pub(crate) fn alone() -> Held<RwLockWriteGuard<'static, Option<Lab>>> {
    Held(take())
}

/// There is none for so long.
pub(crate) fn none() -> RwLockWriteGuard<'static, Option<Lab>> {
    let mut guard = LAB.write().unwrap_or_else(PoisonError::into_inner);
    drop(guard.take());
    guard
}

fn take() -> RwLockWriteGuard<'static, Option<Lab>> {
    let mut guard = LAB.write().unwrap_or_else(|poisoned| {
        // Whoever had it alone has panicked, and left it as nobody knows.
        let mut guard = poisoned.into_inner();
        LAB.clear_poison();
        drop(guard.take());
        guard
    });
    guard.get_or_insert_with(|| Lab::start().expect("real nodes with the chart"));
    guard
}

impl Lab {
    fn start() -> Result<Self> {
        machine::check()?;
        let network = Network::create()?;
        let mut config = config("lab", &network);
        config.audit = Audit::Responses;
        config.controller_manager_args = vec![NODE_GRACE.to_owned()];
        let cluster = Cluster::start(config)?;
        let image = build_image(&cluster.dir().join("image"), RELEASE)?;
        let nodes = Nodes::start(&cluster, network, NODES, &[image])?;
        let restricted = "--set=networkPolicy.enabled=true";
        install_chart(&cluster, &["--wait", "--timeout=3m", restricted])?;
        Ok(Self {
            nodes: Mutex::new(nodes),
            cluster,
        })
    }

    /// A namespace for one test, on all nodes.
    pub(crate) fn bench(&self, name: &'static str) -> Bench<'_> {
        self.kubectl(&["create", "namespace", name]);
        Bench {
            cluster: &self.cluster,
            name,
            nodes: (0..NODES).map(|index| format!("node-{index}")).collect(),
            node_selector: json!({}),
        }
    }

    /// Its nodes, in the order of their names.
    pub(crate) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All nodes are as they should be again.
    pub(crate) fn wait_nodes(&self) {
        self.nodes().wait_ready(&self.cluster).expect("ready nodes");
    }

    #[track_caller]
    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        self.cluster.kubectl_ok(args).expect("kubectl")
    }

    #[track_caller]
    pub(crate) fn get(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = ["get", "--output=json"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        serde_json::from_str(&self.kubectl(&args)).expect("JSON")
    }

    /// helm on the release's namespace; its status is the caller's to judge.
    #[track_caller]
    pub(crate) fn helm(&self, args: &[&str]) -> Output {
        let mut helm = self.cluster.helm_command().expect("helm");
        helm.args(args).args(["--namespace", NAMESPACE]);
        helm.output().expect("helm runs")
    }

    /// The pods of the operator that have not been told to end.
    #[track_caller]
    pub(crate) fn operators(&self) -> Vec<Value> {
        let selector =
            format!("-lapp.kubernetes.io/name={RELEASE},app.kubernetes.io/component=operator");
        let pods = self.get(&["pods", "-n", NAMESPACE, &selector]);
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let stays = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null();
        pods.into_iter().filter(stays).collect()
    }

    /// Name of the pod that leads.
    #[track_caller]
    pub(crate) fn leader(&self) -> String {
        let lease = self.get(&["lease", RELEASE, "-n", NAMESPACE]);
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        // The pod's name, and what makes the process unique.
        holder.split('_').next().unwrap_or_default().to_owned()
    }

    /// Asks for the eviction of a pod of the operator.
    pub(crate) fn evict(&self, pod: &str) -> Result<String> {
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": NAMESPACE},
        });
        let path = format!("--raw=/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction");
        self.cluster
            .kubectl_stdin(["create", &path, "-f", "-"], &eviction.to_string())
    }

    /// Waits until `probe` gives something.
    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
        let hint = || {
            let all = [
                "get",
                "pods,cbj,jobs,nodes",
                "--all-namespaces",
                "-o",
                "wide",
            ];
            let pods = self.cluster.kubectl_ok(all);
            pods.unwrap_or_else(|error| format!("{error:#}"))
        };
        match wait::until(what, LIMIT, EVERY, || Ok(probe()), hint) {
            Ok(found) => found,
            Err(error) => panic!("{error:#}"),
        }
    }

    /// Two replicas are ready, one of which leads.
    #[track_caller]
    pub(crate) fn wait_operators(&self) {
        self.until("two replicas are ready, and one of them leads", || {
            let pods = self.operators();
            let leader = self.leader();
            let leads = pods.iter().any(|pod| pod["metadata"]["name"] == *leader);
            let ready = pods
                .iter()
                .filter(|pod| carillon_tests::lab::is(pod, "Ready"));
            (ready.count() == 2 && pods.len() == 2 && leads).then_some(())
        });
    }

    /// What pods have written to a file of the ledger of each node.
    #[track_caller]
    pub(crate) fn ledgers(&self, file: &str) -> Vec<Vec<String>> {
        let mut nodes = self.nodes();
        let read = |path: PathBuf| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        };
        nodes
            .all()
            .iter()
            .map(|node| read(node.own(LEDGER).join(file)))
            .collect()
    }
}

/// A pod that runs a script. `/ledger` is a directory of its node.
pub(crate) fn pod(script: &str) -> Value {
    json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "containers": [{
            "name": "main",
            "image": "busybox:1.37",
            "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "ledger", "mountPath": "/ledger"}],
        }],
        "volumes": [{"name": "ledger", "hostPath": {"path": LEDGER, "type": "DirectoryOrCreate"}}],
    })
}

/// An object of a test's namespace.
pub(crate) fn object(
    bench: &Bench<'_>,
    (version, kind): (&str, &str),
    name: &str,
    spec: &Value,
) -> Value {
    json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": bench.name, "labels": {"app": name}},
        "spec": spec,
    })
}

/// A BroadcastJob that runs a script on each node.
pub(crate) fn broadcast(bench: &Bench<'_>, name: &str, script: &str, more: &Value) -> Value {
    let mut job = bench.job(
        name,
        &json!({}),
        &json!({"template": {"spec": pod(script)}}),
    );
    let spec = job["spec"].as_object_mut().expect("a spec");
    spec.extend(more.as_object().expect("fields").clone());
    job
}

/// The plugin, in the namespace of a test.
#[track_caller]
pub(crate) fn carillon(bench: &Bench<'_>, args: &[&str]) -> String {
    use carillon_testbed::carillon::{Profile, Program, build};
    let mut command = std::process::Command::new(build(Program::Cli, Profile::Dev).expect("built"));
    command.arg("--kubeconfig").arg(bench.cluster.kubeconfig());
    command.args(["--namespace", bench.name]).args(args);
    answer(&mut command)
        .context("the plugin")
        .expect("an answer")
}
