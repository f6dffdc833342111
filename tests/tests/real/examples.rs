//! Every file of examples/ does what it says, applied as it is.

use std::path::Path;
use std::time::Duration;

use carillon_testbed::{Operator, Options, Taint, wait};
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
    let (files, cron_files) = (files_of("broadcastjob-"), files_of("cronjob-"));
    assert!(files >= 10, "{files} examples");
    assert_eq!(files + cron_files, files_of(""), "a file of another kind");
    let _operator = Operator::start(&cluster, &Options::new("operator")).unwrap();
    let folder = folder.to_str().unwrap();
    cluster.kubectl_ok(["apply", "-f", folder]).unwrap();

    let jobs = || -> Vec<Value> {
        let own = [
            "get",
            "bcj",
            "-l",
            "!carillon.dev/cronjob-name",
            "-o",
            "json",
        ];
        let text = cluster.kubectl_ok(own).unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        list["items"].as_array().unwrap().clone()
    };
    assert_eq!(jobs().len(), files, "one job a file");
    // Most of these have their first run at night: that they are taken is all there is to see.
    let cron_jobs = cluster.kubectl_ok(["get", "ccj", "-o", "name"]).unwrap();
    assert_eq!(cron_jobs.lines().count(), cron_files, "{cron_jobs}");
    let at_its_end = |job: &Value| {
        let open = job["spec"]["completionPolicy"]["type"] == "Never";
        let waits =
            || condition_of(job, "Reconciling").is_some_and(|c| c["reason"] == "WaitingForNodes");
        if open { waits() } else { is(job, "Complete") }
    };
    let ended = || Ok(jobs().iter().all(at_its_end).then_some(()));
    let every = Duration::from_millis(500);
    let hint = || {
        cluster
            .kubectl_ok(["get", "bcj", "-o", "wide"])
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
    for job in jobs() {
        let (name, status) = (&job["metadata"]["name"], &job["status"]);
        let expected = if name == "gpu-check" { 2 } else { 3 };
        assert!(
            status["succeeded"].as_i64() >= Some(expected),
            "{name}: {status}"
        );
        assert_eq!(status["failed"], 0, "{name}");
    }
}
