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
mod indexed;
mod names;
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
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::thread::scope;
use std::time::Instant;

use carillon_testbed::carillon::apply_crds;
use carillon_testbed::{Audit, Cluster, Config, Operator, Options};
use carillon_tests::api::Api;
use serde_json::json;

use self::differences::DIFFERENCES;
use self::scenario::Scenario;
use self::side::{Server, Stage};
use self::watched::Watched;
use crate::parity::{View, judge, merge, print_and_assert};

/// Scenarios at a time: most of the time they wait.
const AT_A_TIME: usize = 28;
/// Which of two events falls into which sync is chance, and now and then it shows. What one of them
/// does otherwise than the other shows every time.
const RUNS: usize = 3;

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
    let names: BTreeSet<_> = all.iter().map(|scenario| scenario.name).collect();
    assert_eq!(names.len(), all.len(), "a name stands for one scenario");
    // To look into one: its name, or the beginning of some.
    match std::env::var("CARILLON_SCENARIOS") {
        Ok(chosen) => {
            let is_chosen = |name: &str| chosen.split(',').any(|one| name.starts_with(one));
            all.into_iter()
                .filter(|scenario| is_chosen(scenario.name))
                .collect()
        }
        Err(_) => all,
    }
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
    let watched = Watched::start(&cluster, &api);
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
                let theirs = View::from([(scenario.name, stage.play(scenario, THEIRS, 0))]);
                let other = View::from([(scenario.name, stage.play(&other, THEIRS_AGAIN, 0))]);
                let verdict = judge(&[], &[scenario.name], &theirs, &other);
                let is_shown = verdict.unnamed.iter().any(|fact| fact.contains(shown));
                assert!(is_shown, "{name}: {:#?}", verdict.unnamed);
            });
        }
    });
}

/// Plays all scenarios on both sides, and gives what was seen: the same, if any run of one side was
/// like any of the other.
fn play(cluster: &Cluster, scenarios: &[Scenario], servers: [Server; 2]) -> (View, View) {
    let start = Instant::now();
    let api = Api::of(cluster);
    let watched = Watched::start(cluster, &api);
    let stage = Stage {
        api: &api,
        watched: &watched,
    };
    let waiting = Mutex::new(scenarios.iter());
    let views: Mutex<[View; 2]> = Mutex::default();
    scope(|scope| {
        let worker = || {
            let next = || {
                waiting
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .next()
            };
            while let Some(scenario) = next() {
                let seen = play_until_same(&stage, scenario, servers);
                let mut views = views.lock().unwrap_or_else(PoisonError::into_inner);
                for (view, facts) in views.iter_mut().zip(seen) {
                    view.insert(scenario.name, facts);
                }
            }
        };
        for _ in 0..AT_A_TIME {
            scope.spawn(worker);
        }
    });
    println!("played in {:.0?}", start.elapsed());
    let [theirs, ours] = views.into_inner().unwrap_or_else(PoisonError::into_inner);
    (theirs, ours)
}

fn play_until_same(
    stage: &Stage<'_>,
    scenario: &Scenario,
    servers: [Server; 2],
) -> [BTreeSet<String>; 2] {
    let name = scenario.name;
    let judged = |theirs: &BTreeSet<String>, ours: &BTreeSet<String>| {
        let [theirs, ours] = [theirs, ours].map(|facts| View::from([(name, facts.clone())]));
        judge(DIFFERENCES, &[name], &theirs, &ours)
    };
    let mut runs: [Vec<BTreeSet<String>>; 2] = Default::default();
    for run in 0..RUNS {
        scope(|scope| {
            let sides =
                servers.map(|server| scope.spawn(move || stage.play(scenario, server, run)));
            for (runs, side) in runs.iter_mut().zip(sides) {
                runs.push(side.join().expect("a scenario is played"));
            }
        });
        for theirs in &runs[0] {
            for ours in &runs[1] {
                if judged(theirs, ours).unnamed.is_empty() {
                    return [theirs.clone(), ours.clone()];
                }
            }
        }
        let different = judged(&runs[0][run], &runs[1][run]).unnamed;
        println!("run {run}: {different:#?}");
        // Another two minutes would show no more.
        if runs.iter().any(|runs| runs[run].contains(side::NO_END)) {
            break;
        }
    }
    runs.map(|mut runs| runs.pop().expect("a run"))
}

fn assert_the_same(scenarios: &[Scenario], theirs: &View, ours: &View) {
    let names: Vec<_> = scenarios.iter().map(|scenario| scenario.name).collect();
    let unending: BTreeMap<_, _> = theirs
        .iter()
        .filter(|(_, facts)| facts.contains(side::NO_END))
        .collect();
    assert!(unending.is_empty(), "not to their end: {unending:#?}");
    let verdict = judge(DIFFERENCES, &names, theirs, ours);
    print_and_assert(&verdict, names.len());
}
