//! `uninstall --release` when others change the same objects, lists expire, and it is typed twice.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

mod http;

use std::sync::{Arc, Mutex};

use http::run;
use serde_json::{Value, json};

const OURS: &str = "carillon.dev/run-tracking";
const KEPT: &str = "example.com/keep";

/// Two Jobs, one a page. The second page is forgotten at first.
#[derive(Debug, Default)]
struct Cluster {
    finalizers: [Vec<&'static str>; 2],
    /// Whether the second Job is in conflict, whatever is sent.
    stubborn: bool,
    lists: usize,
    patches: Vec<(usize, u16)>,
}

impl Cluster {
    fn answer(&mut self, method: &str, uri: &str, body: &Value) -> (u16, Value) {
        let path = uri.split('?').next().unwrap();
        let job = ["/jobs/sum-0", "/jobs/sum-1"]
            .iter()
            .position(|end| path.ends_with(end));
        match (method, job) {
            ("PATCH", Some(job)) => {
                let code = self.patch(job, body);
                self.patches.push((job, code));
                (code, refusal(code))
            }
            ("GET", Some(job)) => (200, self.job(job)),
            ("GET", None) if path.ends_with("/jobs") => self.page(uri),
            ("GET", None) => (200, json!({"metadata": {}, "items": []})),
            _ => (405, refusal(405)),
        }
    }

    fn job(&self, job: usize) -> Value {
        json!({"metadata": {"namespace": "ops", "name": format!("sum-{job}"), "uid": format!("uid-{job}"),
            "finalizers": self.finalizers[job]}})
    }

    fn page(&mut self, uri: &str) -> (u16, Value) {
        self.lists += 1;
        let second = uri.contains("continue=second");
        match (second, self.lists) {
            (false, lists) => {
                let page = json!({"metadata": {"continue": "second"}, "items": [self.job(0)]});
                // Somebody else changes it after it was listed for the first time.
                if lists == 3 {
                    self.finalizers[0].reverse();
                }
                (200, page)
            }
            (true, 2) => (410, refusal(410)),
            (true, _) => (200, json!({"metadata": {}, "items": [self.job(1)]})),
        }
    }

    /// As the API server applies a JSON patch of a list.
    fn patch(&mut self, job: usize, body: &Value) -> u16 {
        if job == 1 && self.stubborn {
            return 409;
        }
        for step in body.as_array().unwrap() {
            let path = step["path"].as_str().unwrap();
            let at = path.strip_prefix("/metadata/finalizers/");
            let at = at.map(|at| at.parse::<usize>().unwrap());
            match (step["op"].as_str().unwrap(), at) {
                ("test", None) => assert_eq!(step["value"], format!("uid-{job}")),
                ("test", Some(at)) => {
                    if self.finalizers[job]
                        .get(at)
                        .is_none_or(|one| step["value"] != *one)
                    {
                        return 422;
                    }
                }
                ("remove", Some(at)) => drop(self.finalizers[job].remove(at)),
                other => panic!("{other:?}"),
            }
        }
        200
    }
}

fn refusal(code: u16) -> Value {
    let reason = if code == 410 { "Expired" } else { "Conflict" };
    json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"})
}

fn start(cluster: Cluster) -> (u16, Arc<Mutex<Cluster>>) {
    let cluster = Arc::new(Mutex::new(cluster));
    let shared = Arc::clone(&cluster);
    let answer = move |method: &str, uri: &str, body: &Value| {
        shared.lock().unwrap().answer(method, uri, body)
    };
    (http::serve(Arc::new(answer)), cluster)
}

#[test]
fn a_release_goes_on_where_others_have_written_and_takes_nothing_of_theirs() {
    let (port, cluster) = start(Cluster {
        finalizers: [vec![KEPT, OURS], vec![OURS, KEPT]],
        ..Cluster::default()
    });
    let output = run(port, &["uninstall", "--release"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        said,
        format!("ops: {OURS} taken off 2 Jobs: sum-0, sum-1\nNothing is held.\n")
    );
    let cluster = cluster.lock().unwrap();
    assert_eq!(cluster.finalizers, [[KEPT], [KEPT]]);
    let mut patches = cluster.patches.clone();
    patches.sort_unstable();
    // What had moved was looked for again.
    assert_eq!(patches, [(0, 200), (0, 422), (1, 200)]);
}

#[test]
fn what_could_not_be_released_is_told_and_can_be_tried_again() {
    let (port, cluster) = start(Cluster {
        finalizers: [vec![OURS], vec![OURS]],
        stubborn: true,
        ..Cluster::default()
    });
    let output = run(port, &["uninstall", "--release"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(error.contains("error: Job ops/sum-1: no"), "{error}");
    {
        let mut cluster = cluster.lock().unwrap();
        assert_eq!(cluster.finalizers, [vec![], vec![OURS]], "the rest is done");
        let tries = cluster.patches.iter().filter(|(job, _)| *job == 1);
        assert_eq!(tries.count(), 5, "not for ever");
        cluster.stubborn = false;
        cluster.patches.clear();
    }
    let output = run(port, &["uninstall", "--release"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = run(port, &["uninstall", "--release"]);
    assert_eq!(output.stdout, b"Nothing is held.\n");
    let cluster = cluster.lock().unwrap();
    assert_eq!(cluster.patches, [(1, 200)], "only what was left");
}

/// Something is held, and there is this lease; the CRDs note `sys/bells` as that of the operator.
fn start_with_lease() -> (u16, Arc<Mutex<Vec<String>>>) {
    let writes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&writes);
    let answer = move |method: &str, uri: &str, _: &Value| {
        let path = uri.split('?').next().unwrap();
        if method != "GET" {
            seen.lock().unwrap().push(format!("{method} {path}"));
            return (200, json!({}));
        }
        let job = json!({"metadata": {"namespace": "ops", "name": "sum-0", "uid": "uid-0",
            "finalizers": [OURS]}});
        let lease = json!({"metadata": {"namespace": "sys", "name": "bells"},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
        let found = match path {
            "/apis/batch/v1/jobs" => vec![job],
            "/apis/coordination.k8s.io/v1/namespaces/sys/leases" => vec![lease],
            crd if crd.contains("/customresourcedefinitions/") => {
                let note = json!({"carillon.dev/lease": "sys/bells"});
                return (200, json!({"metadata": {"annotations": note}}));
            }
            _ => vec![],
        };
        (200, http::list(&found))
    };
    (http::serve(Arc::new(answer)), writes)
}

#[test]
fn nothing_is_released_unless_release_is_typed() {
    let (port, writes) = start_with_lease();
    for args in [
        &[][..],
        &["--lease", "sys/bells"],
        &["--lease", "sys/typo"],
        &["--delete-jobs"],
        &["--force"],
        &["--check", "--release"],
        &["--check", "--force"],
        &["--check", "--delete-jobs"],
        &["--lease", "sys/bells", "--force", "--delete-jobs"],
    ] {
        let output = run(port, &[&["uninstall"], args].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("Usage:"), "{args:?}: {said}");
        assert!(writes.lock().unwrap().is_empty(), "{args:?}");
    }
    let output = run(port, &["uninstall", "--check", "--lease", "sys/bells"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(writes.lock().unwrap().is_empty());
}

#[test]
fn a_lease_that_is_named_and_does_not_exist_releases_nothing_and_the_noted_one_is_told() {
    let (port, writes) = start_with_lease();
    for what in ["--release", "--check"] {
        for typo in ["sys/bell", "system/bells"] {
            let output = run(port, &["uninstall", what, "--lease", typo]);
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            let expected = format!("error: there is no lease {typo}: ");
            assert!(said.contains(&expected), "{said}");
            let noted = "The CRDs note sys/bells (carillon.dev/lease)";
            assert!(said.contains(noted), "{said}");
        }
    }
    assert!(writes.lock().unwrap().is_empty());
    let args = ["uninstall", "--release", "--lease", "sys/typo", "--force"];
    let _ = run(port, &args);
    assert_eq!(writes.lock().unwrap().len(), 1, "who forces it has looked");
    let _ = run(port, &["uninstall", "--release", "--lease", "sys/bells"]);
    assert_eq!(writes.lock().unwrap().len(), 2, "nobody holds it");
}
