//! One small job, and a crash at every write it takes: before the write, with its reply lost, after
//! its reply. Another process takes over, and the end is the same.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use carillon_testbed::fault_proxy::{Fault, Point, Seen};
use carillon_testbed::{Cluster, FaultProxy, Operator, Options, wait};
use carillon_tests::api::Api;
use carillon_tests::lab::{self, LIMIT, is};
use serde_json::{Value, json};

const NODES: usize = 6;
const EVERY: Duration = Duration::from_millis(50);
/// Runs side by side.
const AT_A_TIME: usize = 8;

/// A control plane on which many runs of the same job go on side by side, each in a namespace and
/// with an operator of its own. The nodes are the same for all.
struct Scan {
    cluster: Cluster,
    api: Api,
}

/// What one run came to.
struct Run {
    /// Writes that went through the proxy.
    writes: usize,
    /// The write at which the operator was killed.
    killed_at: Option<Seen>,
    end: Value,
}

impl Scan {
    fn start(name: &str) -> Self {
        let cluster = lab::judged_cluster(name, NODES);
        let api = Api::of(&cluster);
        Self { cluster, api }
    }

    /// A namespace in which pods can be created.
    fn namespace(&self, name: &str) {
        self.api
            .create("/api/v1/namespaces", &json!({"metadata": {"name": name}}));
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        until(&format!("{name} has a ServiceAccount"), || {
            self.api.find(&account)
        });
    }

    /// Runs the job in `namespace`, with a crash at `crash`.
    fn run(&self, namespace: &str, crash: Option<(usize, Point)>) -> Run {
        self.namespace(namespace);
        let proxy = FaultProxy::start(&self.cluster, &format!("proxy-{namespace}")).unwrap();
        let operator = |name: &str| {
            let options = Options::new(&format!("{namespace}-{name}"))
                .kubeconfig(proxy.kubeconfig())
                .arg("--leader-elect=false")
                .arg("--job-sync-batch-period=100ms")
                .arg(&format!("--namespaces={namespace}"));
            Operator::start(&self.cluster, &options).unwrap()
        };
        let first = Arc::new(operator("first"));
        if let Some((write, point)) = crash {
            let victim = Arc::clone(&first);
            let kill = Box::new(move || victim.process.kill().expect("the operator is killed"));
            proxy.arm(Fault { write, point, kill });
        }
        let jobs = format!("/apis/carillon.dev/v1alpha1/namespaces/{namespace}/broadcastjobs");
        self.api.create(&jobs, &job(namespace));
        let mut end = None;
        until(&format!("{namespace}: ended, or killed"), || {
            end = self.end(namespace);
            (end.is_some() || !first.process.is_alive()).then_some(())
        });
        let mut second = None;
        let end = end.unwrap_or_else(|| {
            second = Some(operator("second"));
            until(&format!("{namespace}: ended"), || self.end(namespace))
        });
        Run {
            writes: proxy.writes(),
            killed_at: proxy.fired(),
            end,
        }
    }

    /// The end state, once it is reached: the job is done and no pod waits to be let go.
    /// Without what differs between runs of the same: times, uids, and names made from them.
    fn end(&self, namespace: &str) -> Option<Value> {
        let ours = format!("/apis/carillon.dev/v1alpha1/namespaces/{namespace}");
        let job = self.api.find(&format!("{ours}/broadcastjobs/fix"))?;
        is(&job, "Complete").then_some(())?;
        let pods = self
            .api
            .list(&format!("/api/v1/namespaces/{namespace}/pods"));
        let held = |pod: &Value| pod["metadata"].get("finalizers").is_some();
        (!pods.iter().any(held)).then_some(())?;
        let slices = self.api.list(&format!("{ours}/noderesultslices"));
        let mut status = job["status"].clone();
        for field in ["startTime", "completionTime"] {
            status.as_object_mut()?.remove(field)?;
        }
        for condition in status["conditions"].as_array_mut()? {
            condition.as_object_mut()?.remove("lastTransitionTime");
        }
        let results = slices.iter().flat_map(|slice| slice["results"].as_array());
        let result = |result: &Value| {
            let fields = ["node", "nodeUID", "attempt", "state", "reason", "exitCode"];
            json!(fields.map(|field| &result[field]))
        };
        let pod = |pod: &Value| json!([pod["spec"]["nodeName"], pod["status"]["phase"]]);
        let mut results: Vec<Value> = results.flatten().map(result).collect();
        let mut pods: Vec<Value> = pods.iter().map(pod).collect();
        // The order of names tells the order of a run.
        results.sort_by_key(Value::to_string);
        pods.sort_by_key(Value::to_string);
        Some(json!({"status": status, "results": results, "pods": pods}))
    }
}

/// Six nodes, two at a time; the fourth fails.
fn job(namespace: &str) -> Value {
    let fates = json!({"*": {"run-time": "1s"}, "node-0003": {"exit-code": 3}});
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": "fix", "namespace": namespace},
        "spec": {
            "parallelism": 2,
            "failurePolicy": {"type": "Continue"},
            "template": {
                "metadata": {"annotations": {"testbed.carillon.dev/fates": fates.to_string()}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox:1.37"}],
                },
            },
        },
    })
}

#[track_caller]
fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    wait::until(what, LIMIT, EVERY, || Ok(probe()), String::new).unwrap()
}

/// Explores the points that `wanted` picks of all: every write and every point in its life, up to
/// the first write that no run reaches. Each run must end as the undisturbed one.
fn explore(name: &str, wanted: impl Fn(usize, Point) -> bool + Sync) {
    let scan = Scan::start(name);
    let clean = scan.run("clean", None);
    let next = AtomicUsize::new(0);
    let beyond = AtomicUsize::new(usize::MAX);
    let explored: Mutex<Vec<(usize, Point, Seen)>> = Mutex::default();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (write, point) = (index / 3 + 1, Point::ALL[index % 3]);
            if write > beyond.load(Ordering::Relaxed) {
                return;
            }
            if write <= clean.writes && !wanted(write, point) {
                continue;
            }
            let namespace = format!("write-{write}-{point:?}").to_lowercase();
            let run = scan.run(&namespace, Some((write, point)));
            assert_eq!(
                run.end, clean.end,
                "{namespace}: killed at {:?}",
                run.killed_at
            );
            match run.killed_at {
                Some(seen) => explored.lock().unwrap().push((write, point, seen)),
                None => {
                    beyond.fetch_min(write, Ordering::Relaxed);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(work);
        }
    });
    let mut explored = explored.into_inner().unwrap();
    explored.sort_by_key(|(write, point, _)| (*write, *point));
    for write in 1..=clean.writes {
        for point in Point::ALL.into_iter().filter(|point| wanted(write, *point)) {
            let there = |(w, p, _): &&(usize, Point, Seen)| (*w, *p) == (write, point);
            let found = explored.iter().find(there);
            println!("{write:>3} {point:?} {found:?}");
        }
    }
    println!(
        "{} writes undisturbed, {} crash points explored",
        clean.writes,
        explored.len()
    );
}

#[test]
fn an_operator_killed_at_any_write_leaves_a_state_that_another_completes() {
    // Each write at one of its three points.
    explore("scan-sample", |write, point| Point::ALL[write % 3] == point);
}

#[test]
#[ignore = "takes minutes; the proof runs it"]
fn an_operator_killed_at_every_point_of_every_write_leaves_a_state_that_another_completes() {
    explore("scan", |_, _| true);
}
