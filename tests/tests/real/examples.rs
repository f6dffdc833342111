//! Every file of examples/ does what it says, applied as it is.

use std::path::Path;
use std::time::Duration;

use carillon_testbed::{Cluster, Operator, Options, Taint, wait};
use carillon_tests::lab::{self, condition_of, is};
use serde_json::Value;

#[test]
fn every_example_runs_to_its_end_as_it_is() {
    let cluster = lab::cluster("examples", 3);
    let pool = Taint {
        key: "example.com/pool".to_owned(),
        value: "gpu".to_owned(),
        effect: "NoSchedule".to_owned(),
    };
    cluster
        .add_nodes(2, &[("example.com/pool", "gpu")], &[pool])
        .unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let files_of = |kind: &str| {
        let names = std::fs::read_dir(&folder).unwrap();
        let names = names.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(kind)).count()
    };
    let kinds = ["broadcastjob-", "cronjob-", "daemonset-", "job-"];
    let [files, cron_files, daemon_files, native_files] = kinds.map(files_of);
    assert!(files >= 10, "{files} examples");
    let known = files + cron_files + daemon_files + native_files;
    assert_eq!(known, files_of(""), "a file of another kind");
    let _operator = Operator::start(&cluster, &Options::new("operator")).unwrap();
    let folder = folder.to_str().unwrap();
    cluster.kubectl_ok(["apply", "-f", folder]).unwrap();

    let those = |of: &[&str]| -> Vec<Value> {
        let get = [&["get"], of, &["-o", "json"]].concat();
        let text = cluster.kubectl_ok(get).unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        list["items"].as_array().unwrap().clone()
    };
    let jobs = || those(&["cbj", "-l", "!carillon.dev/cronjob-name"]);
    // Runs of CronJobs have an owner.
    let native_jobs = || {
        let mut all = those(&["job"]);
        all.retain(|job| job["metadata"]["ownerReferences"].is_null());
        all
    };
    assert_eq!(native_jobs().len(), native_files, "one job a file");
    assert_eq!(jobs().len(), files, "one job a file");
    // Most of these have their first run at night: that they are taken is all there is to see.
    let cron_jobs = cluster.kubectl_ok(["get", "ccj", "-o", "name"]).unwrap();
    assert_eq!(cron_jobs.lines().count(), cron_files, "{cron_jobs}");
    let at_its_end = |job: &Value| {
        let open = job["spec"]["completionPolicy"]["type"] == "Never";
        let waits =
            || condition_of(job, "Reconciling").is_some_and(|c| c["reason"] == "WaitingForNodes");
        // Its uid is still to be written.
        let unknown =
            || condition_of(job, "Stalled").is_some_and(|c| c["reason"] == "RetriedJobGone");
        match job["metadata"]["name"].as_str() {
            Some(RETRY) => unknown(),
            _ if open => waits(),
            _ => is(job, "Complete"),
        }
    };
    let native_ended = || native_jobs().iter().all(|job| is(job, "Complete"));
    let daemons_run = || {
        let sets = those(&["cds"]);
        sets.len() == daemon_files && sets.iter().all(|set| is(set, "Available"))
    };
    let ended = || {
        let all = jobs().iter().all(at_its_end) && native_ended() && daemons_run();
        Ok(all.then_some(()))
    };
    let every = Duration::from_millis(500);
    let hint = || {
        cluster
            .kubectl_ok(["get", "cbj,job", "-o", "wide"])
            .unwrap_or_default()
    };
    wait::until(
        "all examples are at their end",
        lab::LIMIT,
        every,
        ended,
        hint,
    )
    .unwrap();
    for job in jobs()
        .into_iter()
        .filter(|job| job["metadata"]["name"] != RETRY)
    {
        let (name, status) = (&job["metadata"]["name"], &job["status"]);
        let expected = if name == "gpu-check" { 2 } else { 3 };
        assert!(
            status["succeeded"].as_i64() >= Some(expected),
            "{name}: {status}"
        );
        assert_eq!(status["failed"], 0, "{name}");
    }
    a_retry_has_nothing_to_do(&cluster, folder, &jobs);
}

/// The uid of its job is known by now: all its nodes have succeeded already.
fn a_retry_has_nothing_to_do(cluster: &Cluster, folder: &str, jobs: &dyn Fn() -> Vec<Value>) {
    let all = jobs();
    let mut of = all
        .iter()
        .filter(|job| job["metadata"]["name"] == "collect-facts");
    let uid = of.next().unwrap()["metadata"]["uid"].as_str().unwrap();
    let file = Path::new(folder).join("broadcastjob-retry.yaml");
    let written = std::fs::read_to_string(file).unwrap();
    let written = written.replace("00000000-0000-0000-0000-000000000000", uid);
    cluster.kubectl_ok(["delete", "cbj", RETRY]).unwrap();
    cluster
        .kubectl_stdin(["apply", "-f", "-"], &written)
        .unwrap();
    let complete = || {
        let all = jobs();
        let retry = all.iter().find(|job| job["metadata"]["name"] == RETRY);
        let reason = condition_of(retry?, "Complete")?["reason"].clone();
        Some(reason)
    };
    let ended = || Ok(complete());
    let every = Duration::from_millis(500);
    let hint = || format!("{:?}", complete());
    let what = "the retry is at its end";
    let reason = wait::until(what, lab::LIMIT, every, ended, hint).unwrap();
    assert_eq!(reason, "AlreadySucceeded");
}

/// The example that names a job by its uid.
const RETRY: &str = "collect-facts-retry";
