//! A process that serves Kubernetes' own kinds only, on a cluster that has none of our CRDs.

use std::time::Duration;

use carillon_testbed::{Cluster, Config, Operator, Options, wait};
use carillon_tests::lab::LIMIT;
use serde_json::json;

const EVERY: Duration = Duration::from_millis(200);

#[test]
fn who_serves_native_kinds_only_needs_none_of_our_crds() {
    let mut config = Config::new("native-only").with_nodes(1);
    let theirs_are_off = "--controllers=*,-cronjob-controller,-job-controller";
    config.controller_manager_args = vec![theirs_are_off.to_owned()];
    let cluster = Cluster::start(config).expect("a cluster");
    let all = Options::new("without-crds").arg("--serve-native=jobs,cronjobs");
    let all = Operator::launch(&cluster, &all).expect("an operator");
    let says = || {
        let log = all.process.log_tail(200);
        let remedy = "install its CRD, or leave its controller out with --controllers";
        Ok(log.contains(remedy).then_some(()))
    };
    let log = || all.process.log_tail(20);
    wait::until("it says what is missing", LIMIT, EVERY, says, log).expect("a remedy");
    drop(all);
    let options = Options::new("operator")
        .arg("--controllers=job")
        .arg("--serve-native=jobs,cronjobs");
    // It waits until the operator is ready.
    let operator = Operator::start(&cluster, &options).expect("an operator that is ready");

    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "each-minute"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}],
        }}}}},
    });
    let created = cluster.kubectl_stdin(["create", "-f", "-"], &cron_job.to_string());
    created.expect("a CronJob");
    let complete = || {
        let jobs =
            cluster.kubectl_ok(["get", "jobs", "-o=jsonpath={.items[*].status.succeeded}"])?;
        Ok(jobs.contains('1').then_some(()))
    };
    let log = || operator.process.log_tail(20);
    wait::until("its first Job is complete", LIMIT, EVERY, complete, log).expect("a run");
}
