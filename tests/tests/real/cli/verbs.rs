//! The verbs that act, and what is said when nothing can be done.

use carillon_testbed::{Cluster, Config};
use carillon_tests::lab::{Bench, is};
use serde_json::json;

use super::desk::{carillon, command, desk, finish, three_failures};

#[test]
fn a_job_paused_by_a_failure_is_resumed_until_it_is_complete() {
    let bench = desk().bench("cli-resume");
    let pause = json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}});
    bench.apply(&bench.job("fix", &three_failures(), &pause));
    for failed in 1..=3 {
        bench.until("the next failure pauses it", || {
            let job = bench.get("fix");
            (is(&job, "Paused") && job["status"]["failed"] == failed).then_some(())
        });
        let resumed = carillon(&bench, &["resume", "fix"]).ended_with(0);
        assert_eq!(resumed.stdout, "broadcastjob.carillon.dev/fix resumed\n");
    }
    let waited = carillon(&bench, &["wait", "fix", "--timeout", "2m"]).ended_with(0);
    assert_eq!(waited.stdout, "fix: 6/6 Complete: 3 nodes failed\n");
    let late = carillon(&bench, &["resume", "fix"]).ended_with(1);
    assert!(
        late.stderr
            .contains("fix has ended (Complete, CompletedWithFailures)"),
        "{late:?}"
    );
}

#[test]
fn pause_and_resume_on_request_do_nothing_when_it_is_so_already() {
    let bench = desk().bench("cli-pause");
    let slow = json!({"*": {"run-time": "10m"}});
    bench.apply(&bench.job("fix", &slow, &json!({"parallelism": 1})));
    let said = |verb: &str| carillon(&bench, &[verb, "fix"]).ended_with(0).stdout;
    assert_eq!(said("pause"), "broadcastjob.carillon.dev/fix paused\n");
    assert_eq!(bench.get("fix")["spec"]["paused"], true);
    assert_eq!(
        said("pause"),
        "broadcastjob.carillon.dev/fix is paused already\n"
    );
    bench.wait("fix", "Paused");
    assert_eq!(said("resume"), "broadcastjob.carillon.dev/fix resumed\n");
    assert_eq!(bench.get("fix")["spec"]["paused"], false);
    assert_eq!(
        said("resume"),
        "broadcastjob.carillon.dev/fix is not paused\n"
    );
}

#[test]
fn wait_ends_with_what_became_of_the_job() {
    let bench = desk().bench("cli-wait");
    bench.apply(&bench.job("fails", &three_failures(), &json!({})));
    let failed = carillon(&bench, &["wait", "fails", "--timeout", "2m"]).ended_with(3);
    assert!(failed.stdout.contains("Failed: "), "{failed:?}");

    let some_fail = json!({"failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("some-fail", &three_failures(), &some_fail));
    carillon(&bench, &["wait", "some-fail", "--timeout", "2m"]).ended_with(0);
    carillon(&bench, &["wait", "some-fail", "--require-success"]).ended_with(3);

    let on_failure = json!({"failurePolicy": {"type": "Pause"}});
    bench.apply(&bench.job("pauses", &three_failures(), &on_failure));
    let paused = carillon(&bench, &["wait", "pauses", "--timeout", "2m"]).ended_with(4);
    assert!(paused.stdout.contains("Paused: "), "{paused:?}");

    let slow = json!({"*": {"run-time": "10m"}});
    bench.apply(&bench.job("slow", &slow, &json!({})));
    let late = carillon(&bench, &["wait", "slow", "--timeout", "0s"]).ended_with(2);
    assert!(late.stderr.contains("not within"), "{late:?}");

    let open =
        json!({"completionPolicy": {"type": "Never"}, "failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("open", &json!({}), &open));
    carillon(&bench, &["wait", "open", "--timeout", "2m"]).ended_with(0);
    carillon(&bench, &["wait", "none"]).ended_with(1);
}

#[test]
fn a_job_that_is_not_there_is_answered_with_those_that_are() {
    let bench = desk().bench("cli-missing");
    let elsewhere = desk().bench("cli-missing-2");
    let none = carillon(&bench, &["results", "unheard-of"]).ended_with(1);
    assert!(
        none.stderr.contains("There are none in cli-missing"),
        "{none:?}"
    );
    let job = |bench: &Bench<'_>, name| bench.job(name, &json!({}), &json!({"paused": true}));
    bench.apply(&job(&bench, "fix-kernel"));
    let near = carillon(&bench, &["results", "fix-kernle"]).ended_with(1);
    assert!(near.stderr.contains("There are: fix-kernel"), "{near:?}");
    elsewhere.apply(&job(&elsewhere, "moved-away"));
    let other = carillon(&bench, &["results", "moved-away"]).ended_with(1);
    assert!(
        other
            .stderr
            .contains("There is one in cli-missing-2: use -n"),
        "{other:?}"
    );
}

#[test]
fn a_cluster_without_carillon_is_told_how_to_install_it() {
    let config = Config {
        scheduler: false,
        controller_manager: false,
        kwok: false,
        ..Config::new("cli-bare")
    };
    let cluster = Cluster::start(config).unwrap();
    for verb in [&["get"][..], &["explain", "fix"], &["pause", "fix"]] {
        let mut command = command(&cluster, "default");
        command.args(verb);
        let answer = finish(command, "").ended_with(1);
        assert!(
            answer.stderr.contains("Carillon is not installed there"),
            "{answer:?}"
        );
        assert!(answer.stderr.contains("helm install"), "{answer:?}");
    }
}

#[test]
fn mistakes_on_the_command_line_are_errors_and_not_refused_nodes() {
    let bench = desk().bench("cli-usage");
    for args in [
        &["frobnicate"][..],
        &["get", "pod/fix"],
        &["retry", "fix"],
        &["get", "-o", "pdf"],
        &["wait", "fix", "--timeout", "soon"],
    ] {
        carillon(&bench, args).ended_with(1);
    }
    carillon(&bench, &["--help"]).ended_with(0);
    let version = carillon(&bench, &["version"]).ended_with(0).stdout;
    assert!(version.starts_with("kubectl-carillon "), "{version}");
}
