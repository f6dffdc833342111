//! Jobs, served side by side on one cluster: by kube-controller-manager, and by us where a Job names
//! us in `spec.managedBy`. The same Jobs, the same fates of their pods, the same acts of users; what
//! the API has shown of both has to be the same, or its difference has a name and a reason.

mod backoff;
mod completions;
mod course;
mod deadlines;
mod deletion;
mod differences;
mod failure_policy;
mod here;
mod indexed;
mod ownership;
mod per_index;
mod pods;
mod replacement;
mod scenario;
mod side;
mod success_policy;
mod suspension;
mod templates;
mod view;

use std::thread::scope;

use carillon_testbed::carillon::apply_crds;
use carillon_testbed::{Audit, Cluster, Config, Operator, Options};
use carillon_tests::api::Api;
use serde_json::json;

use self::differences::DIFFERENCES;
use self::scenario::Scenario;
use self::side::Server;
use crate::parity::rounds::{Rounds, assert_all_ended, assert_shown, chosen};
use crate::parity::stage::Stage;
use crate::parity::watched::Watched;
use crate::parity::{View, judge, merge, print_and_assert};

/// What is looked at.
const WATCHED: [(&str, &str); 3] = [
    ("jobs", "/apis/batch/v1/jobs"),
    ("pods", "/api/v1/pods"),
    ("events", "/api/v1/events"),
];

/// kube-controller-manager.
const THEIRS: Server = Server {
    suffix: "theirs",
    managed_by: None,
};
/// We.
const OURS: Server = Server {
    suffix: "ours",
    managed_by: Some("carillon.dev/job-controller"),
};
/// kube-controller-manager once more.
const THEIRS_AGAIN: Server = Server {
    suffix: "again",
    managed_by: None,
};

fn scenarios() -> Vec<Scenario> {
    let all = [
        backoff::all(),
        per_index::all(),
        suspension::all(),
        deadlines::all(),
        replacement::all(),
        failure_policy::all(),
        indexed::all(),
        success_policy::all(),
        completions::all(),
        ownership::all(),
        templates::all(),
        deletion::all(),
    ]
    .concat();
    chosen(all, |scenario| scenario.name)
}

fn cluster(name: &str) -> Cluster {
    let mut config = Config::new(name).with_nodes(8);
    config.audit = Audit::Off;
    let cluster = Cluster::start(config).expect("a cluster");
    apply_crds(&cluster).expect("our CRDs");
    cluster
}

#[test]
#[ignore = "takes minutes; the proof runs it"]
fn jobs_managed_by_us_are_served_as_kube_controller_manager_serves_them() {
    let scenarios = scenarios();
    let cluster = cluster("job-parity");
    let operator = Operator::start(&cluster, &Options::new("operator")).expect("an operator");
    let (theirs, ours) = play(&cluster, &scenarios, [THEIRS, OURS]);
    assert_the_same(&scenarios, &theirs, &ours);
    assert_nothing_was_invalid(&operator);
}

/// The API server judges each status of a Job that kube-controller-manager does not serve.
fn assert_nothing_was_invalid(operator: &Operator) {
    let metrics = operator.metrics().expect("metrics");
    let of_jobs = |line: &&str| {
        line.starts_with("carillon_api_requests_total{") && line.contains("resource=\"jobs")
    };
    let requests: Vec<&str> = metrics.lines().filter(of_jobs).collect();
    println!("{}", requests.join("\n"));
    let written = |line: &&&str| line.contains("jobs/status") && line.contains("code=\"200\"");
    assert!(
        requests.iter().any(|line| written(&line)),
        "no status was written"
    );
    let invalid: Vec<_> = requests
        .iter()
        .filter(|line| line.contains("code=\"422\""))
        .collect();
    assert!(invalid.is_empty(), "refused as invalid: {invalid:#?}");
}

#[test]
#[ignore = "takes minutes, and tells about the comparison only"]
fn jobs_served_by_kube_controller_manager_twice_show_no_difference() {
    let scenarios = scenarios();
    let cluster = cluster("job-parity-itself");
    let (theirs, again) = play(&cluster, &scenarios, [THEIRS, THEIRS_AGAIN]);
    assert_the_same(&scenarios, &theirs, &again);
}

#[test]
#[ignore = "tells about the comparison only"]
fn jobs_that_are_not_the_same_show_a_difference() {
    let cluster = cluster("job-parity-differs");
    let api = Api::of(&cluster);
    let watched = Watched::start(&cluster, &api, &WATCHED);
    let stage = Stage {
        api: &api,
        watched: &watched,
    };
    let all = scenarios();
    let changes = [
        (
            "three-one-by-one",
            json!({"completions": 4}),
            "course of succeeded",
        ),
        ("limit-0", json!({"backoffLimit": 1}), "pods in all"),
        (
            "indexed-three",
            json!({"parallelism": 1}),
            "course of active",
        ),
        (
            "deadline-in-time",
            json!({"activeDeadlineSeconds": 0}),
            "event Warning DeadlineExceeded",
        ),
        (
            "fail-job-by-exit-code",
            json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [
                {"action": "Count", "onExitCodes": {"operator": "In", "values": [42]}}]}}),
            "course of conditions",
        ),
        (
            "labels-and-annotations",
            json!({"template": {"metadata": {"labels": {"app": "other"}}}}),
            "metadata/labels/app",
        ),
    ];
    scope(|scope| {
        for (name, change, shown) in &changes {
            let scenario = all
                .iter()
                .find(|scenario| scenario.name == *name)
                .expect(name);
            let mut other = scenario.clone();
            merge(&mut other.job["spec"], change);
            let stage = &stage;
            scope.spawn(move || {
                let one = stage.play(scenario, THEIRS, 0);
                let other = stage.play(&other, THEIRS_AGAIN, 0);
                assert_shown(scenario.name, shown, one, other);
            });
        }
    });
}

/// Plays all scenarios on both sides, and gives what was seen.
fn play(cluster: &Cluster, scenarios: &[Scenario], servers: [Server; 2]) -> (View, View) {
    let api = Api::of(cluster);
    let watched = Watched::start(cluster, &api, &WATCHED);
    let stage = Stage {
        api: &api,
        watched: &watched,
    };
    let rounds = Rounds {
        at_a_time: 28,
        runs: 3,
        differences: DIFFERENCES,
    };
    rounds.play(
        scenarios,
        |scenario| scenario.name,
        |scenario, side, run| stage.play(scenario, servers[side], run),
    )
}

fn assert_the_same(scenarios: &[Scenario], theirs: &View, ours: &View) {
    let names: Vec<_> = scenarios.iter().map(|scenario| scenario.name).collect();
    assert_all_ended(theirs);
    let verdict = judge(DIFFERENCES, &names, theirs, ours);
    print_and_assert(&verdict, names.len());
}
