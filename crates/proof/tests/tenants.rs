//! Somebody who has the rights of `edit` in a namespace, and uses them.

use carillon_proof::case::Case;
use carillon_proof::kinds::broadcast_job;
use carillon_proof::scenario::{NAMESPACE, Scenario, Step};
use carillon_proof::tenant::{ELSEWHERE, USER};
use carillon_proof::{campaign, crash_anywhere, kinds};
use carillon_sim::actors::{Fate, Work};
use jiff::SignedDuration;
use serde_json::json;

/// What the role `edit` lets a user write, and `pods/status`.
const MAY_WRITE: [&str; 5] = [
    "/api/v1/namespaces/evil/pods",
    "/apis/batch/v1/namespaces/evil/jobs",
    "/apis/batch/v1/namespaces/evil/cronjobs",
    "/apis/carillon.dev/v1alpha1/namespaces/evil/broadcastjobs",
    "/apis/carillon.dev/v1alpha1/namespaces/evil/cronjobs",
];

#[test]
fn a_tenant_does_a_lot_and_nothing_that_its_role_does_not_allow() {
    let scenario = &kinds::scenarios()[0];
    let case = crash_anywhere::beside_a_tenant(scenario, 1);
    let outcome = case.run(scenario).unwrap();
    let mut resources = std::collections::BTreeSet::new();
    let mut writes = 0;
    for step in &outcome.history.steps {
        let by = step.by.as_deref().filter(|by| by.user == USER);
        let Some(by) = by else { continue };
        writes += 1;
        resources.insert(step.key.resource.clone());
        assert_eq!(&*step.key.namespace, ELSEWHERE, "{}", by.uri);
        let path = by.uri.split('?').next().unwrap_or_default();
        let allowed = MAY_WRITE.iter().any(|place| {
            let rest = path.strip_prefix(place);
            let parts: Vec<&str> = rest
                .map(|rest| rest.split('/').collect())
                .unwrap_or_default();
            let status = parts.len() == 3 && parts[2] == "status" && place.ends_with("/pods");
            (1..=2).contains(&parts.len()) || status
        });
        assert!(allowed, "{} {}", by.verb, by.uri);
    }
    assert!(writes > 50 && resources.len() > 1, "{writes} {resources:?}");
}

#[test]
fn scenarios_end_as_they_would_without_a_tenant_and_as_soon() {
    let mut failures = Vec::new();
    for scenario in kinds::scenarios().iter().step_by(6) {
        let clean = crash_anywhere::clean(scenario).run(scenario).unwrap();
        let cases: Vec<Case> = vec![crash_anywhere::beside_a_tenant(scenario, 1)];
        let jobs = campaign::every_nth(1, &cases, scenario, &clean.end);
        failures.extend(campaign::run(&jobs, 3).unwrap().failures);
    }
    for failure in failures.iter().take(5) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{}", failures.len());
}

/// The scheduler of the simulation once spread pods over nodes by those of all namespaces: their users waited for pods
/// on nodes that had none.
#[test]
fn pods_land_where_they_would_without_a_tenant_of_another_namespace() {
    let on_nodes = [
        "a node goes away with its pod",
        "nodes are silent and an index is not run elsewhere meanwhile",
    ];
    let mut all = kinds::scenarios();
    all.retain(|scenario| on_nodes.contains(&scenario.name));
    assert_eq!(all.len(), on_nodes.len());
    for scenario in &all {
        let case = crash_anywhere::beside_a_tenant(scenario, 878_428_061);
        let outcome = case.run(scenario).unwrap();
        let judged = case.judge(scenario, &outcome, None);
        judged.unwrap_or_else(|failure| panic!("{}: {failure}", scenario.name));
    }
}

/// Nothing of a BroadcastJob sees such a pod but a question to the API server.
#[test]
fn a_pod_that_somebody_takes_from_its_job_is_not_asked_for_all_the_time() {
    let taken = Scenario {
        nodes: 2,
        fates: |node, nth| Fate {
            works: vec![if node == "node-0" && nth == 0 {
                Work::Hangs
            } else {
                Work::Ends(SignedDuration::from_secs(2), 0)
            }],
            ..Fate::ends(SignedDuration::from_secs(2), 0)
        },
        script: vec![
            Step {
                when: |view| view.pod_on("node-0", "Running").is_some(),
                // Its uid is recorded by then.
                after: SignedDuration::from_secs(5),
                act: |view| {
                    let pod = view.pod_on("node-0", "Running").unwrap();
                    let name = pod["metadata"]["name"].as_str().unwrap();
                    let label = json!({"carillon.dev/broadcastjob-uid": null});
                    let patch = json!({"metadata": {"labels": label}});
                    let user = view.server().actor("user");
                    user.patch_merge("pods", NAMESPACE, name, &patch).unwrap();
                },
            },
            Step {
                when: |_| true,
                after: SignedDuration::from_mins(5),
                act: |view| {
                    let pod = view.pod_on("node-0", "Running").unwrap();
                    view.remove_pod(&pod);
                },
            },
        ],
        ..broadcast_job::scenario("a pod is taken from its job")
    };
    let case = crash_anywhere::beside_a_tenant(&taken, 1);
    let outcome = case.run(&taken).unwrap();
    if let Err(failure) = case.judge(&taken, &outcome, None) {
        panic!("{failure}");
    }
    let asked = outcome.asked.iter();
    let asked = asked.filter(|asked| asked.verb == "get" && &*asked.key.resource == "pods");
    let asked = asked
        .filter(|asked| &*asked.key.namespace == NAMESPACE)
        .count();
    assert!((1..40).contains(&asked), "{asked}");
}
