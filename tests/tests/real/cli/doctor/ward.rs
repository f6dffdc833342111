//! A cluster with the chart for the tests of `doctor`. What one of them changes the others would find: they take
//! turns, and leave it as it was.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock};

use carillon_testbed::carillon::{
    NAMESPACE, Options, Profile, Program, RELEASE, build, install_chart, workspace,
};
use carillon_testbed::{Cluster, Config, Operator};
use carillon_tests::lab::Bench;
use serde_json::{Value, json};

use crate::cli::desk::{Answer, finish};

pub(super) struct Ward {
    pub(super) cluster: Cluster,
    operator: Mutex<Option<Operator>>,
    turn: Mutex<()>,
    /// What it said before anything was installed, and with one CRD only.
    pub(super) bare: Answer,
    pub(super) partial: Answer,
}

/// One test at a time.
pub(super) struct Turn {
    pub(super) ward: &'static Ward,
    _guard: MutexGuard<'static, ()>,
}

pub(super) fn turn() -> Turn {
    static WARD: OnceLock<Ward> = OnceLock::new();
    let ward = WARD.get_or_init(open);
    let guard = ward.turn.lock();
    Turn {
        ward,
        // One that failed says so itself.
        _guard: guard.unwrap_or_else(std::sync::PoisonError::into_inner),
    }
}

fn open() -> Ward {
    let cluster = Cluster::start(Config::new("doctor").with_nodes(4)).unwrap();
    let doctor = || ask(&cluster, None, &["-o", "json"]);
    let bare = doctor();
    let crd = workspace().join("crds/carillon.dev_broadcastjobs.yaml");
    let crd = crd.to_str().unwrap();
    cluster
        .kubectl_ok(["apply", "--server-side", "-f", crd])
        .unwrap();
    let partial = doctor();
    cluster.kubectl_ok(["delete", "-f", crd]).unwrap();
    install_chart(&cluster, &["--wait"]).unwrap();
    let operator = start(&cluster);
    Ward {
        operator: Mutex::new(Some(operator)),
        turn: Mutex::new(()),
        bare,
        partial,
        cluster,
    }
}

fn start(cluster: &Cluster) -> Operator {
    let options = Options::of_release(cluster, (RELEASE, NAMESPACE), "operator").unwrap();
    Operator::start(cluster, &options).unwrap()
}

/// Asks on a cluster, in one namespace or in all.
fn ask(cluster: &Cluster, namespace: Option<&str>, args: &[&str]) -> Answer {
    let mut command = Command::new(build(Program::Cli, Profile::Dev).unwrap());
    command.env("KUBECONFIG", cluster.kubeconfig());
    command.args(
        namespace
            .into_iter()
            .flat_map(|namespace| ["-n", namespace]),
    );
    command.arg("doctor").args(args);
    finish(command, "")
}

impl Turn {
    pub(super) fn ask(&self, namespace: Option<&str>, args: &[&str]) -> Answer {
        ask(&self.ward.cluster, namespace, args)
    }

    /// The answer for programs.
    #[track_caller]
    pub(super) fn report(&self, namespace: Option<&str>) -> Report {
        let answer = self.ask(namespace, &["-o", "json"]);
        Report::of(&answer)
    }

    pub(super) fn kubectl(&self, args: &[&str]) -> String {
        self.ward.cluster.kubectl_ok(args).unwrap()
    }

    pub(super) fn get(&self, args: &[&str]) -> Value {
        let text = self.kubectl(&[&["get"], args, &["-o", "json"]].concat());
        serde_json::from_str(&text).unwrap()
    }

    pub(super) fn apply(&self, object: &Value) {
        let apply = ["apply", "-f", "-"];
        self.ward
            .cluster
            .kubectl_stdin(apply, &object.to_string())
            .unwrap();
    }

    /// A namespace for one test.
    pub(super) fn bench(&self, name: &'static str) -> Bench<'static> {
        self.kubectl(&["create", "namespace", name]);
        Bench {
            cluster: &self.ward.cluster,
            name,
            nodes: (0..4).map(|n| format!("node-{n:04}")).collect(),
            node_selector: json!({}),
        }
    }

    /// Ends the operator as a machine that fails does.
    pub(super) fn kill_operator(&self) {
        let operator = self.ward.operator.lock().unwrap().take().unwrap();
        operator.process.kill().unwrap();
    }

    pub(super) fn start_operator(&self) {
        *self.ward.operator.lock().unwrap() = Some(start(&self.ward.cluster));
    }

    /// Puts our CRDs back, whoever has changed them.
    pub(super) fn restore_crds(&self) {
        let crds = workspace().join("crds").display().to_string();
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", &crds];
        self.kubectl(&apply);
    }
}

/// What it said, and how it ended.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) code: i32,
    pub(super) checks: Vec<Value>,
}

impl Report {
    #[track_caller]
    pub(super) fn of(answer: &Answer) -> Self {
        let checks = answer.json()["checks"].as_array().cloned();
        Self {
            code: answer.code,
            checks: checks.unwrap_or_default(),
        }
    }

    #[track_caller]
    pub(super) fn check(&self, name: &str) -> &Value {
        let mut checks = self.checks.iter();
        let found = checks.find(|check| check["check"] == name);
        found.unwrap_or_else(|| panic!("no check {name}: {self:#?}"))
    }

    /// Panics unless a check ended so and has a finding about an object, with these words.
    #[track_caller]
    pub(super) fn finds(&self, name: &str, severity: &str, place: &str, words: &str) -> &Value {
        let check = self.check(name);
        let mut findings = check["findings"].as_array().unwrap().iter();
        let found = findings.find(|finding| {
            let what = finding["what"].as_str().unwrap_or_default();
            finding["where"] == place && finding["severity"] == severity && what.contains(words)
        });
        let bad = matches!(severity, "Warning" | "Problem");
        assert!(!bad || self.code == 2, "{self:#?}");
        found.unwrap_or_else(|| panic!("no {severity} {place} {words:?}: {check:#}"))
    }

    /// Panics unless a check is well.
    #[track_caller]
    pub(super) fn is_ok(&self, name: &str) {
        let check = self.check(name);
        assert_eq!(check["result"], "Ok", "{check:#}");
    }
}
