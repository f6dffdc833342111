//! One small job, and a crash at every write it takes: before the write, with its reply lost, after
//! its reply. Another process takes over, and the end is the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use carillon_oracle::Assumptions;
use carillon_testbed::fault_proxy::{Fault, Point, Seen};
use carillon_testbed::{Cluster, FaultProxy, Operator, Options, wait};
use carillon_tests::api::Api;
use carillon_tests::lab::{self, LIMIT, is, leads};
use carillon_tests::proof;
use jiff::SignedDuration;
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

/// Who goes on after a crash.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum TakeOver {
    /// A new process, which knows nothing.
    Restart,
    /// A process that watched all the time, once the lease has expired.
    Standby,
}

impl TakeOver {
    const ALL: [Self; 2] = [Self::Restart, Self::Standby];
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

    /// An operator for `namespace`, through the proxy or not.
    fn operator(&self, namespace: &str, name: &str, options: Options, by: TakeOver) -> Operator {
        let options = Options {
            name: format!("{namespace}-{name}"),
            ..options
        };
        let options = options
            .arg("--job-sync-batch-period=100ms")
            .arg(&format!("--namespaces={namespace}"));
        let options = match by {
            TakeOver::Restart => options.arg("--leader-elect=false"),
            // Long enough that a leader only loses it when it is killed.
            TakeOver::Standby => options
                .arg(&format!("--lease-namespace={namespace}"))
                .arg("--lease-duration=10s")
                .arg("--lease-renew-deadline=8s")
                .arg("--lease-retry-period=500ms"),
        };
        Operator::start(&self.cluster, &options).unwrap()
    }

    /// Runs the job in `namespace`, with a crash at `crash` after which another takes over.
    fn run(&self, namespace: &str, crash: Option<(usize, Point)>, by: TakeOver) -> Run {
        self.namespace(namespace);
        let proxy = FaultProxy::start(&self.cluster, &format!("proxy-{namespace}")).unwrap();
        let through = || Options::new("").kubeconfig(proxy.kubeconfig());
        let first = Arc::new(self.operator(namespace, "first", through(), by));
        let mut second = (by == TakeOver::Standby).then(|| {
            let leads = || leads(&first).then_some(());
            until(&format!("{namespace}: the first leads"), leads);
            self.operator(namespace, "second", Options::new(""), by)
        });
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
        let end = end.unwrap_or_else(|| {
            let log = || first.process.log_tail(5);
            assert!(
                proxy.fired().is_some(),
                "{namespace}: ended by itself: {}",
                log()
            );
            second.get_or_insert_with(|| self.operator(namespace, "second", through(), by));
            until(&format!("{namespace}: ended"), || self.end(namespace))
        });
        Run {
            writes: proxy.writes(),
            killed_at: proxy.fired(),
            end,
        }
    }

    /// The end state, once it is reached: the job is done and no pod waits to be released.
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
        let results = slices
            .iter()
            .filter_map(|slice| slice["results"].as_array());
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

/// A place where the operator dies, and who goes on.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Crash {
    write: usize,
    point: Point,
    by: TakeOver,
}

/// Runs that nothing disturbs, as many side by side as those that are killed later: how much one gathers in a write
/// depends on how busy the machine is. All end alike. What they come to, and the fewest writes of any.
fn undisturbed(scan: &Scan) -> (Value, usize) {
    let runs: Vec<Run> = thread::scope(|scope| {
        let run = |n| move || scan.run(&format!("clean-{n}"), None, TakeOver::Restart);
        let runs: Vec<_> = (0..AT_A_TIME).map(|n| scope.spawn(run(n))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let end = runs[0].end.clone();
    for run in &runs {
        assert_eq!(run.end, end);
    }
    let mut writes: Vec<usize> = runs.iter().map(|run| run.writes).collect();
    writes.sort_unstable();
    println!("writes of undisturbed runs: {writes:?}");
    assert!(writes[AT_A_TIME - 1] < 2 * writes[0], "{writes:?}");
    (end, writes[0])
}

/// Explores the crashes that `wanted` picks: every write, every point in its life, up to the first
/// write that no run reaches. Each run must end as the undisturbed ones, and no revision of any may
/// break an invariant.
fn explore(name: &str, wanted: impl Fn(&Crash) -> bool + Sync) {
    let scan = Scan::start(name);
    let (clean_end, clean_writes) = undisturbed(&scan);
    let crashes = (1..).flat_map(|write| {
        let at = move |point| TakeOver::ALL.map(|by| Crash { write, point, by });
        Point::ALL.into_iter().flat_map(at)
    });
    let crashes = Mutex::new(crashes);
    let beyond = AtomicUsize::new(usize::MAX);
    let explored: Mutex<BTreeMap<Crash, Seen>> = Mutex::default();
    let work = || {
        loop {
            let crash = crashes.lock().unwrap().next().unwrap();
            let Crash { write, point, by } = crash;
            if write > beyond.load(Ordering::Relaxed) {
                return;
            }
            if write <= clean_writes && !wanted(&crash) {
                continue;
            }
            let namespace = format!("write-{write}-{point:?}-{by:?}").to_lowercase();
            let run = scan.run(&namespace, Some((write, point)), by);
            assert_eq!(
                run.end, clean_end,
                "{namespace}: killed at {:?}",
                run.killed_at
            );
            match run.killed_at {
                Some(seen) => drop(explored.lock().unwrap().insert(crash, seen)),
                None => drop(beyond.fetch_min(write, Ordering::Relaxed)),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(work);
        }
    });
    let explored = explored.into_inner().unwrap();
    for (crash, seen) in &explored {
        // A reply that was lost had been sent.
        let answered = crash.point != Point::BeforeSend;
        assert_eq!(seen.code.is_some(), answered, "{crash:?}: {seen:?}");
    }
    // A write more or less is a matter of what is gathered in one; the last may not be reached.
    let last = explored.keys().map(|crash| crash.write).max();
    assert!(
        last.is_some_and(|last| last + 2 >= clean_writes),
        "{last:?} of {clean_writes}"
    );
    println!(
        "{clean_writes} writes undisturbed, {} crash points explored",
        explored.len()
    );
    let assumptions = Assumptions {
        // A pod may end while a status that says it runs is on its way.
        lag: SignedDuration::from_secs(5),
        over: true,
        ..Assumptions::default()
    };
    proof::assert_no_violation(&scan.cluster, &assumptions);
}

#[test]
fn an_operator_killed_at_any_write_leaves_a_state_that_another_completes() {
    // Each write at one of its three points, every fourth with a standby.
    explore("scan-sample", |crash| {
        let standby = crash.write % 4 == 0;
        crash.point == Point::ALL[crash.write % 3] && standby == (crash.by == TakeOver::Standby)
    });
}

#[test]
#[ignore = "takes minutes; the proof runs it"]
fn an_operator_killed_at_every_point_of_every_write_leaves_a_state_that_another_completes() {
    explore("scan", |_| true);
}
