//! The cluster that the commands are run on: node-0006 is tainted, node-0007 cordoned, three jobs
//! meet failures, and two CronJobs run on request. `$SCENE` is a folder with `held-up.json`, a patch of
//! the DaemonSet of the examples whose update comes no further than its first node.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use carillon_testbed::carillon::{Profile, Program, apply_crds, build};
use carillon_testbed::fate::{FATES, table};
use carillon_testbed::{Cluster, Config, Fate, Operator, Options};
use serde_json::{Value, json};

pub(super) struct Scene {
    cluster: Cluster,
    _operator: Operator,
    programs: PathBuf,
}

impl Scene {
    pub(super) fn set() -> Result<Self> {
        let cluster = Cluster::start(Config::new("transcripts").with_nodes(8))?;
        apply_crds(&cluster)?;
        let taint = "example.com/pool=gpu:NoSchedule";
        cluster.kubectl_ok(["taint", "node", "node-0006", taint])?;
        cluster.kubectl_ok(["label", "node", "node-0006", "example.com/pool=gpu"])?;
        cluster.kubectl_ok(["cordon", "node-0007"])?;
        let operator = Operator::start(&cluster, &Options::new("operator"))?;
        let jobs = json!({"apiVersion": "v1", "kind": "List", "items": objects()});
        cluster.kubectl_stdin(["apply", "-f", "-"], &jobs.to_string())?;

        let programs = cluster.dir().join("programs");
        std::fs::create_dir_all(&programs)?;
        std::fs::write(programs.join("held-up.json"), held_up().to_string())?;
        symlink(
            build(Program::Cli, Profile::Dev)?,
            programs.join("kubectl-carillon"),
        )?;
        symlink(
            cluster.kubectl_command().get_program(),
            programs.join("kubectl"),
        )?;
        Ok(Self {
            cluster,
            _operator: operator,
            programs,
        })
    }

    /// Lets a command find the cluster, kubectl and its plugin.
    pub(super) fn prepare(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .env("KUBECACHEDIR", self.cluster.dir().join("kubectl-cache"))
            .env("SCENE", &self.programs)
            .env("PATH", format!("{}:{path}", self.programs.display()));
    }
}

fn held_up() -> Value {
    json!({
        "metadata": {"annotations": {"kubernetes.io/change-cause": "a newer image"}},
        "spec": {"template": {
            "spec": {"containers": [{
                "name": "main", "image": "busybox:1.38", "command": ["sleep", "infinity"],
                "resources": {"requests": {"cpu": "1000"}},
            }]},
        }},
    })
}

fn objects() -> Vec<Value> {
    let mut objects = jobs();
    objects.push(cron("close-books", "30 1 * * *", "Allow", &table([])));
    let slow = table([("*", Fate::default().with("run-time", "1h"))]);
    objects.push(cron("count-stock", "0 6 1 1 *", "Forbid", &slow));
    objects
}

fn jobs() -> Vec<Value> {
    let full = || Fate::exits(3, "no space left on device");
    let failures = || {
        table([
            ("node-0001", full()),
            ("node-0003", full()),
            ("node-0004", Fate::exits(1, "")),
        ])
    };
    // The first node takes a moment, the second longer than this page: what is shown does not depend
    // on when.
    let slow = table([
        ("node-0000", Fate::default().with("run-time", "3s")),
        ("*", Fate::default().with("run-time", "1h")),
    ]);
    vec![
        job("fix-kernel", &json!(1), "Pause", &failures()),
        job("warm-images", &json!("50%"), "Continue", &failures()),
        job("rotate-keys", &json!(1), "FailFast", &slow),
    ]
}

fn job(name: &str, parallelism: &Value, on_failure: &str, fates: &str) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "parallelism": parallelism,
            "failurePolicy": {"type": on_failure},
            "template": {
                "metadata": {"annotations": {FATES: fates}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox:1.37"}],
                },
            },
        },
    })
}

fn cron(name: &str, schedule: &str, concurrency: &str, fates: &str) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedule": schedule,
            "timeZone": "America/New_York",
            "concurrencyPolicy": concurrency,
            "jobTemplate": {"spec": {"template": {
                "metadata": {"annotations": {FATES: fates}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox:1.37"}],
                },
            }}},
        },
    })
}
