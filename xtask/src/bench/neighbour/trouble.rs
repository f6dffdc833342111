//! The namespace full of trouble.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use carillon_testbed::{Cluster, wait};
use serde_json::{Value, json};

use super::{Args, EVERY, LIMIT};

const NAMESPACE: &str = "noisy";
/// Objects in one request of kubectl.
const AT_A_TIME: usize = 200;
/// However many times: the loop ends after so long.
const LONGEST: Duration = Duration::from_mins(20);

/// Trouble, which goes on until it ends.
pub(super) struct Trouble {
    stop: Arc<AtomicBool>,
    lap: JoinHandle<Result<usize>>,
}

impl Trouble {
    /// Makes all of it, and waits until it is there.
    pub(super) fn make(args: &Args, cluster: &Cluster) -> Result<Self> {
        cluster.kubectl_ok(["create", "namespace", NAMESPACE])?;
        create(cluster, (0..args.broken_jobs).map(broken_job))?;
        create(cluster, (0..args.strays).map(tempting_job))?;
        strays(cluster, args)?;
        let stop = Arc::new(AtomicBool::new(false));
        let objects = list(
            &(0..args.loop_objects)
                .map(coming_and_going)
                .collect::<Vec<_>>(),
        );
        let (kubectl, most) = (cluster.kubectl_command(), args.loops);
        let (program, kubeconfig) = (kubectl.get_program().to_owned(), cluster.kubeconfig());
        let stopped = Arc::clone(&stop);
        let lap = thread::spawn(move || {
            let begun = Instant::now();
            let file =
                std::env::temp_dir().join(format!("carillon-loop-{}.json", std::process::id()));
            std::fs::write(&file, &objects)?;
            let mut laps = 0;
            while laps < most && begun.elapsed() < LONGEST && !stopped.load(Ordering::Relaxed) {
                for verb in [
                    &["create"][..],
                    &["delete", "--wait=false", "--ignore-not-found"],
                ] {
                    let mut command = std::process::Command::new(&program);
                    command
                        .env("KUBECONFIG", &kubeconfig)
                        .args(verb)
                        .arg("-f")
                        .arg(&file);
                    // What is still going away cannot be created: the next time, then.
                    command.output()?;
                }
                laps += 1;
            }
            let _ = std::fs::remove_file(&file);
            Ok(laps)
        });
        Ok(Self { stop, lap })
    }

    /// Ends the loop; how often it went round.
    pub(super) fn end(self) -> Result<usize> {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.lap.join();
        joined.map_err(|_| anyhow!("the loop has panicked"))?
    }
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn create(cluster: &Cluster, objects: impl Iterator<Item = Value>) -> Result<()> {
    let objects: Vec<Value> = objects.collect();
    for some in objects.chunks(AT_A_TIME) {
        cluster.kubectl_stdin(["create", "-f", "-"], &list(some))?;
    }
    Ok(())
}

fn pod_spec() -> Value {
    json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.37"}]})
}

/// The API server accepts the Job, and none of its pods: there is no such account.
fn broken_job(number: usize) -> Value {
    let mut pod = pod_spec();
    pod["serviceAccountName"] = json!("nobody");
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": format!("broken-{number}"), "namespace": NAMESPACE},
        "spec": {"managedBy": "carillon.dev/job-controller", "template": {"spec": pod}},
    })
}

/// Its first pod runs for ever, the other node waits for its turn.
fn tempting_job(number: usize) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
        "metadata": {"name": format!("tempting-{number}"), "namespace": NAMESPACE},
        "spec": {"parallelism": 1, "nodeNames": ["node-0003", "node-0004"], "template": {
            "metadata": {"annotations": {"testbed.carillon.dev/fates":
                json!({"node-0003": {"run-time": "20s"}, "*": {"fate": "hang"}}).to_string()}},
            "spec": pod_spec()}},
    })
}

fn coming_and_going(number: usize) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
        "metadata": {"name": format!("passing-{number}"), "namespace": NAMESPACE},
        "spec": {"parallelism": 2, "template": {"spec": pod_spec()}},
    })
}

/// A copy of the first pod of each job, on the node that is not yet served.
fn strays(cluster: &Cluster, args: &Args) -> Result<()> {
    let get = [
        "get",
        "pods",
        "-n",
        NAMESPACE,
        "-l",
        "carillon.dev/broadcastjob-uid",
        "-o",
        "json",
    ];
    let pods = || -> Result<Option<Vec<Value>>> {
        let mut pods: Value = serde_json::from_str(&cluster.kubectl_ok(get)?)?;
        let pods = pods["items"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        // Where a node has no room for all of them, half will do.
        Ok((pods.len() >= args.strays.min(100) / 2).then_some(pods))
    };
    let pods = wait::until("pods to copy", LIMIT, EVERY, pods, String::new)?;
    create(
        cluster,
        pods.iter().map(|pod| {
            let meta = &pod["metadata"];
            let mut spec = pod_spec();
            spec["nodeName"] = json!("node-0004");
            json!({
                "apiVersion": "v1", "kind": "Pod", "spec": spec,
                "metadata": {
                    "name": format!("{}-copy", meta["name"].as_str().unwrap_or_default()),
                    "namespace": NAMESPACE, "labels": meta["labels"],
                    "annotations": {"testbed.carillon.dev/fate": "hang"},
                    "ownerReferences": meta["ownerReferences"],
                },
            })
        }),
    )
}
