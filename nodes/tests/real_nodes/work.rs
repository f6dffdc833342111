//! One of each kind at work on all nodes, while something happens to them.

use carillon_tests::lab::{Bench, is};
use serde_json::{Value, json};

use crate::lab::{Lab, broadcast, object, pod};

/// What pods write down when they begin and when they end.
const BEGIN: &str = "begin";
const END: &str = "end";

/// The objects of one test. Pods write to the ledgers of their nodes, under the name of the test.
pub(crate) struct Work<'a> {
    lab: &'a Lab,
    pub(crate) bench: Bench<'a>,
}

impl<'a> Work<'a> {
    /// Starts a BroadcastJob `fix`, a Job `sum` with a pod per node, and a DaemonSet `agent`, and waits until all of
    /// their pods run. Those of the first two end after so many seconds.
    pub(crate) fn start(lab: &'a Lab, name: &'static str, seconds: u32, more: &Value) -> Self {
        let bench = lab.bench(name);
        let work = Self { lab, bench };
        let bench = &work.bench;
        work.broadcast("fix", seconds, more);
        let mut summing = pod(&work.script("sum", seconds));
        let spread = json!({"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"job": "sum"}}});
        summing["topologySpreadConstraints"] = json!([spread]);
        let template = json!({"metadata": {"labels": {"job": "sum"}}, "spec": summing});
        let sum = json!({"managedBy": "carillon.dev/job-controller", "completions": 3, "parallelism": 3,
            "podReplacementPolicy": "Failed", "template": template});
        bench.apply(&object(bench, ("batch/v1", "Job"), "sum", &sum));
        let file = work.file("agent");
        let mut agent = pod(&format!(
            "echo {BEGIN} >>/ledger/{file}; trap 'exit 0' TERM; while :; do sleep 1; done"
        ));
        agent
            .as_object_mut()
            .expect("a pod")
            .remove("restartPolicy");
        let labels = json!({"app": "agent"});
        let template = json!({"metadata": {"labels": labels}, "spec": agent});
        let set = json!({"selector": {"matchLabels": labels}, "template": template});
        bench.apply(&object(
            bench,
            ("carillon.dev/v1alpha1", "DaemonSet"),
            "agent",
            &set,
        ));
        lab.until("all of it runs", || {
            let running = |pod: &&Value| pod["status"]["phase"] == "Running";
            (work.pods("").iter().filter(running).count() == 9).then_some(())
        });
        work
    }

    /// A further BroadcastJob, whose pods write down what `fix` does.
    #[track_caller]
    pub(crate) fn broadcast(&self, name: &str, seconds: u32, more: &Value) {
        let script = self.script(name, seconds);
        self.bench
            .apply(&broadcast(&self.bench, name, &script, more));
    }

    fn script(&self, of: &str, seconds: u32) -> String {
        let file = self.file(of);
        format!("echo {BEGIN} >>/ledger/{file}; sleep {seconds}; echo {END} >>/ledger/{file}")
    }

    fn file(&self, kind: &str) -> String {
        format!("{}-{kind}", self.bench.name)
    }

    /// The pods of an object.
    #[track_caller]
    pub(crate) fn pods(&self, of: &str) -> Vec<Value> {
        let pods = self.lab.get(&["pods", "-n", self.bench.name]);
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let of_it = |pod: &Value| {
            pod["metadata"]["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(of))
        };
        pods.into_iter().filter(of_it).collect()
    }

    /// Begun and ended runs of an object, by node.
    #[track_caller]
    pub(crate) fn runs(&self, kind: &str) -> Vec<(usize, usize)> {
        let ledgers = self.lab.ledgers(&self.file(kind));
        let count =
            |lines: &[String], word: &str| lines.iter().filter(|line| *line == word).count();
        ledgers
            .iter()
            .map(|lines| (count(lines, BEGIN), count(lines, END)))
            .collect()
    }

    /// The BroadcastJob has succeeded on each node, the Job is Complete, the DaemonSet has its pod on each node.
    #[track_caller]
    pub(crate) fn wait(&self) {
        let fix = self.bench.wait("fix", "Complete");
        assert_eq!(fix["status"]["succeeded"], 3, "{}", fix["status"]);
        self.lab.until("sum is Complete", || {
            is(
                &self.lab.get(&["job", "sum", "-n", self.bench.name]),
                "Complete",
            )
            .then_some(())
        });
        self.lab.until("agent has a pod on each node", || {
            let set = self.lab.get(&["cds", "agent", "-n", self.bench.name]);
            (set["status"]["numberAvailable"] == 3 && self.pods("agent").len() == 3).then_some(())
        });
    }

    /// Each pod ran once, from its beginning to its end.
    #[track_caller]
    pub(crate) fn assert_once(&self) {
        assert_eq!(self.runs("fix"), [(1, 1); 3]);
        let sums = self.runs("sum");
        let (begun, ended) = sums
            .iter()
            .fold((0, 0), |sum, node| (sum.0 + node.0, sum.1 + node.1));
        assert_eq!((begun, ended), (3, 3), "{sums:?}");
        let agents = self.runs("agent");
        assert!(agents.iter().all(|(begun, _)| *begun == 1), "{agents:?}");
    }
}

impl Drop for Work<'_> {
    /// So that the next test has the nodes for itself.
    fn drop(&mut self) {
        let _ = self
            .lab
            .cluster
            .kubectl(["delete", "namespace", self.bench.name, "--wait=false"]);
    }
}
